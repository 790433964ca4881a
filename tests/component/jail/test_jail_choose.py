"""Which jail is chosen, by really trying it; and that none is chosen when none works."""

from __future__ import annotations

import json
import os

import pytest

from trainsmith.errors import UserError
from trainsmith.jail import JailKind, available, choose
from trainsmith.jail.unjailed import Unjailed

pytestmark = pytest.mark.component

REPORT = """
import json
from trainsmith.errors import MachineError
from trainsmith.jail import available, choose
def chosen(kind):
    try:
        return choose(kind).kind
    except MachineError as error:
        return str(error)
print(json.dumps({"auto": chosen("auto"), "none": chosen("none"),
                  "works": {report.kind: report.works for report in available()},
                  "why": {report.kind: report.why for report in available()}}))
"""
# What an unprivileged container does: no new namespaces, no mounts. On top of that, no Landlock either.
FILTER = """
import platform, struct
from trainsmith.jail.inside import kernel, seccomp
code = seccomp.program(platform.machine(), seccomp.Policy(network=True))
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
seccomp.load(code, platform.machine())
"""
NO_LANDLOCK = """
from trainsmith.jail.inside.syscalls import LANDLOCK_CREATE_RULESET
deny, allow = (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)
more = [(0x20, 0, 0, 0), (0x15, 0, 1, LANDLOCK_CREATE_RULESET), deny, allow]
seccomp.load(b"".join(struct.pack("=HBBI", *line) for line in more), platform.machine())
"""
ATTACK = """
import json, os, sys
from pathlib import Path
from trainsmith.jail import Command, Folder, choose, run
jail, arguments = choose(sys.argv[1]), sys.argv[3:]
arguments[2] = str(os.getpid())
argv = (str(jail.interpreter.executable), "-S", "{jail}/inmates/attacks.py", *arguments)
end = run(jail, Command(argv, folders=(Folder(Path(sys.argv[2]), "inmates"),)))
print(end.output.strip() if end.status == 0 else json.dumps({"failed": end.output}))
"""


def test_auto_takes_the_first_that_works():
    """Guards against a weaker jail where a stronger one works, and against none at all."""
    working = [report.kind for report in available() if report.works]
    if not working:
        pytest.skip("no jail works on this machine")
    assert choose().kind == working[0]
    assert all(report.works or report.fix for report in available())


def test_no_jail_only_by_name():
    """Guards against a silent fall back to no jail."""
    assert isinstance(choose("none"), Unjailed)
    assert JailKind.NONE not in {report.kind for report in available()}


def test_an_unknown_name_is_the_users_mistake():
    """Guards against a misspelt jail that is taken for another."""
    with pytest.raises(UserError, match="bubblewrap"):
        choose("bublewrap")


def test_an_ordinary_user_gets_a_jail(user_python, bubblewrap):
    """Guards against a jail that works for root alone."""
    said = json.loads(user_python(REPORT).stdout)
    assert said["works"]["bubblewrap"], said["why"]
    assert said["auto"] == "bubblewrap"


def test_without_namespaces_landlock_is_taken(user_python, landlock):
    """Guards against a container in which nothing works, or bubblewrap is believed without trying."""
    said = json.loads(user_python(FILTER + REPORT).stdout)
    assert said["works"] == {"bubblewrap": False, "landlock": True}, said["why"]
    assert said["auto"] == "landlock"


def test_root_in_a_container_gets_a_user_of_its_own(user_python, landlock):
    """Guards against a jailed process that is root in its container."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    keep = "-all,+setuid,+setgid,+setpcap,+chown,+kill,+dac_override,+fowner"
    said = user_python(FILTER + REPORT, prefix=("setpriv", f"--bounding-set={keep}"))
    assert json.loads(said.stdout)["auto"] == "landlock", said.stderr


def test_when_nothing_works_nothing_is_chosen(user_python):
    """Guards against running an author's code without walls: the error names the one explicit way."""
    said = json.loads(user_python(FILTER + NO_LANDLOCK + REPORT).stdout)
    assert said["works"] == {"bubblewrap": False, "landlock": False}
    assert "no jail works" in said["auto"] and 'jail = "none"' in said["auto"]
    assert said["none"] == "none"


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_no_attack_succeeds_for_an_ordinary_user(user_python, outside, kind):
    """Guards against walls that only another user id holds up."""
    inmates = str(outside.inmates)
    if not os.access(inmates, os.R_OK):
        pytest.skip("the test folder cannot be read")
    end = user_python(ATTACK, kind, inmates, *outside.arguments())
    results = json.loads(end.stdout.splitlines()[-1])
    assert len(results) > 60, end.stdout + end.stderr
    assert {name: said for name, said in results.items() if said.startswith("SUCCESS")} == {}
    assert outside.reached() == [] and outside.untouched()
