"""The appliance: a kernel and a root file system for trials, built on first use and cached by content."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from matrix_runner.base.cache import cache_dir, make_once, prune, remove_unused, shared_lock, use_lock
from matrix_runner.base.children import spawn
from matrix_runner.base.digests import is_complete
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines.base import APPLIANCE, Progress
from matrix_runner.machines.qemu import recipe
from matrix_runner.machines.qemu.recipe import Recipe

#: Starts the builder by its path, so that the same code runs in any working directory.
BUILDER = """import os, sys
os.dup2(1, 2)
sys.path.insert(0, sys.argv.pop(1))
from matrix_runner.machines.qemu.build import entry
sys.exit(entry(sys.argv[1:]))
"""
ROOT = str(Path(__file__).resolve().parents[4])
EVIDENCE_LINES = 12
#: The number of cached kernels of the user. Each takes some 20 MB, with modules a hundred.
MOST_OWN = 8
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
    #: Distinguishes two builds of a recipe, which may have different packages.
    build: str = field(default="", compare=False)
    #: The modules that the kernel has, those that are built in included.
    modules: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def key(self) -> str:
        """Return the name of the recipe. A rebuilt appliance has the same key."""
        return f"{self.core.name}+{self.userland.name}"

    @property
    def kernel(self) -> Path:
        """Return the kernel to boot, unpacked where possible: an emulated guest takes over a second to unpack it."""
        plain = self.core / "vmlinux"
        return plain if plain.exists() else self.core / "vmlinuz"


def home() -> Path:
    return cache_dir() / "appliances"


def core_of(wanted: Recipe) -> Path:
    return home() / (wanted.key or recipe.kernel_key(wanted.suite, wanted.source, zfs=wanted.zfs))


@asynccontextmanager
async def appliance_in_use(
    wanted: Recipe, progress: Progress, notice: Callable[[str], None] = lambda _: None
) -> AsyncIterator[Appliance]:
    """Provide an appliance, and keep a kernel of the user from being pruned meanwhile."""
    if wanted.source is None:
        yield await provide(wanted, progress, notice)
        return
    core = core_of(wanted)
    # The lock comes before the check of the folder, so that the folder cannot be pruned between check and use.
    async with shared_lock(use_lock(core)):
        base = await provide(replace(wanted, key=core.name), progress, notice)
        os.utime(core)
        prune(home(), home().glob(f"{recipe.OWN}*"), MOST_OWN)  # every rebuilt image adds one
        yield base


async def provide(wanted: Recipe, progress: Progress, notice: Callable[[str], None] = lambda _: None) -> Appliance:
    """Return an appliance without damage. It is built if it is missing, and a damaged half is rebuilt."""
    shown = Shares(progress)
    userland, core = home() / recipe.userland_key(wanted.release), core_of(wanted)
    if wanted.zfs and not is_of_same_kernel(core, core_of(Recipe(wanted.suite))):
        remove_unused(core)  # the other stacks of a run would have another kernel
    if (wanted.source or wanted.zfs) and not is_complete(core):  # it takes parts of Debian's
        check_unchanged(core, wanted)
        await make_half(core_of(Recipe(wanted.suite)), ["kernel", wanted.suite, ""], shown.of(1, 0.2), notice)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(make_half(userland, ["userland", wanted.release, ""], shown.of(0, 0.75), notice))
            words = ["zfs" if wanted.zfs and not wanted.source else "kernel", wanted.suite, str(wanted.source or "")]
            check = partial(check_unchanged, core, wanted)
            group.create_task(make_half(core, words, shown.of(1, 0.25), notice, check))
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return _read(userland, core)


def is_of_same_kernel(core: Path, debian: Path) -> bool:
    """Return whether two halves have the same release; a half that is not built yet has any."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = [json.loads((folder / "manifest.json").read_text())["versions"]["kernel"] for folder in (core, debian)]
        return bool(found[0] == found[1])
    return not core.exists() or debian.exists()


def find_cached(wanted: Recipe) -> Appliance | None:
    userland, core = home() / recipe.userland_key(wanted.release), core_of(wanted)
    with suppress(OSError, ValueError, KeyError, TypeError):
        return _read(userland, core) if is_complete(userland) and is_complete(core) else None
    return None


def _read(userland: Path, core: Path) -> Appliance:
    paths = [folder / "manifest.json" for folder in (userland, core)]
    manifests = [json.loads(path.read_text()) for path in paths]
    build_ = recipe.digest(manifests, [path.stat().st_mtime_ns for path in paths])
    versions = {**manifests[0]["versions"], **manifests[1]["versions"]}
    return Appliance(userland, core, versions, build_, frozenset(manifests[1]["modules"]))


class Shares:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done: dict[int, float] = {}

    def of(self, job: int, share: float) -> Progress:
        def report(brief: str, fraction: float | None = None) -> None:
            self._done[job] = share * (fraction or 0)
            self._progress(f"{APPLIANCE}{brief}", sum(self._done.values()))

        return report


async def make_half(
    target: Path,
    what: list[str],
    progress: Progress,
    notice: Callable[[str], None],
    check: Callable[[], None] = lambda: None,
) -> Path:
    """Return a half of the appliance from the cache, or build it. `check`, before and after, may refuse the result."""

    async def make(folder: Path) -> None:
        check()
        await build([*what, str(folder)], progress)
        check()
        progress("done", 1)

    return await make_once(target, make, "the appliance", notice)


def check_unchanged(target: Path, wanted: Recipe) -> None:
    with suppress(OSError):
        if wanted.source is None or recipe.kernel_key(wanted.suite, wanted.source) == target.name:
            return
    raise HarnessBroken(
        f"the kernel image {wanted.source}, or a module beside it, was changed or removed since the run began",
        details="the cache has no undamaged copy of the old kernel",
        resolution="restore the old one to resume with the same command; the new one starts a new run",
    )


async def build(what: list[str], progress: Progress) -> None:
    child = await spawn([sys.executable, "-c", BUILDER, ROOT, *what], output=asyncio.subprocess.PIPE)
    try:
        lines = await listen(child.stdout, progress)
    except BaseException:
        child.kill()
        await child.wait()
        raise
    # It may still run, but kill() would reap it and lose its status.
    if await child.wait():
        raise parse_failure(lines)


async def listen(words: asyncio.StreamReader | None, progress: Progress) -> list[str]:
    other: list[str] = []
    while words and (line := (await words.readline()).decode(errors="replace")):
        match parse_line(line):
            case {"brief": str(brief), "fraction": float() | int() | None as fraction}:
                progress(brief, fraction)
            case _:
                other.append(line.rstrip("\n"))
    return other


def parse_line(line: str) -> dict[str, object]:
    with suppress(ValueError):
        news = json.loads(line)
        return news if isinstance(news, dict) else {}
    return {}


def parse_failure(lines: list[str]) -> HarnessBroken:
    error = next((news for news in map(parse_line, reversed(lines)) if "error" in news), None)
    if error is None:
        return HarnessBroken("building the appliance failed", details="\n".join(lines[-EVIDENCE_LINES:]))
    return HarnessBroken(str(error["error"]), details=str(error["details"]), resolution=str(error["resolution"]))
