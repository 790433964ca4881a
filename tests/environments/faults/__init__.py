"""Some tasks misbehave in their reward, or the package in load(); the config says how."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import verifiers.v1 as vf


class FaultData(vf.TaskData):
    fault: str


def _block():
    while True:
        pass


def _bomb():
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)


def _daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(1000)


def _kill_zygote():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)


def _junk():
    for descriptor in range(3, 64):
        try:
            if "socket" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
                os.write(descriptor, b"\x7f\xff\xff\xffjunk")
        except OSError:
            continue


def _print_a_gigabyte():
    line = "x" * (1 << 20)
    for _ in range(1024):
        sys.stdout.write(line)


def _fill_disk():
    for place in range(100):
        with Path(os.environ["HOME"], str(place)).open("wb") as file:
            for _ in range(1024):
                file.write(bytes(1 << 20))


FAULTS = {
    "block": _block,
    "bomb": _bomb,
    "daemon": _daemon,
    "disk": _fill_disk,
    "exit": lambda: sys.exit(3),
    "huge_error": lambda: (_ for _ in ()).throw(ValueError("z" * (4 << 20))),
    "junk": _junk,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "kill_zygote": _kill_zygote,
    "memory": lambda: bytearray(16 << 30),
    "os_exit": lambda: os._exit(3),
    "print": _print_a_gigabyte,
    "raise": lambda: 1 / 0,
    "regex": lambda: re.match(r"(a+)+$", "a" * 60 + "b"),
    "sleep": lambda: time.sleep(1000),
}
VALUES = {
    "none": None,
    "nan": float("nan"),
    "text": "one",
    "number_text": "1.0",
    "wild": 1e308,
    "infinite": float("inf"),
    "list": [1.0],
}


class FaultTask(vf.Task[FaultData]):
    @vf.reward(weight=100.0)
    async def worth(self, trace: vf.Trace) -> float:
        fault = self.data.fault
        if fault == "hang":
            await asyncio.sleep(1e6)
        if fault == "hang_on":
            while True:
                try:
                    await asyncio.sleep(1e6)
                except asyncio.CancelledError:
                    continue
        if fault in VALUES:
            return VALUES[fault]
        if fault in FAULTS:
            FAULTS[fault]()
        return 0.5


class FaultConfig(vf.TasksetConfig):
    faults: list[str] = []  # noqa: RUF012 - a config's default
    at_load: str = ""
    good: int = 16


class FaultTaskset(vf.Taskset[FaultTask, FaultConfig]):
    def load(self):
        if self.config.at_load == "leave_child":
            subprocess.Popen(["sleep", "1000"])
        elif self.config.at_load == "nothing":
            return
        elif self.config.at_load:
            FAULTS[self.config.at_load]()
        for place, fault in enumerate([""] * self.config.good + self.config.faults):
            yield FaultTask(FaultData(prompt=f"hi {place}", fault=fault), self.config.task)


__all__ = ["FaultTaskset"]
