"""Records of libvirt machines, and removal of those whose process is gone.

A libvirt machine survives the death of the runner. So each has a record, written before its creation and locked by its
process. The clean-up removes a machine only if its record is not locked, and if its name and its unguessable mark match
the record.
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

from runner.base.errors import HarnessBroken
from runner.base.files import cache_dir, open_lock_file, try_lock
from runner.machines.base import Leftover
from runner.machines.vagrant import libvirt
from runner.machines.vagrant.vagrantfile_settings import NODE

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD, LOCK = "record.json", "lock"
#: The file with the name of the box whose upload to the pool has begun.
NOTE = "uploading"
PREFIX = "matrix-"


@dataclass(frozen=True, slots=True)
class Record:
    #: Prefix of all names in libvirt.
    prefix: str
    #: The mark in the machine's description.
    mark: str
    #: The run of the machine.
    run: str
    #: The folder with the sockets of its disks.
    sockets: str

    @property
    def domain(self) -> str:
        return f"{self.prefix}{NODE}"


def home() -> Path:
    return cache_dir() / "vagrant" / "machines"


@contextmanager
def record_machine(run: Path) -> Iterator[tuple[Record, Path]]:
    """Write and lock the record of a new machine. It is removed at the end unless the machine still exists."""
    token = secrets.token_hex(4)
    folder = home() / token
    with ExitStack() as stack:
        with _exclude_others():
            folder.mkdir(mode=0o700)
            try_lock(stack.enter_context(open_lock_file(folder / LOCK)), fcntl.LOCK_EX)
            # Paths of sockets must be short. QEMU runs as another user, who may enter the folder but not list it.
            sockets = tempfile.mkdtemp(prefix=f"{PREFIX}{token}-")
            Path(sockets).chmod(0o711)
            record = Record(f"{PREFIX}{token}-", f"matrix {secrets.token_hex(16)}", str(run.absolute()), sockets)
            write_atomically(folder / RECORD, json.dumps(asdict(record)))
        try:
            yield record, folder
        finally:
            with suppress(HarnessBroken):  # a later clean-up tries again
                if libvirt.carries_mark(record.domain, record.mark) is None:
                    remove_record(record, folder)


@contextmanager
def _exclude_others() -> Iterator[None]:
    """Exclude other processes that make a record or check its lock."""
    home().mkdir(parents=True, exist_ok=True)
    with open_lock_file(home().with_name("records.lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove_record(record: Record, folder: Path) -> None:
    shutil.rmtree(record.sockets, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def sweep(*, dry: bool = False) -> Iterator[Leftover]:
    for folder in _folders():
        with ExitStack() as stack:
            if record := _take_record(folder, stack):
                title = f"machine {record.domain} of {record.run}"
                yield Leftover(f"{title}: its process is gone") if dry else _remove(record, folder, title)


def _folders() -> list[Path]:
    return sorted(home().glob("*/"))


def _take_record(folder: Path, stack: ExitStack) -> Record | None:
    """Lock and return the record of a folder, unless another process has the lock."""
    with _exclude_others():
        try:
            lock = stack.enter_context(open_lock_file(folder / LOCK))
        except FileNotFoundError:  # its owner has just removed it
            return None
        record = read_record(folder) if try_lock(lock, fcntl.LOCK_EX) else None
        if record is None and try_lock(lock, fcntl.LOCK_EX):  # its process was killed before it created the machine
            shutil.rmtree(folder, ignore_errors=True)
        return record


def _remove(record: Record, folder: Path, title: str) -> Leftover:
    try:
        if libvirt.carries_mark(record.domain, record.mark) is False:
            return Leftover(f"{title} stays: the machine of this name does not have the recorded mark", remains=True)
        libvirt.remove_domain(record.domain)
    except HarnessBroken as error:
        return Leftover(f"{title} could not be removed: {error.brief}: {error.details}", remains=True)
    remove_record(record, folder)
    return Leftover(f"{title}: removed")


def write_atomically(path: Path, text: str) -> None:
    """Write a file completely or not at all. It needs no fsync, because the machines end with the host."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def read_record(folder: Path) -> Record | None:
    try:
        return Record(**json.loads((folder / RECORD).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def upload_was_interrupted(folder: Path) -> bool:
    """Return whether an upload of a box to the pool has begun and not ended."""
    return (folder / NOTE).exists()


@contextmanager
def note_upload(box: str, folder: Path) -> Iterator[None]:
    """Note that the first machine of a box uploads it, and remove what a killed process has uploaded.

    The note has the box and its complete volumes, of other versions. Only one process may call it at a time.
    """
    note = folder / NOTE
    if note.exists():
        interrupted, *whole = note.read_text().splitlines()
        libvirt.forget_box(interrupted, whole)
        note.unlink()
    whole = libvirt.box_volumes(box)
    write_atomically(note, "\n".join((box, *whole)))
    try:
        yield
    except BaseException:
        libvirt.forget_box(box, whole)
        raise
    finally:
        note.unlink()
