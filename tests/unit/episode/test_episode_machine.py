"""The rules of an episode, by example and by random sequences of calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from trainsmith.episode.machine import (
    AcceptJob,
    EpisodeState,
    Phase,
    RunProbe,
    decide,
    observe,
    replay,
)
from trainsmith.episode.outcomes import (
    Accepted,
    Edited,
    Listed,
    Outcome,
    Probed,
    Refused,
    Scored,
    Stopped,
    WasRead,
    Written,
)
from trainsmith.records import Check, EpisodeLimits, FileEntry, ProbeReport, Verdict

FILE = FileEntry(path="rl.toml", size=1)


def report(passed: bool) -> ProbeReport:
    verdict = Verdict.PASS if passed else Verdict.FAIL
    check = Check(name="rewards", verdict=verdict, evidence="seen", fix="" if passed else "mend it")
    return ProbeReport(checks=(check,), seconds=0.1)


def carry_out(state: EpisodeState, call: Call, job: str, passes: bool) -> Outcome:
    """Executes what the machine decides as a driver would, with a probe that answers `passes`."""
    command = decide(state, call, job)
    match command:
        case RunProbe():
            return Probed(
                attempt=command.attempt, submit=command.submit, job=command.job, report=report(passes)
            )
        case AcceptJob():
            return Accepted(job=command.job)
        case ListFiles():
            return Listed(files=(FILE,))
        case ReadFile():
            return WasRead(path=command.path, content="x")
        case WriteFile():
            return Written(file=FILE)
        case EditFile():
            return Edited(file=FILE, line=3)
        case BaselineScores():
            return Scored(scores=())
        case Refused() | Stopped():
            return command


def play(state: EpisodeState, *moves: tuple[Call, str, bool]) -> EpisodeState:
    for call, job, passes in moves:
        state, _ = observe(state, carry_out(state, call, job, passes))
    return state


def fresh(turns: int = 10, validations: int = 3) -> EpisodeState:
    return EpisodeState(limits=EpisodeLimits(max_turns=turns, max_validations=validations))


VALIDATE, SUBMIT = ValidateJob(), SubmitJob()


def test_submission_that_passes_ends_the_episode() -> None:
    """Fault: a good job at once is not taken, or its k is not 1."""
    state = play(fresh(), (SUBMIT, "a", True))
    assert state.phase is Phase.SUBMITTED
    assert (state.first_pass, state.validations, state.turns) == (1, 1, 1)
    assert state.submitted is not None
    assert state.submitted.job == "a"


def test_failed_submission_gives_its_report_and_the_episode_goes_on() -> None:
    """Fault: submitting a broken job throws the whole episode away (facts: 21 of 240 episodes)."""
    before = fresh()
    state, seen = observe(before, carry_out(before, SUBMIT, "a", False))
    assert state.phase is Phase.OPEN
    assert state.validations == 1
    assert not seen.ok
    assert not seen.done
    assert "FAILED rewards" in seen.text
    assert "mend it" in seen.text
    assert "Not submitted" in seen.text


def test_same_files_are_not_probed_twice() -> None:
    """Fault: validate, then submit of the very same files spends two probes."""
    state = play(fresh(), (VALIDATE, "a", False), (VALIDATE, "b", True), (SUBMIT, "b", False))
    assert state.phase is Phase.SUBMITTED
    assert state.validations == 2
    assert state.first_pass == 2


def test_validating_again_what_passed_costs_no_probe() -> None:
    """Fault: an agent that validates twice in a row loses a probe for nothing."""
    state = play(fresh(), (VALIDATE, "a", True), (VALIDATE, "a", True))
    assert (state.validations, state.turns, state.phase) == (1, 2, Phase.OPEN)


def test_edit_after_passing_needs_another_probe() -> None:
    """Fault: a job that was changed after its probe is trained without one."""
    state = play(fresh(), (VALIDATE, "a", True), (SUBMIT, "b", False))
    assert (state.validations, state.phase) == (2, Phase.OPEN)
    state = play(state, (SUBMIT, "b", True))
    assert (state.validations, state.phase, state.first_pass) == (3, Phase.SUBMITTED, 1)


def test_last_failed_probe_ends_the_episode() -> None:
    """Fault: an episode goes on though nothing can be submitted any more."""
    before = play(fresh(), (VALIDATE, "a", False), (SUBMIT, "b", False))
    state, seen = observe(before, carry_out(before, VALIDATE, "c", False))
    assert state.phase is Phase.INVALID
    assert seen.done
    assert "The episode is over" in seen.text
    assert state.first_pass is None


def test_last_failed_probe_leaves_an_earlier_pass_to_submit() -> None:
    """Fault: a valid job is lost because later experiments with it failed."""
    state = play(fresh(), (VALIDATE, "a", True), (VALIDATE, "b", False), (VALIDATE, "c", False))
    assert state.phase is Phase.OPEN
    refused = decide(state, SUBMIT, "c")
    assert isinstance(refused, Refused)
    assert "validation 1" in refused.error
    assert isinstance(decide(state, VALIDATE, "c"), Refused)
    assert play(state, (SUBMIT, "a", False)).phase is Phase.SUBMITTED


def test_turns_run_out() -> None:
    """Fault: bad calls are free, so an agent that babbles never ends."""
    bad = Malformed(error="no call", fix="call a tool")
    state = play(fresh(turns=3), (bad, "", False), (ListFiles(), "", False))
    assert state.turns_left == 1
    last, seen = observe(state, carry_out(state, bad, "", False))
    assert last.phase is Phase.INVALID
    assert seen.done
    assert "no call. Fix: call a tool" in seen.text


def test_submission_on_the_last_turn_counts() -> None:
    """Fault: the turn limit is checked before the submission."""
    state = play(fresh(turns=1), (SUBMIT, "a", True))
    assert state.phase is Phase.SUBMITTED


def test_stopping_ends_the_episode_without_a_turn() -> None:
    """Fault: an agent that gives up is asked again and again."""
    state, seen = observe(fresh(), carry_out(fresh(), Stop(reason="no call in the reply"), "", False))
    assert (state.phase, state.turns, seen.done) == (Phase.INVALID, 0, True)


def test_nothing_changes_after_the_end() -> None:
    """Fault: a late call of a client reopens or recounts a finished episode."""
    over = play(fresh(), (SUBMIT, "a", True))
    after, seen = observe(over, carry_out(over, VALIDATE, "b", False))
    assert after == over
    assert seen.done
    assert not seen.ok


@pytest.mark.parametrize(
    "outcome",
    [
        Probed(attempt=2, submit=False, job="a", report=report(True)),
        Accepted(job="never passed"),
    ],
)
def test_damaged_journal_is_refused(outcome: Outcome) -> None:
    """Fault: replaying a journal with a missing line gives a state that never was."""
    with pytest.raises(ValueError):
        observe(fresh(), outcome)


CALLS = st.one_of(
    st.sampled_from([ListFiles(), BaselineScores(), VALIDATE, SUBMIT]),
    st.builds(ReadFile, path=st.text(max_size=5)),
    st.builds(WriteFile, path=st.text(max_size=5), content=st.text(max_size=5)),
    st.builds(EditFile, path=st.text(max_size=5), old=st.text(max_size=5), new=st.text(max_size=5)),
    st.builds(Malformed, error=st.text(max_size=5)),
)
MOVES = st.lists(
    st.tuples(CALLS | st.builds(Stop, reason=st.just("done")), st.sampled_from("abc"), st.booleans())
)
LIMITS = st.builds(EpisodeLimits, max_turns=st.integers(1, 12), max_validations=st.integers(1, 4))


@given(LIMITS, MOVES)
def test_any_sequence_keeps_the_limits_and_ends_once(
    limits: EpisodeLimits, moves: list[tuple[Call, str, bool]]
) -> None:
    """Fault: some order of calls gives more probes or turns than allowed, or ends an episode twice."""
    state = first = EpisodeState(limits=limits)
    outcomes: list[Outcome] = []
    ends = 0
    for call, job, passes in moves:
        outcome = carry_out(state, call, job, passes)
        after, seen = observe(state, outcome)
        if not state.over:
            outcomes.append(outcome)
        ends += after.over and not state.over
        assert seen.done == after.over
        assert after.turns <= limits.max_turns
        assert after.validations <= limits.max_validations
        assert after.turns - state.turns in (0, 1)
        assert (after.submitted is not None) == (after.phase is Phase.SUBMITTED)
        assert after.first_pass is None or 1 <= after.first_pass <= after.validations
        if state.over:
            assert after == state
        state = after
    assert ends == state.over
    assert sum(isinstance(outcome, Probed) for outcome in outcomes) == state.validations
    assert replay(first, outcomes) == state
    assert EpisodeState.model_validate_json(state.model_dump_json()) == state


@given(LIMITS, st.lists(CALLS, min_size=12, max_size=12), st.booleans())
def test_every_episode_ends_by_its_turn_limit(limits: EpisodeLimits, calls: list[Call], passes: bool) -> None:
    """Fault: an agent that never submits plays for ever."""
    state = play(EpisodeState(limits=limits), *[(call, "a", passes) for call in calls])
    assert state.over
    assert state.turns_left == state.validations_left == 0
