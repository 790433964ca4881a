"""A real server process over a tiny random model, and what its clients need."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

os.environ.setdefault("TINKER_TELEMETRY", "0")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass
class Server:
    """One `trainsmith engine serve`."""

    process: subprocess.Popen
    url: str
    token: str
    model: str
    state: Path

    def end(self, number=signal.SIGTERM):
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=60)


def start(base, state, *options):
    command = [sys.executable, "-m", "trainsmith.cli", "engine", "serve", "--json"]
    settings = ["--base", base, "--state", str(state), "--engine.device", DEVICE, "--engine.dtype", "float32"]
    process = subprocess.Popen([*command, *settings, *options], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line, f"the server ended with {process.wait()}"
    document = json.loads(line)
    assert set(document) == {"url", "token", "model"}
    return Server(process, document["url"], document["token"], document["model"], Path(state))


@pytest.fixture(scope="session")
def base(tmp_path_factory, write_tiny):
    """The id of a tiny random model."""
    directory = tmp_path_factory.mktemp("bases") / "tiny"
    write_tiny(directory, context=512)
    return f"path:{directory}"


@pytest.fixture(scope="session")
def server(base, tmp_path_factory):
    """One server for all tests that leave it as it is."""
    running = start(base, tmp_path_factory.mktemp("state"))
    yield running
    assert running.process.poll() is None, "no request may end the server"
    running.end()


@pytest.fixture
def own_server():
    """Call with a base, a state directory and options to start a server of one's own."""
    started = []

    def make(base, state, *options):
        started.append(start(base, state, *options))
        return started[-1]

    yield make
    for each in started:
        each.end(signal.SIGKILL)


@pytest.fixture
def servers(base, tmp_path, own_server):
    """Call with options to start a server of the tiny model; the same state each time."""
    return functools.partial(own_server, base, tmp_path / "state")


@pytest.fixture
def clients(server):
    """Call for a new SDK client of the shared server, or of the one given."""
    import tinker

    made = []

    def make(of=server):
        made.append(tinker.ServiceClient(base_url=of.url, api_key=of.token))
        return made[-1]

    yield make
    for each in made:
        with contextlib.suppress(RuntimeError):  # the test has closed it
            each.holder.close()


@pytest.fixture
def client(clients):
    """An SDK client of the shared server."""
    return clients()


@pytest.fixture(scope="session")
def launch():
    """Call with a base, a state directory and options."""
    return start
