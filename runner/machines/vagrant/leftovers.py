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

from runner.base.cache import cache_dir, opened, try_lock
from runner.base.errors import HarnessBroken
from runner.machines.base import Leftover
from runner.machines.vagrant import libvirt
from runner.machines.vagrant.vagrantfile_settings import NODE

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD, LOCK = "record.json", "lock"
#: Names the box that is being put into the pool.
NOTE = "uploading"
PREFIX = "matrix-"


@dataclass(frozen=True, slots=True)
class Record:
    """One machine, as it was written down before it was made."""

    #: Begins the names of everything that libvirt has of it.
    prefix: str
    #: In the description of the machine.
    mark: str
    #: Of the run that it was made for.
    run: str
    #: Where the sockets of its disks are.
    sockets: str

    @property
    def domain(self) -> str:
        """What libvirt calls the machine."""
        return f"{self.prefix}{NODE}"


def home() -> Path:
    """Where records are."""
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
            try_lock(stack.enter_context(opened(folder / LOCK)), fcntl.LOCK_EX)
            # Short, as a socket's path has to be; QEMU, which is another user, may go through but not look around.
            sockets = tempfile.mkdtemp(prefix=f"{PREFIX}{token}-")
            Path(sockets).chmod(0o711)
            record = Record(f"{PREFIX}{token}-", f"matrix {secrets.token_hex(16)}", str(run.absolute()), sockets)
            written(folder / RECORD, json.dumps(asdict(record)))
        try:
            yield record, folder
        finally:
            with suppress(HarnessBroken):  # whoever cleans up later asks again
                if libvirt.ours(record.domain, record.mark) is None:
                    forgotten(record, folder)


@contextmanager
def _alone() -> Iterator[None]:
    """Nobody makes a record, or looks whether one is held, at the same time."""
    home().mkdir(parents=True, exist_ok=True)
    with opened(home().with_name("records.lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def forgotten(record: Record, folder: Path) -> None:
    """Nothing is left of the machine, so nothing has to be known of it."""
    shutil.rmtree(record.sockets, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def sweep(*, dry: bool = False) -> Iterator[Leftover]:
    """Take away every machine of ours that nobody is at any more, and say of each."""
    for folder in _folders():
        with ExitStack() as stack:
            if record := _taken(folder, stack):
                told = f"machine {record.domain} of {record.run}"
                yield Leftover(f"{told}: its process is gone") if dry else _removed(record, folder, told)


def _folders() -> list[Path]:
    return sorted(home().glob("*/"))


def _taken(folder: Path, stack: ExitStack) -> Record | None:
    """The record in a folder, and its lock, unless somebody else has it."""
    with _alone():
        try:
            lock = stack.enter_context(opened(folder / LOCK))
        except FileNotFoundError:  # whoever had it has just put it away
            return None
        record = read(folder) if try_lock(lock, fcntl.LOCK_EX) else None
        if record is None and try_lock(lock, fcntl.LOCK_EX):  # killed before anything was made
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
    """There in full or not at all; a host that goes down takes its machines along, so no disk has to be waited for."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def read(folder: Path) -> Record | None:
    """The record in a folder, if there is one."""
    try:
        return Record(**json.loads((folder / RECORD).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def half_uploaded(folder: Path) -> bool:
    """Whether somebody began to put a box into the pool, and did not end it."""
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
