"""Files that are complete or missing, locks, scratch folders, and the files that come with the program."""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from matrix_runner.base.errors import BadInput, HarnessBroken, UnfitFile, file_errors

_LINK = "it is a link, perhaps to a file that is not of the run"
MIB = 1 << 20
#: The most bytes of a matrix or another file that people write, of files that programs write, and of kernel images.
WRITTEN, RECORDED, IMAGE = MIB, 64 * MIB, 1024 * MIB


def read_input(path: Path, most: int = WRITTEN) -> bytes:
    """Read a regular file of limited size. Never blocks, and opens no device: to open a tape rewinds it."""
    check_regular(path, path.stat())
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        check_regular(path, os.fstat(descriptor))
        content = file.read(most + 1)
    if len(content) > most:
        raise UnfitFile(path, f"it is larger than {most // MIB} MiB")
    return content


def refuse_link(folder: Path, name: str) -> None:
    """Raise UnfitFile for a link in a folder whose files go to others: they could get any file of this host."""
    path = folder / name
    if path.exists() and path.stat().st_nlink > 1:
        raise UnfitFile(path, _LINK)
    refuse_way_out(folder, path)


def refuse_way_out(folder: Path, path: Path) -> None:
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UnfitFile(path, _LINK)


def check_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnfitFile(path, f"it is {_kind_of(found.st_mode) or 'no regular file'}; a regular file is needed")


def copy_data(source: Path, target: Path) -> None:
    """Copy a file and keep its holes: a damaged one may have gigabytes of them."""
    with source.open("rb") as old, target.open("wb", buffering=0) as new:
        size = os.fstat(old.fileno()).st_size
        for begin, end in _data_of(old.fileno(), size):
            at = new.seek(begin)
            while at < end and (copied := os.sendfile(new.fileno(), old.fileno(), at, end - at)):
                at += copied
        new.truncate(size)


def _data_of(file: int, size: int) -> Iterator[tuple[int, int]]:
    end = 0
    while end < size:
        try:
            begin = os.lseek(file, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # the rest is a hole
                return
            raise
        yield begin, (end := os.lseek(file, begin, os.SEEK_HOLE))


def _kind_of(mode: int) -> str:
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "")


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Replace a file durably: after a kill it has the old content or the new one. Content may come in parts."""
    with replacing(path) as file:
        file.writelines([content] if isinstance(content, bytes) else content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` durably at the end of the block, and not after an error."""
    temporary = path.parent / f".{path.name}.{os.getpid()}.new"
    with file_errors(path):
        temporary.unlink(missing_ok=True)  # of a killed process with our number, or a link of someone else
        try:
            with temporary.open("xb") as file:
                yield file
                _make_durable(file)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def write_output(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file that the user named. A device or a pipe, such as /dev/stdout, stays and gets the content."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with file_errors(path), path.open("wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
        else:
            write_atomically(path, content)
    except BadInput as error:
        advice = "name a file in a folder that exists and that you may write, such as by `--to`"
        raise BadInput(error.brief, details=error.details, resolution=advice) from None


def write_durably(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a new file that no reader uses yet; its content is on disk afterwards."""
    with path.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        _make_durable(file)


def _make_durable(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file so that a kill leaves no partial one. Not forced to disk; for one process at a time."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_temporaries(folder: Path) -> None:
    for temporary in folder.glob(".*.new"):
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, but not the content of its files."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def open_lock_file(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[int]:
    """Open a file for a lock. Links are refused: through one, a signature would overwrite another file."""
    with suppress(FileNotFoundError):
        _check_lock_file(path, path.lstat())  # before it is opened: it could be a device
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    try:
        _check_lock_file(path, os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def _check_lock_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise HarnessBroken(
            f"{path} cannot be locked: it is {_kind_of(found.st_mode) or 'a file with several names'}",
            resolution="remove it, and run the same command again",
        )


#: The bytes of a signature: the first line of a lock file, padded, so that the file is never truncated.
_SIGNATURE = 256


def sign_lock(descriptor: int, text: str) -> None:
    os.pwrite(descriptor, text.encode()[: _SIGNATURE - 1].ljust(_SIGNATURE - 1) + b"\n", 0)


def read_signature(descriptor: int) -> str:
    return os.pread(descriptor, _SIGNATURE, 0).decode(errors="replace").partition("\n")[0].strip()


def try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        raise
    return True


_PACKAGE = Path(__file__).parents[1]
_INSTALLED = _PACKAGE / "shipped"


def shipped(folder: str) -> Path:
    """Return the path of `templates`, `matrix`, `vagrant` or `docs`."""
    return (_INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parents[1]) / folder


_LOCK = ".lock"


def remove_abandoned(kind: str) -> None:
    """Remove the folders of killed processes, also if the kill was in the middle of that. A lock marks one in use."""
    for old in Path(tempfile.gettempdir()).glob(f"{_prefix(kind)}*"):
        # Others may make a folder of this name.
        with suppress(OSError, HarnessBroken):
            if old.lstat().st_uid == os.getuid():
                with open_lock_file(old / _LOCK) as lock:
                    if try_lock(lock, fcntl.LOCK_EX):
                        shutil.rmtree(old, ignore_errors=True)


def _prefix(kind: str) -> str:
    return f"{kind}-{os.getuid()}-"


@contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """Yield a new folder, after removing those of killed processes."""
    remove_abandoned(kind)
    with ExitStack() as stack:
        while not (folder := _locked_folder(kind, stack)):
            pass
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


def _locked_folder(kind: str, stack: ExitStack) -> Path | None:
    """Make a folder. Return None if another process takes it for an abandoned one before it is locked."""
    folder = Path(tempfile.mkdtemp(prefix=_prefix(kind)))
    with suppress(FileNotFoundError):
        lock = stack.enter_context(open_lock_file(folder / _LOCK))
        if try_lock(lock, fcntl.LOCK_EX) and os.fstat(lock).st_nlink:
            return folder
    return None
