"""What each machine costs: from the command to the first trial, and every trial beyond what fio takes in it.

    python -m bench.backends [--rounds 3] [dry qemu vagrant ssh local container]

The same matrix of raw reads and writes runs on each, one after the other in every round, after one round that only
fills the caches (appliance, box, image). What is on the way to the first trial is everything: the program, the machine,
the disk, the array; `dry`, which has none of these, tells what the program alone takes. A trial lasts until the next
one begins; fio's part of that is from just before it was started to just after it ended, by the clock of where it ran:
the rest is tuning, reading back, counting, the way there and back, and keeping it.

`local` and `container` run inside of a virtual machine with disks that may be overwritten, `ssh` from here into it: as
tests do (`tests/support/lab.py`). Its processor may be emulated, so `dry` is measured there as well: ratios are to the
`dry` of the same place. What cannot be had here is told with the reason.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

from bench.sides import require_difference
from matrix_runner.machines import machine
from matrix_runner.machines.base import MachineOptions, RigSpec
from tests.support.images import IMAGE
from tests.support.lab import Bay, Lab, up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[1]
SIZE = 128 * 2**20
MATRIX = """\
name: backends
disks: {count: 1, size: 128MiB, bus: scsi}
layouts: {raw: [disk]}
tune: {readahead: [128KiB, 1MiB]}
workloads:
  work: {rw: [read, write, randread, randwrite], bs: [4KiB, 64KiB], iodepth: 8, runtime: 500ms, size: 64MiB}
repeat: 1
"""
TRIALS = 16
MEMORY = 512 * 2**20
#: What would have these runs use other disks, or be kept beside those that somebody wants to look at.
ELSEWHERE = {"MATRIX_HOSTS", "MATRIX_RESULTS", "MATRIX_STORE"}
#: A machine, and where it is asked for.
Place = tuple[str, str]


class NotHad(Exception):
    """Why there is no figure."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One run: seconds until its first trial, and of each trial but the last: as a whole, and fio alone."""

    first: float
    trials: tuple[float, ...]
    fio: tuple[float, ...]
    #: As its records say.
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Backend:
    """A machine, where it is asked for, and how it is run once in a folder."""

    name: str
    where: str
    once: Callable[[Path], Taken]

    @property
    def told(self) -> str:
        """As it is called in what is said of it."""
        return f"{self.name} ({self.where})"


def taken(began: float, results: Path) -> Taken:
    """What a run says of itself; `began` by the clock of the place that the command was given in."""
    (table,) = results.glob("*/trials.csv")
    with table.open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["started"])
    if [row["outcome"] for row in rows] != ["measured"] * TRIALS:
        raise NotHad("; ".join(sorted({row["reason"] for row in rows})) or f"only {len(rows)} trials")
    started = [datetime.fromisoformat(row["started"]).timestamp() for row in rows]
    lasted = tuple(after - before for before, after in pairwise(started))
    fio = tuple(_fio(table.parent / row["folder"]) for row in rows[:-1])
    return Taken(started[0] - began, lasted, fio, json.loads((table.parent / "manifest.json").read_text())["machine"])


def _fio(trial: Path) -> float:
    """How long fio was there; a dry run has none."""
    counted = trial / "processors.csv"
    if not counted.exists():
        return 0.0
    with counted.open(newline="") as file:
        return float(next(csv.DictReader(file))["seconds"])


def here(words: Sequence[str], folder: Path, **settings: str) -> Taken:
    """Run it on this host."""
    (folder / "m.yaml").write_text(MATRIX)
    command = [sys.executable, "-m", "matrix_runner.cli", "run", "--quiet", "--on", *words, "m.yaml"]
    kept = {name: text for name, text in os.environ.items() if name not in ELSEWHERE}
    environment = {**kept, "PYTHONPATH": str(ROOT / "runner"), "MATRIX_STATE": str(folder / "state"), **settings}
    began = time.time()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHad(" ".join(done.stderr.split())[-500:])
    return taken(began, folder / "results")


def inside(lab: Lab, words: Sequence[str], folder: Path, **settings: str) -> Taken:
    """Run it in the lab, by its clock; what it leaves is fetched."""
    place = f"/root/{folder.name}"
    lab.put(f"{place}/m.yaml", MATRIX)
    lab.put(f"{place}/hosts.yaml", lab.hosts_yaml())
    told = " ".join(f"{name}={shlex.quote(text)}" for name, text in settings.items())
    command = shlex.join(["matrix", "run", "--quiet", "--on", *words, "m.yaml"])
    done = lab.run(f"cd {place} && date +%s.%N && {told} {command} >/dev/null", check=False, timeout=900)
    if done.returncode:
        raise NotHad(" ".join(done.stderr.split())[-500:])
    fetched = subprocess.run(lab.ssh(f"tar -C {place} -c results"), stdout=subprocess.PIPE, check=True)
    unpack = ["tar", "-C", str(folder), "-x"]
    subprocess.run(unpack, input=fetched.stdout, check=True)
    return taken(float(done.stdout.split()[0]), folder / "results")


def into(lab: Lab, folder: Path) -> Taken:
    """From here into the lab."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F "{lab.ssh_config}" "$@"\n')
    (tools / "ssh").chmod(0o755)
    (folder / "hosts.yaml").write_text(lab.hosts_yaml("ssh:lab"))
    return here(["ssh:lab", *destroying(lab)], folder, PATH=f"{tools}:{os.environ['PATH']}")


def destroying(lab: Lab) -> list[str]:
    return [word for name in lab.bay.names() for word in ("--destroy", name)]


def boxed(lab: Lab, folder: Path) -> Taken:
    """In a container in the lab, made of the lab's own programs: no registry can be reached from there."""
    lab.run(IMAGE, timeout=600)
    return inside(lab, ["container", *destroying(lab)], folder, MATRIX_CONTAINER_IMAGE="localhost/lab")


def made(name: str) -> Callable[[Path], Taken]:
    """On a machine that brings its disks."""

    def once(folder: Path) -> Taken:
        if refused := machine(name, MachineOptions()).refusals(RigSpec((), memory=MEMORY)):
            raise NotHad("; ".join(one.brief for one in refused))
        return here([name], folder)

    return once


def of_this_host() -> list[Backend]:
    return [Backend("dry", "here", lambda folder: here(["dry"], folder))] + [
        Backend(name, "here", made(name)) for name in ("qemu", "vagrant")
    ]


def of_the_lab(lab: Lab) -> list[Backend]:
    return [
        Backend("ssh", "here", lambda folder: into(lab, folder)),
        Backend("dry", "lab", lambda folder: inside(lab, ["dry"], folder)),
        Backend("local", "lab", lambda folder: inside(lab, ["local", *destroying(lab)], folder)),
        Backend("container", "lab", lambda folder: boxed(lab, folder)),
    ]


LAB = {"ssh", "local", "container"}
NAMES = ("dry", "qemu", "vagrant", "ssh", "local", "container")


def wanted(names: set[str], scratch: Path, stack: ExitStack) -> tuple[list[Backend], dict[str, str]]:
    """Those that were asked for; and of those that cannot be had, why."""
    backends, missing = of_this_host(), dict[str, str]()
    if names & LAB:
        try:
            backends += of_the_lab(stack.enter_context(up(scratch / "lab", Bay(1, SIZE))))
        except pytest.skip.Exception as why:
            missing = dict.fromkeys(sorted(names & LAB), f"no machine to run it in: {why}")
    places = {one.where for one in backends if one.name in names}
    # The program alone, in each place: what the others are held against.
    return [one for one in backends if one.name in names or (one.name == "dry" and one.where in places)], missing


def measured(
    backends: Sequence[Backend], rounds: int, scratch: Path
) -> tuple[dict[Place, list[Taken]], dict[str, str]]:
    """All rounds of each but the first, if it is not the only one, as far as it got; and why others cannot be had."""
    found, missing = dict[Place, list[Taken]](), dict[str, str]()
    with suppress(KeyboardInterrupt):
        for number in range(rounds + 1):
            for one in (one for one in backends if one.told not in missing):
                folder = scratch / f"{one.name}-{one.where}-{number}"
                folder.mkdir()
                try:
                    came = one.once(folder)
                except (NotHad, subprocess.TimeoutExpired, pytest.fail.Exception) as why:
                    missing[one.told] = str(why)
                    continue
                if number or not rounds:
                    found.setdefault((one.name, one.where), []).append(came)
                first = f"first trial after {came.first:.2f} s"
                print(f"# round {number}: {one.told}: {first}", file=sys.stderr, flush=True)
    return found, missing


def line(place: Place, rounds: Sequence[Taken], alone: Sequence[Taken]) -> str:
    """A row of the table: medians over all rounds, and the slowest of the first trials."""
    first, slowest = median(one.first for one in rounds), max(one.first for one in rounds)
    pairs = [pair for one in rounds for pair in zip(one.trials, one.fio, strict=True)]
    beside = median(whole - fio for whole, fio in pairs)
    share = f"{median(whole / fio for whole, fio in pairs):8.3f}" if all(fio for _, fio in pairs) else f"{'-':>8}"
    ratio = f"{first / median(one.first for one in alone):8.1f}" if alone else f"{'-':>8}"
    name, where = place
    return f"{name:10} {where:5} {first:9.2f} s {slowest:7.2f} s {ratio} {beside * 1000:8.0f} ms {share}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="0: the one that fills caches")
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], default=[], metavar="NAME", help=", ".join(NAMES))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        backends, missing = wanted(set(asked.names or NAMES), Path(scratch), stack)
        found, failed = measured(backends, asked.rounds, Path(scratch))
    print(f"{'machine':10} {'where':5} {'first trial':>11} {'slowest':>9} {'/ dry':>8} {'beside fio':>11} {'/ fio':>8}")
    require_difference("machine and place", *((rounds[0].machine, where) for (_, where), rounds in found.items()))
    for place, rounds in found.items():
        print(line(place, rounds, found.get(("dry", place[1]), [])))
    for told, why in {**missing, **failed}.items():
        print(f"{told} not measured: {why}")
    print("/ dry: against the program alone in that place; / fio: whole trials against fio in them")


if __name__ == "__main__":
    main()
