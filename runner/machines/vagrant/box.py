"""The box of a machine: built here on first use, or named by the user."""

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

#: The folder of the `Vagrantfile` and of the scripts that it and the box need.
HOME = shipped("vagrant").resolve()
BUILD = HOME / "box/build"
#: The user's own box, by a name that Vagrant knows or can fetch.
CHOSEN = "MATRIX_BOX"
EVIDENCE_LINES = 20
_TOLD = re.compile(r"^box: (?P<brief>.*) \((?P<percent>\d+) %\)$")


def suite(kernel: str | None) -> str:
    return SUITES[kernel or DEFAULT_KERNEL]


def chosen() -> str:
    return os.environ.get(CHOSEN, "")


def refusals(kernel: str | None) -> list[Refusal]:
    if chosen():
        return []
    done = process.run([str(BUILD), "--suite", suite(kernel), "--check"])
    if done.returncode == 0:
        return []
    first, *rest = done.stderr.strip().splitlines() or ["the box cannot be built"]
    return [Refusal(first.removeprefix("box: "), "; ".join(line.strip() for line in rest))]


async def provide(kernel: str | None, progress: Progress) -> Box:
    if name := chosen():
        return Box(name=name)
    folder = await _built(suite(kernel), progress)
    catalogue = folder / "box.json"
    return Box(name=json.loads(catalogue.read_text())["name"], catalogue=str(catalogue))


async def _built(release: str, progress: Progress) -> Path:
    """Run the build script, which ends with this process, and pass on its progress."""
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
