"""The jail made of namespaces: bubblewrap mounts the few folders that the command needs on an empty disk.

As root the command also becomes a user of its own; as an ordinary user it runs in a user namespace. It does
not protect against bugs of the kernel.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainsmith.errors import MachineError
from trainsmith.jail.base import (
    ENTER,
    ENTER_FOLDER,
    Input,
    JailKind,
    Output,
    claim_uid,
    clean_environment,
    enter_argv,
    spec_of,
)
from trainsmith.jail.command import Command, Files
from trainsmith.jail.inside.unpack import pack
from trainsmith.jail.interpreter import Interpreter, current
from trainsmith.jail.process import JailProcess
from trainsmith.jail.readable import readable
from trainsmith.jail.snapshot import Snapshot

ROOT = "/jail"
_NOBODY = "65534"
_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime")
_SHARED_MEMORY_BYTES = 16 << 20
_SETUP_SECONDS = 20.0
_FILE_OVERHEAD = 8192


@dataclass(frozen=True)
class Bubblewrap:
    """bubblewrap 0.8 or later."""

    program: Path
    interpreter: Interpreter = field(default_factory=current)
    kind: JailKind = JailKind.BUBBLEWRAP

    @property
    def own_signals(self) -> bool:
        """True: the process namespace holds them."""
        return True

    def start(self, command: Command, *, stdin: Input = "none", output: Output = "pipe") -> JailProcess:
        """Start a command. Raises MachineError when bubblewrap cannot build the jail."""
        uid, claim = claim_uid() if os.geteuid() == 0 else (None, None)
        packed = [_packed(group.snapshot) for group in command.files]
        info, info_writer = os.pipe()
        try:
            options, inner = self._argv(command, uid, info_writer, packed)
            # Not on the command line: that of the first process inside can be read there.
            packed.append(_memory("\0".join(options).encode()))
            outer = subprocess.Popen(
                [str(self.program), "--args", str(packed[-1]), "--", *inner],
                env={},
                cwd="/",
                pass_fds=(*command.inherit, *packed, info_writer),
                stdin=None if stdin == "inherit" else subprocess.DEVNULL,
                stdout=subprocess.PIPE if output == "pipe" else None,
                stderr=subprocess.STDOUT if output == "pipe" else None,
                start_new_session=True,  # a terminal's Ctrl-C is for us, who then end the jail
            )
        except OSError as error:
            os.close(info)
            _release(claim)
            raise MachineError(f"bubblewrap does not start: {error}", where=str(self.program)) from error
        finally:
            for descriptor in (info_writer, *packed):
                os.close(descriptor)
        root = _first_process(info)
        if root is None:
            message = _last_words(outer)
            _release(claim)
            raise MachineError(f"bubblewrap cannot build the jail: {message}", where=str(self.program))
        return JailProcess(outer, root=root, clean=lambda: _release(claim))

    def _argv(
        self, command: Command, uid: int | None, info: int, packed: list[int]
    ) -> tuple[list[str], list[str]]:
        spec = spec_of(command, uid=uid, network=True, paths=None, filtered=True, shared_uid=False)
        places = (f"{ROOT}/{group.name}" for group in command.files)
        spec = dataclasses.replace(spec, packed=tuple(zip(packed, places, strict=True)))
        interpreter = self.interpreter
        environment = clean_environment(command, ROOT, interpreter.packages)
        options = [
            *_isolation(uid),
            *(part for name, value in environment.items() for part in ("--setenv", name, value)),
            *_system_mounts(),
            *_mount({Path(path): path for path in interpreter.needs}),
            *_mount({Path(ROOT, "lib", ENTER): readable(ENTER_FOLDER)}),
            *_mount({Path(ROOT, item.name): readable(item.source) for item in command.folders}),
            *(part for group in command.files for part in _room(group)),
            *("--perms", "1777", "--size", str(command.limits.disk_bytes), "--tmpfs", f"{ROOT}/tmp"),
            *_usual_scratch(interpreter.needs),
            *("--remount-ro", "/", "--chdir", f"{ROOT}/tmp", "--info-fd", str(info)),
        ]
        return options, enter_argv(command, spec, ROOT, interpreter)


def find() -> Path | None:
    """The bubblewrap program, if there is one."""
    found = shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin") or shutil.which("bwrap")
    return None if found is None else Path(found)


def _isolation(uid: int | None) -> list[str]:
    own = ["--unshare-user", "--disable-userns", "--uid", _NOBODY, "--gid", _NOBODY]
    if uid is not None:
        own = [part for name in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP") for part in ("--cap-add", name)]
    return [
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        *("--hostname", "jail", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"),
        *own,
    ]


def _mount(sources: Mapping[Path, Path]) -> list[str]:
    """Read-only mounts by target.

    bubblewrap makes missing parents that only root may enter, so they come first.
    """
    parts: list[str] = []
    for target, source in sources.items():
        for parent in reversed(target.parents[:-1]):
            parts += ["--perms", "0755", "--dir", str(parent)]
        parts += ["--ro-bind", str(source), str(target)]
    return parts


def _usual_scratch(mounted: Iterable[Path]) -> list[str]:
    """`/tmp` as another name of the scratch folder, unless Python itself lies in there.

    Then it is a folder that cannot be written; `TMPDIR` names the scratch folder in any case.
    """
    below = any(path.is_relative_to("/tmp") for path in mounted)
    return [] if below else ["--symlink", f"{ROOT}/tmp", "/tmp"]


def _room(group: Files) -> list[str]:
    """An empty folder in memory, just large enough for some files."""
    size = group.snapshot.size + _FILE_OVERHEAD * (len(group.snapshot.files) + 64)
    return ["--perms", "0755", "--size", str(size), "--tmpfs", f"{ROOT}/{group.name}"]


def _packed(snapshot: Snapshot) -> int:
    """A descriptor from which a snapshot can be read, with no file on disk behind it."""
    return _memory(pack((item.path, item.content) for item in snapshot.files))


def _memory(content: bytes) -> int:
    descriptor = os.memfd_create("trainsmith-jail")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _system_mounts() -> list[str]:
    mounts = ["--ro-bind", "/usr", "/usr", "--perms", "0755", "--dir", "/etc"]
    for name in _SYSTEM_FOLDERS:
        folder = Path("/", name)
        if folder.is_symlink():
            mounts += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            mounts += ["--ro-bind", str(folder), str(folder)]
    for file in _SYSTEM_FILES:
        mounts += ["--ro-bind-try", file, file]
    shared = ["--perms", "1777", "--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]
    return [*mounts, "--proc", "/proc", "--dev", "/dev", *shared]


def _first_process(info: int) -> int | None:
    """The process id, seen from here, of the jail's first process; None when the jail was not built."""
    text = b""
    with os.fdopen(info, "rb", buffering=0) as stream:
        while select.select([stream], [], [], _SETUP_SECONDS)[0]:
            piece = stream.read(4096)
            if not piece:
                break
            text += piece
            with contextlib.suppress(ValueError, KeyError):
                return int(json.loads(text)["child-pid"])
    return None


def _last_words(outer: subprocess.Popen[bytes]) -> str:
    outer.kill()
    said = b"" if outer.stdout is None else outer.stdout.read(2000)
    outer.wait()
    return said.decode(errors="replace").strip() or f"exit status {outer.returncode}"


def _release(claim: socket.socket | None) -> None:
    if claim is not None:
        claim.close()
