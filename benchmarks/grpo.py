"""GRPO speed: this engine against TRL's GRPOTrainer, a whole step and a job of 20 steps.

    python -m benchmarks.grpo [--work step job] [--threads 2] [--dtype bfloat16] [--repeats 5] [--json FILE]
    python -m benchmarks.grpo --search       # TRL in all its settings, to find its best

SmolLM2-135M, all weights trained, 8 prompts of about 70 tokens x 8 samples x 24 new tokens (none ends early),
AdamW at the same learning rate, weights and optimiser in float32. A step samples, scores and updates. The job
is a fresh process each time: its start, the loading and 20 steps. Each side has a process of its own and they
take turns; medians with the lowest and highest time, and each side's peak of memory.

TRL needs packages that trainsmith does not: `pip install '.[bench]'`, or an unpacked wheel on PYTHONPATH.
BEST
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from benchmarks import output
from benchmarks.grpo_sides import OurSpec, TrlSpec, Work
from benchmarks.machine import gpu_name, this_machine
from benchmarks.prompts import encode_chats
from benchmarks.sampling_sides import tokenizer_of
from benchmarks.turns import Side, SideFailed, Speeds, Turn, speeds, take_turns
from trainsmith import bases

JOB_STEPS = 20
PACKAGES = ("torch", "transformers", "trl", "accelerate")
MISSING = "TRL is not installed: run `pip install '.[bench]'`, or put an unpacked trl wheel on PYTHONPATH"
HERE = "benchmarks.grpo_sides"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, measure, print; 2 when TRL is missing."""
    options = parsed(arguments)
    if find_spec("trl") is None and not options.alone:
        print(MISSING, file=sys.stderr)
        return 2
    directory = bases.fetch(options.base)
    rows = list(searched(options, directory) if options.search else compared(options, directory))
    gpu = gpu_name() if options.device == "cuda" else ""
    document = output.Document(benchmark="grpo", machine=this_machine(PACKAGES, gpu), rows=tuple(rows))
    output.show("GRPO: new tokens sampled and trained", rows)
    output.write(document.as_json(), options.json)
    return 0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = output.parser(__doc__)
    parser.add_argument("--base", default="smollm2-135m")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--work", choices=("step", "job"), nargs="+", default=["step", "job"])
    parser.add_argument("--shape", type=int, nargs=3, default=[8, 8, 24], help="prompts, samples, new tokens")
    parser.add_argument("--job-steps", type=int, default=JOB_STEPS)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), nargs="+", default=["bfloat16"])
    parser.add_argument("--trl-micro-batch", type=int, default=16)
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--alone", action="store_true", help="this engine without TRL: figures, no ratio")
    return parser.parse_args(arguments)


def compared(options: argparse.Namespace, directory: Path) -> Iterator[output.Comparison]:
    """Both sides in every precision and number of threads."""
    for dtype in options.dtype:
        for threads in options.threads:
            for kind in options.work:
                work = work_of(options, directory, options.job_steps if kind == "job" else 1)
                ours, theirs = OurSpec(work=work, dtype=dtype), best_trl(work, dtype, options.trl_micro_batch)
                sides = (ours,) if options.alone else (ours, theirs)
                measure = measured_jobs if kind == "job" else measured_steps
                yield row(work, dtype, threads, measure(sides, threads, options.repeats))


def best_trl(work: Work, dtype: Literal["float32", "bfloat16"], micro_batch: int) -> TrlSpec:
    """TRL's fastest setting of the precision whose weights and optimiser are float32, as ours are."""
    precision: Literal["float32", "autocast"] = "float32" if dtype == "float32" else "autocast"
    return TrlSpec(work=work, precision=precision, micro_batch=micro_batch)


def searched(options: argparse.Namespace, directory: Path) -> Iterator[output.Comparison]:
    """TRL alone in every setting; each takes its turns alone, since all at once would not fit into memory."""
    work = work_of(options, directory, 1)
    for threads in options.threads:
        for spec in candidates(work):
            try:
                yield row(work, spec.precision, threads, measured_steps((spec,), threads, options.repeats))
            except SideFailed as failure:
                print(f"{spec.name}: {failure}", file=sys.stderr)


def candidates(work: Work) -> Iterator[TrlSpec]:
    """Precisions and sizes of a pass; then the cache's kinds and checkpointing, each alone."""
    total = work.prompts * work.samples
    for precision in ("float32", "autocast", "bfloat16"):
        for micro_batch in (total // 8, total // 4, total):
            yield TrlSpec(work=work, precision=precision, micro_batch=micro_batch)
    yield TrlSpec(work=work, precision="autocast", micro_batch=total // 4, cache="static")
    yield TrlSpec(work=work, precision="autocast", micro_batch=total // 4, checkpointing=True)


def work_of(options: argparse.Namespace, directory: Path, steps: int) -> Work:
    """The work of one turn."""
    count, samples, new = options.shape
    return Work(
        directory=directory, device=options.device, prompts=count, samples=samples, new=new, steps=steps
    )


def measured_steps(specs: Sequence[OurSpec | TrlSpec], threads: int, repeats: int) -> list[Speeds]:
    """Processes that stay, step by step in turn."""
    with ExitStack() as stack:
        return take_turns([stack.enter_context(opened(spec, threads)) for spec in specs], repeats)


def measured_jobs(specs: Sequence[OurSpec | TrlSpec], threads: int, repeats: int) -> list[Speeds]:
    """A process for every job, one after the other; wall time from the process's start."""
    turns: list[list[Turn]] = [[] for _ in specs]
    for _ in range(repeats):
        for spec, taken in zip(specs, turns, strict=True):
            taken.append(job(spec, threads))
    return [speeds(name_of(spec), taken) for spec, taken in zip(specs, turns, strict=True)]


def job(spec: OurSpec | TrlSpec, threads: int) -> Turn:
    """One job."""
    with opened(spec, threads) as side:
        turn = side.turn()
        whole = {"wall": side.age, "cpu": turn.life_cpu, "memory": turn.life_memory}
        return turn.model_copy(update=whole)


def opened(spec: OurSpec | TrlSpec, threads: int) -> Side:
    """The process of a side."""
    function = "ours" if isinstance(spec, OurSpec) else "trl"
    return Side(name_of(spec), f"{HERE}:{function}", spec.model_dump_json(), threads=threads)


def name_of(spec: OurSpec | TrlSpec) -> str:
    """The side in a table."""
    return "trainsmith" if isinstance(spec, OurSpec) else spec.name


def row(work: Work, dtype: str, threads: int, figures: list[Speeds]) -> output.Comparison:
    """All sides must have made all tokens."""
    assert {side.tokens for side in figures} == {work.tokens}
    rows = encode_chats(tokenizer_of(work.directory), work.prompts)
    return output.Comparison(
        name=work.name,
        threads=threads,
        dtype=dtype,
        prompt_tokens=max(map(len, rows)),
        sides=tuple(figures),
    )


if __name__ == "__main__":
    sys.exit(main())
