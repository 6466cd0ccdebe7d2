"""Practice disks: files that are attached as loop devices, with stable names."""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.process import run
from matrix_runner.base.quantities import format_size

NAMES = Path("/dev/disk/by-id")
_HALF = "half"


@dataclass(frozen=True)
class PracticeDisk:
    number: int
    file: Path

    @property
    def name(self) -> str:
        return f"matrix-scratch-{self.number}"

    @property
    def link(self) -> Path:
        return NAMES / self.name

    def device(self) -> str:
        words = ("--noheadings", "--output", "NAME", "--associated", str(self.file))
        return _losetup(*words).strip() if self.file.exists() else ""

    def attach(self, size: int) -> None:
        """Attach the file; create it if it is missing. After a restart of the host this attaches it again."""
        other = self._other_file()
        if other:
            raise BadInput(f"{self.name} is {other}", resolution=f"use `--in {Path(other).parent}`, or remove that one")
        if not self.file.exists():
            _allocate(self.file, size)
        if self.file.stat().st_size != size:
            found = format_size(self.file.stat().st_size)
            raise BadInput(f"{self.file} has {found}", resolution=f"use `--size {found}`, or remove it by `--remove`")
        device = self.device() or _losetup("--find", "--show", str(self.file)).strip()
        self.link.parent.mkdir(parents=True, exist_ok=True)
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(device)

    def refuse_busy(self) -> None:
        device = self.device()
        try:
            if device:
                os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise BadInput(f"{self.name} ({device}) is in use", resolution="unmount it, or end its run") from None

    def remove(self) -> None:
        if device := self.device():
            _losetup("--detach", device)
        if not self._other_file():
            self.link.unlink(missing_ok=True)
        for file in (self.file, self.file.with_suffix(f".{_HALF}")):
            file.unlink(missing_ok=True)

    def _other_file(self) -> str:
        """Return the file of another practice disk with this name."""
        with suppress(OSError):
            backing = Path("/sys/block", self.link.resolve(strict=True).name, "loop/backing_file").read_text().strip()
            return "" if backing == str(self.file) else backing
        return ""


def practice_disks(folder: Path) -> list[PracticeDisk]:
    """Return the practice disks of a folder, also of files that a kill left half allocated."""
    files = [path for kind in ("img", _HALF) for path in folder.resolve().glob(f"scratch-*.{kind}")]
    numbers = {path.stem.removeprefix("scratch-") for path in files}
    return [practice_disk(folder, number) for number in sorted(int(one) for one in numbers if one.isdecimal())]


def practice_disk(folder: Path, number: int) -> PracticeDisk:
    return PracticeDisk(number, folder.resolve() / f"scratch-{number}.img")


def _allocate(file: Path, size: int) -> None:
    """Allocate the whole file, so that the host's file system cannot be full later."""
    half = file.with_suffix(f".{_HALF}")
    try:
        with half.open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, size)
        half.rename(file)
    except OSError as error:
        raise BadInput(
            f"{file} cannot be created: {error.strerror}", resolution="name another folder by `--in`"
        ) from None
    finally:
        half.unlink(missing_ok=True)


def _losetup(*words: str) -> str:
    done = run(["losetup", *words])
    if done.returncode:
        resolution = "run the same command as root" if os.geteuid() else ""
        raise HarnessBroken(f"losetup {words[0]} failed", details=done.stderr.strip(), resolution=resolution)
    return done.stdout
