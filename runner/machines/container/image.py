"""The image of a container: from the appliance's packages, from the Containerfile, or the user's own.

A host that can build the appliance of `--on qemu` uses its root file system: then both machines run the same programs,
and no registry is needed. Without Debian's apt the engine builds the Containerfile, which needs a registry.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.base.files import cache_dir, exclusive_lock
from runner.base.process import kill, run, send, spawn_with_pipes
from runner.machines.container.engine import with_workarounds
from runner.machines.qemu import recipe
from runner.machines.qemu.appliance import BUILD_TOOLS, Shares, make_half

if TYPE_CHECKING:
    from runner.machines.base import Progress
    from runner.machines.container.argv import Engine

#: Environment variable with the user's own image, which is used unchanged.
IMAGE_VARIABLE = "MATRIX_CONTAINER_IMAGE"
NAME = "localhost/matrix"
LABEL = "org.matrix.image"
#: Raise it when the build changes and the recipe does not show it.
VERSION = 1
SUITE = "trixie"
CONTAINERFILE = Path(__file__).with_name("Containerfile")
#: The base image of the Containerfile.
BASE = "docker.io/library/debian:trixie-slim"
#: Programs that build a root file system, and unpack it again.
TOOLS = (*BUILD_TOOLS, "unsquashfs", "tar")
#: Packages of the appliance that a base image has or a container does not need.
NOT_IN_CONTAINERS = frozenset(
    {"base-files", "bash-static", "busybox-static", "libc-bin", "ncurses-base", "qemu-guest-agent"}
)
#: The file of an appliance that a container can use, and tar's options that make everything root's.
ROOT = "root.squashfs"
ROOTS_OWN = ("--owner=0", "--group=0", "--numeric-owner")


def tag_of_packages(suite: str = SUITE) -> str:
    return f"{NAME}:{recipe.userland_key(suite)}-{VERSION}"


def tag_of_containerfile(text: str, suite: str = SUITE) -> str:
    content = "\0".join([text, suite, *packages()])
    return f"{NAME}:built-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def packages() -> tuple[str, ...]:
    return tuple(name for name in recipe.PACKAGES if name not in NOT_IN_CONTAINERS)


async def provide(engine: Engine, progress: Progress) -> str:
    if own := os.environ.get(IMAGE_VARIABLE):
        if not await has_image(engine, own):
            progress(f"fetching {own}")
            await _run_checked(
                engine.argv("pull", own), f"{engine.kind} cannot fetch {own}, which {IMAGE_VARIABLE} names"
            )
            progress("done", 1.0)
        return own
    by_packages = all(map(shutil.which, TOOLS))
    tag = tag_of_packages() if by_packages else tag_of_containerfile(CONTAINERFILE.read_text())
    # Parallel runs build it once.
    async with exclusive_lock(cache_dir() / "containers" / f".{_key(engine, tag)}.lock"):
        if not await has_image(engine, tag):
            await (_import if by_packages else _build)(engine, tag, progress)
    return tag


async def has_image(engine: Engine, image: str) -> bool:
    return (await asyncio.to_thread(run, engine.argv("image", "inspect", image))).returncode == 0


def _key(engine: Engine, tag: str) -> str:
    return f"{engine.kind}-{tag.rpartition(':')[2]}"


async def _import(engine: Engine, tag: str, progress: Progress) -> None:
    """Import the root file system: an engine names an import only when it is complete."""
    home = cache_dir() / "appliances" / recipe.userland_key(SUITE)
    userland = await make_half(home, ["userland", SUITE, ""], Shares(progress).of(0, 0.9))
    progress(f"importing the root file system into {engine.kind}", 0.9)
    work = cache_dir() / "containers" / f".{_key(engine, tag)}"
    # This process has the lock, so an existing folder is from a killed one.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    tree, tar = str(work / "tree"), str(work / "root.tar")
    try:
        squashfs = str(userland.joinpath(ROOT))
        await _run_checked(["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-dest", tree, squashfs])
        await _run_checked(["tar", *ROOTS_OWN, f"--directory={tree}", "--create", f"--file={tar}", "."])
        await _run_checked(engine.argv("import", f"--change=LABEL {LABEL}={tag}", tar, tag))
    finally:
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
    progress("done", 1.0)


async def _build(engine: Engine, tag: str, progress: Progress) -> None:
    """Build with the first options that work: builds need the same workarounds as containers."""
    progress(f"{engine.kind} builds the image from runner/machines/container/Containerfile")
    lacking = ", ".join(name for name in TOOLS if not shutil.which(name))
    help_ = f"give it access to a registry, or name an image in {IMAGE_VARIABLE}; or install {lacking} to build without"
    failed: HarnessBroken | None = None
    for one in with_workarounds(engine):
        try:
            await _run_checked(build_command(one, tag), f"{engine.kind} cannot build the image", help_)
        except HarnessBroken as broken:
            failed = failed or broken
            if not await has_image(engine, BASE):
                break  # the base image cannot be fetched, so other options do not help
        else:
            progress("done", 1.0)
            return
    raise failed or HarnessBroken(f"{engine.kind} cannot build the image")


def build_command(engine: Engine, tag: str, *more: str) -> list[str]:
    names = (f"--file={CONTAINERFILE}", f"--tag={tag}", f"--label={LABEL}={tag}")
    arguments = f"--build-arg=PACKAGES={' '.join(packages())}"
    return engine.argv("build", *names, arguments, *engine.workaround.container, *more, str(CONTAINERFILE.parent))


async def _run_checked(argv: list[str], brief: str = "cannot build the container image", resolution: str = "") -> None:
    """Run a program that must succeed, and end it if this process is stopped or killed."""
    child = await spawn_with_pipes(argv)
    try:
        output, complaint = await send(child, b"")
    finally:
        await kill(child)
    if child.returncode:
        text = (output + complaint).decode(errors="replace").strip()
        raise HarnessBroken(brief, details=text[-4000:], resolution=resolution or _hint(text))


def _hint(text: str) -> str:
    if "No space left" in text:
        return "free some disk space, or move MATRIX_CACHE or the engine's storage to another disk"
    return ""
