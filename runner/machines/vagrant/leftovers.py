"""Which machines are ours, and what is left of those whose process is gone.

Libvirt's machines are no children of ours: killed, we leave one behind. So what tells it for ours is written down
before it is made, and held by a lock for as long as anybody is at it. A machine is removed only if nobody holds its
record, its name is the recorded one, and it carries the mark of that record, which is not to be guessed.
"""

from __future__ import annotations

import fcntl
import json
import secrets
import shutil
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.cache import cache_dir, open_lock_file, try_lock
from runner.base.errors import HarnessBroken
from runner.machines.base import Leftover
from runner.machines.vagrant import libvirt
from runner.machines.vagrant.vagrantfile_settings import NODE

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD, LOCK = "record.json", "lock"
#: Names the box that is being uploaded to the pool.
NOTE = "uploading"
PREFIX = "matrix-"


@dataclass(frozen=True, slots=True)
class Record:
    """One machine, recorded before it is made."""

    #: Prefix of all names in libvirt.
    prefix: str
    #: The mark in the machine's description.
    mark: str
    #: The run of the machine.
    run: str
    #: The folder of its disks' sockets.
    sockets: str

    @property
    def domain(self) -> str:
        return f"{self.prefix}{NODE}"


def home() -> Path:
    return cache_dir() / "vagrant" / "machines"


@contextmanager
def recorded(run: Path) -> Iterator[tuple[Record, Path]]:
    """A record for a machine that is to be made, and its folder; whoever has it holds its lock.

    The folder goes with the block if the machine is gone by then, and stays for the next one to look at if it is not.
    """
    token = secrets.token_hex(4)
    folder = home() / token
    with ExitStack() as stack:
        with _alone():
            folder.mkdir(mode=0o700)
            try_lock(stack.enter_context(open_lock_file(folder / LOCK)), fcntl.LOCK_EX)
            # Short, as the path of a socket must be. QEMU runs as another user and may enter the folder, but not list
            # it.
            sockets = tempfile.mkdtemp(prefix=f"{PREFIX}{token}-")
            Path(sockets).chmod(0o711)
            record = Record(f"{PREFIX}{token}-", f"matrix {secrets.token_hex(16)}", str(run.absolute()), sockets)
            written(folder / RECORD, json.dumps(asdict(record)))
        try:
            yield record, folder
        finally:
            with suppress(HarnessBroken):  # a later clean-up tries again
                if libvirt.ours(record.domain, record.mark) is None:
                    forgotten(record, folder)


@contextmanager
def _alone() -> Iterator[None]:
    """Exclude other processes that make a record or check its lock."""
    home().mkdir(parents=True, exist_ok=True)
    with open_lock_file(home().with_name("records.lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def forgotten(record: Record, folder: Path) -> None:
    shutil.rmtree(record.sockets, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def sweep(*, dry: bool = False) -> Iterator[Leftover]:
    for folder in _folders():
        with ExitStack() as stack:
            if record := _taken(folder, stack):
                told = f"machine {record.domain} of {record.run}"
                yield Leftover(f"{told}: its process is gone") if dry else _removed(record, folder, told)


def _folders() -> list[Path]:
    return sorted(home().glob("*/"))


def _taken(folder: Path, stack: ExitStack) -> Record | None:
    """Return the record in a folder and take its lock, unless another process has it."""
    with _alone():
        try:
            lock = stack.enter_context(open_lock_file(folder / LOCK))
        except FileNotFoundError:  # its owner has just removed it
            return None
        record = read(folder) if try_lock(lock, fcntl.LOCK_EX) else None
        if record is None and try_lock(lock, fcntl.LOCK_EX):  # killed before the machine was made
            shutil.rmtree(folder, ignore_errors=True)
        return record


def _removed(record: Record, folder: Path, told: str) -> Leftover:
    try:
        if libvirt.ours(record.domain, record.mark) is False:
            return Leftover(f"{told} stays: what has this name does not carry the mark of our record", remains=True)
        libvirt.removed(record.domain)
    except HarnessBroken as error:
        return Leftover(f"{told} could not be taken away: {error.brief}: {error.details}", remains=True)
    forgotten(record, folder)
    return Leftover(f"{told}: taken away")


def written(path: Path, text: str) -> None:
    """Write a file completely or not at all. No fsync: a host that goes down takes its machines along."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def read(folder: Path) -> Record | None:
    try:
        return Record(**json.loads((folder / RECORD).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def half_uploaded(folder: Path) -> bool:
    """Return whether an upload of a box to the pool was started and not finished."""
    return (folder / NOTE).exists()


@contextmanager
def uploading(box: str, folder: Path) -> Iterator[None]:
    """A box is put into the pool by the first machine made of it. Of one that was killed half of it may be there.

    The note has the box, and which volumes of it were there before: whole, of other versions, with machines on them.
    Called by one process at a time.
    """
    note = folder / NOTE
    if note.exists():
        begun, *whole = note.read_text().splitlines()
        libvirt.forget_box(begun, whole)
        note.unlink()
    whole = libvirt.box_volumes(box)
    written(note, "\n".join((box, *whole)))
    try:
        yield
    except BaseException:
        libvirt.forget_box(box, whole)
        raise
    finally:
        note.unlink()
