"""The options and the request of a run: its selected matrix and machine; its manifest. To continue one: prepare.py."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from matrix_runner.base.errors import BadInput
from matrix_runner.base.model import digest
from matrix_runner.base.text import without_passwords
from matrix_runner.decide.budget import ENDLESS, Cost
from matrix_runner.hosts.disk_ledger import state_dir
from matrix_runner.language.matrix import is_path
from matrix_runner.layers.base import sync_target
from matrix_runner.machines import PASSTHROUGH, Where, machine
from matrix_runner.machines.base import MachineOptions, RigSpec
from matrix_runner.machines.qemu.recipe import kernel_key, recipe_for
from matrix_runner.machines.rig_specs import simulated_disk_facts, specs_of
from matrix_runner.records.environment import Digests, DiskFacts
from matrix_runner.records.record import CellRow
from matrix_runner.records.run_folder import MOST_IN_FOLDERS, Manifest, StackFacts
from matrix_runner.scripts.jinja import effective_templates
from matrix_runner.session.host_facts import query_facts, revision
from matrix_runner.session.stack_boxes import boxes_of
from matrix_runner.session.versions import NO_VERSIONS, BisectOptions, Versions
from matrix_runner.simdisks.disk import slow_of
from matrix_runner.space.basis import basis_of
from matrix_runner.space.ceiling import stack_memory
from matrix_runner.space.select import Design, Shard, design_refusal
from matrix_runner.space.variants import disks_of, levels

if TYPE_CHECKING:
    from matrix_runner.answers.verdicts import Steering
    from matrix_runner.carry.cluster.connection import Address, Certificates
    from matrix_runner.decide.concurrency import Jobs
    from matrix_runner.decide.steering import Bisection, BisectSteering, Race
    from matrix_runner.language.hosts import LabDisk
    from matrix_runner.layers.geometry import Below
    from matrix_runner.session.selected_matrix import SelectedMatrix
    from matrix_runner.space.declared_files import Match, Study
    from matrix_runner.space.space import Stack

#: Why history and baselines leave such a run out.
_CHOSEN = "a search, a race or a design chose its cells"


@dataclass(frozen=True)
class ClusterOptions:
    address: Address
    certificates: Path | None = None
    insecure: bool = False

    def security(self) -> Certificates | None:
        """Return the certificates to use. Raise BadInput for a connection that others can use."""
        return self.address.checked(self.certificates, insecure=self.insecure)


@dataclass(frozen=True)
class RunOptions:
    matrix: Path
    place: Where
    results: Path
    only: tuple[str, ...] = ()
    shard: Shard | None = None
    kernel: str | None = None
    templates: Path | None = None
    store: str | None = None
    jobs: Jobs = 1
    budget: Cost = ENDLESS
    hosts: Path | None = None
    destroy: tuple[str, ...] = ()
    passthrough: bool = False
    until_decided: bool = False
    race: tuple[str, ...] | None = None
    #: Seconds in which slower cells are measured again; None: they are not.
    confirm: float | None = None
    design: Design | None = None
    folder_to: Path | None = None
    fresh: bool = False
    retry_broken: bool = False
    cold: bool = False
    cluster: ClusterOptions | None = None
    tags: tuple[str, ...] = ()
    bisect: BisectOptions | None = None
    verbose: bool = False
    #: The id of the only physical disk that may be used; empty: any that fits.
    disk: str = ""
    only_read: bool = False


@dataclass(frozen=True)
class RunRequest:
    path: Path
    selected: SelectedMatrix
    machine: str
    kernel: str | None
    templates: Path | None
    cold: bool
    until_decided: bool = False
    bisection: Bisection | None = None
    versions: Versions = NO_VERSIONS
    race: tuple[str, ...] | None = None  # conditions of the workloads that race; None: no race
    #: Physical disks, if the machine does not create disks.
    match: Match | None = None
    #: The kernel release of the host with these disks.
    release: str = ""
    study: Study | None = None
    #: The chosen ssh host of hosts.yaml; empty: any.
    host: str = ""

    def check(self) -> None:
        """Refuse --until-decided without guidelines, which would never end, and a race that has no choice."""
        if self.selected.requested.design and self.until_decided:
            raise design_refusal("--until-decided")
        if self.race is not None:
            self._check_race()
        if self.until_decided and not self.selected.space.matrix.guidelines:
            raise BadInput(
                f"--until-decided: {self.path} has no guidelines to decide",
                resolution="add `guidelines:` (`matrix help write-a-guideline` has examples), or leave the option out",
            )

    def _check_race(self) -> None:
        if self.until_decided:
            raise BadInput("--race and --until-decided both choose the trials", resolution="leave one of them out")
        if self.selected.requested.shard:
            raise BadInput(
                "--race compares all stacks round by round, and --shard has only some of them",
                resolution="leave one of them out; --cluster races on several hosts",
            )
        race_of(self.selected, self.race or (), self.path)

    def steering(self) -> Steering | BisectSteering | Race | None:
        from matrix_runner.answers.verdicts import Steering
        from matrix_runner.decide.steering import BisectSteering

        if self.bisection:
            return BisectSteering(self.bisection)
        if self.race is not None:
            return race_of(self.selected, self.race, self.path)
        if not self.until_decided:
            return None
        matrix = self.selected.space.matrix
        cells = (CellRow(cell.id, cell.name, cell.axes) for cell in self.selected.selection.cells())
        return Steering(matrix.guidelines, cells, matrix.repeat.min)

    @property
    def planned(self) -> int:
        return self.selected.plan.trials(self.selected.plan.repeat.max)

    def specs(self) -> set[RigSpec]:
        found = specs_of(self.selected.space.matrix, self.selected.stacks(), self.kernel)
        return {replace(spec, kernel=self.versions.source(spec.kernel)) for spec in found}

    def manifest(self) -> Manifest:
        matrix, repeat = self.selected.space.matrix, self.selected.plan.repeat
        disks = map(simulated_disk_facts, matrix.every_disk())
        if self.match:  # hosts.yaml declares the facts, which the lease compares with the disk
            disks = map(_declared_facts, self.match.disks)
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
            disks=tuple(disks),
            digests=self.digests(),
            revision=revision(self.path.parent),
            started=datetime.now(UTC).isoformat(timespec="milliseconds"),
            planned=self.planned,
            archived=self.planned > MOST_IN_FOLDERS,
            confidence=repeat.confidence,
            until=repeat.until,
            least=repeat.min,
            most=repeat.max,
            steered=self.race is not None,
            requested=self.selected.requested.model_copy(update={"race": self.race}),
            excluded=_CHOSEN if self.bisection or self.race is not None or self.selected.requested.design else "",
            search=self.bisection.as_written() if self.bisection else {},
            titles=dict(self.versions.titles),
            finds={name: find.as_written() for name, find in matrix.finds.items()},
            kernels=tuple(
                str(Path(name).absolute()) if is_path(name) else name for name in filter(None, self._kernels)
            ),
            slow=slow_of(matrix.every_disk()),
            losses={one.label: one.losses for one in self.selected.stacks() if one.losses is not None},
            stacks={one.label: self._facts_of(one) for one in self.selected.stacks()},
            weights=matrix.for_,
            practical=matrix.practical,
        )

    @cached_property
    def _large_disks(self) -> Below:
        """Return the disks with the sizes that they stand for."""
        matrix = self.selected.space.matrix
        return disks_of(matrix, [one.stands_for or one.size for one in matrix.disks for _ in range(one.count)])

    def _facts_of(self, stack: Stack) -> StackFacts:
        built = list(levels(stack.layers.value, self._large_disks))
        top, below = built[-1]
        target = sync_target(built) if stack.losses else None
        disks = () if self.match else self.selected.space.matrix.every_disk()
        rates = [
            disk.physics.rate(2**20, random=False, write=write)
            for disk in disks
            for write in (False, True)
            if disk.physics
        ]
        rate = min(rates, default=inf)
        return StackFacts(
            capacity=sum(shape.size for shape in top.devices_above(below)),
            rebuild_bytes=target.member if target else None,
            rebuild_rate=rate if target and isfinite(rate) else None,
            memory=stack_memory(stack.layers.value),
            boxes=tuple(boxes_of(stack.layers.value, self._large_disks)),
        )

    def texts(self) -> dict[str, Any]:
        """Return the matrix and its included files as written. Guidelines may differ when a run is resumed."""
        source = self.selected.declared.source
        return {"text": source.text, "used": {readable(name): text for name, text in source.used.items()}}

    def digests(self) -> Digests:
        source = self.selected.declared.source
        return Digests(
            matrix=digest([source.text, *sorted(source.used.values())]).hex(),
            templates=digest(effective_templates(self.templates)).hex(),
            **({} if self.match else basis_of(self.selected.space.matrix).model_dump()),
        )

    @property
    def _kernels(self) -> tuple[str | None, ...]:
        return self.kernel, *(self.selected.space.matrix.machine.kernel or ())

    @cached_property
    def images(self) -> dict[str, str]:
        """Return the contents of kernel images by name. Read once: an image that is rebuilt later is another run's."""
        return {name: content for name in self._kernels if name and (content := self._content(name)) != name}

    def _content(self, name: str) -> str:
        source = self.versions.source(name)
        return name if source is None else kernel_content(source)

    def fingerprint(self) -> str:
        """Return a hash of the work. `repeat:` is left out, so that a larger one adds rounds to the run."""
        selection = self.selected.selection
        rules = [
            [sorted((axis, sorted(values)) for axis, values in rule.items()) for rule in group]
            for group in selection.only
        ]
        # These do not change figures.
        apart: Any = dict.fromkeys(("description", "guidelines", "repeat", "for_", "practical"), True)
        matrix = self.selected.space.matrix.model_dump(mode="json", exclude=apart)
        kernels = [name and self.images.get(name, name) for name in self._kernels]
        work: list[Any] = [matrix, self.machine, kernels, rules, effective_templates(self.templates)]
        if not self.match:
            work.append(basis_of(self.selected.space.matrix).physics)
        if self.match and self.match.disks:
            # Figures of physical disks depend on these disks and the running kernel. Disks of two virtual machines may
            # have the same serial numbers.
            host = [self.match.reach] if self.match.ssh else []
            release = "" if self.versions.running else self.release  # such a search goes on under other kernels
            work.append([release, *host, *map(self._disk_identity, self.match.disks)])
        if self.bisection:
            work.append(self.bisection.as_written())
        if design := self.selected.requested.design:
            work.append(["design", design])
        if selection.stacks is not None:
            work.append(sorted(selection.stacks))
        if self.race is not None:
            work.append(["race", *self.race])
        return digest(work).hex()

    def _disk_identity(self, disk: LabDisk) -> dict[str, Any]:
        """Return the fields of a disk that affect figures; `vfio` only matters to virtual machines of this host."""
        whole = {"vfio": disk.vfio} if disk.vfio and self.machine == PASSTHROUGH["qemu"] else {}
        return disk.model_dump(mode="json", exclude={"wear", "vfio"}) | whole


def race_of(selected: SelectedMatrix, wanted: tuple[str, ...], path: Path) -> Race:
    """Return the race of the workloads that match the conditions of `--for`; refuse one without a choice."""
    from matrix_runner.answers.selectors import select_cells
    from matrix_runner.decide.steering import Race  # `plan` does without it

    if selected.requested.design:
        raise design_refusal("--race")
    repeat, finds = selected.plan.repeat, selected.space.matrix.finds
    cells = [CellRow(cell.id, cell.name, cell.axes) for cell in selected.selection.cells()]
    cells = [cell for cell in cells if cell.axes["workload"] not in finds]
    chosen = select_cells(None, wanted, cells, option="--for")
    matrix, raced = selected.space.matrix, (cell for cell in cells if not chosen or chosen.takes(cell))
    race = Race(raced, repeat.min, repeat.confidence, matrix.for_, matrix.practical)
    if race.is_empty:
        raise BadInput(
            f"--race: {path} has no workload with several stacks to choose from",
            resolution="add layouts or values of their axes, or leave the option out",
        )
    return race


def _declared_facts(disk: LabDisk) -> DiskFacts:
    return DiskFacts(size=disk.size, bus="its own", model=disk.kind or "", serial=disk.serial or disk.wwn or "")


def kernel_content(name: str) -> str:
    made = recipe_for(name)
    return kernel_key(made.suite, made.source) if made and made.source else name


def check_kernel(kernel: str | None, declared: tuple[str, ...]) -> None:
    """Refuse --kernel if the matrix declares other kernels: rows would name one kernel and another would run."""
    if kernel is None or not declared or declared == (kernel,):
        return
    replace = "remove `kernel:` from `machine:` in the matrix, or add this kernel there"
    raise BadInput(
        f"--kernel {kernel}: the matrix itself names {' and '.join(declared)}",
        resolution=f"--only 'kernel={kernel}' selects one of them" if kernel in declared else replace,
    )


def readable(text: str) -> str:
    """Convert a name to UTF-8 text: file names and arguments may hold other bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def command_line(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(without_passwords(readable(word)) for word in words)


def assign_state() -> str:
    """Return what a printed command needs before it to use the same state folder, which has the count for `wear:`."""
    chosen = os.environ.get("MATRIX_STATE")
    return f"MATRIX_STATE={shlex.quote(readable(str(state_dir())))} " if chosen else ""
