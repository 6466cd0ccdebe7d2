"""One matrix, everywhere: the same cells with the same outcomes, whatever they are measured on.

Where this host cannot do it (its kernel has no md, or no container may have its disks), a virtual machine can, and it is
done inside of that.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.machines import MACHINES, machine
from matrix_runner.machines.base import MachineOptions, RigSpec
from tests.support.images import IMAGE, ROOT
from tests.support.lab import Bay, Lab, up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(1500)]

MATRIX = """\
name: places
disks: {count: 2, size: 128MiB, bus: scsi}
layouts:
  raw: [disk]
  mirror: [md: {level: 1}]
  striped: [md: {level: 0, chunk: 64KiB}]
tune:
  readahead: [128KiB, 1MiB]
workloads:
  work: {rw: randread, bs: 4KiB, iodepth: 4, runtime: 200ms, size: 16MiB}
repeat: 1
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A host with two disks that may be used."""
    with up(tmp_path_factory.mktemp("bench"), Bay(2, 128 * 2**20)) as lab:
        lab.put("/root/work/m.yaml", MATRIX)
        lab.put("/root/work/hosts.yaml", lab.hosts_yaml())
        yield lab


def destroying(lab: Lab) -> list[str]:
    return [word for name in lab.bay.names() for word in ("--destroy", name)]


def here(place: str, folder: Path, **settings: str) -> str:
    """Run it from this host; the table of its trials."""
    (folder / "m.yaml").write_text(MATRIX)
    command = [sys.executable, "-m", "matrix_runner.cli", "run", "--on", *place.split(), "--json", "m.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runner"), **settings}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = folder.glob("results/places-*/trials.csv")
    return table.read_text()


def with_machines_of_ours(place: str, folder: Path, bench: Callable[[], Lab]) -> str:
    refused = [] if place == "dry" else machine(place, MachineOptions()).refusals(RigSpec((), memory=512 * 2**20))
    if refused:
        pytest.skip("; ".join(one.brief for one in refused))
    return here(place, folder)


def inside(place: str, folder: Path, bench: Callable[[], Lab]) -> str:
    """In the lab, as root of it."""
    lab = bench()
    settings = ""
    if place == "container":
        lab.run(IMAGE, timeout=600)
        settings = "MATRIX_CONTAINER_IMAGE=localhost/lab "
    words = " ".join(["run", "--on", place, "--json", *destroying(lab), "--results", place, "m.yaml"])
    lab.run(f"cd /root/work && {settings}matrix {words}", timeout=900)
    assert lab.said("grep -c ^md /proc/mdstat || :").strip() == "0"
    return lab.said(f"cat /root/work/{place}/places-*/trials.csv")


def into(place: str, folder: Path, bench: Callable[[], Lab]) -> str:
    """From here into the lab."""
    lab = bench()
    tools = folder / "tools"
    tools.mkdir()
    (tools / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F "{lab.ssh_config}" "$@"\n')
    (tools / "ssh").chmod(0o755)
    (folder / "hosts.yaml").write_text(lab.hosts_yaml("ssh:lab"))
    words = " ".join([place, *destroying(lab)])
    return here(words, folder, PATH=f"{tools}:{os.environ['PATH']}", MATRIX_STATE=str(folder / "state"))


#: How each machine is asked.
WAYS: dict[str, Callable[[str, Path, Callable[[], Lab]], str]] = {
    "dry": with_machines_of_ours,
    "qemu": with_machines_of_ours,
    "vagrant": with_machines_of_ours,
    "local": inside,
    "container": inside,
    "ssh": into,
}


def outcomes(table: str) -> dict[str, tuple[str, str]]:
    return {row["cell"]: (row["name"], row["outcome"]) for row in csv.DictReader(table.splitlines())}


def test_no_machine_is_left_out() -> None:
    assert set(MACHINES) <= set(WAYS)


@pytest.mark.parametrize("place", [name for name in WAYS if name in MACHINES and name != "dry"])
def test_the_same_matrix_gives_the_same_cells_and_outcomes(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for name in ("dry", place):
        (tmp_path / name).mkdir()
    measured = WAYS[place](place, tmp_path / place, lambda: request.getfixturevalue("bench"))
    expected = outcomes(here("dry", tmp_path / "dry"))
    assert outcomes(measured) == expected
    assert len(expected) == 6
    assert {outcome for _, outcome in expected.values()} == {"measured"}
