"""A server under a long load: does its memory grow, does anything fail, how long do replies take?

    python -m benchmarks.server_soak [--requests 20000] [--steps 500] [--concurrency 64] [--json FILE]
    python -m benchmarks.server_soak --base smollm2-135m --requests 2000 --steps 50

Starts `trainsmith engine serve` on a tiny random model (or `--base`) and drives it by the Tinker SDK (three
of four sampling requests; training, snapshots and saved states beside them) and by the OpenAI client (the
fourth: chats, every other one streamed). The server's resident memory is read after each hundredth of the
requests. Growth: the median of the last tenth against that of the tenth after the warm-up, which is the first
fifth. The exit status is 1 when a request failed or memory grew by more than `--limit` percent.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import output
from benchmarks.machine import Machine, this_machine
from benchmarks.served import Served, serving
from trainsmith.records import Record

PACKAGES = ("torch", "tinker", "openai")
WARM_UP, WINDOW = 0.2, 0.1
"""Shares of the requests."""
READINGS = 100


class Latency(Record):
    """Seconds from a client's call to its reply."""

    kind: str
    n: int
    p50: float
    p99: float
    most: float


class Soak(Record):
    """What a soak found."""

    benchmark: str = "server_soak"
    machine: Machine
    base: str
    requests: int
    steps: int
    concurrency: int
    seconds: float
    server_cpu_seconds: float
    growth_percent: float
    """Of resident memory after the warm-up."""
    resident: tuple[int, ...]
    """Bytes, in the order of the requests."""
    failures: dict[str, int]
    failed_first: str
    """What the first failure said; empty when there was none."""
    latencies: tuple[Latency, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, print; 1 when the server did not hold."""
    options = parsed(arguments)
    os.environ.setdefault("TINKER_TELEMETRY", "0")
    with tempfile.TemporaryDirectory() as scratch:
        base = options.base or tiny_base(Path(scratch) / "tiny")
        settings = ["--engine.device", options.device, "--engine.dtype", options.dtype]
        with serving(base, Path(scratch) / "state", *settings) as server:
            soak = soaked(server, options)
    show(soak)
    output.write(soak.model_dump_json(indent=1), options.json)
    return 1 if soak.failures or soak.growth_percent > options.limit else 0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = output.parser(__doc__)
    parser.add_argument("--base", default="", help="a base model; a tiny random one when left out")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--new", type=int, default=8, help="tokens of every reply")
    parser.add_argument("--limit", type=float, default=5.0, help="percent of growth that is allowed")
    return parser.parse_args(arguments)


def tiny_base(directory: Path) -> str:
    """The id of a tiny random model, made now."""
    from benchmarks.tiny import write_tiny

    write_tiny(directory)
    return f"path:{directory}"


def soaked(server: Served, options: argparse.Namespace) -> Soak:
    """The whole load, with the server's memory read on the way."""
    from benchmarks.soak_load import Load

    load, resident = Load(server.address, options.new), [server.resident()]
    every = max(1, options.requests // READINGS)

    def seen(done: int) -> None:
        if done % every == 0:
            resident.append(server.resident())

    began = time.perf_counter()
    asyncio.run(load.run(options.requests, options.steps, options.concurrency, seen))
    failures = load.tally.failures
    return Soak(
        machine=this_machine(PACKAGES),
        base=options.base or "tiny",
        requests=options.requests,
        steps=options.steps,
        concurrency=options.concurrency,
        seconds=time.perf_counter() - began,
        server_cpu_seconds=server.cpu_seconds(),
        growth_percent=growth(resident),
        resident=tuple(resident),
        failures={kind: len(messages) for kind, messages in failures.items()},
        failed_first=next((messages[0] for messages in failures.values()), ""),
        latencies=tuple(latency(kind, taken) for kind, taken in sorted(load.tally.latencies.items())),
    )


def growth(resident: Sequence[int]) -> float:
    """Percent from the window after the warm-up to the last one."""
    window = max(1, round(len(resident) * WINDOW))
    first = round(len(resident) * WARM_UP)
    before = statistics.median(resident[first : first + window])
    return 100 * (statistics.median(resident[-window:]) / before - 1)


def latency(kind: str, taken: Sequence[float]) -> Latency:
    """Quantiles of one kind's requests."""
    ordered = sorted(taken)
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99)]
    return Latency(kind=kind, n=len(ordered), p50=at[0], p99=at[1], most=ordered[-1])


def show(soak: Soak) -> None:
    """A table."""
    megabytes = [value / 2**20 for value in soak.resident]
    lines = [
        f"\nserver soak, {soak.base}: {soak.requests} requests, {soak.steps} steps, {soak.concurrency} wide",
        f"{soak.seconds:.0f} s, {soak.requests / soak.seconds:.0f} requests/s, "
        f"server {soak.server_cpu_seconds:.0f} CPU s",
        f"resident memory {megabytes[0]:.0f} MB at first, {max(megabytes):.0f} MB at most; "
        f"growth after warm-up {soak.growth_percent:+.2f} %",
        f"failures: {sum(soak.failures.values())} {soak.failed_first}".rstrip(),
        f"{'kind':>10} {'n':>7} {'p50 ms':>9} {'p99 ms':>9} {'most ms':>9}",
    ]
    lines += [
        f"{each.kind:>10} {each.n:>7} {each.p50 * 1e3:>9.1f} {each.p99 * 1e3:>9.1f} {each.most * 1e3:>9.1f}"
        for each in soak.latencies
    ]
    print("\n".join(lines), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
