"""Everything that was asked of `matrix run`, and which of two orders are one and the same run."""

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
from runner.machines import PASSTHROUGH
from runner.machines.qemu.recipe import kernel_key, recipe_for
from runner.results.environment import Digests, DiskFacts
from runner.results.record import CellRow
from runner.results.run_folder import Manifest
from runner.scripts.jinja import effective_templates
from runner.session.host_facts import facts_of, revision
from runner.session.resume import command_line, readable
from runner.space.shard import Sharded
from runner.space.variants import digest

if TYPE_CHECKING:
    from pathlib import Path

    from runner.language.hosts import LabDisk
    from runner.machines.base import RigSpec
    from runner.session.request import Asked
    from runner.simdisks.disk import Disk
    from runner.space.hosts_file import Match
    from runner.space.studies import Study


@dataclass(frozen=True)
class Order:
    """Everything that was asked for on the command line."""

    path: Path
    request: Asked
    machine: str
    kernel: str | None
    templates: Path | None
    cold: bool
    until_decided: bool = False
    #: Disks that exist, where the machine makes none.
    exist: Match | None = None
    #: Of the kernel of the host that has them.
    release: str = ""
    #: What was published of it.
    study: Study | None = None

    def check(self) -> None:
        """Refuse what cannot end."""
        if self.until_decided and not self.request.space.matrix.guidelines:
            raise BadInput(
                f"--until-decided: {self.path} has no guidelines to decide",
                resolution="add some under `guidelines:` (docs/guidelines.md says how), or leave it out",
            )

    def steering(self) -> Steering | None:
        """Where trials beyond the minimum go, if guidelines have a say in it."""
        if not self.until_decided:
            return None
        matrix = self.request.space.matrix
        cells = (CellRow(cell.id, cell.name, cell.axes) for cell in self.request.selection.cells())
        return Steering(matrix.guidelines, cells, matrix.repeat.min)

    @property
    def planned(self) -> int:
        """Trials at most."""
        return self.request.selection.count() * self.request.plan.repeat.max

    def specs(self) -> set[RigSpec]:
        """Every kind of rig that it needs: what is not among its cells asks for nothing."""
        return set(specs_of(self.request.space.matrix, self.request.arrays(), self.kernel))

    def manifest(self) -> Manifest:
        """What a run of it would be."""
        matrix = self.request.space.matrix
        return Manifest(
            id=token_hex(8),
            matrix=matrix.name,
            fingerprint=self.fingerprint(),
            machine=self.machine,
            synthetic=self.machine == "dry",
            seed=matrix.seed,
            command=command_line(["matrix", *sys.argv[1:]]),
            **self.texts(),
            host=facts_of(self.exist.ssh if self.exist else ""),
            disks=tuple(map(real_facts, self.exist.disks) if self.exist else map(disk_facts, matrix.every_disk())),
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
        """The matrix as it was written, and what it uses. A run that is gone on with may have other guidelines now."""
        source = self.request.declared.source
        return {"text": source.text, "used": {readable(name): text for name, text in source.used.items()}}

    def digests(self) -> Digests:
        """Of matrix and templates."""
        source = self.request.declared.source
        return Digests(
            matrix=digest([source.text, *sorted(source.used.values())]).hex(),
            templates=digest(effective_templates(self.templates)).hex(),
        )

    @cached_property
    def images(self) -> dict[str, str]:
        """What is in the images of its kernels. Looked at once: what is built in their place later is another run's."""
        names = (self.kernel, *(self.request.space.matrix.machine.kernel or ()))
        return {name: content for name in names if name and (content := kernel_content(name)) != name}

    def fingerprint(self) -> str:
        """Return what identifies the work: equal for two orders if one may continue the run of the other.

        `repeat:` is no part of it, as more rounds of the same work can be added.
        """
        selection = self.request.selection
        rules = [
            [sorted((axis, sorted(values)) for axis, values in rule.items()) for rule in group]
            for group in selection.only
        ]
        # What is claimed of figures does not make them others.
        matrix = self.request.space.matrix.model_dump(mode="json", exclude={"description", "guidelines", "repeat"})
        named = (self.kernel, *(self.request.space.matrix.machine.kernel or ()))
        kernels = [name and self.images.get(name, name) for name in named]
        # What is measured on disks that exist is about these disks, under the kernel that runs.
        found = [self._about(one) for one in self.exist.disks] if self.exist else []
        # Disks of two virtual machines may have the same serial numbers.
        where = [self.exist.reach] if self.exist and self.exist.ssh else []
        exist = [self.release, *where, *found] if found else None
        of = [matrix, self.machine, kernels, rules, effective_templates(self.templates)]
        arrays = [sorted(selection.arrays)] if isinstance(selection, Sharded) else []
        return digest([*of, *([exist] if exist else []), *arrays]).hex()

    def _about(self, disk: LabDisk) -> dict[str, Any]:
        """What of a disk makes figures others; by its own controller only virtual machines of ours get it."""
        whole = {"vfio": disk.vfio} if disk.vfio and self.machine == PASSTHROUGH["qemu"] else {}
        return disk.model_dump(mode="json", exclude={"wear", "vfio"}) | whole


def real_facts(disk: LabDisk) -> DiskFacts:
    """What the manifest says of a disk that exists: what hosts.yaml does, all of which was compared with the disk."""
    return DiskFacts(size=disk.size, bus="its own", model=disk.kind or "", serial=disk.serial or disk.wwn or "")


def disk_facts(disk: Disk) -> DiskFacts:
    """What the manifest says of a disk. The chance of a modelled one (where its platter is) makes it no other."""
    link = f"{disk.link.name}, {disk.link.rate / 1e6:g} MB/s" if disk.link else ""
    if disk.physics is None:
        return DiskFacts(size=disk.size, bus=disk.bus, link=link)
    content = {name: value for name, value in disk.physics.content().items() if name != "phase"}
    return DiskFacts(size=disk.size, bus=disk.bus, model=disk.physics.kind, digest=digest(content).hex(), link=link)


def kernel_content(name: str) -> str:
    """A kernel as it counts for a run: a name stands for itself, an image for what is in it."""
    made = recipe_for(name)
    return kernel_key(made.suite, made.image) if made and made.image else name


def check_kernel(asked_for: str | None, declared: tuple[str, ...]) -> None:
    """Refuse a kernel on the command line where the matrix says which: rows would name one and another would run."""
    if asked_for is None or not declared or declared == (asked_for,):
        return
    raise BadInput(
        f"--kernel {asked_for}: the matrix itself names {' and '.join(declared)}",
        resolution=f"--only 'kernel={asked_for}' chooses among several"
        if asked_for in declared
        else "take `kernel:` out of its `machine:`, or add this one there",
    )
