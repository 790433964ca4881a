# ruff: noqa: PTH123
"""Run inside a jail: take more than one's share. `greedy.py WHAT MARK`."""

import os
import subprocess
import sys
import time

WHAT, MARK = sys.argv[1:3]


def sleeper():
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)", MARK])


def fork_bomb():
    born = 0
    for _ in range(100_000):
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError:
            break
        born += 1
    print("born", born)


def memory():
    try:
        block = bytearray(16 << 30)
        print("took", len(block))
    except MemoryError:
        print("refused")


def memory_by_many():
    """Each below its own limit, all together above the jail's."""
    for _ in range(8):
        if os.fork() == 0:
            block = bytearray(256 << 20)
            block[::4096] = b"x" * len(block[::4096])
            time.sleep(600)
    time.sleep(600)


def disk():
    written = 0
    try:
        for place in range(4096):
            with open(f"file{place}", "wb") as file:
                file.write(bytes(1 << 20))
            written += 1 << 20
            time.sleep(0.002)
    except OSError as error:
        print("written", written, error.errno)


def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execv(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(600)", MARK])
    time.sleep(0.3)
    print("left one behind")


def big_file():
    try:
        with open("big", "wb") as file:
            for _ in range(1 << 12):
                file.write(bytes(1 << 20))
    except OSError as error:
        print("refused", error.errno)


{
    "fork_bomb": fork_bomb,
    "memory": memory,
    "memory_by_many": memory_by_many,
    "disk": disk,
    "daemon": daemon,
    "big_file": big_file,
    "sleep": lambda: (sleeper(), time.sleep(600)),
}[WHAT]()
