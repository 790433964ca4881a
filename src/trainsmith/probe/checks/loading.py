"""Whether the package loads, gives the same tasks each time, and enough of them."""

from __future__ import annotations

import json
from collections import Counter

from trainsmith.jail.border import Reason, TaskView
from trainsmith.probe import advice
from trainsmith.probe.observations import Fault, Observations, Opening, question
from trainsmith.probe.text import plural, quote
from trainsmith.probe.verdicts import failed, passed, skipped
from trainsmith.records import Check

IMPORTS = "imports"
LOADS_ALIKE = "loads_alike"
ENOUGH_TASKS = "enough_tasks"
PROMPTS_EXIST = "prompts_exist"

PLAIN_ENV = "SingleAgentEnv"
"""What verifiers runs a taskset in that brings no Env of its own."""

GENERIC = "Correct the code of that line."
_FIXES = {
    Reason.EXITED: "Remove sys.exit, os._exit and os.kill; let an import only define things.",
    Reason.HUNG: "Let import and load() end in seconds: no endless loop, sleep or download; a finite list.",
    Reason.NO_TASKS: "Let Taskset.load() return tasks: at least {min_tasks} that differ.",
    Reason.FORKED: "Start no processes or threads: the environment runs in one process of limited size.",
    Reason.MEMORY: "Use less memory: generate tasks from a seed instead of holding large tables.",
    Reason.TOO_LARGE: "Keep tasks small: a few thousand characters of prompt and fields each.",
}
"""Where the reason alone says what to do."""


def imports(seen: Observations) -> Check:
    """The package is imported and `load()` gives tasks, in the jail."""
    opening = seen.first
    assert opening is not None
    if opening.fault is not None:
        return failed(IMPORTS, fault_line(opening.fault), _fix(opening.fault, seen))
    info = opening.info
    assert info is not None
    if opening.printed > seen.limits.printed_bytes:
        return failed(
            IMPORTS,
            f"import and load() print {opening.printed:,} bytes; {seen.limits.printed_bytes:,} are allowed",
            "Print nothing in a loop; take debug output out.",
        )
    tasks = f"the first {info.tasks:,} tasks" if info.truncated else plural(info.tasks, "task")
    return passed(IMPORTS, f"{info.taskset} with {info.env} loads {tasks} in {opening.seconds:.1f} s")


def fault_line(fault: Fault) -> str:
    """Where, what, and the end of the output, in this order."""
    line = f"{fault.where}: {fault.what}" if fault.where and fault.where not in fault.what else fault.what
    return f"{line}; it printed {quote(fault.tail[-120:], 120)}" if fault.tail.strip() else line


def _fix(fault: Fault, seen: Observations) -> str:
    if fault.reason in _FIXES:
        return _FIXES[fault.reason].format(min_tasks=seen.limits.min_tasks)
    return advice.fix_for(
        f"{fault.what} {fault.tail}", GENERIC if fault.fix in {"", "correct the code"} else fault.fix
    )


def loads_alike(seen: Observations) -> Check:
    """Two fresh processes give the same tasks: count, keys, prompts and fields."""
    first, second = seen.first, seen.second
    assert first is not None and second is not None
    difference = _difference(first, second)
    if difference:
        return failed(
            LOADS_ALIKE,
            difference,
            "Draw everything in load() from random.Random(self.config.seed), never from random itself, time, "
            "hash() or the order of a set.",
        )
    return passed(LOADS_ALIKE, f"two fresh processes give the same {plural(len(first.tasks), 'task')}")


def alike(seen: Observations) -> bool:
    """Whether both processes gave the same tasks."""
    return seen.first is not None and seen.second is not None and not _difference(seen.first, seen.second)


def _difference(first: Opening, second: Opening) -> str:
    if second.fault is not None:
        return f"the package loads once, but not a second time: {fault_line(second.fault)}"
    assert first.info is not None and second.info is not None
    if first.info.tasks != second.info.tasks:
        return f"{first.info.tasks:,} tasks in one process, {second.info.tasks:,} in the next"
    pairs = zip(first.tasks, second.tasks, strict=False)
    differing = [(a, b) for a, b in pairs if (a.key, content(a)) != (b.key, content(b))]
    if not differing:
        return ""
    a, b = differing[0]
    what = f"task {a.index} is {_excerpt(a)} in one process, {_excerpt(b)} in the next"
    return f"{what} ({len(differing):,} of {len(first.tasks):,} differ)"


def _excerpt(task: TaskView) -> str:
    return f"{quote(question(task.messages), 60)} {quote(task.fields, 60)}"


def content(task: TaskView) -> str:
    """All that tells two tasks apart but their index and key."""
    messages = None if task.messages is None else [(m.role, m.content) for m in task.messages]
    return json.dumps([messages, task.fields])


def enough_tasks(seen: Observations) -> Check:
    """Enough distinct tasks, by prompt and fields."""
    if _bare(seen):
        return skipped(ENOUGH_TASKS, "not counted: there are tasks without a prompt")
    counts = Counter(content(task) for task in seen.tasks)
    if len(counts) >= seen.limits.min_tasks:
        return passed(ENOUGH_TASKS, f"{len(counts):,} distinct among the first {len(seen.tasks):,} tasks")
    evidence = f"{plural(len(counts), 'distinct task')} among {len(seen.tasks):,}"
    repeated, times = counts.most_common(1)[0]
    if times > 1:
        task = next(task for task in seen.tasks if content(task) == repeated)
        evidence += f"; the prompt {quote(question(task.messages))} comes {times:,} times"
    return failed(
        ENOUGH_TASKS,
        evidence,
        f"Give at least {seen.limits.min_tasks} tasks that differ in prompt or fields; hundreds are better.",
    )


def prompts_exist(seen: Observations) -> Check:
    """Every task opens with a user message, unless an Env of the package's own opens the conversation."""
    assert seen.first is not None and seen.first.info is not None
    env = seen.first.info.env
    if env != PLAIN_ENV:
        return passed(PROMPTS_EXIST, f"{env} leads the conversation")
    bare = _bare(seen)
    if not bare:
        return passed(PROMPTS_EXIST, f"the first asks {quote(question(seen.tasks[0].messages))}")
    return failed(
        PROMPTS_EXIST,
        f"{len(bare):,} of {plural(len(seen.tasks), 'task')} have no user message, e.g. task {bare[0]}",
        "Set prompt to the question in every TaskData, or write an Env whose run() opens the conversation.",
    )


def _bare(seen: Observations) -> list[int]:
    """Tasks without a user message, where no Env could bring one."""
    if seen.first is None or seen.first.info is None or seen.first.info.env != PLAIN_ENV:
        return []
    return [task.index for task in seen.tasks if not question(task.messages).strip()]
