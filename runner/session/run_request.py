"""The request behind a run, its manifest, and the fingerprint that finds the run to resume."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from runner.base.errors import BadInput
from runner.engine.rigs import specs_of
from runner.guidelines.adaptive import Steering
from runner.machines import PASSTHROUGH, machine
from runner.machines.base import MachineOptions
from runner.machines.qemu.recipe import kernel_key, recipe_for
from runner.results.record import CellRow, Digests, DiskFacts
from runner.results.run_folder import Manifest
from runner.scripts.jinja import effective_templates
from runner.session.host_facts import query_facts, revision
from runner.session.resume import command_line, readable
from runner.space.select import Sharded
from runner.space.variants import digest

if TYPE_CHECKING:
    from pathlib import Path

    from runner.language.hosts import LabDisk
    from runner.machines.base import RigSpec
    from runner.session.request import Request
    from runner.simdisks.disk import Disk
    from runner.space.hosts_file import Match
    from runner.space.studies import Study


@dataclass(frozen=True)
class RunRequest:
    path: Path
    request: Request
    machine: str
    kernel: str | None
    templates: Path | None
    cold: bool
    until_decided: bool = False
    #: Physical disks, if the machine creates none.
    match: Match | None = None
    #: The kernel release of the host with these disks.
    release: str = ""
    study: Study | None = None

    def check(self) -> None:
        """Refuse --until-decided without guidelines: it would never end."""
        if self.until_decided and not self.request.space.matrix.guidelines:
            raise BadInput(
                f"--until-decided: {self.path} has no guidelines to decide",
                resolution="add some under `guidelines:` (docs/guidelines.md has examples), or leave the option out",
            )

    def steering(self) -> Steering | None:
        """Return the choice of trials beyond the minimum by guidelines, with --until-decided."""
        if not self.until_decided:
            return None
        matrix = self.request.space.matrix
        cells = (CellRow(cell.id, cell.name, cell.axes) for cell in self.request.selection.cells())
        return Steering(matrix.guidelines, cells, matrix.repeat.min)

    @property
    def planned(self) -> int:
        """Return the largest number of trials."""
        return self.request.selection.count() * self.request.plan.repeat.max

    def specs(self) -> set[RigSpec]:
        """Return the kinds of rigs that the selected cells need."""
        return set(specs_of(self.request.space.matrix, self.request.arrays(), self.kernel))

    def manifest(self) -> Manifest:
        """Return the manifest of a new run."""
        matrix = self.request.space.matrix
        return Manifest(
            id=token_hex(8),
            matrix=matrix.name,
            fingerprint=self.fingerprint(),
            machine=self.machine,
            synthetic=machine(self.machine, MachineOptions()).synthetic,
            seed=matrix.seed,
            command=command_line(["matrix", *sys.argv[1:]]),
            **self.texts(),
            host=query_facts(self.match.ssh if self.match else ""),
            disks=tuple(
                map(declared_facts, self.match.disks) if self.match else map(simulated_disk_facts, matrix.every_disk())
            ),
            digests=self.digests(),
            revision=revision(self.path.parent),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            planned=self.planned,
            confidence=matrix.repeat.confidence,
            until=matrix.repeat.until,
            least=matrix.repeat.min,
            most=matrix.repeat.max,
            part=readable(self.request.part),
            losses={one.label: one.losses for one in self.request.arrays() if one.losses is not None},
        )

    def texts(self) -> dict[str, Any]:
        """Return the matrix and its included files as written. Guidelines may differ when a run is resumed."""
        source = self.request.declared.source
        return {"text": source.text, "used": {readable(name): text for name, text in source.used.items()}}

    def digests(self) -> Digests:
        source = self.request.declared.source
        return Digests(
            matrix=digest([source.text, *sorted(source.used.values())]).hex(),
            templates=digest(effective_templates(self.templates)).hex(),
        )

    @cached_property
    def images(self) -> dict[str, str]:
        """Return the contents of kernel images by name. Read once: an image that is rebuilt later is another run's."""
        names = (self.kernel, *(self.request.space.matrix.machine.kernel or ()))
        return {name: content for name in names if name and (content := kernel_content(name)) != name}

    def fingerprint(self) -> str:
        """Return a hash of the work: two requests with the same hash may continue each other's run.

        `repeat:` is left out, so that a larger one adds rounds to the run.
        """
        selection = self.request.selection
        rules = [
            [sorted((axis, sorted(values)) for axis, values in rule.items()) for rule in group]
            for group in selection.only
        ]
        # Guidelines and the description do not change figures.
        matrix = self.request.space.matrix.model_dump(mode="json", exclude={"description", "guidelines", "repeat"})
        named = (self.kernel, *(self.request.space.matrix.machine.kernel or ()))
        kernels = [name and self.images.get(name, name) for name in named]
        # Figures of physical disks depend on these disks and the running kernel.
        disks = [self._disk_identity(one) for one in self.match.disks] if self.match else []
        # Disks of two virtual machines may have the same serial numbers.
        host = [self.match.reach] if self.match and self.match.ssh else []
        physical = [self.release, *host, *disks] if disks else None
        work = [matrix, self.machine, kernels, rules, effective_templates(self.templates)]
        arrays = [sorted(selection.arrays)] if isinstance(selection, Sharded) else []
        return digest([*work, *([physical] if physical else []), *arrays]).hex()

    def _disk_identity(self, disk: LabDisk) -> dict[str, Any]:
        """Return the fields of a disk that affect figures; `vfio` only matters to virtual machines of this host."""
        whole = {"vfio": disk.vfio} if disk.vfio and self.machine == PASSTHROUGH["qemu"] else {}
        return disk.model_dump(mode="json", exclude={"wear", "vfio"}) | whole


def declared_facts(disk: LabDisk) -> DiskFacts:
    """Return the facts of a physical disk from hosts.yaml, which the lease compares with the disk."""
    return DiskFacts(size=disk.size, bus="its own", model=disk.kind or "", serial=disk.serial or disk.wwn or "")


def simulated_disk_facts(disk: Disk) -> DiskFacts:
    """Return the facts of a simulated disk. The digest omits the phase of the platter, which is random."""
    link = f"{disk.link.name}, {disk.link.rate / 1e6:g} MB/s" if disk.link else ""
    if disk.physics is None:
        return DiskFacts(size=disk.size, bus=disk.bus, link=link)
    content = {name: value for name, value in disk.physics.content().items() if name != "phase"}
    return DiskFacts(size=disk.size, bus=disk.bus, model=disk.physics.kind, digest=digest(content).hex(), link=link)


def kernel_content(name: str) -> str:
    """Return the name of a known kernel; for an image, a key of its content."""
    made = recipe_for(name)
    return kernel_key(made.suite, made.image) if made and made.image else name


def check_kernel(kernel: str | None, declared: tuple[str, ...]) -> None:
    """Refuse --kernel if the matrix declares other kernels: rows would name one kernel and another would run."""
    if kernel is None or not declared or declared == (kernel,):
        return
    raise BadInput(
        f"--kernel {kernel}: the matrix itself names {' and '.join(declared)}",
        resolution=f"--only 'kernel={kernel}' selects one of them"
        if kernel in declared
        else "remove `kernel:` from `machine:` in the matrix, or add this kernel there",
    )
