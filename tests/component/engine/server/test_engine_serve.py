"""`trainsmith engine serve` as a command: its one line, its token, its port, its end."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.component


def run(*arguments, **environment):
    command = [sys.executable, "-m", "trainsmith.cli", "engine", "serve", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_good_order(servers, clients, number):
    """Guards against a server that hangs at its end, or ends with a status that looks like a crash."""
    server = servers()
    sampler = clients(server).create_sampling_client(base_model=server.model).result()
    from tinker import types

    prompt, params = types.ModelInput.from_ints([65] * 9), types.SamplingParams(max_tokens=480, stop=[])
    asked = [sampler.sample(prompt, 32, params) for _ in range(40)]
    server.process.send_signal(number)
    assert server.process.wait(timeout=30) == 130
    assert server.process.stdout.read() == "", "stdout holds one document"
    for each in asked:
        each.future().cancel()


def test_the_made_token_is_for_its_owner_alone_and_stays(servers):
    """Guards against a token that others read, or that changes with every start."""
    first, second = servers(), servers()
    assert first.token == second.token and first.token.startswith("tml-")
    file = first.state / "token"
    assert file.stat().st_mode & 0o777 == 0o600 and file.read_text().strip() == first.token


def test_a_given_token_is_used(servers, tmp_path, monkeypatch):
    """Guards against a token that the user gives and the server ignores."""
    file = tmp_path / "token"
    file.write_text("tml-from-a-file-0123456789\n")
    file.chmod(0o600)
    assert servers("--token-file", str(file)).token == "tml-from-a-file-0123456789"
    monkeypatch.setenv("TRAINSMITH_TOKEN", "tml-from-the-environment")
    assert servers().token == "tml-from-the-environment"


def test_bad_input_is_one_line_and_status_2(base, tmp_path):
    """Guards against a traceback for a user's mistake, and against keys that are silently ignored."""
    readable = tmp_path / "readable"
    readable.write_text("tml-0123456789abcdef")
    readable.chmod(0o644)
    state = ("--state", str(tmp_path / "state"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, word in (
            (("--base", "no-such-base"), "no-such-base"),
            (("--base", base, "--no-such-key", "1"), "no-such-key"),
            ((), "base"),
            (("--base", base, "--port", port), "listen"),
            (("--base", base, "--token-file", str(readable)), "chmod"),
            (("--base", base, "--engine.device", "abacus"), "device"),
        ):
            status, out, err = run(*arguments, *state)
            assert (status, out) == (2, ""), (arguments, err)
            assert err.startswith("error: ") and err.count("\n") == 1 and word in err
    assert run("--base", base, *state, TRAINSMITH_TOKEN="weak")[0] == 2


def test_settings_come_from_a_file(base, tmp_path):
    """Guards against `@ file.toml` that works for other commands only."""
    file = tmp_path / "serve.toml"
    file.write_text(f'base = "{base}"\nport = 70000\n')
    status, _, err = run("@", str(file))
    assert status == 2 and "port" in err


def test_without_json_it_says_how_to_use_it(base, tmp_path):
    """Guards against a plain start that leaves the user without address or token."""
    command = [sys.executable, "-m", "trainsmith.cli", "engine", "serve", "--base", base]
    state = ["--state", str(tmp_path), "--engine.device", "cpu"]
    with subprocess.Popen([*command, *state], stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
    assert "serving" in lines[0] and "TINKER_API_KEY=tml-" in lines[1] and "OPENAI_BASE_URL" in lines[2]


def test_help_needs_no_torch():
    """Guards against a help text that waits for torch."""
    code = (
        "import sys, json\n"
        "from trainsmith.cli.main import main\n"
        "try:\n    main(['engine', 'serve', '--help'])\n"
        "except SystemExit:\n    print(json.dumps([n for n in ('torch', 'tinker') if n in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
