"""Attacks on a workspace by whoever else can reach its directory: nothing leads outside, nothing hangs."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from trainsmith.episode import beneath
from trainsmith.episode.names import WorkspaceError
from trainsmith.episode.workspace import Workspace

pytestmark = pytest.mark.component

SECRET = "the hidden items"

FLIP = """
import ctypes, os, sys
inside, outside, spare = sys.argv[1:4]
os.symlink(outside, spare)
exchange = ctypes.CDLL(None).renameat2
a, b = os.fsencode(inside), os.fsencode(spare)
print("flipping", flush=True)
while exchange(-100, a, -100, b, 2) == 0:
    pass
"""
"""Exchanges a folder for a link that leads out, as fast as it can."""


class Place:
    """A workspace with a package, and a folder outside with a secret."""

    def __init__(self, root: Path) -> None:
        self.outside = root / "outside"
        self.outside.mkdir()
        (self.outside / "secret.md").write_text(SECRET)
        self.directory = root / "workspace"
        self.workspace = Workspace.create(self.directory, "# Guide\n")
        self.workspace.write("environment/my_env/__init__.py", "x = 1\n")

    def untouched(self) -> bool:
        return {path.name: path.read_text() for path in self.outside.iterdir()} == {"secret.md": SECRET}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.workspace.close()


def refuses_everything(place: Place, path: str) -> None:
    """Reading, writing, editing, listing and freezing all answer with an error that an agent can read."""
    actions: tuple[Callable[[], object], ...] = (
        lambda: place.workspace.read(path),
        lambda: place.workspace.write(path, "taken over"),
        lambda: place.workspace.edit(path, "hidden", "shown"),
        place.workspace.files,
        place.workspace.freeze,
    )
    for action in actions:
        with pytest.raises(WorkspaceError) as caught:
            action()
        assert SECRET not in str(caught.value)
        assert str(caught.value).isprintable()
    assert place.untouched()


@pytest.mark.parametrize("target", ["../outside/secret.md", "/etc/passwd", "nowhere", "link.md"])
def test_symbolic_link_to_a_file(place: Place, target: str) -> None:
    """Fault: a link in the workspace shows or overwrites a file outside of it."""
    (place.directory / "link.md").symlink_to(target)
    refuses_everything(place, "link.md")


def test_symbolic_link_to_a_folder(place: Place) -> None:
    """Fault: a linked folder on the way leads outside."""
    (place.directory / "environment" / "my_env" / "more").symlink_to(place.outside)
    refuses_everything(place, "environment/my_env/more/secret.md")


def test_link_through_proc(place: Place) -> None:
    """Fault: a magic link of /proc leads outside although it looks like a folder."""
    (place.directory / "environment" / "my_env" / "more").symlink_to("/proc/self/root")
    refuses_everything(place, "environment/my_env/more/etc/passwd")


def test_hard_link(place: Place) -> None:
    """Fault: a second name of a file outside is read, frozen or trained on."""
    os.link(place.outside / "secret.md", place.directory / "link.md")
    refuses_everything(place, "link.md")


def test_fifo_does_not_hang(place: Place) -> None:
    """Fault: opening a pipe without a writer blocks the run for ever."""
    os.mkfifo(place.directory / "pipe.md")
    began = time.monotonic()
    refuses_everything(place, "pipe.md")
    assert time.monotonic() - began < 2


def test_socket(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a socket in the workspace voids the episode."""
    monkeypatch.chdir(place.directory)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket.md")
        refuses_everything(place, "socket.md")


def test_device(place: Place) -> None:
    """Fault: /dev/zero under a plain name is read until memory is full."""
    try:
        os.mknod(place.directory / "zero.md", 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")
    refuses_everything(place, "zero.md")


def test_huge_file_is_not_read(place: Place) -> None:
    """Fault: 200 MB are read into memory before their size is looked at."""
    with (place.directory / "big.md").open("wb") as file:
        file.truncate(200_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for action in (lambda: place.workspace.read("big.md"), place.workspace.freeze):
        with pytest.raises(WorkspaceError, match=r"20000000\d bytes"):
            action()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    place.workspace.write("big.md", "small again")
    assert place.workspace.freeze().size < 100


@pytest.mark.parametrize("where", [".", "environment/my_env"])
def test_ten_thousand_files(place: Place, where: str) -> None:
    """Fault: every look at a flooded workspace walks all of it."""
    for number in range(10_000):
        (place.directory / where / f"m{number}.md").touch()
    began = time.monotonic()
    for action in (
        place.workspace.files,
        place.workspace.freeze,
        lambda: place.workspace.write("rl.toml", "x"),
    ):
        with pytest.raises(WorkspaceError, match="more than 100 files"):
            action()
    assert time.monotonic() - began < 1


def test_deep_folders(place: Place) -> None:
    """Fault: endless nesting exhausts descriptors or the stack."""
    (place.directory / "environment" / "my_env" / "/".join("d" * 300)).mkdir(parents=True)
    with pytest.raises(WorkspaceError, match="too deep"):
        place.workspace.files()


@pytest.mark.parametrize(
    "name", [b"a\nb.md", b"-rf", b"\xff\xfe.md", b"a b.md", b".hidden", b"\xe2\x80\xae.md", b"n" * 200]
)
def test_odd_names_on_disk(place: Place, name: bytes) -> None:
    """Fault: an odd name found on disk breaks messages, journals or what reads the folder."""
    Path(os.fsdecode(os.fsencode(place.directory) + b"/" + name)).touch()
    with pytest.raises(WorkspaceError) as caught:
        place.workspace.files()
    assert str(caught.value).isprintable()


def test_workspace_swapped_for_a_link(place: Place) -> None:
    """Fault: the directory itself is replaced by a link, and everything after goes to its target."""
    place.directory.rename(place.directory.with_name("moved"))
    place.directory.symlink_to(place.outside)
    place.workspace.write("secret.md", "taken over")
    assert place.workspace.read("secret.md") == "taken over"
    assert place.untouched()


@contextmanager
def flipping(place: Place) -> Iterator[None]:
    """Another process swaps the package for a link that leads out, over and over."""
    inside = place.directory / "environment" / "my_env"
    command = [
        sys.executable,
        "-c",
        FLIP,
        str(inside),
        str(place.outside),
        str(place.directory.with_name("spare")),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
            assert process.poll() is None, "the attacker gave up"
        finally:
            process.kill()


def test_race_between_check_and_use(place: Place) -> None:
    """Fault: a folder is swapped for a link after it was checked, and the write goes outside."""
    done = {"read": 0, "written": 0, "frozen": 0}
    (place.directory / "environment" / "my_env" / "secret.md").write_text("inside")
    with flipping(place):
        end = time.monotonic() + 3
        while time.monotonic() < end:
            with suppress(WorkspaceError):
                assert place.workspace.read("environment/my_env/secret.md") == "inside"
                done["read"] += 1
            with suppress(WorkspaceError):
                place.workspace.write("environment/my_env/secret.md", "inside")
                done["written"] += 1
            with suppress(WorkspaceError):
                assert SECRET.encode() not in dict(place.workspace.freeze().files).values()
                done["frozen"] += 1
    assert place.untouched()
    assert min(done.values()) > 0, done


@pytest.mark.parametrize("opener", [beneath.open_by_kernel, beneath.open_by_steps])
def test_race_of_the_openers(place: Place, opener: Callable[..., int]) -> None:
    """Fault: one of the two ways to open, on the kernels that have it, follows a link in a race."""
    if opener is beneath.open_by_kernel and not beneath.openat2_works():
        pytest.skip("no openat2 here")
    (place.directory / "environment" / "my_env" / "secret.md").write_text("inside")
    root = os.open(place.directory, beneath.FOLDER)
    opened = 0
    with flipping(place):
        end = time.monotonic() + 2
        while time.monotonic() < end:
            with suppress(OSError):
                descriptor = opener(root, ("environment", "my_env", "secret.md"), os.O_RDONLY)
                with os.fdopen(descriptor) as file:
                    assert file.read() == "inside"
                opened += 1
    os.close(root)
    assert opened > 0


@pytest.mark.parametrize("opener", [beneath.open_by_kernel, beneath.open_by_steps])
@pytest.mark.parametrize("names", [("link",), ("link", "secret.md"), ("environment", "out", "secret.md")])
def test_openers_follow_no_link(place: Place, opener: Callable[..., int], names: tuple[str, ...]) -> None:
    """Fault: one of the two ways to open follows a link in some position."""
    if opener is beneath.open_by_kernel and not beneath.openat2_works():
        pytest.skip("no openat2 here")
    (place.directory / "link").symlink_to(place.outside)
    (place.directory / "environment" / "out").symlink_to(place.outside)
    root = os.open(place.directory, beneath.FOLDER)
    with pytest.raises(OSError):
        opener(root, names, os.O_RDONLY)
    os.close(opener(root, ("environment", "my_env", "__init__.py"), os.O_RDONLY))
    os.close(opener(root, (), beneath.FOLDER))
    os.close(root)


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_descriptor_is_left(place: Place) -> None:
    """Fault: refused calls leak descriptors until the run dies of them."""
    (place.directory / "link.md").symlink_to("/etc/passwd")
    before = open_descriptors()
    for _ in range(50):
        for action in (
            lambda: place.workspace.read("link.md"),
            lambda: place.workspace.read("environment"),
            lambda: place.workspace.write("environment/my_env/__init__.py/x.py", "x"),
            place.workspace.freeze,
        ):
            with pytest.raises(WorkspaceError):
                action()
    assert open_descriptors() == before
