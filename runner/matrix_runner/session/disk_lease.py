"""The lease of physical disks for one run: their host, recovery of what a killed run left, and the disks."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shlex import quote

import click

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.text import printable
from matrix_runner.hosts import HOSTS_FILE
from matrix_runner.hosts.agent import connection
from matrix_runner.hosts.agent.client import AgentClient
from matrix_runner.hosts.agent.connection import Connection, connection_to
from matrix_runner.hosts.checks import check_disks, query_health, take_census
from matrix_runner.hosts.disk_ledger import (
    WriteBudget,
    clear_controller,
    night_of,
    own_marks,
    read_write_counters,
    state_dir,
)
from matrix_runner.hosts.exclusive import DisksRefused, LeasedDisk, report_active_run
from matrix_runner.hosts.inventory import Census, require_lasting_identity
from matrix_runner.hosts.lease import Lease, confirm_losses, lease_disks
from matrix_runner.hosts.operations import LOCAL, DiskOperations, RemoteOperations
from matrix_runner.hosts.recovery import clean
from matrix_runner.hosts.vfio import check_controller, detach_controllers
from matrix_runner.language.hosts import DeclaredDisk, Lab, LabDisk, LabHost, Needs
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.machines import PASSTHROUGH, WITH_HOSTS, Where
from matrix_runner.machines.base import Machine, MachineOptions
from matrix_runner.machines.shell import guard
from matrix_runner.records.environment import DiskFacts, Health, Smart, keep_first_health
from matrix_runner.scripts.jinja import census_script, smart_script
from matrix_runner.scripts.stack import view_stack
from matrix_runner.session.host_facts import boot_id
from matrix_runner.session.selected_matrix import SelectedMatrix
from matrix_runner.space.declared_files import Match, load_lab, matched
from matrix_runner.space.space import Stack


@dataclass(frozen=True)
class HostConnection:
    #: `reach:` of hosts.yaml.
    reach: str
    take_census: Callable[[], Census]
    operations: DiskOperations
    #: The agent on the host; None if this process works on the host itself.
    agent: AgentClient | None = None
    path_cache: dict[str, str] = field(default_factory=dict)

    @property
    def connection(self) -> Connection | None:
        return self.agent.connection if self.agent else None

    @property
    def boot_id(self) -> str:
        return self.agent.boot_id if self.agent else boot_id()

    def paths(self, disks: Sequence[LeasedDisk]) -> tuple[str, ...]:
        """Return the paths of disks for scripts. Paths are cached: a leased disk keeps its path."""
        if not self.path_cache:
            paths = {one.declared.id: self.path(one.declared.id, one.node.path) for one in disks}
            for one in disks:
                require_lasting_identity(one.declared.id, paths[one.declared.id], one.node)
            self.path_cache.update(paths)
        return tuple(self.path_cache[one.declared.id] for one in disks)

    def path(self, name: str, kernel: str) -> str:
        """Return the stable path of a disk; its kernel path on a host without udev."""
        link = f"/dev/disk/by-id/{name}"
        leads = f'[ -e {quote(link)} ] && [ "$(readlink -f -- {quote(link)})" = {quote(kernel)} ]'
        trouble = self.operations.run(leads, 60)
        if trouble not in {"", "status 1"}:
            raise HarnessBroken(f"cannot check that {link} is {kernel}: {trouble}")
        return kernel if trouble else link


def open_connection(reach: str) -> Connection | None:
    """Return the connection to an ssh host, or to root by sudo; None if this process is root or sudo is missing."""
    if reach != "local":
        return connection_to(reach.removeprefix("ssh:"))
    if os.geteuid() == 0 or not connection.is_installed():
        return None
    try:
        return connection.sudo_connection()
    except HarnessBroken as error:
        click.echo(printable(f"continuing without root: {error.brief}; {error.resolution}"), err=True)
        return None


@contextmanager
def connect_host(
    reach: str, connection: Connection | None, run: str, notice: Callable[[str], None]
) -> Iterator[HostConnection]:
    census = partial(take_census, connection, census_script())
    if connection is None:
        yield HostConnection(reach, census, LOCAL)
        return

    with AgentClient(connection, run, guard(), notice) as agent:
        yield HostConnection(reach, census, RemoteOperations(agent), agent)


def passthrough_machine(place: str) -> str:
    if place in PASSTHROUGH:
        return PASSTHROUGH[place]
    raise BadInput(
        f"--passthrough does not work with {place}: it has no virtual machine that could get a disk",
        resolution=f"use --on {' or '.join(PASSTHROUGH)}; `--on local` uses disks of this host without --passthrough",
    )


def check_only_read(selected: SelectedMatrix, *, wanted: bool) -> None:
    """If disks are only read: refuse cells that write."""
    for cell in selected.selection.cells() if wanted else ():
        if [layer.kind for layer in cell.stack.layers.value] != ["disk"] or set(cell.work.directions[""]) != {"read"}:
            raise BadInput(f"{cell.name} writes, and the disk may only be read", resolution="name it with --destroy")


def check_zeroed(selected: SelectedMatrix, place: Machine) -> None:
    labels = [stack.label for stack in selected.stacks() if not place.zeroed and stack.assumes_zeros]
    if labels:
        raise BadInput(
            f"sync: assume-clean needs zeroed disks, and the disks of {place.name} may hold data",
            details="\n".join(f"  {label}" for label in dict.fromkeys(labels)),
            resolution="remove `sync:`, or choose other layouts with --only",
        )


@dataclass(frozen=True, slots=True)
class DiskUse:
    """The disks to lease, and what for. `folder` keeps the tear-down scripts."""

    match: Match
    matrix: Matrix
    stacks: tuple[Stack, ...]
    machine: str
    run: str
    folder: Path
    destroy: tuple[str, ...] = ()
    health: tuple[Health, ...] = ()
    only_read: bool = False


@dataclass(frozen=True, slots=True)
class RunDisks:
    paths: tuple[str, ...] = ()
    leased: tuple[LeasedDisk, ...] = ()
    write_budget: WriteBudget | None = None
    facts: tuple[DiskFacts, ...] = ()
    health: tuple[Health, ...] = ()
    host: HostConnection | None = None
    give_back: Callable[[], object] = lambda: None
    #: Why disks could not be returned, one line each.
    unreturned: list[str] = field(default_factory=list)

    @property
    def agent(self) -> AgentClient | None:
        return self.host.agent if self.host else None

    def machine_options(self, found: Match | None) -> MachineOptions:
        return MachineOptions(disks=self.paths, held=self.leased, where=found.ssh if found else "", agent=self.agent)

    def query_health(self) -> tuple[Health, ...]:
        found = _query_health(self.leased, self.host.connection) if self.health and self.host else {}
        return tuple(one.over(found[one.disk]) if one.disk in found else one for one in self.health)

    def warnings(self, known: Sequence[DiskFacts]) -> Iterator[str]:
        yield from filter(None, (one.alarm for one in self.health))
        for before, now in zip(known, self.facts, strict=False):
            if before.firmware and before.firmware != now.firmware:
                yield (
                    f"the firmware of disk {now.serial} changed since this run began: from {before.firmware} to "
                    f"{now.firmware or 'unknown'}; `--fresh` starts a new run"
                )


@contextmanager
def lease_run_disks(use: DiskUse, notice: Callable[[str], None], trouble: Callable[[str], None]) -> Iterator[RunDisks]:
    """Lease disks for a run. The process keeps disks open if they are passed through."""
    from matrix_runner.machines.qemu.rig import disk_names

    found, state = use.match, state_dir()
    inside = disk_names(len(found.disks)) if use.machine in PASSTHROUGH.values() else ()
    unreturned: list[str] = []

    def keep(line: str) -> None:
        unreturned.append(line)
        trouble(line)

    def marks(disks: Sequence[LeasedDisk]) -> frozenset[str]:
        paths = inside or host.paths(disks)
        stacks = (view_stack(stack.layers.value, paths, stack.disks, zeroed=False) for stack in use.stacks)
        return frozenset(mark for stack in stacks for mark in stack.marks)

    now = partial(datetime.now, UTC)
    connection = _connection_for(found.reach, use.machine)
    with connect_host(found.reach, connection, use.run, notice) as host, ExitStack() as stack:
        # A killed process of this run may have left stacks on these disks.
        counted = host.boot_id, night_of(now())
        for disk in clean(state, host.take_census, host.operations, reach=found.reach, only=use.run, counted=counted):
            notice(f"{disk.disk}: {disk.refusal or 'removed what an earlier process of this run left on it'}")
        lease = Lease(
            *(use.run, use.matrix.name, use.folder, state, frozenset({*use.destroy, *found.standing})),
            marks=marks,
            inside=inside,
            boot=host.boot_id,
            operations=host.operations,
            reach=found.reach,
            shares_nothing=found.apart,
        )
        claims = _claims(found, use.matrix, use.machine, only_read=use.only_read)
        leased = stack.enter_context(lease_disks(claims, host.take_census, lease, now, notice, keep))
        for one in () if inside else leased:
            one.release()
        disks = _describe_lease(leased, host, lease, use)
        stack.enter_context(
            detach_controllers(leased, host.take_census, lambda one: clear_controller(state, one.node.identity), keep)
        )
        yield replace(disks, give_back=stack.close, unreturned=unreturned)


def _claims(found: Match, matrix: Matrix, place: str, *, only_read: bool = False) -> tuple[DeclaredDisk, ...]:
    buses = [disk.bus for disk in matrix.every_disk()]
    may_detach = place == PASSTHROUGH["qemu"]
    return tuple(
        replace(disk.claim, whole=may_detach and disk.vfio == "allowed" and bus == "nvme", only_read=only_read)
        for disk, bus in zip(found.disks, buses, strict=True)
    )


def _connection_for(reach: str, place: str) -> Connection | None:
    """Return the way to the disks; None if this process must open them itself to pass them on to a machine."""
    return open_connection(reach) if place in {"local", "ssh"} else None


def _describe_lease(leased: tuple[LeasedDisk, ...], host: HostConnection, lease: Lease, use: DiskUse) -> RunDisks:
    by_identity = {one.node.identity: one.declared for one in leased}
    counters, now = partial(read_write_counters, leased), partial(datetime.now, UTC)
    write_budget = WriteBudget(lease.run, lease.state, by_identity, counters, now, lease.boot)
    if isinstance(remote := host.operations, RemoteOperations):
        nodes = [one.node for one in leased]
        limit = partial(remote.limit_writes, nodes)  # by the agent, while the connection is down
        write_budget = replace(write_budget, read=partial(remote.read_write_counters, nodes), limit=limit)
    smart, facts = _query_health(leased, host.connection), []
    for one, disk in zip(leased, use.matrix.every_disk(), strict=True):
        passed_through = f"{disk.bus}, {'with its controller' if one.controller else 'passed through'}"
        node, own = one.node, smart.get(one.declared.id)
        # SMART comes first: the kernel shortens names.
        model, firmware = (own.model, own.firmware) if own else ("", "")
        facts.append(
            DiskFacts(
                size=node.size,
                bus=passed_through if lease.inside else "its own",
                model=model or node.model,
                link="" if lease.inside else node.link,
                serial=node.serial or node.wwn,
                firmware=firmware or node.firmware,
            )
        )
    health = keep_first_health(use.health, smart)
    return RunDisks(() if lease.inside else host.paths(leased), leased, write_budget, tuple(facts), health, host)


def _query_health(leased: Sequence[LeasedDisk], connection: Connection | None) -> dict[str, Smart]:
    found = query_health(connection, smart_script([one.node.path for one in leased]))
    return {one.declared.id: found[one.node.path] for one in leased if one.node.path in found}


def match_disks(
    matrix: Matrix, file: Path | None, place: Where, *, prefer_standing: bool = False, only: str = ""
) -> Match:
    """Return physical disks that meet `needs:`; without `needs:`, as many disks as the matrix declares.

    With `prefer_standing`, disks of `destroy:` come first. `only`: the id of the only disk that may be used.
    """
    path = file or HOSTS_FILE
    if not path.exists():
        raise BadInput(
            f"there is no {path}, so no physical disk may be used",
            resolution="list the disks that may be used there; `matrix help physical-disks` has an example",
        )
    declared = matrix.every_disk()
    needs = matrix.needs or Needs.model_validate({"disks": {"count": len(declared)}})
    groups = Counter(disk.group if needs.groups.keys() != {""} else "" for disk in declared)
    if groups != (wanted := {group: of.count for group, of in needs.groups.items()}):
        asked, present = (_counted(each) for each in (wanted, groups))
        raise BadInput(f"{matrix.name} declares {present}, but `needs:` asks for {asked}")
    needs = Needs(disks={group: needs.groups[group] for group in groups})  # in the order of the declared disks
    lab = select_hosts(load_lab(path), path, place)
    if only:
        lab = _with_disks(lab, lambda host: [disk for disk in host.disks if disk.id == only])
    if prefer_standing:
        lab = _with_disks(lab, lambda host: sorted(host.disks, key=lambda disk: disk.id not in host.destroy))
    found = matched(lab, needs, matrix.name)
    wrong = [
        f"  disk {number} is declared with {disk.size}B, {real.id} has {real.size}B"
        for number, (disk, real) in enumerate(zip(declared, found.disks, strict=True))
        if disk.size != real.size
    ]
    if wrong:
        raise BadInput(
            "the declared size does not match the physical disk",
            details="\n".join(wrong),
            resolution="write the size of the disk into `disks:` of the matrix, or choose other disks by `needs:`",
        )
    return found


def _counted(groups: Mapping[str, int]) -> str:
    return " and ".join(f"{count} {group or 'disks'}" for group, count in groups.items())


def _with_disks(lab: Lab, choose: Callable[[LabHost], Sequence[LabDisk]]) -> Lab:
    hosts = {name: host.model_copy(update={"disks": tuple(choose(host))}) for name, host in lab.hosts.items()}
    return lab.model_copy(update={"hosts": hosts})


def check_destroy(destroy: Iterable[str], found: Match | None, place: str) -> None:
    """Refuse ids of disks that the run does not use: the user probably means another disk or run."""
    ids = [disk.id for disk in found.disks] if found else []
    if not (unknown := [one for one in destroy if one not in ids]):
        return
    if found is None:
        raise BadInput(
            f"--destroy {unknown[0]}: the {place} machine creates its disks and uses no physical disk",
            resolution="leave it out; --on local, container or ssh, and --passthrough, use physical disks",
        )
    raise BadInput(
        f"--destroy names {'disks' if len(unknown) > 1 else 'a disk'} that this run does not use; no disk was written",
        details="\n".join(f"  {one}: {did_you_mean(one, ids)}" for one in unknown),
        resolution=f"the run uses these disks of the host {found.host} in hosts.yaml: {', '.join(ids)}",
    )


def precheck(found: Match, matrix: Matrix, place: str, destroy: tuple[str, ...], *, only_read: bool = False) -> None:
    """Check the disks before the run folder exists. The lease repeats all checks."""
    claims = _claims(found, matrix, place, only_read=only_read)
    known = own_marks(state_dir(), reach=found.reach)
    census = take_census(_connection_for(found.reach, place), census_script())
    judged = [check_controller(one) for one in check_disks(census, claims, known, matrix.name)]
    if any(one.refusals for one in judged):
        raise DisksRefused([report_active_run(one, LOCAL) for one in judged] if found.reach == "local" else judged)
    confirm_losses(judged, destroy, found.standing)


def select_hosts(lab: Lab, path: Path, place: Where) -> Lab:
    is_here = place.machine not in WITH_HOSTS
    hosts: dict[str, LabHost] = {name: one for name, one in lab.hosts.items() if (one.reach == "local") == is_here}
    if not hosts:
        what, reach = ("is this host", "local") if is_here else ("is reached by ssh", "ssh:NAME")
        raise BadInput(f"no host of {path} {what}", resolution=f"add a host with `reach: {reach}`")
    if place.host and place.host not in hosts:
        raise BadInput(f"{path} has no ssh host called {place.host}", resolution=did_you_mean(place.host, hosts))
    return lab.model_copy(update={"hosts": {place.host: hosts[place.host]} if place.host else hosts})
