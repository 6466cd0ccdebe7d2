"""The appliance: a kernel and a root file system in which trials run, built on first use and cached by content."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.cache import cache_dir, make_once, remove_partial, remove_unused, shared_lock, use_lock
from runner.base.errors import HarnessBroken
from runner.base.process import spawn
from runner.machines.qemu import recipe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from runner.machines.base import Progress
    from runner.machines.qemu.recipe import Recipe

#: The builder is started by the path of this code, not by name, so that the same code runs in any working directory.
BUILDER = """import os, sys
os.dup2(1, 2)
sys.path.insert(0, sys.argv.pop(1))
from runner.machines.qemu.build import entry
sys.exit(entry(sys.argv[1:]))
"""
ROOT = str(Path(__file__).resolve().parents[3])
EVIDENCE_LINES = 12
#: How many of the user's own kernels are kept; each takes some 20 MB, with modules a hundred.
MOST_OWN = 8
#: Host programs that the builder needs, and the Debian package of each.
BUILD_TOOLS = {
    "apt-get": "apt",
    "cpio": "cpio",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
    "ldconfig": "libc-bin",
    "mksquashfs": "squashfs-tools",
    "xz": "xz-utils",
    "zstd": "zstd",
}


@dataclass(frozen=True, slots=True)
class Appliance:
    userland: Path
    core: Path
    versions: Mapping[str, str] = field(default_factory=dict, compare=False)
    #: Tells two builds of the same recipe apart: the archive may have had another kernel in between.
    build: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """Name the recipe. A rebuilt appliance has the same key."""
        return f"{self.core.name}+{self.userland.name}"

    @property
    def words(self) -> str:
        return recipe.KERNEL_WORDS

    @property
    def root(self) -> Path:
        return self.userland / "root.squashfs"

    @property
    def modules(self) -> Path:
        return self.core / "modules.squashfs"

    @property
    def initramfs(self) -> Path:
        return self.core / "initramfs"

    @property
    def kernel(self) -> Path:
        """Return the kernel to boot, unpacked where possible: an emulated guest takes over a second to unpack it."""
        plain = self.core / "vmlinux"
        return plain if plain.exists() else self.core / "vmlinuz"


def whole(folder: Path) -> bool:
    """Return whether a cached half is complete. The manifest is written last and has the size of every file."""
    try:
        files = json.loads((folder / "manifest.json").read_text())["files"]
        return all((folder / name).stat().st_size == what["size"] for name, what in files.items())
    except (OSError, ValueError, KeyError):
        return False


def home() -> Path:
    return cache_dir() / "appliances"


def core_of(wanted: Recipe) -> Path:
    return home() / (wanted.key or recipe.kernel_key(wanted.suite, wanted.image))


@asynccontextmanager
async def provided(wanted: Recipe, progress: Progress) -> AsyncIterator[Appliance]:
    """Provide an appliance as long as it is used: a kernel of the user's own is not pruned meanwhile."""
    if wanted.image is None:
        yield await provide(wanted, progress)
        return
    core = core_of(wanted)
    # The lock is taken before the folder is found complete, so that it cannot be pruned between that and its use.
    async with shared_lock(use_lock(core)):
        base = await provide(replace(wanted, key=core.name), progress)
        os.utime(core)
        prune()
        yield base


def prune() -> None:
    """Remove the user's own kernels that were not used for longest, except those in use.

    Every rebuilt image adds one, so a month of kernel development would fill the disk. Named kernels are few. Remains
    of killed builds go as well.
    """
    remove_partial(home())
    for _, folder in sorted(_own_kernels(), reverse=True)[MOST_OWN:]:
        remove_unused(folder)


def _own_kernels() -> Iterator[tuple[float, Path]]:
    for folder in home().glob(f"{recipe.OWN}*"):
        with suppress(OSError):  # another process may remove it meanwhile
            yield folder.stat().st_mtime, folder


async def provide(wanted: Recipe, progress: Progress) -> Appliance:
    """Return the appliance of a recipe, from the cache or built now (both halves at once)."""
    shown = Shares(progress)
    userland, core = home() / recipe.userland_key(wanted.suite), core_of(wanted)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(half(userland, ["userland", wanted.suite, ""], shown.of(0, 0.75)))
            group.create_task(kernel_half(core, wanted, shown.of(1, 0.25)))
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return _read(userland, core)


def cached(wanted: Recipe) -> Appliance | None:
    userland, core = home() / recipe.userland_key(wanted.suite), core_of(wanted)
    with suppress(OSError, ValueError, KeyError):
        return _read(userland, core) if whole(userland) and whole(core) else None
    return None


def _read(userland: Path, core: Path) -> Appliance:
    paths = [folder / "manifest.json" for folder in (userland, core)]
    manifests = [json.loads(path.read_text()) for path in paths]
    build_ = recipe.digest(manifests, [path.stat().st_mtime_ns for path in paths])
    return Appliance(userland, core, {**manifests[0]["versions"], **manifests[1]["versions"]}, build_)


class Shares:
    """Adds up the progress of several jobs, each with a share of the whole."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done: dict[int, float] = {}

    def of(self, job: int, share: float) -> Progress:
        def report(brief: str, fraction: float | None = None) -> None:
            self._done[job] = share * (fraction or 0)
            self._progress(f"appliance: {brief}", sum(self._done.values()))

        return report


async def half(target: Path, what: list[str], progress: Progress) -> Path:
    async def make(folder: Path) -> None:
        await build([*what, str(folder)], progress)
        progress("done", 1)

    return await make_once(target, whole, make)


async def kernel_half(target: Path, wanted: Recipe, progress: Progress) -> Path:
    """Build the kernel's half. If the image was changed meanwhile, the result is not kept."""

    async def make(folder: Path) -> None:
        check_meant(target, wanted)
        await build(["kernel", wanted.suite, str(wanted.image or ""), str(folder)], progress)
        check_meant(target, wanted)
        progress("done", 1)

    return await make_once(target, whole, make)


def check_meant(target: Path, wanted: Recipe) -> None:
    """Raise HarnessBroken if an image has changed since the run began: another kernel would run under its name."""
    if wanted.image is None:
        return
    try:
        same = recipe.kernel_key(wanted.suite, wanted.image) == target.name
    except OSError:
        same = False
    if not same:
        raise HarnessBroken(
            f"the kernel image {wanted.image}, or a module beside it, was changed or removed since the run began",
            details="no machine was made of it before, so what the run began with is not to be had any more",
            resolution="with the old one put back the same command goes on; with the new one it starts another run",
        )


async def build(what: list[str], progress: Progress) -> None:
    """Run the builder, which ends with this process, and pass on its progress."""
    child = await spawn([sys.executable, "-c", BUILDER, ROOT, *what], output=asyncio.subprocess.PIPE)
    try:
        heard = await listen(child.stdout, progress)
    except BaseException:
        child.kill()
        await child.wait()
        raise
    # Do not kill it here, though it may still run: kill() would reap it, and its status would be lost.
    if await child.wait():
        raise failure(heard)


async def listen(words: asyncio.StreamReader | None, progress: Progress) -> list[str]:
    """Pass on progress reports; return all other lines."""
    other: list[str] = []
    while words and (line := (await words.readline()).decode(errors="replace")):
        match parsed(line):
            case {"brief": str(brief), "fraction": float() | int() | None as fraction}:
                progress(brief, fraction)
            case _:
                other.append(line.rstrip("\n"))
    return other


def parsed(line: str) -> dict[str, object]:
    """Parse a line of the builder's protocol; return an empty dict for output of other programs."""
    try:
        news = json.loads(line)
    except ValueError:
        return {}
    return news if isinstance(news, dict) else {}


def failure(heard: list[str]) -> HarnessBroken:
    said = next((news for news in map(parsed, reversed(heard)) if "error" in news), None)
    if said is None:
        return HarnessBroken("building the appliance failed", details="\n".join(heard[-EVIDENCE_LINES:]))
    return HarnessBroken(str(said["error"]), details=str(said["details"]), resolution=str(said["resolution"]))
