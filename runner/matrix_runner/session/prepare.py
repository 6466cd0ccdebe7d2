"""The preparation of a run: its options, all checks before its folder exists, and the interrupted run to continue."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matrix_runner.base.errors import BadInput
from matrix_runner.base.text import of_planned
from matrix_runner.carry.batch_messages import RECONNECT
from matrix_runner.decide.concurrency import Level, choose_level
from matrix_runner.machines import WITH_HOSTS, Where, machine, sweep
from matrix_runner.machines.base import Machine, MachineOptions
from matrix_runner.records.cell_files import open_files
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import Manifest, RunFolder, create, latest, runs
from matrix_runner.session import disk_lease
from matrix_runner.session.cluster import check_hosts
from matrix_runner.session.host_facts import kernel_release, query_kernels
from matrix_runner.session.phases import check_first_phase, second_phase
from matrix_runner.session.run_request import RunOptions, RunRequest, check_kernel
from matrix_runner.session.selected_matrix import Checks, check_machine, check_names, check_templates, load_selected
from matrix_runner.session.version_search import narrowed, recorded_search
from matrix_runner.session.versions import (
    NO_VERSIONS,
    NOT_WANTED,
    BisectOptions,
    Versions,
    find_versions,
    kernels_of_host,
)
from matrix_runner.space.declared_files import load_accepted, study_beside
from matrix_runner.space.load import load
from matrix_runner.space.select import refuse_many
from matrix_runner.space.space import Space


@dataclass(frozen=True)
class PreparedRun:
    options: RunOptions
    order: RunRequest
    level: Level
    #: Why it is one although the user wants more.
    one_at_a_time: str = ""


def prepare(
    options: RunOptions, notice: Callable[[str], None], begin: Callable[[str], None] = lambda _: None
) -> PreparedRun:
    """Check all that is known before a run exists, and remove leftovers of killed runs from this machine."""
    place = Where(disk_lease.passthrough_machine(options.place.machine)) if options.passthrough else options.place
    options, order = _phase(options, place, notice, begin)
    selected, matrix = order.selected, order.selected.space.matrix
    here, specs = machine(place.machine, MachineOptions()), order.specs()
    if options.cluster:
        options.cluster.security()
        _check_options(options, here)
    if options.tags and not options.cluster:
        resolution = "name a scheduler with --cluster, or leave --tags out"
        raise BadInput("--tags chooses workers of a scheduler", resolution=resolution)
    if not options.cluster:  # else the hosts of the workers are checked
        check_machine(here, specs)
    disk_lease.check_zeroed(selected, here)
    disk_lease.check_only_read(selected, wanted=options.only_read)
    for leftover in sweep(place.machine):
        notice(leftover.message)
    match = None
    if not (here.brings_disks or options.cluster):  # disks of a cluster belong to its workers
        match = disk_lease.match_disks(matrix, options.hosts, place, only=options.disk)
    disk_lease.check_destroy(options.destroy, match, place.machine)
    order = replace(order, match=match, release=kernel_release(match.ssh) if match else "")
    if match and match.ssh:
        check_machine(machine(place.machine, MachineOptions(where=match.ssh)), specs)
    if not options.cluster:
        order.versions.build_ends(begin)
    choice = {"fresh": options.fresh, "retry_broken": options.retry_broken}
    if match and not run_to_continue(options.results, order.manifest(), **choice):
        # A run that continues may have left stacks on its disks that only it may remove.
        disk_lease.precheck(match, matrix, place.machine, options.destroy, only_read=options.only_read)
    if options.cluster:
        begin(f"connecting to {options.cluster.address.text}, for up to {RECONNECT:g} s")
        check_hosts(options.cluster, order, options.tags)
    return PreparedRun(options, order, *choose_level(options.jobs, here, specs, selected.stacks()))


def _phase(
    options: RunOptions, place: Where, notice: Callable[[str], None], begin: Callable[[str], None]
) -> tuple[RunOptions, RunRequest]:
    """Return what to do now: of a search among packages and then commits, the second phase if the first has an end."""
    order, wanted = _checked_request(options, place, begin), options.bisect
    if wanted and wanted.versions.in_phases:
        check_first_phase(wanted, order.versions)
        work = _work(order.manifest())
        folder = latest(run for run in runs(options.results) if _work(run.manifest) == work)
        if not options.fresh and folder and folder.manifest.finished:
            with Journal.existing(folder.journal) as journal:
                found = recorded_search(folder, journal)
            if after := second_phase(found, order.versions, wanted, notice):
                options = replace(options, bisect=after)
                order = _checked_request(options, place, begin)
    return options, order


def _checked_request(options: RunOptions, place: Where, begin: Callable[[str], None]) -> RunRequest:
    check_names(options.templates)
    wanted = options.bisect
    versions = _versions_of(options, wanted, place, begin) if wanted else NO_VERSIONS
    checks = Checks(place.machine, options.templates)
    wish = options.only, options.shard, checks, options.design, versions.names
    selected = load_selected(options.matrix, *wish, raced=options.race is not None)
    refuse_many(selected.selection, "run at once")
    bisection = None
    if wanted:
        selected, bisection = narrowed(selected, wanted, versions)
    check_kernel(options.kernel, selected.space.matrix.machine.kernel or ())
    check_templates(selected, options.templates)
    order = RunRequest(
        options.matrix,
        selected,
        place.machine,
        options.kernel,
        options.templates,
        cold=options.cold,
        until_decided=options.until_decided,
        bisection=bisection,
        versions=versions,
        race=options.race,
        study=study_beside(options.matrix, selected.space),
        host=place.host,
    )
    order.check()
    _check_confirm(options, selected.space)
    return order


def _versions_of(options: RunOptions, wanted: BisectOptions, place: Where, begin: Callable[[str], None]) -> Versions:
    here, origin = machine(place.machine, MachineOptions()), wanted.versions
    if here.keeps_kernel and wanted.along == "kernel" and replace(origin, kernels=None) == NOT_WANTED:
        if options.cluster:
            raise BadInput(
                "--cluster: a search among the kernels of a host boots that host again and again",
                resolution="leave --cluster out; --on ssh:HOST searches on another host",
            )
        return kernels_of_host(wanted, query_kernels(_host_of(options, place)))
    if origin != NOT_WANTED and not here.takes_folders:
        installed = "name installed kernels by --kernels, or " if here.keeps_kernel else ""
        raise BadInput(
            f"--on {place.machine}: it cannot change to other kernels and programs",
            resolution=f"{installed}search on qemu; for physical disks, add --passthrough",
        )
    return find_versions(origin, wanted.good, wanted.bad, begin)


def _host_of(options: RunOptions, place: Where) -> str:
    """Return the ssh destination of the host that the run will use; empty: this host."""
    if place.machine not in WITH_HOSTS:
        return ""
    matrix = load(options.matrix, lambda _: ()).space.matrix
    return disk_lease.match_disks(matrix, options.hosts, place, only=options.disk).ssh


def _check_confirm(options: RunOptions, space: Space) -> None:
    if options.confirm is None:
        return
    if options.race is not None or options.until_decided:
        raise BadInput(
            "--confirm measures after the planned rounds, and --race and --until-decided plan none",
            resolution="leave one of them out",
        )
    load_accepted(options.matrix.parent).check_cells(space)


def _check_options(options: RunOptions, place: Machine) -> None:
    if options.jobs != 1:
        raise BadInput("--jobs does not work with --cluster", resolution="each worker has its number of rigs")
    if not place.brings_disks and (options.destroy or options.hosts):
        raise BadInput(
            "--destroy and --hosts do not work with --cluster: each worker has a hosts.yaml with its disks",
            resolution="name the disks in `destroy:` of their host there",
        )


@dataclass(frozen=True)
class RunChoice:
    folder: RunFolder
    new: bool
    retry: bool = False
    #: The repeats, if `repeat:` was changed since the run began.
    repeats: Mapping[str, Any] | None = None
    reason: str = ""

    def message(self, done: int) -> str:
        if self.new:
            return self.reason
        planned = self.repeats["planned"] if self.repeats else self.folder.manifest.planned
        changed = ", with the changed `repeat:` of the matrix" if self.repeats else ""
        started = datetime.fromisoformat(self.folder.manifest.started).astimezone(UTC)
        count = of_planned(done, planned)
        return f"continuing the run of {started:%Y-%m-%d %H:%M} UTC ({count} trials done){changed}"

    def prepare_folder(self, journal: Journal) -> RunFolder:
        folder = self.folder
        if self.retry or self.repeats:
            # First: after a kill, the same command must continue this run.
            folder = folder.update_manifest(finished=False, **(self.repeats or {}))
        if self.retry:
            names = {cell.id: cell.name for cell in journal.cells()}
            with open_files(folder, writing=True) as files:
                for trial in journal.take_back():
                    files.set_aside(names[trial.cell], trial.round, trial.attempts)
        return folder


def choose_run(results: Path, wanted: Manifest, *, fresh: bool, retry_broken: bool) -> RunChoice:
    if retry_broken and fresh:
        raise BadInput("--fresh starts a new run, --retry-broken continues one", resolution="use one of the two")
    if found := run_to_continue(results, wanted, fresh=fresh, retry_broken=retry_broken):
        repeats = _repeats(wanted) if _repeats(wanted) != _repeats(found.manifest) else None
        return RunChoice(found, new=False, retry=retry_broken, repeats=repeats)
    if retry_broken:
        raise BadInput(
            f"{results}/ has no run of this matrix with these options to continue",
            resolution="leave --retry-broken out: a first run tries all trials",
        )
    reason = "" if fresh else _why_new(results, wanted)
    return RunChoice(create(results, wanted), new=True, reason=reason)


def run_to_continue(results: Path, wanted: Manifest, *, fresh: bool, retry_broken: bool) -> RunFolder | None:
    if fresh:
        return None
    candidates = [
        run for run in runs(results) if _work(run.manifest) == _work(wanted) and _can_hold(run.manifest, wanted)
    ]
    return latest(run for run in candidates if retry_broken or not run.manifest.finished or _extends(run, wanted))


def _work(manifest: Manifest) -> tuple[str, ...]:
    return manifest.matrix, manifest.machine, manifest.fingerprint


def _can_hold(manifest: Manifest, wanted: Manifest) -> bool:
    """Return whether the wanted trials include all planned ones. Steered runs planned for themselves only."""
    if _repeats(manifest) == _repeats(wanted):
        return True
    if manifest.steered or manifest.most is None or wanted.most is None:
        return False
    return manifest.least <= wanted.least and manifest.most <= wanted.most


def _extends(run: RunFolder, wanted: Manifest) -> bool:
    planned = run.manifest
    narrower = planned.until is not None and (wanted.until is None or wanted.until < planned.until)
    return narrower or (wanted.most or 0) > (planned.most or 0)


def _repeats(manifest: Manifest) -> dict[str, Any]:
    return manifest.model_dump(include={"planned", "least", "most", "until", "confidence"})


def _why_new(results: Path, wanted: Manifest) -> str:
    last = latest(
        run for run in runs(results) if (run.manifest.matrix, run.manifest.machine) == (wanted.matrix, wanted.machine)
    )
    if last is None:
        return ""
    if last.manifest.finished:
        if _work(last.manifest) != _work(wanted):
            return ""
        changed = last.manifest.steered and _repeats(last.manifest) != _repeats(wanted)
        option = "--until-decided" if last.manifest.requested.race is None else "--race"
        why = f" and was made with `{option}`, so a changed `repeat:` does not continue it" if changed else ""
        return f"this is a new run, as {last.path}/ is finished{why}; `matrix results {last.path.name}` shows that one"
    same = (last.manifest.text, last.manifest.used) == (wanted.text, wanted.used)
    differs = "--only, --shard, --race, --kernel, --templates or hosts.yaml differ" if same else "the matrix differs"
    return f"not continuing {last.path}/, which is not finished: {differs}"
