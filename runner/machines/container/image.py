"""What a container works with: made once of the appliance's own packages, or as a Containerfile says, or the user's.

The root file system of the virtual machine is taken wherever this host can make one: then a container and a virtual
machine run the very same programs, nothing is fetched from a registry, and a host that has run `--on qemu` has it
already. Where it cannot (it takes Debian's apt), the engine builds the Containerfile, for which it needs a registry.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.cache import cache_dir, exclusive_lock
from runner.base.errors import HarnessBroken
from runner.base.process import kill, run, send, spawn_with_pipes
from runner.machines.container.engine import as_told
from runner.machines.qemu import recipe
from runner.machines.qemu.appliance import BUILD_TOOLS, Shares, half

if TYPE_CHECKING:
    from runner.machines.base import Progress
    from runner.machines.container.argv import Engine

#: An image of the user's own, which is taken as it is.
CHOSEN = "MATRIX_CONTAINER_IMAGE"
NAME = "localhost/matrix"
LABEL = "org.matrix.image"
#: Raise when the way of making it changes in a manner that the recipe does not show.
VERSION = 1
SUITE = "trixie"
CONTAINERFILE = Path(__file__).with_name("Containerfile")
#: Which the Containerfile begins with, unless it is told another.
BASE = "docker.io/library/debian:trixie-slim"
#: Those that make a root file system, and unpack it again.
TOOLS = (*BUILD_TOOLS, "unsquashfs", "tar")
#: Of the appliance's packages, what a base image has or a container does not need.
NOT_IN_CONTAINERS = frozenset(
    {"base-files", "bash-static", "busybox-static", "libc-bin", "ncurses-base", "qemu-guest-agent"}
)
#: Of an appliance, the file that a container can use; and whose everything in it is.
ROOT = "root.squashfs"
ROOTS_OWN = ("--owner=0", "--group=0", "--numeric-owner")


def of_packages(suite: str = SUITE) -> str:
    """The name of the image that is made of packages; another recipe is another image."""
    return f"{NAME}:{recipe.userland_key(suite)}-{VERSION}"


def of_containerfile(text: str, suite: str = SUITE) -> str:
    """The name of the image that a Containerfile makes."""
    content = "\0".join([text, suite, *packages()])
    return f"{NAME}:built-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def packages() -> tuple[str, ...]:
    """What is installed into a base image."""
    return tuple(name for name in recipe.PACKAGES if name not in NOT_IN_CONTAINERS)


async def provide(engine: Engine, progress: Progress) -> str:
    """The image to start, made now if it is not there."""
    if own := os.environ.get(CHOSEN):
        if not await there(engine, own):
            progress(f"fetching {own}")
            await _told(engine.argv("pull", own), f"{engine.kind} cannot fetch {own}, which {CHOSEN} names")
            progress("done", 1.0)
        return own
    by_packages = all(map(shutil.which, TOOLS))
    tag = of_packages() if by_packages else of_containerfile(CONTAINERFILE.read_text())
    # Two runs at once make it once.
    async with exclusive_lock(cache_dir() / "containers" / f".{_key(engine, tag)}.lock"):
        if not await there(engine, tag):
            await (_import if by_packages else _build)(engine, tag, progress)
    return tag


async def there(engine: Engine, image: str) -> bool:
    """Whether the engine has an image."""
    return (await asyncio.to_thread(run, engine.argv("image", "inspect", image))).returncode == 0


def _key(engine: Engine, tag: str) -> str:
    return f"{engine.kind}-{tag.rpartition(':')[2]}"


async def _import(engine: Engine, tag: str, progress: Progress) -> None:
    """An engine gives a name to what it has imported as a whole, or to nothing."""
    home = cache_dir() / "appliances" / recipe.userland_key(SUITE)
    userland = await half(home, ["userland", SUITE, ""], Shares(progress).of(0, 0.9))
    progress(f"importing the root file system into {engine.kind}", 0.9)
    work = cache_dir() / "containers" / f".{_key(engine, tag)}"
    # We hold the lock: what is there was left by somebody who was killed.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    tree, tar = str(work / "tree"), str(work / "root.tar")
    try:
        await _told(["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-dest", tree, str(userland.joinpath(ROOT))])
        await _told(["tar", *ROOTS_OWN, f"--directory={tree}", "--create", f"--file={tar}", "."])
        await _told(engine.argv("import", f"--change=LABEL {LABEL}={tag}", tar, tag))
    finally:
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
    progress("done", 1.0)


async def _build(engine: Engine, tag: str, progress: Progress) -> None:
    """In the first way that works: whatever an engine does not manage with containers, it does not manage here."""
    progress(f"{engine.kind} builds the image that runner/machines/container/Containerfile describes")
    lacking = ", ".join(name for name in TOOLS if not shutil.which(name))
    help_ = f"let it reach a registry, or name an image in {CHOSEN}; or install what makes one without: {lacking}"
    failed: HarnessBroken | None = None
    for one in as_told(engine):
        try:
            await _told(built(one, tag), f"{engine.kind} cannot build the image to work in", help_)
        except HarnessBroken as broken:
            failed = failed or broken
            if not await there(engine, BASE):
                break  # no way of starting containers helps against that
        else:
            progress("done", 1.0)
            return
    raise failed or HarnessBroken("there is no way to build an image")


def built(engine: Engine, tag: str, *more: str) -> list[str]:
    """Build the Containerfile."""
    said = (f"--build-arg=PACKAGES={' '.join(packages())}", *engine.way.container, *more)
    return engine.argv(
        "build", f"--file={CONTAINERFILE}", f"--tag={tag}", f"--label={LABEL}={tag}", *said, str(CONTAINERFILE.parent)
    )


async def _told(argv: list[str], brief: str = "cannot make an image to work in", resolution: str = "") -> None:
    """Run a program that must succeed; whoever stops or kills us ends it, too."""
    child = await spawn_with_pipes(argv)
    try:
        output, complaint = await send(child, b"")
    finally:
        await kill(child)
    if child.returncode:
        said = (output + complaint).decode(errors="replace").strip()
        raise HarnessBroken(brief, details=said[-4000:], resolution=resolution or _hint(said))


def _hint(said: str) -> str:
    if "No space left" in said:
        return "free some disk space; MATRIX_CACHE may be on another disk, and so may the engine's storage"
    return ""
