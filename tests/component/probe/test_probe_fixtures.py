"""Every job folder in tests/jobs in the real jail: the faults fail exactly their check, the near misses pass.

The base model is played by a script. `QUICK` is what `make test` runs; `make test-all` runs all.
"""

from __future__ import annotations

import asyncio

import pytest

from trainsmith import probe
from trainsmith.records import Check

pytestmark = pytest.mark.component

FAULTS: dict[str, tuple[str, str, str]] = {
    # job: (check, words of the evidence, words of the fix)
    "folder_group_of_one": ("folder", "orchestrator.group_size", "4 or more"),
    "folder_unknown_key": ("folder", "trainer.optim.learning_rate", "lr"),
    "game_endless": ("scoring_ends", "64 turns", "Let Env.run() end"),
    "game_raises": ("rewards_are_numbers", "TypeError", "Env.run() take any reply"),
    "import_exits": ("imports", "sys.exit(0)", "Remove sys.exit"),
    "import_floods": ("imports", "print 1,07", "Print nothing in a loop"),
    "import_forks": ("imports", "too many processes", "Start no processes"),
    "import_hangs": ("imports", "time.sleep(1)", "no endless loop"),
    "import_memory": ("imports", "out of memory", "Use less memory"),
    "import_missing_module": ("imports", "import sentence_splitter", "Import only the standard library"),
    "import_needs_tools": ("imports", "Toolsets", "Env.run()"),
    "import_network": ("imports", "urlopen", "Do not use the network"),
    "import_no_taskset": ("imports", "exports no Taskset", "__all__ to exactly one Taskset"),
    "import_old_api": ("imports", "SingleTurnEnv", "verifiers v1 Taskset"),
    "import_raises": ("imports", "NameError: name 'COMMON'", "Correct the code of that line"),
    "import_reads_cwd": ("imports", "FileNotFoundError", "Path(__file__).parent"),
    "import_syntax": ("imports", "was never closed", "Correct the Python syntax"),
    "load_empty": ("imports", "no task", "return tasks: at least 64"),
    "load_hangs": ("imports", "not loaded after", "a finite list"),
    "load_raises": ("imports", "Sample larger than population", "Correct the code of that line"),
    "load_set_order": ("loads_alike", "256 of 256 differ", "the order of a set"),
    "load_unknown_argument": ("imports", "difficulty", "Declare the argument"),
    "load_unseeded": ("loads_alike", "256 of 256 differ", "random.Random(self.config.seed)"),
    "prompts_leak": ("no_answer_leak", "256 of 256 prompts", "Take the value of `answer` out"),
    "prompts_long": ("prompts_fit", "seq_len = 192", "Raise seq_len"),
    "prompts_missing": ("prompts_exist", "256 of 256 tasks", "Set prompt"),
    "reward_any_label": ("junk_scores_low", "lists many possible answers", "Compare the whole reply"),
    "reward_constant": ("rewards_vary", "score 1", "trace.last_reply"),
    "reward_contains": ("junk_scores_low", "an echo of the prompt scores 1", "Compare the whole reply"),
    "reward_for_silence": ("junk_scores_low", "an empty reply scores 1", "without the answer no reward"),
    "reward_huge": ("rewards_bounded", "1e+308", "between 0 and 1"),
    "reward_infinite": ("rewards_are_numbers", "-inf", "a finite number"),
    "reward_length": ("model_beats_junk", "one word again and again scores 1", "Do not reward length"),
    "reward_missing": ("rewards_exist", "no @vf.reward", "Add to the Task class"),
    "reward_mostly_form": ("junk_scores_low", "another task's answer scores 0.8", "for the right answer"),
    "reward_nan": ("rewards_are_numbers", "nan", "a finite number"),
    "reward_none": ("rewards_are_numbers", "None", "a finite number"),
    "reward_not_async": ("rewards_are_numbers", "awaitable", "`async def`"),
    "reward_old_signature": ("rewards_are_numbers", "'completion'", "arguments named self, trace"),
    "reward_one_answer": ("junk_scores_low", "the most frequent value", "Balance the tasks"),
    "reward_percent": ("rewards_bounded", "scores 100", "between 0 and 1"),
    "reward_raises": ("rewards_are_numbers", "IndexError", "a finite number"),
    "reward_text": ("rewards_are_numbers", "str", "a finite number"),
    "reward_weightless": ("rewards_exist", "every reward has weight 0: right", "a weight"),
    "scoring_blocks": ("scoring_ends", "while trace.last_reply", "endless loops"),
    "scoring_counts": ("scoring_repeats", "replies differ)", "state kept"),
    "scoring_exits": ("scoring_ends", "ends its process", "os._exit"),
    "scoring_hash": ("scoring_repeats", "replies differ", "hash()"),
    "scoring_network": ("rewards_are_numbers", "URLError", "Do not use the network"),
    "scoring_random": ("scoring_repeats", "replies differ", "no random numbers"),
    "scoring_regex": ("scoring_ends", "aaaa", "Replace the regular expression"),
    "scoring_slow": ("scoring_is_quick", "ms a rollout", "once in load()"),
    "scoring_sys_exit": ("rewards_are_numbers", "SystemExit", "Remove sys.exit"),
    "scoring_waits": ("scoring_ends", "no end within", "sleeps"),
    "signal_impossible": ("signal", "(all 0)", "can be earned at all"),
    "signal_none": ("signal", "(all 0)", "Make the reward reachable"),
    "tasks_duplicated": ("enough_tasks", "5 distinct tasks among 256", "at least 64 tasks"),
    "tasks_ten": ("enough_tasks", "10 distinct tasks", "at least 64 tasks"),
}
SOUND = (
    "good",
    "near_load_endless",
    "near_load_sorted_set",
    "near_prompts_leak",
    "near_prompts_long",
    "near_reward_bool",
    "near_reward_form",
    "near_reward_from_prompt",
    "near_reward_ten",
    "near_scoring_regex",
    "near_scoring_seeded",
    "near_scoring_slow",
    "near_tasks_64",
)
QUICK = {
    *("folder_unknown_key", "import_missing_module", "load_set_order", "reward_contains", "reward_nan"),
    *("scoring_blocks", "scoring_regex", "tasks_ten", "good", "near_reward_from_prompt"),
}


def cases(names: list[str]) -> list[object]:
    """One parameter a job; what is not quick is marked slow."""
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in names]


def failures(bench, name: str, **script: object) -> dict[str, Check]:
    report = asyncio.run(probe.run(bench.job(name), bench.task(), bench.services(**script)))
    assert report.passed == (not report.failures), report
    return {check.name: check for check in report.failures}


@pytest.mark.parametrize("name", cases(sorted(FAULTS)))
def test_a_fault_fails_its_own_check_and_no_other(bench, name: str) -> None:
    """Guards against faults that pass, are told as something else, or come with a fix that misleads."""
    check, evidence, fix = FAULTS[name]
    failed = failures(bench, name)
    assert set(failed) == {check}, failed
    assert evidence in failed[check].evidence, failed[check].evidence
    assert fix in failed[check].fix, failed[check].fix


@pytest.mark.parametrize("name", cases(list(SOUND)))
def test_what_nearly_fails_passes(bench, name: str) -> None:
    """Guards against checks so eager that honest jobs fail."""
    assert failures(bench, name) == {}


def yes_or_no(prompt: str, seed: int) -> str:
    return "yes" if seed % 2 else "no"


def test_a_two_label_task_passes(bench) -> None:
    """Guards against refusing tasks in which a guess is right half of the time."""
    assert failures(bench, "near_reward_label", script=yes_or_no) == {}


def marked(prompt: str, seed: int) -> str:
    return f"<<{prompt.split()[-1]}>>" if seed % 2 else "dunno"


@pytest.mark.slow
def test_an_unusual_answer_form_passes(bench) -> None:
    """Guards against refusing a reward because no canned reply has the form that it wants."""
    assert failures(bench, "near_reward_marked", script=marked) == {}


def test_a_game_passes(bench) -> None:
    """Guards against a probe that only knows single turns with prompts."""
    assert failures(bench, "good_game", script=lambda prompt, seed: f"{seed % 90}") == {}


@pytest.mark.slow
def test_a_reward_for_form_alone_fails_as_gameable(bench) -> None:
    """Guards against rewards that need no skill and that the base model happens not to earn yet."""
    failed = failures(bench, "reward_form_only", script=lambda prompt, seed: "<answer>" if seed % 2 else "no")
    assert set(failed) == {"model_beats_junk"}
    assert "answer marks around nothing" in failed["model_beats_junk"].evidence


def test_every_job_folder_is_tested(bench) -> None:
    """Guards against a fixture that no test uses."""
    special = {"good_game", "near_reward_label", "near_reward_marked", "reward_form_only"}
    folders = {entry.name for entry in bench.job("").iterdir() if entry.is_dir() and entry.name[0] != "."}
    assert folders == set(FAULTS) | set(SOUND) | special
