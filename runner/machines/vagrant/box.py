"""The box that machines are made of: one of ours, built now unless it is there, or one that the user named."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.base.kernels import SUITES
from runner.base.shipped import shipped
from runner.machines.base import Refusal
from runner.machines.qemu.recipe import DEFAULT_KERNEL
from runner.machines.vagrant.vagrantfile_settings import Box

if TYPE_CHECKING:
    from runner.machines.base import Progress

#: Where `Vagrantfile` is; beside it, what it and the box are made by.
HOME = shipped("vagrant").resolve()
BUILD = HOME / "box/build"
#: Names a box of the user's, which Vagrant knows or can fetch.
CHOSEN = "MATRIX_BOX"
EVIDENCE_LINES = 20
_TOLD = re.compile(r"^box: (?P<brief>.*) \((?P<percent>\d+) %\)$")


def suite(kernel: str | None) -> str:
    """The release of Debian whose kernel that is."""
    return SUITES[kernel or DEFAULT_KERNEL]


def chosen() -> str:
    """The user's own box; empty if there is none."""
    return os.environ.get(CHOSEN, "")


def refusals(kernel: str | None) -> list[Refusal]:
    """What is missing to build it, if it is not there yet."""
    if chosen():
        return []
    done = process.run([str(BUILD), "--suite", suite(kernel), "--check"])
    if done.returncode == 0:
        return []
    first, *rest = done.stderr.strip().splitlines() or ["the box cannot be built"]
    return [Refusal(first.removeprefix("box: "), "; ".join(line.strip() for line in rest))]


async def provide(kernel: str | None, progress: Progress) -> Box:
    """The box to use."""
    if name := chosen():
        return Box(name=name)
    folder = await _built(suite(kernel), progress)
    catalogue = folder / "box.json"
    return Box(name=json.loads(catalogue.read_text())["name"], catalogue=str(catalogue))


async def _built(release: str, progress: Progress) -> Path:
    """Run the script, which dies with us, and pass on what it says."""
    words = ["sh", "-c", 'exec "$@" 2>&1', "sh", str(BUILD), "--suite", release]
    child = await process.spawn(words, output=asyncio.subprocess.PIPE)
    said: list[str] = []
    try:
        while child.stdout and (line := (await child.stdout.readline()).decode(errors="replace").rstrip("\n")):
            if told := _TOLD.match(line):
                progress(f"box: {told['brief']}", int(told["percent"]) / 100)
            said.append(line)
        status = await child.wait()
    finally:
        await process.kill(child)
    if status:
        raise HarnessBroken(
            "the box cannot be built",
            details="\n".join(said[-EVIDENCE_LINES:]),
            resolution=f"name one of your own in {CHOSEN}, or run {BUILD} by hand",
        )
    return Path(said[-1])
