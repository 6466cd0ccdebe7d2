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
from runner.base.files import shipped
from runner.language.matrix import SUITES
from runner.machines.base import Refusal
from runner.machines.qemu.recipe import DEFAULT_KERNEL
from runner.machines.vagrant.vagrantfile_settings import Box

if TYPE_CHECKING:
    from runner.machines.base import Progress

#: The folder of the `Vagrantfile` and of its scripts.
HOME = shipped("vagrant").resolve()
BUILD = HOME / "box/build"
#: Environment variable with the name of the user's own box, which Vagrant knows or can fetch.
BOX_VARIABLE = "MATRIX_BOX"
EVIDENCE_LINES = 20
_PROGRESS = re.compile(r"^box: (?P<brief>.*) \((?P<percent>\d+) %\)$")


def suite(kernel: str | None) -> str:
    return SUITES[kernel or DEFAULT_KERNEL]


def user_box() -> str:
    return os.environ.get(BOX_VARIABLE, "")


def refusals(kernel: str | None) -> list[Refusal]:
    if user_box():
        return []
    done = process.run([str(BUILD), "--suite", suite(kernel), "--check"])
    if done.returncode == 0:
        return []
    first, *rest = done.stderr.strip().splitlines() or ["the box cannot be built"]
    return [Refusal(first.removeprefix("box: "), "; ".join(line.strip() for line in rest))]


async def provide(kernel: str | None, progress: Progress) -> Box:
    if name := user_box():
        return Box(name=name)
    folder = await _build(suite(kernel), progress)
    catalogue = folder / "box.json"
    return Box(name=json.loads(catalogue.read_text())["name"], catalogue=str(catalogue))


async def _build(release: str, progress: Progress) -> Path:
    """Run the build script and pass on its progress. It ends with this process."""
    words = ["sh", "-c", 'exec "$@" 2>&1', "sh", str(BUILD), "--suite", release]
    child = await process.spawn(words, output=asyncio.subprocess.PIPE)
    output: list[str] = []
    try:
        while child.stdout and (line := (await child.stdout.readline()).decode(errors="replace").rstrip("\n")):
            if match := _PROGRESS.match(line):
                progress(f"box: {match['brief']}", int(match["percent"]) / 100)
            output.append(line)
        status = await child.wait()
    finally:
        await process.kill(child)
    if status:
        raise HarnessBroken(
            "the box cannot be built",
            details="\n".join(output[-EVIDENCE_LINES:]),
            resolution=f"name your own box in {BOX_VARIABLE}, or run {BUILD} by hand",
        )
    return Path(output[-1])
