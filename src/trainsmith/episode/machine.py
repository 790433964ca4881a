"""The rules of an episode as a state machine, pure and without I/O.

    decide(state, call, job) -> Command | Refused | Stopped     what may be done now
    observe(state, outcome)  -> state, Observation              what follows from what came of it

The driver executes commands; folding `observe` over the recorded outcomes gives the same state again, so
that a journal can be replayed without doing anything twice. Not here: files, probes, training, reward.

Rules: every action costs a turn, but for stopping. A probe is spent by `validate_job` and by `submit_job`,
unless these very files have passed. The episode ends by a submission that passes, by the last probe failing
when none has passed, by the last turn, or because the agent stops; all but the first leave nothing valid.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from trainsmith.episode import speech
from trainsmith.episode.calls import (
    BaselineScores,
    Call,
    EditFile,
    ListFiles,
    Malformed,
    ReadFile,
    Stop,
    SubmitJob,
    ValidateJob,
    WriteFile,
)
from trainsmith.episode.outcomes import Accepted, Outcome, Probed, Refused, Stopped
from trainsmith.records import EpisodeLimits, Observation, Record


class Phase(StrEnum):
    """Where an episode stands."""

    OPEN = "open"
    """The agent acts."""
    SUBMITTED = "submitted"
    """A job that passed the probe was handed in."""
    INVALID = "invalid"
    """Over, with nothing valid handed in."""


class End(StrEnum):
    """Why an episode is over."""

    SUBMITTED = "submitted"
    PROBES_SPENT = "no validation left and no job has passed"
    TURNS_SPENT = "no turn left and no job was submitted"
    STOPPED = "the agent stopped without submitting a job"


class Pass(Record):
    """A job that passed the probe."""

    job: str
    """Fingerprint of its files."""
    attempt: int
    """Number of the probe, from 1."""


class EpisodeState(Record):
    """Everything that the rules depend on."""

    limits: EpisodeLimits
    phase: Phase = Phase.OPEN
    end: End | None = None
    turns: int = 0
    """Turns spent."""
    validations: int = 0
    """Probes spent."""
    passes: tuple[Pass, ...] = ()
    """Probes that passed, in order."""
    submitted: Pass | None = None
    """The job that was handed in, with the probe that it passed."""

    @property
    def over(self) -> bool:
        """True when no more actions are taken."""
        return self.phase is not Phase.OPEN

    @property
    def first_pass(self) -> int | None:
        """The k that the reward counts: number of the first probe that passed."""
        return self.passes[0].attempt if self.passes else None

    @property
    def turns_left(self) -> int:
        """Turns that may still be spent."""
        return 0 if self.over else self.limits.max_turns - self.turns

    @property
    def validations_left(self) -> int:
        """Probes that may still be spent."""
        return 0 if self.over else self.limits.max_validations - self.validations

    def passed(self, job: str) -> Pass | None:
        """The probe that these very files passed, if they did."""
        return next((item for item in self.passes if item.job == job), None)


class RunProbe(Record):
    """Command: probe the job as the `attempt`-th time."""

    attempt: int
    submit: bool
    job: str


class AcceptJob(Record):
    """Command: take the job without another probe, since these very files passed."""

    job: str


Command = ListFiles | ReadFile | WriteFile | EditFile | BaselineScores | RunProbe | AcceptJob


def needs_job(call: Call) -> bool:
    """True for calls whose decision needs the fingerprint of the job's files."""
    return isinstance(call, ValidateJob | SubmitJob)


def decide(state: EpisodeState, call: Call, job: str = "") -> Command | Refused | Stopped:
    """What to do about `call`. `job` is the fingerprint of the files as they are; see `needs_job`.

    `Refused` and `Stopped` are outcomes already: hand them to `observe`.
    """
    if state.over:
        return Refused(error=speech.over(state.end))
    if isinstance(call, Stop):
        return Stopped(reason=call.reason)
    if isinstance(call, Malformed):
        return Refused(error=call.error, fix=call.fix)
    if isinstance(call, ValidateJob | SubmitJob):
        return _decide_probe(state, isinstance(call, SubmitJob), job)
    return call


def _decide_probe(state: EpisodeState, submit: bool, job: str) -> Command | Refused:
    passed = state.passed(job)
    if passed and submit:
        return AcceptJob(job=job)
    if passed:
        return Refused(
            error=f"these very files passed validation {passed.attempt}, so none was spent",
            fix="call submit_job, or change something first",
        )
    if not state.validations_left:
        return Refused(
            error=f"no validation is left, and validation {state.first_pass} was passed by other files",
            fix="restore the files that passed and call submit_job",
        )
    return RunProbe(attempt=state.validations + 1, submit=submit, job=job)


def observe(state: EpisodeState, outcome: Outcome) -> tuple[EpisodeState, Observation]:
    """The state after `outcome`, and what the agent is told. An episode that is over does not change.

    Raises ValueError for an outcome that cannot follow on `state`: the journal is damaged.
    """
    after = state if state.over else _advance(state, outcome)
    return after, Observation(
        text=speech.describe(outcome) + _last_words(state, after),
        ok=not isinstance(outcome, Refused)
        and not (isinstance(outcome, Probed) and not outcome.report.passed),
        done=after.over,
        turns_left=after.turns_left,
        validations_left=after.validations_left,
    )


def replay(state: EpisodeState, outcomes: Iterable[Outcome]) -> EpisodeState:
    """The state after all `outcomes`."""
    for outcome in outcomes:
        state, _ = observe(state, outcome)
    return state


def _advance(state: EpisodeState, outcome: Outcome) -> EpisodeState:
    if isinstance(outcome, Stopped):
        return _close(state, End.STOPPED)
    state = state.model_copy(update={"turns": state.turns + 1})
    if isinstance(outcome, Accepted):
        return _submit(state, outcome.job)
    if isinstance(outcome, Probed):
        state = _spend(state, outcome)
        if outcome.submit and outcome.report.passed:
            return _submit(state, outcome.job)
        if not state.validations_left and not state.passes:
            return _close(state, End.PROBES_SPENT)
    return state if state.turns_left else _close(state, End.TURNS_SPENT)


def _spend(state: EpisodeState, outcome: Probed) -> EpisodeState:
    if outcome.attempt != state.validations + 1 or not state.validations_left:
        raise ValueError(f"probe {outcome.attempt} cannot follow on {state.validations} probes")
    passes = (
        (*state.passes, Pass(job=outcome.job, attempt=outcome.attempt))
        if outcome.report.passed
        else state.passes
    )
    return state.model_copy(update={"validations": outcome.attempt, "passes": passes})


def _submit(state: EpisodeState, job: str) -> EpisodeState:
    passed = state.passed(job)
    if passed is None:
        raise ValueError("a job that did not pass the probe cannot be submitted")
    return state.model_copy(update={"phase": Phase.SUBMITTED, "end": End.SUBMITTED, "submitted": passed})


def _close(state: EpisodeState, end: End) -> EpisodeState:
    return state.model_copy(update={"phase": Phase.INVALID, "end": end})


def _last_words(before: EpisodeState, after: EpisodeState) -> str:
    """Said once, by the action that ends the episode without a valid job."""
    ended = after.phase is Phase.INVALID and not before.over
    return f"\n{speech.over(after.end)}" if ended else ""
