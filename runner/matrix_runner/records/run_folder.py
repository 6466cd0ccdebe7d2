"""The run folder: the files of one execution of a matrix, and their lock; and all run folders of a results folder."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, ValidationError, model_validator

from matrix_runner.base.errors import BadInput, MatrixError, UnfitFile
from matrix_runner.base.files import (
    RECORDED,
    open_lock_file,
    read_input,
    sync_folder,
    try_lock,
    write_atomically,
    write_durably,
)
from matrix_runner.records.environment import (
    WHOLE,
    Digests,
    DiskFacts,
    Health,
    Host,
    Requested,
    Revision,
    flatten_environment,
)
from matrix_runner.records.files import LAST_COMMIT, STANDING, InUse, locked, recorded_file_errors
from matrix_runner.records.record import EQUAL, STEERED, check_rule
from matrix_runner.statistics.ratios import PRACTICAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.records.store import RunRow, SharedStore

MANIFEST = "manifest.json"
#: A run of more planned trials has an archive: a trial in folders is a dozen files.
MOST_IN_FOLDERS = 1_000
OLD_KERNEL = "old-kernel"  # the folder of the second run of `--confirm`, in that of the first
HALF = ".half"  # suffix of a run folder under construction; its name begins with a dot


def run_folders(results: Path) -> list[Path]:
    if not results.is_dir():
        return []
    with recorded_file_errors(results):
        return sorted(folder for folder in results.iterdir() if _is_run(folder))


def _is_run(folder: Path) -> bool:
    try:
        return not (folder.name.startswith(".") and folder.name.endswith(HALF)) and (folder / MANIFEST).is_file()
    except OSError:
        return True  # permission denied: the error appears when someone opens it


def state_of(folder: Path) -> str:
    """Return a text that changes with the manifest of a run; empty if it is unreadable."""
    try:
        return blake2b(read_input(folder / MANIFEST, RECORDED), digest_size=16).hexdigest()
    except OSError:
        return ""


#: Errors of a rename to a name in use: a folder with content, or a file.
_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})
_FOREIGN = re.compile(r"[^A-Za-z0-9._=,+@%-]+")


class UnusableManifest(BadInput):
    pass


def moment(text: str) -> str:
    """Check that a text is a time that each page can show, also as a day."""
    with suppress(OverflowError):
        at = datetime.fromisoformat(text)
        if at.astimezone(UTC).year and text.startswith(str(at.date())):
            return text
    raise ValueError("not a time like 2026-03-04T05:06:07+00:00")


#: A number of trials that each database and JSON can hold.
Count = Annotated[int, Field(ge=0, lt=2**31)]


class StackBox(NamedTuple):
    """A group of disks or a layer, as a box in the picture of a stack."""

    title: str
    devices: int
    noun: str  # what they are called
    size: int  # usable bytes of one of them
    below: tuple[tuple[int, str], ...] = ()  # the numbers of the boxes that it uses, and for what; empty: its data


def _from_below(boxes: tuple[StackBox, ...]) -> tuple[StackBox, ...]:
    if any(not 0 <= number < at for at, box in enumerate(boxes) for number, _ in box.below):
        raise ValueError("a box uses one that is not below it")
    return boxes


def _finds(found: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    from matrix_runner.language.find import Find  # slow to import, and few runs search

    for one in found.values():
        Find.model_validate(one)
    return found


class StackFacts(BaseModel, frozen=True, extra="forbid"):
    """Properties of a stack that follow from its declaration."""

    capacity: int = Field(description="usable bytes")
    rebuild_bytes: int | None = Field(default=None, description="bytes that a rebuild writes; null without redundancy")
    rebuild_rate: float | None = Field(
        default=None, description="bytes per second at which its slowest simulated disk can rebuild, without other work"
    )
    memory: dict[str, int] = Field(
        default_factory=dict, description="bytes of memory of each unit of a tunable, such as stripe_cache_size"
    )
    boxes: Annotated[tuple[StackBox, ...], AfterValidator(_from_below)] = Field(
        default=(), description="its picture, from the disks up"
    )


class Manifest(BaseModel, frozen=True, extra="forbid"):
    format: Literal[3] = 3
    id: str = Field(pattern=r"^[0-9A-Za-z._:-]+$", description="unique id of this run, also in a store")
    matrix: str = Field(description="name of the matrix")
    fingerprint: str = Field(description="equal fingerprints: one run may continue the other")
    machine: str
    synthetic: bool = Field(description="all numbers of this run are synthetic")
    seed: int
    command: tuple[str, ...] = Field(description="the command line that started it")
    text: str = Field(description="the text of the matrix")
    used: dict[str, str] = Field(default_factory=dict, description="the texts of the files it uses")
    versions: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="versions of fio, mdadm, qemu …, by kernel release"
    )
    host: Host
    disks: tuple[DiskFacts, ...] = ()
    pools: dict[str, tuple[DiskFacts, ...]] = Field(
        default_factory=dict, description="physical disks of a run on a cluster, by host"
    )
    health: tuple[Health, ...] = Field(default=(), description="health of physical disks, as they report it")
    digests: Digests = Field(default_factory=Digests)
    revision: Revision | None = Field(default=None, description="git revision of the folder of the matrix")
    started: Annotated[str, AfterValidator(moment)] = Field(description="ISO 8601, UTC")
    ended: str = Field(default="", description="when it was last finished or interrupted")
    planned: Count = Field(description="planned trials")
    confidence: float = Field(default=0.95, description="confidence of the intervals")
    until: float | None = Field(default=None, description="requested half width, relative to the mean")
    least: Count = Field(default=2, description="least trials of a cell")
    most: Count | None = Field(default=None, description="most trials of a cell; null in older runs")
    steered: bool = Field(default=False, description="open guidelines chose the cells to measure")
    slow: int = Field(default=1, description="declared: how many times slower than real time its disks worked")
    losses: dict[str, int] = Field(
        default_factory=dict, description="by stack, how many disks may fail before data is lost, if known"
    )
    stacks: dict[str, StackFacts] = Field(default_factory=dict, description="facts of each stack")
    practical: float = Field(default=PRACTICAL, description="differences of stacks up to this size count as equal")
    weights: dict[str, float] = Field(default_factory=dict, description="`for:`, the weights of workloads")
    finds: Annotated[dict[str, dict[str, str]], AfterValidator(lambda found: found and _finds(found))] = Field(
        default_factory=dict, description="`find` of the workloads that are searched, with the axis"
    )
    search: dict[str, str] = Field(default_factory=dict, description="what `matrix bisect` searched in it")
    titles: dict[str, str] = Field(default_factory=dict, description="titles of the commits that it searches, by name")
    expected: float = Field(default=0.0, description="estimated seconds of the process that runs it, at its start")
    ends: AwareDatetime | None = Field(
        default=None, description="expected end of a run on a cluster, by the speed of its hosts so far"
    )
    on_cluster: bool = False
    waiting: str = Field(default="", description="what a run on a cluster waits for; empty: for nothing")
    requested: Requested = WHOLE
    archived: bool = Field(default=False, description="scripts and outputs are in cells.sqlite, not below cells/")
    kernels: tuple[str, ...] = Field(default=(), description="its kernels, as the user named them")
    tags: tuple[str, ...] = ()
    note: str = ""
    excluded: str = Field(default="", description="why history and baselines leave it out; empty: they do not")
    finished: bool = False
    exit: Annotated[int, Field(ge=0, le=255)] | None = Field(default=None, description="exit code at the end")

    @model_validator(mode="after")
    def _check_rule(self) -> Manifest:
        check_rule(self.confidence, self.until, self.least, self.most)
        return self

    @property
    def part(self) -> str:
        return str(self.requested)

    @property
    def environment(self) -> dict[str, str]:
        how = "yes" if self.requested.race is None else "by a race"
        found = {"seed": str(self.seed)} | ({STEERED: how} if self.steered else {})
        found |= {"slow": str(self.slow)} if self.slow > 1 else {}
        found |= {EQUAL: str(self.practical)} if self.practical != PRACTICAL else {}
        return found | flatten_environment(self.host, self.disks, self.digests, self.versions, self.pools)


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path
    manifest: Manifest
    elsewhere: Path | None = None  # where its reports go, if not into the folder

    @property
    def reports(self) -> Path:
        return self.elsewhere or self.path

    @property
    def journal(self) -> Path:
        return self.path / "journal.sqlite"

    def update_manifest(self, **changes: object) -> RunFolder:
        manifest = Manifest.model_validate(self.manifest.model_dump() | changes)
        write_atomically(self.path / MANIFEST, _json(manifest))
        return RunFolder(self.path, manifest)

    @contextmanager
    def feeding(self, *, wait: bool) -> Iterator[None]:
        """Hold the lock for writing this run to shared stores. A read-only file system needs no lock."""
        if not os.access(self.path, os.W_OK):
            yield
            return
        lock = self.path / ".feeding"
        with ExitStack() as stack:
            with recorded_file_errors(lock):
                descriptor = stack.enter_context(open_lock_file(lock))
            if wait:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            elif not try_lock(descriptor, fcntl.LOCK_EX):
                raise InUse(f"{self.path} is being added to a store by another process")
            yield

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock of a run. The kernel releases it at any end of the process."""
        return locked(self.path)


def create(results: Path, manifest: Manifest, name: str | None = None) -> RunFolder:
    content = _json(manifest)
    with recorded_file_errors(results):
        results.mkdir(parents=True, exist_ok=True)
        sweep_halves(results)
        half = results / f".{token_hex(8)}{HALF}"
        half.mkdir()
        try:
            with _held(half):
                write_durably(half / "matrix.yaml", manifest.text.encode())
                write_durably(half / MANIFEST, content)
                sync_folder(half)
                folder = _put_in_place(half, name or _default_name(manifest))
        except BaseException:
            shutil.rmtree(half, ignore_errors=True)
            raise
        sync_folder(results)
    return RunFolder(folder, manifest)


def sweep_halves(results: Path) -> None:
    """Remove the unfinished folders of killed runs. An empty one may be in use soon, so skip locked ones."""
    for half in results.glob(f".*{HALF}"):
        with suppress(OSError), _held(half, wait=False) as held:
            if held and any(half.iterdir()):
                shutil.rmtree(half, ignore_errors=True)


@contextmanager
def _held(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a folder. Yield False if another process has it, or the file system cannot lock folders."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        held = False
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            held = True
        yield held
    finally:
        os.close(handle)


def load(folder: Path) -> RunFolder:
    manifest = folder / MANIFEST
    with recorded_file_errors(manifest):
        if not manifest.is_file():
            raise BadInput(
                f"{folder} is not the folder of a run",
                details=f"it holds no {MANIFEST}" if folder.exists() else "there is no such folder",
                resolution="`matrix runs` lists runs; --results names their folder",
            )
        try:
            return RunFolder(folder, Manifest.model_validate_json(read_input(manifest, RECORDED)))
        except (ValidationError, UnfitFile) as problem:
            raise UnusableManifest(
                f"{manifest} is not a manifest of this version of matrix",
                details=str(problem),
                resolution="it was edited, or written by another version of matrix "
                f"({LAST_COMMIT} is the last commit that reads runs from before version 1); `--fresh` starts a new run",
            ) from problem


def latest(found: Iterable[RunFolder]) -> RunFolder | None:
    return max(found, key=lambda run: (run.manifest.started, run.path.stat().st_mtime_ns), default=None)


def load_old_kernel(run: Path) -> RunFolder | None:
    """Return the second run of `--confirm` in the folder of a run, if there is one."""
    folder = run / OLD_KERNEL
    return load(folder) if (folder / MANIFEST).is_file() and not folder.is_symlink() else None


def runs(results: Path) -> Iterator[RunFolder]:
    for folder in run_folders(results):
        with suppress(MatrixError):  # it belongs to another user, or another program
            yield load(folder)


def _put_in_place(half: Path, name: str) -> Path:
    """Rename atomically. Of two processes with one name, one gets it and the other takes the next."""
    for number in count(1):
        folder = half.with_name(name if number == 1 else f"{name}-{number}")
        try:
            return half.rename(folder)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
    raise AssertionError("unreachable")


def _default_name(manifest: Manifest) -> str:
    started = datetime.fromisoformat(manifest.started).astimezone(UTC)
    words = (manifest.matrix[:100], manifest.machine[:50], f"{started:%Y%m%d-%H%M%S}")
    # A name that begins with a dash would be an option.
    return "-".join(filter(None, (_FOREIGN.sub("_", word).strip(".-") for word in words)))


def _json(manifest: Manifest) -> bytes:
    return manifest.model_dump_json(indent=2).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class KeptRun:
    run: RunRow
    folder: RunFolder | None = None  # None: only the store has the run
    size: int = 0  # bytes of its folder


@dataclass(frozen=True, slots=True)
class Keep:
    """What stays. A run is removed if no rule keeps it."""

    since: datetime | None = None  # runs that started later
    last: int = 0  # so many of each kind: runs of the same matrix, machine, host and part
    tagged: bool = True
    size: int | None = None  # remove the oldest only until all folders together are not larger
    named: frozenset[str] = frozenset()  # ids of runs that a baseline names


def reasons_to_keep(runs: Iterable[KeptRun], keep: Keep) -> list[tuple[KeptRun, str]]:
    """Return each run with the reason why it stays, the latest first; empty: no rule keeps it.

    Some runs always stay: those that are not finished, those that a baseline names, and the last good run of its kind.
    """
    seen, has_good = Counter[tuple[str, ...]](), set[tuple[str, ...]]()
    found = []
    for one in sorted(runs, key=lambda one: (one.run.started, one.run.name), reverse=True):
        kind = one.run.kind
        seen[kind] += 1
        is_last_good = one.run.is_good and kind not in has_good
        has_good |= {kind} if is_last_good else set()
        rules = {
            "it is not finished": not one.run.finished,
            "baselines.yaml names it": one.run.id in keep.named,
            "the last good run of its kind": is_last_good,
            f"one of the last {keep.last} of its kind": seen[kind] <= keep.last,
            "it is young enough": keep.since is not None and one.run.started >= keep.since.isoformat(),
            f"it has the tag {', '.join(one.run.tags)}": bool(keep.tagged and one.run.tags),
        }
        found.append((one, next((reason for reason, holds in rules.items() if holds), "")))
    return found


def runs_to_remove(runs: Iterable[KeptRun], keep: Keep) -> list[KeptRun]:
    """Return the runs that no rule keeps, the oldest first."""
    known = reasons_to_keep(runs, keep)
    found = [one for one, why in reversed(known) if not why]
    return found if keep.size is None else _until(found, sum(one.size for one, _ in known) - keep.size)


def _until(oldest_first: Sequence[KeptRun], excess: int) -> list[KeptRun]:
    found = []
    for one in oldest_first:
        if excess <= 0:
            break
        found.append(one)
        excess -= one.size
    return found


def folder_size(folder: Path) -> int:
    """Return the bytes on disk. Files that vanish meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += 512 * path.lstat().st_blocks
    return total


def remove_run(one: KeptRun, store: SharedStore | None) -> None:
    """Remove a run. After a kill in the middle, the same command, or the next run, removes the rest."""
    if one.folder is None:
        if store:
            store.remove_run(one.run.id)
        return
    path = one.folder.path
    with one.folder.locked(), recorded_file_errors(path):
        if any((path / STANDING).glob("*.sh")):
            raise BadInput(
                f"{path} has scripts of stacks that may still be up",
                resolution="run `matrix clean` first, or continue the run with the same `matrix run`",
            )
        if store:
            store.remove_run(one.run.id)
        if path.is_symlink():  # the folder belongs to another place
            path.unlink()
            return
        gone = path.with_name(f".{token_hex(8)}{HALF}")  # the next run removes what a kill leaves of it
        path.rename(gone)
        shutil.rmtree(gone)
