"""Disks that exist, for a run on a machine that makes none: which, whether they may be had, and for how long."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import BadInput
from runner.engine.trial import assumes_zeros
from runner.hosts import HOSTS_FILE
from runner.machines import PASSTHROUGH, WITH_HOSTS
from runner.results.environment import DiskFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.hosts.agent.client import AgentClient
    from runner.hosts.agent.connection import Connection
    from runner.hosts.exclusive import LeasedDisk
    from runner.hosts.lease import Lease
    from runner.hosts.write_budget import WriteBudget
    from runner.language.hosts import DeclaredDisk, Lab, LabHost
    from runner.language.matrix import Matrix
    from runner.machines import Where
    from runner.machines.base import Machine
    from runner.results.disk_health import Health, Smart
    from runner.results.run_folder import RunFolder
    from runner.session.host_connection import Reached
    from runner.session.request import Asked
    from runner.space.hosts_file import Match
    from runner.space.space import Array


def passing(place: str) -> str:
    """The machine that is as this one, with disks of the host instead of its own."""
    if place in PASSTHROUGH:
        return PASSTHROUGH[place]
    raise BadInput(
        f"--passthrough: {place} makes no virtual machine that a disk could be passed through to",
        resolution=f"--on {' or '.join(PASSTHROUGH)} does; `--on local` works on disks of this host without it",
    )


def check_zeroed(request: Asked, place: Machine) -> None:
    """Refuse arrays that are only what they seem on disks that read as zeros, where nobody knows that."""
    told = [array.label for array in request.arrays() if not place.zeroed and assumes_zeros(array)]
    if told:
        raise BadInput(
            f"sync: assume-clean is only true on zeroed disks, and those of {place.name} are not known to be",
            details="\n".join(f"  {label}" for label in dict.fromkeys(told)),
            resolution="leave `sync:` out, or choose other layouts with --only",
        )


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Disks of this host that are the run's: by their paths, or held."""

    paths: tuple[str, ...] = ()
    held: tuple[LeasedDisk, ...] = ()
    #: What may yet be written to them.
    write_budget: WriteBudget | None = None
    #: What they are, and how well, before the run.
    facts: tuple[DiskFacts, ...] = ()
    health: tuple[Health, ...] = ()
    #: The host that has them; None if there are none.
    host: Reached | None = None
    #: Gives them back; and what was told of those that cannot be.
    back: Callable[[], object] = lambda: None
    stays: list[str] = field(default_factory=list)

    @property
    def by_path(self) -> Mapping[str, LeasedDisk]:
        """Those that scripts get by their paths."""
        return dict(zip(self.paths, self.held, strict=False))

    @property
    def agent(self) -> AgentClient | None:
        """What holds them, if that is another host."""
        return self.host.agent if self.host else None

    def examined(self) -> tuple[Health, ...]:
        """How well they are now."""
        found = _healths(self.held, self.host.connection) if self.health and self.host else {}
        return tuple(one.over(found[one.disk]) if one.disk in found else one for one in self.health)

    def given_back(self) -> bool:
        """Before all else that is held is let go; whether nothing stays with the run."""
        self.back()
        return not self.stays

    def warnings(self, known: Sequence[DiskFacts]) -> Iterator[str]:
        """What somebody should hear before they are used; `known`: what they were when the run began."""
        yield from filter(None, (one.alarm for one in self.health))
        for before, now in zip(known, self.facts, strict=False):
            if before.firmware and before.firmware != now.firmware:
                yield (
                    f"the disk {now.serial} had the firmware {before.firmware} when this run began, and has "
                    f"{now.firmware or 'one that it does not tell'} now: `--fresh` begins anew"
                )


@contextmanager
def borrowed(
    found: Match,
    request: Asked,
    place: str,
    folder: RunFolder,
    destroy: tuple[str, ...],
    tell: Callable[[str], None],
    trouble: Callable[[str], None],
) -> Iterator[Borrowed]:
    """These disks of their host, for as long as the run is at it. Those that are passed through stay held."""
    from runner.hosts.disk_ledger import clear_controller, state_dir
    from runner.hosts.lease import Lease, lease_disks
    from runner.hosts.recovery import clean
    from runner.hosts.vfio import detach_controllers
    from runner.hosts.wear import night_of
    from runner.machines.qemu.rig import disk_names
    from runner.session.host_connection import reached

    run, state = folder.manifest.identity, state_dir()
    inside = disk_names(len(found.disks)) if place in PASSTHROUGH.values() else ()
    stays: list[str] = []

    def stay(line: str) -> None:
        stays.append(line)
        trouble(line)

    with reached(found.reach, _connection_for(found.reach, place), run, tell) as host, ExitStack() as stack:
        # An earlier process of this very run may have been killed: what it left is in the way of this one.
        counted = host.boot_id, night_of(_now())
        for found_there in clean(state, host.ask, host.operations, reach=found.reach, only=run, counted=counted):
            what = found_there.refusal or "what an earlier process of this run left on it is gone"
            tell(f"{found_there.disk}: {what}")
        lease = Lease(
            *(run, request.space.matrix.name, folder.path, state, frozenset({*destroy, *found.standing})),
            marks=lambda held: _marks(request.arrays(), inside or host.paths(held)),
            inside=inside,
            boot=host.boot_id,
            operations=host.operations,
            reach=found.reach,
            shares_nothing=found.apart,
        )
        claims = _claims(found, request.space.matrix, place)
        held = stack.enter_context(lease_disks(claims, host.ask, lease, _now, tell, stay))
        for one in () if inside else held:
            one.release()
        mine = _lent(held, host, lease, request, folder)
        stack.enter_context(
            detach_controllers(held, host.ask, lambda one: clear_controller(state, one.node.identity), stay)
        )
        yield replace(mine, back=stack.close, stays=stays)


def _claims(found: Match, matrix: Matrix, place: str) -> tuple[DeclaredDisk, ...]:
    """What is asked of each disk: on the bus of NVMe, its controller as well, where its owner allows that."""
    buses = [disk.bus for disk in matrix.every_disk()]
    return tuple(
        replace(disk.claim, whole=place == PASSTHROUGH["qemu"] and disk.vfio == "allowed" and bus == "nvme")
        for disk, bus in zip(found.disks, buses, strict=True)
    )


def _connection_for(reach: str, place: str) -> Connection | None:
    """What leads to its disks. Those that are handed on to a machine on this host have to be this very process's."""
    from runner.session.host_connection import connection_for

    return connection_for(reach) if place in {"local", "ssh"} else None


def _lent(held: tuple[LeasedDisk, ...], host: Reached, lease: Lease, request: Asked, folder: RunFolder) -> Borrowed:
    """What a run has in disks that it holds."""
    from runner.hosts.write_budget import WriteBudget
    from runner.results.disk_health import keep_first_health

    by_identity = {one.node.identity: one.declared for one in held}
    counted, bound = partial(host.read_write_counters, held), partial(host.limit_writes, held)
    write_budget = WriteBudget(lease.run, lease.state, by_identity, counted, _now, lease.boot, bound)
    smart, buses = _healths(held, host.connection), [disk.bus for disk in request.space.matrix.every_disk()]
    facts = tuple(
        _facts(one, smart.get(one.declared.id), _bus(one, bus) if lease.inside else "its own")
        for one, bus in zip(held, buses, strict=True)
    )
    health = keep_first_health(folder.manifest.health, smart)
    return Borrowed(() if lease.inside else host.paths(held), held, write_budget, facts, health, host)


def _bus(one: LeasedDisk, bus: str) -> str:
    return f"{bus}, with its controller" if one.controller else f"{bus}, passed through"


def _healths(held: Sequence[LeasedDisk], line: Connection | None) -> dict[str, Smart]:
    """What disks of a host say of their health, by their stable names."""
    from runner.hosts.probe import query_health
    from runner.scripts.inventory import smart_script

    found = query_health(line, smart_script([one.node.path for one in held]))
    return {one.declared.id: found[one.node.path] for one in held if one.node.path in found}


def _facts(one: LeasedDisk, smart: Smart | None, bus: str) -> DiskFacts:
    """What the manifest says of a disk that exists: its own word before the kernel's, which cuts names short."""
    node = one.node
    return DiskFacts(
        size=node.size,
        bus=bus,
        model=(smart.model if smart else "") or node.model,
        serial=node.serial or node.wwn,
        firmware=(smart.firmware if smart else "") or node.firmware,
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _marks(arrays: Iterable[Array], disks: tuple[str, ...]) -> frozenset[str]:
    """By what all that the run builds is known, on disks that are called so."""
    from runner.scripts.stack import view_stack

    stacks = (view_stack(array.stack.value, disks, array.disks, zeroed=False) for array in arrays)
    return frozenset(mark for stack in stacks for mark in stack.marks)


def wanted(matrix: Matrix, file: Path | None, place: Where) -> Match:
    """Disks of such a host that are what a matrix needs; what it declares, if it says nothing of needs."""
    from runner.language.needs import Needs
    from runner.space.hosts_file import load_lab, matched

    path = file or HOSTS_FILE
    if not path.exists():
        raise BadInput(
            f"there is no {path}, so no disk that exists may be used",
            resolution="say in it which may: docs/disks.md has one to begin with; `matrix disks` shows them all",
        )
    declared = matrix.every_disk()
    needs = matrix.needs or Needs.model_validate({"disks": {"count": len(declared)}})
    if needs.disks.count != len(declared):
        raise BadInput(f"{matrix.name} declares {len(declared)} disks, but `needs:` asks for {needs.disks.count}")
    found = matched(meant(load_lab(path), path, place), needs, matrix.name)
    wrong = [
        f"  disk {number} is declared with {disk.size}B, {real.id} has {real.size}B"
        for number, (disk, real) in enumerate(zip(declared, found.disks, strict=True))
        if disk.size != real.size
    ]
    if wrong:
        raise BadInput(
            "disks that exist have the size that they have, and work goes over all of it",
            details="\n".join(wrong),
            resolution="write that size into `disks:` of the matrix, or choose others by `needs:`",
        )
    return found


def check_destroy(destroy: Iterable[str], found: Match | None, place: str) -> None:
    """Refuse ids that are none of the run's disks: whoever gave them thinks of another run, or of another disk."""
    from runner.language.suggestions import did_you_mean

    ids = [disk.id for disk in found.disks] if found else []
    if not (strange := [one for one in destroy if one not in ids]):
        return
    if found is None:
        raise BadInput(
            f"--destroy {strange[0]}: {place} makes disks of its own, and writes on no other",
            resolution="leave it out; --on local, container or ssh, and --passthrough, use disks that exist",
        )
    raise BadInput(
        f"--destroy names {'disks' if len(strange) > 1 else 'a disk'} that this run does not use; nothing was written",
        details="\n".join(f"  {one}: {did_you_mean(one, ids)}" for one in strange),
        resolution=f"its disks, of the host {found.host} in hosts.yaml, are {', '.join(ids)}",
    )


def precheck(found: Match, matrix: Matrix, place: str, destroy: tuple[str, ...]) -> None:
    """Judge the disks before there is a run that would be left behind. All of it is done again when it has them."""
    from runner.hosts.checks import check_disks
    from runner.hosts.confirmation import confirm_losses
    from runner.hosts.disk_ledger import own_marks, state_dir
    from runner.hosts.exclusive import DisksRefused, report_active_run
    from runner.hosts.local_operations import LOCAL
    from runner.hosts.probe import take_census
    from runner.hosts.vfio import check_controller
    from runner.scripts.inventory import census_script

    claims = _claims(found, matrix, place)
    known = own_marks(state_dir(), reach=found.reach)
    census = take_census(_connection_for(found.reach, place), census_script())
    judged = [check_controller(one) for one in check_disks(census, claims, known, matrix.name)]
    if any(one.refusals for one in judged):
        raise DisksRefused([report_active_run(one, LOCAL) for one in judged] if found.reach == "local" else judged)
    confirm_losses(judged, destroy, found.standing)


def meant(lab: Lab, path: Path, place: Where) -> Lab:
    """Those hosts of a lab that a machine is about: this one, those behind ssh, or the one that was named."""
    is_here = place.machine not in WITH_HOSTS
    hosts: dict[str, LabHost] = {name: one for name, one in lab.hosts.items() if (one.reach == "local") == is_here}
    if not hosts:
        what = "is this one" if is_here else "is reached by ssh"
        how = "local" if is_here else "ssh:NAME"
        raise BadInput(f"none of the hosts of {path} {what}", resolution=f"one with `reach: {how}` is")
    if place.host and place.host not in hosts:
        raise BadInput(f"no host of {path} that is reached by ssh is called {place.host}", resolution=_known(hosts))
    return lab.model_copy(update={"hosts": {place.host: hosts[place.host]} if place.host else hosts})


def _known(hosts: Iterable[str]) -> str:
    return f"known are {', '.join(hosts)}"
