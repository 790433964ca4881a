"""Sampling speed: this engine against transformers' generate and, on a GPU, vLLM, side by side.

    python -m benchmarks.sampling [--threads 1 2] [--dtype float32] [--repeats 5] [--json FILE]
    python -m benchmarks.sampling --device cuda

Every sequence gets the same number of new tokens (stopping is off) at temperature 1. Each side has a process
of its own, warms up once in each case and then takes turns with the others; medians with the lowest and
highest time, and the side's peak of memory. Prompts of cases "apart" differ from early on. On a GPU they are
rows of 100 tokens with a common head of 70. Not measured: quality, start-up, one token's latency.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from benchmarks import output
from benchmarks.machine import gpu_name, this_machine
from benchmarks.sampling_sides import Case, SamplingSpec, tokenizer_of
from benchmarks.turns import Side, Speeds, take_turns
from trainsmith import bases

Dtype = Literal["float32", "bfloat16"]

CPU_CASES = (
    Case(prompts=1, samples=1, new=24),
    Case(prompts=8, samples=8, new=24),
    Case(prompts=16, samples=8, new=32),
    Case(prompts=64, samples=1, new=24),
    Case(prompts=64, samples=1, new=24, kind="apart"),
)
GPU_CASES = tuple(
    Case(prompts=prompts, samples=samples, new=32, kind="rows")
    for prompts, samples in ((8, 8), (16, 16), (64, 16))
)
PACKAGES = ("torch", "transformers", "vllm", "triton")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = output.parser(__doc__)
    parser.add_argument("--base", default="smollm2-135m")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), nargs="+")
    parser.add_argument("--cases", type=int, nargs="+", help="only these, by number from 0")
    options = parser.parse_args(arguments)
    directory = bases.fetch(options.base)
    rows = [row for spec, threads in runs(options, directory) for row in measured(spec, threads, options)]
    gpu = gpu_name() if options.device == "cuda" else ""
    document = output.Document(benchmark="sampling", machine=this_machine(PACKAGES, gpu), rows=tuple(rows))
    output.show("sampling: new tokens", rows)
    output.write(document.as_json(), options.json)


def runs(options: argparse.Namespace, directory: Path) -> Iterator[tuple[SamplingSpec, int]]:
    """Every precision and number of threads; on a GPU threads make no difference."""
    gpu = options.device == "cuda"
    for dtype in options.dtype or (["bfloat16"] if gpu else ["float32", "bfloat16"]):
        for threads in options.threads[:1] if gpu else options.threads:
            yield SamplingSpec(directory=directory, device=options.device, dtype=dtype), threads


def measured(spec: SamplingSpec, threads: int, options: argparse.Namespace) -> list[output.Comparison]:
    """All cases with the sides loaded once."""
    cases = GPU_CASES if spec.device == "cuda" else CPU_CASES
    chosen = [cases[number] for number in options.cases] if options.cases else cases
    with ExitStack() as stack:
        sides = [stack.enter_context(side) for side in opened(spec, threads)]
        return [compared(spec, threads, case, sides, options.repeats) for case in chosen]


def opened(spec: SamplingSpec, threads: int) -> Iterator[Side]:
    """The sides' processes; vLLM in each of its modes, where it can run."""
    text, here = spec.model_dump_json(), "benchmarks.sampling_sides"
    yield Side("trainsmith", f"{here}:ours", text, threads=threads)
    yield Side("transformers", f"{here}:transformers", text, threads=threads)
    if spec.device == "cuda" and find_spec("vllm"):
        for mode in ("graphs", "graphs-1024", "eager"):
            settings = spec.model_copy(update={"vllm": mode}).model_dump_json()
            yield Side(f"vllm {mode}", f"{here}:vllm", settings, threads=threads)


def compared(
    spec: SamplingSpec, threads: int, case: Case, sides: Sequence[Side], repeats: int
) -> output.Comparison:
    """One case; all sides must have made all tokens."""
    figures: list[Speeds] = take_turns(sides, repeats, case.model_dump_json())
    assert {side.tokens for side in figures} == {case.tokens}
    return output.Comparison(
        name=case.name,
        threads=threads,
        dtype=spec.dtype,
        prompt_tokens=longest_prompt(spec, case),
        sides=tuple(figures),
    )


def longest_prompt(spec: SamplingSpec, case: Case) -> int:
    """Tokens."""
    vocabulary = json.loads((spec.directory / "config.json").read_text())["vocab_size"]
    return max(map(len, case.encoded(tokenizer_of(spec.directory), vocabulary)))


if __name__ == "__main__":
    main()
