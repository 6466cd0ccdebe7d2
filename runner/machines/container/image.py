"""The image of a container: made of the appliance's packages, or of the Containerfile, or chosen by the user.

The root file system of the virtual machine is used wherever this host can build it: then containers and virtual
machines run the same programs, no registry is needed, and a host that has run `--on qemu` has it already. Without
Debian's apt the engine builds the Containerfile, which needs a registry.
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

#: The user's own image, used as it is.
CHOSEN = "MATRIX_CONTAINER_IMAGE"
NAME = "localhost/matrix"
LABEL = "org.matrix.image"
#: Raise it when the way of making the image changes and the recipe does not show it.
VERSION = 1
SUITE = "trixie"
CONTAINERFILE = Path(__file__).with_name("Containerfile")
#: The base image of the Containerfile.
BASE = "docker.io/library/debian:trixie-slim"
#: Programs that make a root file system, and unpack it again.
TOOLS = (*BUILD_TOOLS, "unsquashfs", "tar")
#: Packages of the appliance that a base image has or a container does not need.
NOT_IN_CONTAINERS = frozenset(
    {"base-files", "bash-static", "busybox-static", "libc-bin", "ncurses-base", "qemu-guest-agent"}
)
#: The file of an appliance that a container can use, and tar's options that make everything root's.
ROOT = "root.squashfs"
ROOTS_OWN = ("--owner=0", "--group=0", "--numeric-owner")


def of_packages(suite: str = SUITE) -> str:
    return f"{NAME}:{recipe.userland_key(suite)}-{VERSION}"


def of_containerfile(text: str, suite: str = SUITE) -> str:
    content = "\0".join([text, suite, *packages()])
    return f"{NAME}:built-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def packages() -> tuple[str, ...]:
    return tuple(name for name in recipe.PACKAGES if name not in NOT_IN_CONTAINERS)


async def provide(engine: Engine, progress: Progress) -> str:
    if own := os.environ.get(CHOSEN):
        if not await there(engine, own):
            progress(f"fetching {own}")
            await _told(engine.argv("pull", own), f"{engine.kind} cannot fetch {own}, which {CHOSEN} names")
            progress("done", 1.0)
        return own
    by_packages = all(map(shutil.which, TOOLS))
    tag = of_packages() if by_packages else of_containerfile(CONTAINERFILE.read_text())
    # Two runs at once make it only once.
    async with exclusive_lock(cache_dir() / "containers" / f".{_key(engine, tag)}.lock"):
        if not await there(engine, tag):
            await (_import if by_packages else _build)(engine, tag, progress)
    return tag


async def there(engine: Engine, image: str) -> bool:
    return (await asyncio.to_thread(run, engine.argv("image", "inspect", image))).returncode == 0


def _key(engine: Engine, tag: str) -> str:
    return f"{engine.kind}-{tag.rpartition(':')[2]}"


async def _import(engine: Engine, tag: str, progress: Progress) -> None:
    """Import the root file system: an engine names an import only when it is complete."""
    home = cache_dir() / "appliances" / recipe.userland_key(SUITE)
    userland = await half(home, ["userland", SUITE, ""], Shares(progress).of(0, 0.9))
    progress(f"importing the root file system into {engine.kind}", 0.9)
    work = cache_dir() / "containers" / f".{_key(engine, tag)}"
    # This process holds the lock, so what is here was left by a killed one.
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
    """Build with the first options that work: those that containers need, builds need, too."""
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
                break  # the base image cannot be fetched: no options help against that
        else:
            progress("done", 1.0)
            return
    raise failed or HarnessBroken("there is no way to build an image")


def built(engine: Engine, tag: str, *more: str) -> list[str]:
    said = (f"--build-arg=PACKAGES={' '.join(packages())}", *engine.way.container, *more)
    return engine.argv(
        "build", f"--file={CONTAINERFILE}", f"--tag={tag}", f"--label={LABEL}={tag}", *said, str(CONTAINERFILE.parent)
    )


async def _told(argv: list[str], brief: str = "cannot make an image to work in", resolution: str = "") -> None:
    """Run a program that must succeed, and end it if this process is stopped or killed."""
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
