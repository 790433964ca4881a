"""Each check on hand-made observations: what fails it, and what nearly does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.jail.border import Reason
from trainsmith.jobs import Problem
from trainsmith.probe import CHECKS, Stage, plan
from trainsmith.probe.checks import folder, gaming, loading, prompts, rewards, scoring, signal
from trainsmith.probe.observations import (
    Canned,
    CannedScores,
    Fault,
    Opening,
    Prompt,
    ReplyKind,
    Sampled,
    Scored,
    Signal,
)
from trainsmith.probe.text import LINE
from trainsmith.records import Check, Message, Verdict


def fails(check: Check, evidence: str, fix: str) -> bool:
    """Whether a check failed with these words in its evidence and its fix, each one line."""
    assert check.verdict is Verdict.FAIL, check
    assert check.evidence.isprintable() and check.fix.isprintable()
    assert len(check.evidence) <= LINE and len(check.fix) <= LINE
    assert check.fix[0].isupper() and check.fix.endswith("."), check.fix
    assert evidence in check.evidence, check.evidence
    assert fix in check.fix, check.fix
    return True


def passes(check: Check) -> bool:
    """Whether a check passed, with evidence and without a fix."""
    assert check.verdict is Verdict.PASS, check
    return bool(check.evidence) and not check.fix


def test_a_sound_job_passes_every_check(seen) -> None:
    """Guards against a check that no job passes."""
    verdicts = [check for stage in Stage for check in plan.judge(stage, seen.all())]
    assert all(map(passes, verdicts))
    assert len(verdicts) == len(CHECKS) + 1


def test_checks_have_names_of_their_own() -> None:
    """Guards against two checks that an agent cannot tell apart."""
    assert len({planned.name for planned in CHECKS}) == len(CHECKS)


def test_skips_cover_all_later_checks() -> None:
    """Guards against a report that silently lacks checks."""
    assert [c.name for c in plan.skip_from(Stage.IMPORT, "x")] == [planned.name for planned in CHECKS]
    assert {c.verdict for c in plan.skip_from(Stage.MODEL, "x")} == {Verdict.SKIP}


# folder and loading


def test_every_problem_of_the_folder_is_one_check(seen) -> None:
    """Guards against an agent that mends one problem a probe."""
    problems = tuple(
        Problem(where=f"rl.toml: k{i}", what="is not a known key", fix="Remove it.") for i in range(3)
    )
    checks = folder.folder(seen.all(problems=problems))
    assert len(checks) == 3
    assert fails(checks[1], "rl.toml: k1: is not a known key", "Remove it.")


@pytest.mark.parametrize(
    ("reason", "what", "fix"),
    [
        (
            Reason.IMPORT_FAILED,
            "ModuleNotFoundError: No module named 'nltk'",
            "Import only the standard library",
        ),
        (Reason.IMPORT_FAILED, "AttributeError: module has no attribute 'SingleTurnEnv'", "verifiers v1"),
        (Reason.IMPORT_FAILED, "URLError: name resolution", "Do not use the network"),
        (Reason.LOAD_FAILED, "FileNotFoundError: data.json", "Path(__file__).parent"),
        (Reason.LOAD_FAILED, "ZeroDivisionError: division by zero", "Correct the code of that line."),
        (Reason.EXITED, "it calls sys.exit(3)", "Remove sys.exit"),
        (Reason.HUNG, "import and load() took more than 20 s", "endless loop"),
        (Reason.NO_TASKS, "load() yields no task", "at least 64"),
    ],
)
def test_a_package_that_does_not_open(seen, reason: Reason, what: str, fix: str) -> None:
    """Guards against an import error whose fix says nothing."""
    fault = Fault(reason, what, "words/__init__.py:3: code", "correct the code")
    check = loading.imports(seen.all(first=Opening(None, (), fault)))
    assert fails(check, f"words/__init__.py:3: code: {what}", fix)


def test_two_loads_that_differ(seen) -> None:
    """Guards against tasks drawn from an unseeded generator."""
    other = seen.opening()
    changed = replace(other, tasks=(seen.task(0, "Another question"), *other.tasks[1:]))
    check = loading.loads_alike(seen.all(second=changed))
    assert fails(check, '"Another question"', "random.Random(self.config.seed)")
    fewer = replace(other, info=other.info.model_copy(update={"tasks": 79}))
    assert fails(
        loading.loads_alike(seen.all(second=fewer)), "80 tasks in one process, 79 in the next", "random"
    )
    broken = Opening(None, (), Fault(Reason.LOAD_FAILED, "it raised"))
    assert fails(loading.loads_alike(seen.all(second=broken)), "not a second time", "random")


def test_distinct_tasks_are_counted_without_their_index(seen) -> None:
    """Guards against duplicates that only an index tells apart, and against refusing what just suffices."""
    rows = tuple(seen.task(i, f"Question {i % 64}", "{}") for i in range(200))
    assert passes(loading.enough_tasks(seen.all(first=replace(seen.opening(), tasks=rows))))
    rows = tuple(seen.task(i, f"Question {i % 63}", "{}") for i in range(200))
    check = loading.enough_tasks(seen.all(first=replace(seen.opening(), tasks=rows)))
    assert fails(check, "63 distinct tasks among 200", "at least 64 tasks")


def test_ten_tasks(seen) -> None:
    """Guards against a job that can only memorise."""
    assert fails(loading.enough_tasks(seen.all(first=seen.opening(10))), "10 distinct tasks among 10", "64")


def test_missing_prompts(seen) -> None:
    """Guards against rollouts that have nothing to answer; an Env of its own may open without a prompt."""
    rows = tuple(seen.task(i, None) for i in range(80))
    first = replace(seen.opening(), tasks=rows)
    assert fails(loading.prompts_exist(seen.all(first=first)), "80 of 80 tasks", "Set prompt")
    game = replace(seen.opening(env="GuessEnv", single_turn=False), tasks=rows)
    assert passes(loading.prompts_exist(seen.all(first=game)))


# prompts


def test_prompts_must_leave_room_for_the_reply(seen) -> None:
    """Guards against replies that are cut to nothing, and against refusing a prompt that just fits."""
    fits = seen.all(prompts=(Prompt(0, 120),))
    assert passes(prompts.prompts_fit(fits))
    check = prompts.prompts_fit(seen.all(prompts=(Prompt(0, 20), Prompt(1, 121))))
    assert fails(
        check, "task 1, has 121 tokens; with 8 reply tokens that is 129 of seq_len = 128", "seq_len to 192"
    )


def test_prompts_longer_than_the_model_can_read(seen) -> None:
    """Guards against a fix that the base model cannot follow."""
    check = prompts.prompts_fit(seen.all(prompts=(Prompt(0, 2100),)))
    assert fails(check, "2,100 tokens", "Shorten the prompts")


def test_messages_that_the_template_refuses(seen) -> None:
    """Guards against a crash of training at the first prompt."""
    check = prompts.prompts_fit(seen.all(prompts=(Prompt(3, 0, refused="roles must alternate"),)))
    assert fails(check, "task 3: roles must alternate", "user and assistant in turn")


@pytest.mark.parametrize(
    ("prompt", "leaks"),
    [
        ("Say the last word.\nAnswer: {}", True),
        ("Say the last word. (The answer is {}.)", True),
        ("Say the last word. Solution = <answer>{}</answer>", True),
        ("Say the last of these: lamp, {}", False),
        ("List: milk, tea\nAnswer: tea\nList: lamp, {}\nAnswer:", False),
        ("Here is the answer: think of {} and spell it", False),
    ],
)
def test_answers_in_prompts(seen, prompt: str, leaks: bool) -> None:
    """Guards against prompts that give the answer away; an answer in the prompt may be the very skill."""
    rows = tuple(seen.task(i, prompt.format(f"w{i}"), f'{{"answer": "w{i}"}}') for i in range(80))
    check = prompts.no_answer_leak(seen.all(first=replace(seen.opening(), tasks=rows)))
    assert fails(check, "80 of 80", "Take the value of `answer` out") if leaks else passes(check)


def test_solved_examples_before_the_question_are_no_leak(seen) -> None:
    """Guards against refusing few-shot prompts whose example has the task's own answer by chance."""
    task = seen.task(0, "List: lamp, cup", '{"answer": "cup"}')
    shots = (Message(role="user", content="List: tea, cup"), Message(role="assistant", content="Answer: cup"))
    rows = tuple(
        task.model_copy(update={"index": i, "messages": (*shots, *task.messages)}) for i in range(80)
    )
    assert passes(prompts.no_answer_leak(seen.all(first=replace(seen.opening(), tasks=rows))))


# rewards


def test_no_reward_at_all(seen) -> None:
    """Guards against a forgotten decorator; an Env that records rewards itself is enough."""
    first = seen.opening(rewards=())
    assert fails(rewards.rewards_exist(seen.all(first=first)), "no @vf.reward", "@vf.reward")
    weightless = seen.opening(weights=(0.0,))
    assert fails(
        rewards.rewards_exist(seen.all(first=weightless)), "every reward has weight 0: right", "a weight"
    )
    recorded = replace(seen.scored(ReplyKind.EMPTY, 0.0), values=(("judged", 0.0),))
    assert passes(rewards.rewards_exist(seen.all(first=first, canned=seen.canned(recorded))))


def test_rewards_that_are_no_numbers(seen) -> None:
    """Guards against None, text, NaN and exceptions that only training would meet."""
    bad = replace(seen.scored(ReplyKind.EMPTY, None, task=4, text=""), error="the reward `right` is nan")
    check = rewards.rewards_are_numbers(seen.all(canned=seen.canned(bad, seen.scored(ReplyKind.JUNK, 0.0))))
    assert fails(check, 'task 4, reply "": the reward `right` is nan', "finite number")


@pytest.mark.parametrize("reward", [10.01, -11.0, 1e308])
def test_wild_rewards(seen, reward: float) -> None:
    """Guards against rewards that drown the loss."""
    check = rewards.rewards_bounded(seen.all(canned=seen.canned(seen.scored(ReplyKind.JUNK, reward))))
    assert fails(check, "scores", "between 0 and 1")


@pytest.mark.parametrize("reward", [10.0, -10.0, 0.0])
def test_large_but_sane_rewards(seen, reward: float) -> None:
    """Guards against refusing the bound itself."""
    assert passes(rewards.rewards_bounded(seen.all(canned=seen.canned(seen.scored(ReplyKind.JUNK, reward)))))


def test_constant_rewards(seen) -> None:
    """Guards against a reward that does not look at the reply; all zero may still be earned by a model."""
    same = [seen.scored(kind, 1.0) for kind in (ReplyKind.EMPTY, ReplyKind.FIELD)]
    assert fails(
        rewards.rewards_vary(seen.all(canned=seen.canned(*same))), "all 2 canned replies score 1", "reply"
    )
    zero = [seen.scored(kind, 0.0) for kind in (ReplyKind.EMPTY, ReplyKind.FIELD)]
    assert passes(rewards.rewards_vary(seen.all(canned=seen.canned(*zero))))


# scoring


def test_rollouts_that_do_not_end(seen) -> None:
    """Guards against a training run that stands still, with the cause named by the reply that met it."""
    stuck = replace(seen.scored(ReplyKind.EMPTY, None), timed_out=True, error="words/__init__.py:9")
    assert fails(
        scoring.scoring_ends(seen.all(canned=seen.canned(stuck))), "words/__init__.py:9", "endless loops"
    )
    slow = replace(seen.scored(ReplyKind.STRESS, None), timed_out=True, error="")
    assert fails(
        scoring.scoring_ends(seen.all(canned=seen.canned(slow))), "no end within 2 s", "regular expression"
    )
    dead = replace(seen.scored(ReplyKind.EMPTY, None), died=True, error="it ended")
    assert fails(scoring.scoring_ends(seen.all(canned=seen.canned(dead))), "ends its process", "os._exit")


def test_conversations_without_end(seen) -> None:
    """Guards against an Env that waits for a word that the model never says."""
    endless = replace(seen.scored(ReplyKind.EMPTY, 0.0), turns=33)
    assert fails(
        scoring.scoring_ends(seen.all(canned=seen.canned(endless))), "33 turns; 32 are allowed", "Env.run()"
    )
    assert passes(scoring.scoring_ends(seen.all(canned=seen.canned(replace(endless, turns=32)))))


def test_nothing_else_is_said_of_rollouts_that_do_not_end(seen) -> None:
    """Guards against one fault reported as several."""
    stuck = replace(seen.scored(ReplyKind.EMPTY, None), timed_out=True)
    canned = seen.all(canned=seen.canned(stuck, planned=99, mean_seconds=5.0))
    assert scoring.scoring_is_quick(canned).verdict is Verdict.SKIP
    assert passes(rewards.rewards_are_numbers(canned))


def test_slow_scoring(seen) -> None:
    """Guards against minutes of scoring in each step, and against refusing the limit itself."""
    standard = seen.standard()
    assert passes(scoring.scoring_is_quick(seen.all(canned=replace(standard, mean_seconds=0.05))))
    slow = seen.all(canned=replace(standard, mean_seconds=0.2))
    assert fails(scoring.scoring_is_quick(slow), "200 ms", "once in load()")
    late = seen.all(canned=replace(standard, planned=50))
    assert fails(scoring.scoring_is_quick(late), "45 of 50 did not run in 12 s", "once in load()")


def test_scores_that_change(seen) -> None:
    """Guards against noise and hidden state in rewards."""
    once, twice = seen.scored(ReplyKind.JUNK, 0.5), seen.scored(ReplyKind.JUNK, 0.6)
    check = scoring.scoring_repeats(seen.all(canned=seen.canned(once, second=(twice,))))
    assert fails(check, "scores 0.5, then 0.6 (1 of 1 replies differ)", "no random numbers")
    nearly = seen.scored(ReplyKind.JUNK, 0.5 + 1e-12)
    assert passes(scoring.scoring_repeats(seen.all(canned=seen.canned(once, second=(nearly,)))))


# gaming


def ladder(seen, rival: ReplyKind, reward: float):
    """The right answer scores 1, an empty reply 0, and `rival` something between."""
    return seen.all(
        canned=seen.canned(
            seen.scored(ReplyKind.EMPTY, 0.0),
            seen.scored(ReplyKind.FIELD, 1.0, form="answer, plain"),
            seen.scored(ReplyKind.SWAPPED, 0.0, form="answer, plain"),
            seen.scored(rival, reward, form="answer, plain" if rival is ReplyKind.SWAPPED else "other"),
        )
    )


@pytest.mark.parametrize("rival", sorted(gaming.FIXES.keys() - {ReplyKind.EMPTY, ReplyKind.SWAPPED}))
def test_replies_without_content_near_the_best(seen, rival: ReplyKind) -> None:
    """Guards against rewards that a policy can earn without the skill; part of it may be earned."""
    assert fails(gaming.junk_scores_low(ladder(seen, rival, 0.75)), gaming.NAMES[rival], gaming.FIXES[rival])
    assert passes(gaming.junk_scores_low(ladder(seen, rival, 0.74)))


def test_wrong_answers_near_the_best(seen) -> None:
    """Guards against rewards for form that drown the reward for content, told as a lack of balance."""
    canned = seen.canned(
        seen.scored(ReplyKind.EMPTY, 0.0),
        seen.scored(ReplyKind.CONSTANT, 0.82, form="answer, plain"),
        seen.scored(ReplyKind.FIELD, 1.0, form="answer, plain"),
        seen.scored(ReplyKind.SWAPPED, 0.8, form="answer, plain"),
    )
    check = gaming.junk_scores_low(seen.all(canned=canned))
    assert fails(check, "another task's answer scores 0.8", "right answer")


def test_negative_rewards_are_compared_on_their_own_scale(seen) -> None:
    """Guards against refusing a reward from -1 to 0."""
    canned = seen.canned(
        seen.scored(ReplyKind.EMPTY, -1.0),
        seen.scored(ReplyKind.JUNK, -0.9),
        seen.scored(ReplyKind.FIELD, 0.0, form="answer, plain"),
        seen.scored(ReplyKind.SWAPPED, -1.0, form="answer, plain"),
    )
    assert passes(gaming.junk_scores_low(seen.all(canned=canned)))


def unknown(seen, *groups: tuple[float, ...], long: float):
    """No field is known to be the answer; a long reply scores `long`."""
    canned = seen.canned(
        seen.scored(ReplyKind.EMPTY, 0.0),
        seen.scored(ReplyKind.LONG, long),
        seen.scored(ReplyKind.FIELD, 0.0, form="size, plain"),
        seen.scored(ReplyKind.SWAPPED, 0.0, form="size, plain"),
    )
    return seen.all(canned=canned, signal=seen.signal(*groups))


def test_without_a_known_answer_the_model_decides(seen) -> None:
    """Guards against rewards for length in jobs that keep no answer; such jobs as such are sound."""
    assert passes(gaming.junk_scores_low(unknown(seen, (0.0, 0.6), long=0.9)))
    assert fails(
        gaming.model_beats_junk(unknown(seen, (0.0, 0.6), long=0.9)), "best reply seen scores 0.9", "length"
    )
    assert passes(gaming.model_beats_junk(unknown(seen, (0.0, 1.0), long=0.1)))


# signal


def test_a_single_group_with_two_rewards_is_a_signal(seen) -> None:
    """Guards against refusing hard tasks that can still be learnt."""
    quiet = [(0.0, 0.0, 0.0, 0.0)] * 7
    assert passes(signal.signal(seen.all(signal=seen.signal(*quiet, (0.0, 0.0, 0.0, 1.0)))))


def test_flat_groups(seen) -> None:
    """Guards against a training run without a single update, with the likeliest cause named."""
    flat = seen.signal((0.0, 0.0), (1.0, 1.0))
    assert fails(signal.signal(seen.all(signal=flat)), "no group of 2 of tiny", "reachable")
    best = seen.signal((1.0, 1.0), (1.0, 1.0))
    assert fails(signal.signal(seen.all(signal=best)), "(all 1)", "harder")
    cut = seen.signal((0.0, 0.0), (0.0, 0.0), cut=True)
    assert fails(signal.signal(seen.all(signal=cut)), "(all 0)", "max_completion_tokens")


def test_rewards_that_cannot_be_earned(seen) -> None:
    """Guards against advice to make tasks easier where the reward itself is broken."""
    zero = [seen.scored(kind, 0.0) for kind in (ReplyKind.EMPTY, ReplyKind.FIELD)]
    check = signal.signal(seen.all(canned=seen.canned(*zero), signal=seen.signal((0.0, 0.0))))
    assert fails(check, "(all 0)", "can be earned at all")


def test_sampled_rollouts_that_fail(seen) -> None:
    """Guards against an environment that breaks on what models really write."""
    check = signal.signal(seen.all(signal=seen.signal((0.0, None), (1.0, 0.0))))
    assert fails(check, "1 of 4 rollouts with tiny", "finite number")


def test_no_group_in_time(seen) -> None:
    """Guards against a job whose replies are so long that no step would end."""
    assert fails(
        signal.signal(seen.all(signal=seen.signal())), "did not finish a group", "Lower max_completion"
    )


def test_the_echo_is_told_by_what_it_echoed(seen) -> None:
    """Guards against evidence without the reply."""
    echo = Scored(0, Canned(ReplyKind.ECHO, "{}"), None, error="it raised", shown="What is it?")
    assert fails(
        rewards.rewards_are_numbers(seen.all(canned=seen.canned(echo))), '"What is it?"', "finite number"
    )


# all checks

REWARDS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
SCORES = st.lists(
    st.builds(
        Scored,
        task=st.integers(0, 3),
        reply=st.builds(
            Canned,
            kind=st.sampled_from(ReplyKind),
            text=st.text(),
            form=st.sampled_from(["", "a, plain"]),
        ),
        reward=REWARDS,
        error=st.text(),
        timed_out=st.booleans(),
        died=st.booleans(),
        shown=st.text(),
        turns=st.integers(0, 64),
    ),
    max_size=12,
).map(tuple)
GROUPS = st.lists(
    st.lists(
        st.builds(Sampled, task=st.integers(0, 3), reward=REWARDS, text=st.text(), error=st.text()),
        min_size=1,
    ).map(tuple),
    max_size=3,
).map(tuple)


@given(first=SCORES, second=SCORES, groups=GROUPS)
def test_no_observation_breaks_a_check(seen, first, second, groups) -> None:
    """Guards against a probe that fails on what an author's environment returns."""
    canned = CannedScores(first, second, len(first), 0.0, 0.0)
    observed = seen.all(canned=canned, signal=Signal(groups, "tiny", 0.0))
    for stage in (Stage.CANNED, Stage.MODEL):
        for check in plan.judge(stage, observed):
            assert check.evidence.isprintable() and len(check.evidence) <= LINE
            assert bool(check.fix) == (check.verdict is Verdict.FAIL)
