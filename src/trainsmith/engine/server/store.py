"""What survives a restart of the server: sessions, training runs, sampling sessions and checkpoints.

    sessions/<id>.json
    samplers/<id>.json
    runs/<run>/run.json
    runs/<run>/weights/<name>/           checkpoint.json beside a learner's saved state
    runs/<run>/sampler_weights/<name>/   the same
    runs/<run>/unnamed/<n>/              weights of one sampling session

Documents are replaced in one step, and a checkpoint is there once its `checkpoint.json` is. Free of torch.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from trainsmith.engine.server.errors import HttpError, log
from trainsmith.engine.server.records import CheckpointRecord, RunRecord, SamplerRecord, SessionRecord
from trainsmith.engine.server.tinker_path import (
    Kind,
    TinkerPath,
    file_name,
    is_run,
    is_sampler,
    is_session,
)
from trainsmith.files import write_atomic
from trainsmith.records.base import Record

R = TypeVar("R", bound=Record)

_CHECKPOINT = "checkpoint.json"
_GOING = ".going-"


class Store:
    """Documents and directories below one root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runs = root / "runs"
        for place in (root / "sessions", root / "samplers", self._runs):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in self._runs.glob(f"*/*/{_GOING}*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def put_session(self, session: SessionRecord) -> None:
        """Write or replace."""
        self._write(self._root / "sessions" / f"{session.id}.json", session)

    def session(self, session: str) -> SessionRecord:
        """Raises HttpError 404 for an unknown id, as all look-ups here do."""
        if not is_session(session):
            raise HttpError(404, f"there is no session {session!r}")
        return self._read(self._root / "sessions" / f"{session}.json", SessionRecord, f"session {session}")

    def sessions(self) -> list[SessionRecord]:
        """All, the latest first."""
        found = [self._peek(file, SessionRecord) for file in (self._root / "sessions").glob("*.json")]
        return sorted((each for each in found if each), key=lambda each: each.created, reverse=True)

    def put_run(self, run: RunRecord) -> None:
        """Write or replace."""
        self._write(self._runs / file_name(run.id) / "run.json", run)

    def run(self, run: str) -> RunRecord:
        """One training run."""
        if not is_run(run):
            raise HttpError(404, f"there is no training run {run!r}")
        return self._read(self._runs / file_name(run) / "run.json", RunRecord, f"training run {run}")

    def runs(self) -> list[RunRecord]:
        """All, the latest first."""
        found = [self._peek(file, RunRecord) for file in self._runs.glob("*/run.json")]
        return sorted((each for each in found if each), key=lambda each: each.created, reverse=True)

    def put_sampler(self, sampler: SamplerRecord) -> None:
        """Write or replace."""
        self._write(self._sampler_file(sampler.id), sampler)

    def sampler(self, sampler: str) -> SamplerRecord:
        """One sampling session."""
        if not is_sampler(sampler):
            raise HttpError(404, f"there is no sampling session {sampler!r}")
        return self._read(self._sampler_file(sampler), SamplerRecord, f"sampling session {sampler}")

    def samplers(self, session: str) -> list[SamplerRecord]:
        """Those of one session."""
        files = (self._root / "samplers").glob(f"{session}_*.json") if is_session(session) else ()
        return [each for each in (self._peek(file, SamplerRecord) for file in files) if each]

    def touch(self, sampler: SamplerRecord) -> None:
        """Note that a sampling session is in use."""
        self._sampler_file(sampler.id).touch()

    def unnamed_of(self, run: str) -> list[SamplerRecord]:
        """Sampling sessions over unnamed weights of a run, the least recently used first."""
        folder = f"{file_name(run)}/"
        found = [each for each in self.samplers(run.partition(":")[0]) if each.folder.startswith(folder)]
        return sorted(found, key=lambda each: self._sampler_file(each.id).stat().st_mtime)

    def forgotten(self, seconds: float) -> list[SamplerRecord]:
        """Sampling sessions that nobody has used for longer."""
        files = (self._root / "samplers").glob("*.json")
        old = [file for file in files if time.time() - file.stat().st_mtime > seconds]
        return [each for each in (self._peek(file, SamplerRecord) for file in old) if each]

    def drop_sampler(self, sampler: SamplerRecord) -> Path | None:
        """Forget a sampling session; the directory of its unnamed weights, which are gone then."""
        file = self._sampler_file(sampler.id)
        file.unlink(missing_ok=True)
        if not sampler.folder:
            return None
        directory = self.unnamed(sampler)
        self._remove(directory)
        return directory

    def unnamed(self, sampler: SamplerRecord) -> Path:
        """The directory of a sampling session's own weights."""
        return self._runs / sampler.folder

    def unnamed_folder(self, run: str, number: int) -> str:
        """Where weights without a name go, below the runs' directory."""
        return f"{file_name(run)}/unnamed/{number}"

    def directory(self, path: TinkerPath) -> Path:
        """Where a checkpoint is or will be."""
        return path.within(self._runs)

    def put_checkpoint(self, path: TinkerPath, checkpoint: CheckpointRecord) -> None:
        """Declare a checkpoint whole. Its state must be in its directory."""
        self._write(self.directory(path) / _CHECKPOINT, checkpoint)

    def has_checkpoint(self, path: TinkerPath) -> bool:
        """Whether it is there and has not expired."""
        return self._valid(self.directory(path) / _CHECKPOINT) is not None

    def checkpoint(self, path: TinkerPath) -> CheckpointRecord:
        """One checkpoint that is whole and has not expired."""
        found = self._valid(self.directory(path) / _CHECKPOINT)
        if found is None:
            raise HttpError(404, f"there is no checkpoint {path}")
        return found

    def checkpoints(self, run: str | None = None) -> list[CheckpointRecord]:
        """Those of one run or all, the latest first."""
        if run is not None:
            self.run(run)
        pattern = "*" if run is None else file_name(run)
        files = [file for kind in Kind for file in self._runs.glob(f"{pattern}/{kind}/*/{_CHECKPOINT}")]
        found = [self._valid(file) for file in files]
        return sorted((each for each in found if each), key=lambda each: each.created, reverse=True)

    def size(self, path: TinkerPath) -> int:
        """Bytes of a checkpoint."""
        return sum(file.stat().st_size for file in self.directory(path).iterdir() if file.is_file())

    def delete_checkpoint(self, path: TinkerPath) -> Path:
        """Remove a checkpoint; its directory, which is gone then."""
        self.checkpoint(path)
        directory = self.directory(path)
        self._remove(directory)
        return directory

    def expired(self) -> Iterator[Path]:
        """Remove what has expired, and give each directory that is gone then."""
        for file in [file for kind in Kind for file in self._runs.glob(f"*/{kind}/*/{_CHECKPOINT}")]:
            if self._peek(file, CheckpointRecord) and not self._valid(file):
                self._remove(file.parent)
                yield file.parent

    def _sampler_file(self, sampler: str) -> Path:
        return self._root / "samplers" / f"{file_name(sampler)}.json"

    def _valid(self, file: Path) -> CheckpointRecord | None:
        found = self._peek(file, CheckpointRecord)
        over = found is not None and found.expires is not None and found.expires <= datetime.now(UTC)
        return None if over else found

    def _remove(self, directory: Path) -> None:
        """First out of sight in one step, then off the disk."""
        if directory.exists():
            going = directory.with_name(f"{_GOING}{directory.name}.{secrets.token_hex(4)}")
            directory.rename(going)
            shutil.rmtree(going, ignore_errors=True)

    def _write(self, file: Path, record: Record) -> None:
        write_atomic(file, record.model_dump_json(indent=1) + "\n")

    def _read(self, file: Path, kind: type[R], what: str) -> R:
        found = self._peek(file, kind)
        if found is None:
            raise HttpError(404, f"there is no {what}")
        return found

    def _peek(self, file: Path, kind: type[R]) -> R | None:
        """The document, or None when it is missing or damaged."""
        try:
            return kind.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            log.warning("%s is damaged: %s", file, error)
            return None
