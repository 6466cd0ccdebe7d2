"""A run folder: what one execution of a matrix leaves behind, and who may write to it.

A run is made under a hidden name, and renamed when its manifest is there: so a kill leaves nothing that looks like
one, and the next run removes it. A folder without a manifest is none of ours, or of an older version that was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import socket
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING, Literal, TextIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.base.atomic_files import remove_temporaries, sync_folder, write_atomically, write_durably, write_whole
from runner.base.errors import BadInput
from runner.results.database_errors import named
from runner.results.disk_health import Health
from runner.results.environment import Digests, DiskFacts, Host, Revision, flat
from runner.results.folders import HALF, folders_of_runs, state_of
from runner.results.folders import MANIFEST as _MANIFEST
from runner.results.record import STEERED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

#: Held by the process that is at a run, and signed with its number and host.
LOCK = ".lock"
#: An observer may hold the lock of a killed run for an instant, to learn that nobody else does: so try for this long.
_TRIES, _INSTANT = 20, 0.005
#: Scripts that take apart the arrays that may be up, in the folder of a run.
STANDING = "standing"
#: What the renaming of a folder says where the name is taken: by a folder with something in it, or by a file.
_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})
_PART = re.compile(r"[A-Za-z0-9._=,+@%-]{1,255}")
_FOREIGN = re.compile(r"[^A-Za-z0-9._=,+@%-]+")


class InUse(BadInput):
    """Another process is at the run, or adds it to a store."""


class Manifest(BaseModel):
    """What a run was: enough to know, years later, what its numbers are numbers of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[2, 3] = 3
    id: str = Field(default="", description="of this run alone, wherever it is kept; see `identity`")
    matrix: str = Field(description="name of the matrix")
    fingerprint: str = Field(description="equal fingerprints: one run may continue the other")
    machine: str
    made_up: bool = Field(description="no number in this run was measured")
    seed: int
    command: tuple[str, ...] = Field(description="the command line that started it")
    text: str = Field(description="the matrix as it was written")
    used: dict[str, str] = Field(default_factory=dict, description="the files it uses, as they were written")
    versions: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="fio, mdadm, qemu … by the release of the kernel that ran"
    )
    host: Host
    disks: tuple[DiskFacts, ...] = ()
    health: tuple[Health, ...] = Field(default=(), description="of disks that exist: what they said of themselves")
    digests: Digests = Field(default_factory=Digests)
    revision: Revision | None = Field(default=None, description="of the folder that the matrix is in")
    started: str = Field(description="ISO 8601, UTC")
    ended: str = Field(default="", description="when it was last finished or interrupted")
    planned: int = Field(ge=0, description="trials the plan asks for")
    confidence: float = Field(default=0.95, description="confidence of the intervals")
    until: float | None = Field(default=None, description="half width asked for, as a part of the mean")
    least: int = Field(default=2, description="trials of a cell before it is first asked whether they are enough")
    most: int | None = Field(default=None, description="trials of a cell at most; null: not noted, in older runs")
    steered: bool = Field(default=False, description="trials went where guidelines were not decided, until they were")
    part: str = Field(default="", description="which of its cells, as asked for: --only, --shard; empty: all")
    finished: bool = False
    exit: int | None = Field(default=None, description="what the program ended with when it was finished")

    @property
    def identity(self) -> str:
        """What it is known by in a store. Runs of format 2 were given none; theirs follows from what they are."""
        named = (self.matrix, self.machine, self.fingerprint, self.started, self.host.hostname, *self.command)
        return self.id or blake2b("\0".join(map(str, named)).encode(), digest_size=8).hexdigest()

    @property
    def environment(self) -> dict[str, str]:
        """Everything that it was done with, by name."""
        steered = {STEERED: "yes"} if self.steered else {}
        return {"seed": str(self.seed), **steered, **flat(self.host, self.disks, self.digests, self.versions)}


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One folder below `results/`, with the manifest as it was when the folder was found or made."""

    path: Path
    manifest: Manifest

    @property
    def journal(self) -> Path:
        """Where the journal lies."""
        return self.path / "journal.sqlite"

    def cell(self, name: str) -> Path:
        """Folder of a cell, from its hierarchical name. A name that could lead elsewhere is refused."""
        return self.path.joinpath("cells", *parts_of(name))

    def put(self, cell: str, block: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        """Keep the scripts of a cell and the outputs of one trial; returns the trial's folder, relative to the run.

        A script that is not the one of the cell's earlier trials goes to the trial's own folder. Not forced to disk,
        which would cost as much as a short trial: the figures are in the journal, and it is. But whole or not there:
        half a script, run by hand, may well pass.
        """
        folder = self.cell(cell)
        trial = folder / f"trial-{block}"
        with named(trial):
            try:
                trial.mkdir(parents=True)
            except FileExistsError:  # there was an attempt before, which may have been killed in here
                remove_temporaries(folder)
                remove_temporaries(trial)
            there = {name: _content(folder / name) for name in scripts}
            other = {name: text for name, text in scripts.items() if there[name] not in {None, _encoded(text)}}
            _write_texts(folder, {name: text for name, text in scripts.items() if there[name] is None})
            _write_texts(trial, {**other, **outputs})
        return str(trial.relative_to(self.path))

    def stands(self, array: str, tear_down: str) -> None:
        """Keep what takes an array apart before it is built where it could outlive the process that builds it."""
        with named(self.standing):
            self.standing.mkdir(exist_ok=True)
        write_atomically(self.standing / f"{array}.sh", tear_down.encode())

    def stands_no_more(self, array: str) -> None:
        """It was taken apart."""
        (self.standing / f"{array}.sh").unlink(missing_ok=True)

    @property
    def standing(self) -> Path:
        """Where these scripts lie."""
        return self.path / STANDING

    def set_aside(self, cell: str, block: int, attempts: int) -> None:
        """Put the outputs of a trial that is tried again under another name, so that nothing of them is mixed in."""
        trial = self.cell(cell) / f"trial-{block}"
        if trial.is_dir():
            with named(trial):
                trial.rename(trial.with_name(f"{trial.name}-attempt-{attempts}"))

    def with_manifest(self, **changes: object) -> RunFolder:
        """The same folder with some fields of its manifest replaced, on disk too."""
        manifest = Manifest.model_validate(self.manifest.model_dump() | changes)
        write_atomically(self.path / _MANIFEST, _json(manifest))
        return RunFolder(self.path, manifest)

    def state(self) -> str:
        """Another one whenever the manifest is."""
        return state_of(self.path)

    @contextmanager
    def feeding(self, *, wait: bool) -> Iterator[None]:
        """Be the one who writes of this run to shared stores. Measuring has another lock: neither holds up the other.

        `wait`: until whoever is at it is done; else that is an error. Where nothing can be written nobody is kept out:
        what cannot be written here is not run here either.
        """
        if not os.access(self.path, os.W_OK):
            yield
            return
        lock = self.path / ".feeding"
        with named(lock):
            file = lock.open("a+")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise InUse(f"{self.path} is being added to a store by another process") from None
            yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder while a run is at it. The kernel lets go of it when the process ends, however it ends."""
        lock = self.path / LOCK
        with named(lock):
            file = lock.open("a+")
        with file:
            if not _locks(file):
                raise _taken(self.path, lock.read_text().strip())
            with named(lock):
                _sign(file)
                remove_temporaries(self.path)
            try:
                yield
            finally:
                file.truncate(0)  # a process that is no longer at it must not be named


def _content(path: Path) -> bytes | None:
    """What is in a file; None if it is not there, or is empty, as a host that went down may leave it."""
    return (path.read_bytes() or None) if path.is_file() else None


def create(results: Path, manifest: Manifest, name: str | None = None) -> RunFolder:
    """Make the folder of a new run, with its manifest and a copy of the matrix: all of it, or nothing."""
    content = _json(manifest)
    with named(results):
        results.mkdir(parents=True, exist_ok=True)
        _sweep_halves(results)
        half = results / f".{token_hex(8)}{HALF}"
        half.mkdir()
        try:
            with _held(half):
                write_durably(half / "matrix.yaml", manifest.text.encode())
                write_durably(half / _MANIFEST, content)
                sync_folder(half)
                folder = _put_in_place(half, name or _readable_name(manifest))
        except BaseException:
            shutil.rmtree(half, ignore_errors=True)
            raise
        sync_folder(results)
    return RunFolder(folder, manifest)


def _sweep_halves(results: Path) -> None:
    """Remove what was left of runs that were killed while they were made. An empty one may be about to be held."""
    for half in results.glob(f".*{HALF}"):
        with suppress(OSError), _held(half, wait=False) as held:
            if held and any(half.iterdir()):
                shutil.rmtree(half, ignore_errors=True)


@contextmanager
def _held(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Be the only one who is at a folder; False where somebody else is, or the file system locks no folders."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            held = False
        else:
            held = True
        yield held
    finally:
        os.close(handle)


def load(folder: Path) -> RunFolder:
    """The run in a folder; BadInput when there is none."""
    manifest = folder / _MANIFEST
    with named(manifest):
        if not manifest.is_file():
            raise BadInput(
                f"{folder} is not the folder of a run",
                details=f"it holds no {_MANIFEST}",
                resolution="`matrix runs` lists runs; --results says where they are",
            )
        content = manifest.read_bytes()
    try:
        return RunFolder(folder, Manifest.model_validate_json(content))
    except ValidationError as problem:
        raise BadInput(
            f"{manifest} is not a manifest this program understands",
            details=str(problem),
            resolution="it was changed, or written by another version of matrix; `--fresh` starts a new run",
        ) from problem


def find_unfinished(results: Path, fingerprint: str) -> RunFolder | None:
    """The latest run of this fingerprint that was not finished. What is no readable run is passed over."""
    found = [run for run in runs(results) if run.manifest.fingerprint == fingerprint and not run.manifest.finished]
    return latest(found)


def latest(found: Iterable[RunFolder]) -> RunFolder | None:
    """The one that was begun last."""
    return max(found, key=lambda run: (run.manifest.started, run.path.stat().st_mtime_ns), default=None)


def runs(results: Path) -> Iterator[RunFolder]:
    """Every run below a results folder."""
    for folder in folders_of_runs(results):
        try:
            yield load(folder)
        except BadInput:
            continue


def _put_in_place(half: Path, name: str) -> Path:
    """`rename` is the referee: of two that want the same name, one gets it and the other takes the next."""
    for number in count(1):
        folder = half.with_name(name if number == 1 else f"{name}-{number}")
        try:
            return half.rename(folder)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
    raise AssertionError("unreachable")


def _readable_name(manifest: Manifest) -> str:
    started = datetime.fromisoformat(manifest.started).astimezone(UTC)
    words = (manifest.matrix[:100], manifest.machine[:50], f"{started:%Y%m%d-%H%M%S}")
    return "-".join(_FOREIGN.sub("_", word).strip(".") for word in words)


def parts_of(name: str) -> list[str]:
    """The parts of a name as those of a path; refused if one could lead elsewhere or needs quoting in a shell."""
    parts = name.split("/")
    for part in parts:
        if not _PART.fullmatch(part) or part in {".", ".."}:
            raise BadInput(
                f"{name!r} cannot name a folder or a file",
                resolution="names are parts of letters, digits and ._=,+@%- (1 to 255 each), joined by /",
            )
    return parts


def _write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        if "/" in name:
            raise BadInput(f"{name!r} cannot name a file of a trial")
        write_whole(folder.joinpath(*parts_of(name)), _encoded(text))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _locks(file: TextIO) -> bool:
    """Take the lock; False: another process holds it."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_INSTANT)
        else:
            return True
    return False


def _sign(lock: TextIO) -> None:
    """Write into the lock who holds it."""
    lock.truncate(0)
    lock.write(f"{os.getpid()} on {socket.gethostname()}\n")
    lock.flush()


def _json(manifest: Manifest) -> bytes:
    return manifest.model_dump_json(indent=2).encode() + b"\n"


def _taken(folder: Path, signature: str) -> InUse:
    holder = f"process {signature}" if signature else "another process"
    return InUse(
        f"{folder} is in use by {holder}",
        resolution="wait for it to end, stop it, or start another run with `--fresh`",
    )
