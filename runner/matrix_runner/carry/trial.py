"""One stack on one rig: its set-up and tear-down, what a failure of them means, and the trials on it."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matrix_runner.base.children import run_to_end
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.log import LOG
from matrix_runner.carry.disk_samples import Service, sample_disks
from matrix_runner.carry.host_samples import HostSamples, run_sampled
from matrix_runner.carry.trial_result import Finding, TrialOutput, evidence, finding, split_outputs
from matrix_runner.decide import costs
from matrix_runner.language.matrix import Matrix
from matrix_runner.machines.base import Machine, Rig, RigLost, SlowsDisks, Step, StepResult
from matrix_runner.machines.needs import lacks
from matrix_runner.records import counters
from matrix_runner.records.record import (
    HOST_LIMITED,
    REPLAY,
    SATURATED,
    SLOW,
    UNSETTLED,
    Outcome,
    Trial,
    TrialFacts,
    format_loss,
    losses_of,
    round_loss,
)
from matrix_runner.scripts.cell import (
    CellScripts,
    Rendered,
    StackScripts,
    at_pace,
    cell_scripts,
    files_of,
    job,
    stack_scripts,
    trial_seed,
)
from matrix_runner.simdisks.clib import Report
from matrix_runner.simdisks.server import Overload, overload_of
from matrix_runner.space.space import Cell, Stack
from matrix_runner.work.fio.output import Figures, mark_synthetic
from matrix_runner.work.metrics import DECIMALS
from matrix_runner.work.profilers import PROFILED, ProfilerName
from matrix_runner.work.workload import NO_MODEL_OF_TRIMS, ReplayReport, Result, Workload, notes_of


class SetUpFailed(HarnessBroken):
    pass


class LostInSetUp(RigLost):
    pass


class NotOnThisRig(HarnessBroken):
    pass


@dataclass(frozen=True, slots=True)
class Measured:
    trial: Trial
    scripts: Mapping[str, str]
    outputs: Mapping[str, str]


class StackOnRig:
    def __init__(
        self, matrix: Matrix, stack: Stack, rig: Rig, scripts: StackScripts, machine: Machine, own: Path | None
    ) -> None:
        self._matrix, self._stack, self._rig, self._scripts, self._own = matrix, stack, rig, scripts, own
        self._disks = matrix.every_disk()
        self._invented, self._zeroed = machine.synthetic, machine.zeroed
        self._rendered: Rendered = {}
        self.view = scripts.stack
        self._pace = stack.slow  # of the disks now
        self.set_up_log = ""

    @classmethod
    async def build(
        cls,
        matrix: Matrix,
        stack: Stack,
        rig: Rig,
        machine: Machine,
        own: Path | None,
        keep: Callable[[StackScripts], None] | None = None,
        *,
        only_read: bool = False,
    ) -> "StackOnRig":
        """Run the set-up, after `keep` got its scripts. Raise NotOnThisRig, SetUpFailed or LostInSetUp."""
        if lacking := why_skipped(stack, machine, rig.facts, matrix.profile):
            raise NotOnThisRig(lacking)
        if machine.keeps_kernel and stack.kernel not in {None, rig.facts["kernel"]}:
            raise SetUpFailed(f"{rig.facts['kernel']} runs, and this trial is one of {stack.kernel}")
        if not machine.zeroed and stack.assumes_zeros:
            raise SetUpFailed(
                f"sync: assume-clean needs zeroed disks, but the disks of {machine.name} may have other content"
            )
        scripts = stack_scripts(stack, rig.disks, zeroed=machine.zeroed, own=own, only_read=only_read)
        built = cls(matrix, stack, rig, scripts, machine, own)
        if keep:
            keep(scripts)
        deadline = costs.set_up(stack.layers.value, stack.disks) * stack.slow
        try:
            await built._set_up(deadline)
        except BaseException:
            if not machine.disposable:
                # A partial stack would block the next one. If its tear-down fails too, the first error is reported.
                with suppress(RigLost):
                    await run_to_end(built.tear_down())
            raise
        return built

    async def _set_up(self, deadline: float) -> None:
        try:
            result = await _run_step(self._rig, "set-up", self._scripts.set_up, deadline)
        except RigLost as lost:
            raise LostInSetUp(f"set-up: {lost.brief}", tail=lost.tail, resolution=lost.resolution) from lost
        self.set_up_log = result.output
        if result.status != 0:
            raise SetUpFailed(f"set-up failed: {evidence(result.output)}", details=result.output[-4000:])

    def scripts_of(self, cell: Cell) -> dict[str, str]:
        return files_of(self._scripts, self._cell_scripts(cell))

    def _cell_scripts(self, cell: Cell) -> CellScripts:
        return cell_scripts(cell, self.view, self._own, self._matrix.monitor, self._rendered, self._matrix.profile)

    def slow_down(self, slow: int) -> None:
        """Let its disks work so many times slower than real time while they are measured, from its next trial on."""
        if slow != self.view.slow and isinstance(self._rig, SlowsDisks):
            self.view = at_pace(self._stack, self._rig.disks, zeroed=self._zeroed, slow=slow)

    def _set_pace(self, slow: int) -> None:
        if slow != self._pace and isinstance(self._rig, SlowsDisks):
            self._rig.slow_down(slow)
            self._pace = slow

    async def tear_down(self) -> None:
        """Take the stack apart on a rig that outlives it. After two failed tries, the rig is lost."""
        self._set_pace(self._stack.slow)
        for last_try in (False, True):
            result = await _run_step(self._rig, "tear-down", self._scripts.tear_down, costs.GRACE * self._stack.slow)
            if result.status == 0:
                return
            if last_try:
                raise RigLost(f"tear-down failed: {evidence(result.output)}", tail=result.output[-4000:])

    async def measure(self, cell: Cell, round_number: int) -> Measured:
        scripts = self._cell_scripts(cell)
        fio_job = job(cell, self.view, trial_seed(self._matrix.seed, cell.id, round_number), self._own)
        work, slow = cell.work, self.view.slow
        started, clock = datetime.now(UTC), time.monotonic()
        steps = _steps(scripts, fio_job, shared_shell=self._own is None)
        output, service, done, host = await self._run_steps(cell, steps)
        aftermath = ""  # the state of the stack after its disks failed
        if self._stack.faults and output.steps[-1].name == "measure":
            aftermath = (await _run_step(self._rig, "aftermath", self._scripts.aftermath)).output
        found = self._find(output, work, done)
        result = found.result
        timed = result.figures if work.has_whole_runtime else None
        beside = counters.observe_use(output.before, output.after, found.readings, timed, work, slow)
        strain = self._matrix.machine.strain
        losses = host_limited(done, work, strain, beside) if done else busy_host(timed, work, strain, beside)
        if result.replay:
            kept_up = kept_pace(done, strain, result.replay.seconds)
            losses |= late_replay(result.replay, work.runtime or 0.0, losses, kept_up=kept_up)
        shares = counters.shares_of(beside, self._spares, slow) if beside and result.figures else {}
        beneath = host.processors(output.after.clock, timed.runtime * slow) if output.after and timed else None
        cost = {}
        if beside and result.figures:
            cost = counters.cost_of_a_request(beside, result.figures, work, slow, beneath)
        facts = self._facts(result, {**losses, **shares, **cost})
        lost = loss_notes(facts, result.replay, work.runtime or 0.0)
        trial = Trial(
            cell.id,
            round_number,
            found.outcome,
            found.reason,
            started=started.isoformat(timespec="milliseconds"),
            seconds=time.monotonic() - clock,
            figures=result.figures,
            readings=found.readings,
            notes={
                **self._notes(),
                **self._faults(output.steps),
                **notes_of(aftermath),
                **lost,
                **output.notes,
                **result.notes,
                **({UNSETTLED: result.unsettled} if result.unsettled else {}),
                **({"verified": result.verified} if result.verified else {}),
                **{name: f"{share:.{DECIMALS[name]}f}" for name, share in shares.items()},
                **self._bottleneck(beside, result.figures, work, done, overload_words(facts, lost)),
            },
            facts=facts,
        )
        outputs = {
            **_outputs(output.steps, fio_job, self.set_up_log, aftermath),
            **output.files,
            **{name: mark_synthetic(text) if self._invented else text for name, text in result.files.items()},
            **service.files(),
            **(beside.files() if beside else {}),
        }
        return Measured(trial, files_of(self._scripts, scripts), outputs)

    async def _run_steps(
        self, cell: Cell, steps: Sequence[Step]
    ) -> tuple[TrialOutput, Service, Sequence[Report], HostSamples]:
        """Return the output, the work of the disks (all of it, and that of the measurement alone), and the host's."""
        work, slow, faults = cell.work, self.view.slow, self._stack.faults
        slowest = costs.slowest_request(work, self._disks)
        deadline = costs.deadline(work, cell.span, cell.files.total if cell.files else 0, slowest)
        deadline += costs.flush_seconds(work, self._matrix.machine.memory, slowest)
        deadline += costs.GRACE * len(self._matrix.profile)  # `perf` starts slowly on emulated processors
        deadline = costs.with_faults(deadline, work, faults, slowest) * slow
        prepared, results, host = list[StepResult](), list[StepResult](), HostSamples()
        if slow > self._stack.slow and self.view.directory and not any(one.under_way for one in self.view.layers):
            # Mounting and laying files out have no figures, so they need no slow motion.
            self._set_pace(self._stack.slow)
            prepared = await self._rig.run(steps[:_PREPARING], expected=0.0, deadline=deadline)
            steps = steps[_PREPARING:] if prepared[-1].status == 0 else ()
        self._set_pace(slow)
        self._rig.arm(faults if steps else ())
        async with sample_disks(self._rig, slow) as service:
            expected = costs.expected(work) * slow
            if steps:
                results, host = await run_sampled(self._rig, steps, expected=expected, deadline=deadline)
        before = sum(one.seconds for one in results if one.name in {"tune", "verify"})
        _log_steps([*prepared, *results])
        output = split_outputs([*prepared, *results], work, invented=self._invented, slow=slow)
        return output, service, service.since(before), host

    def _find(self, output: TrialOutput, work: Workload, done: Sequence[Report]) -> Finding:
        found = finding(output.steps, work, self.view.slow, output.report)
        ages = all(disk.physics and disk.physics.ages for disk in self._disks)
        if work.trims and done and not ages:  # a matrix for physical disks, on simulated ones
            return Finding(Outcome.BROKEN, NO_MODEL_OF_TRIMS, readings=found.readings)
        return found

    def _bottleneck(
        self,
        beside: counters.TrialUse | None,
        figures: Figures | None,
        work: Workload,
        done: Sequence[Report],
        overload: str,
    ) -> dict[str, str]:
        if beside is None or figures is None:
            return {}
        links = counters.buses(self._matrix.every_disk(), done, beside.seconds)
        return {
            "bottleneck": counters.find_bottleneck(
                counters.count_cache_flushes(beside, done), figures, work, links, overload
            )
        }

    def _facts(self, result: Result, measured: Mapping[str, Any]) -> TrialFacts:
        return TrialFacts(
            kernel=self._rig.facts["kernel"],
            slow=self.view.slow,
            settled=not result.unsettled,
            steady=result.steady,
            written_in_rounds=result.written_in_rounds,
            **measured,
        )

    @property
    def _spares(self) -> int:
        return sum(getattr(layer, "spare", 0) for layer in self._stack.layers.value)

    def _notes(self) -> dict[str, str]:
        ways = {layer.resync for layer in self._scripts.stack.layers if layer.resync}
        resync = {"resync": ", ".join(sorted(ways))} if ways else {}
        slow = {SLOW: str(self.view.slow)} if self.view.slow > 1 else {}
        profiled = {PROFILED: ", ".join(self._matrix.profile)} if self._matrix.profile else {}
        return {"kernel": self._rig.facts["kernel"], **notes_of(self.set_up_log), **resync, **slow, **profiled}

    def _faults(self, results: Sequence[StepResult]) -> dict[str, str]:
        if not self._stack.faults:
            return {}
        used = {self._rig.disks.index(disk) for disk in self.view.disks}
        lasted = results[-1].seconds / self.view.slow if results[-1].name == "measure" else 0.0
        unused, late = " (which this layout does not use)", " (after the end of the work)"
        marks = (unused if one.disk not in used else late if one.at > lasted > 0 else "" for one in self._stack.faults)
        faults = [f"{fault}{mark}" for fault, mark in zip(self._stack.faults, marks, strict=True)]
        return {"faults": "; ".join(faults)}


async def tear_down_remains(rig: Rig, scripts: StackScripts) -> bool:
    await _run_step(rig, "activate", scripts.activate)
    return (await _run_step(rig, "tear-down", scripts.tear_down)).status == 0


async def _run_step(rig: Rig, name: str, script: str, deadline: float = costs.GRACE) -> StepResult:
    (result,) = await rig.run([Step(name, script)], expected=0.0, deadline=deadline)
    _log_steps([result])
    return result


def _log_steps(results: Iterable[StepResult]) -> None:
    for one in results:
        LOG.debug("step %s ended with %d after %.3f s", one.name, one.status, one.seconds)


def why_skipped(stack: Stack, machine: Machine, facts: Mapping[str, str], profile: Iterable[ProfilerName] = ()) -> str:
    """Return what a rig with these facts lacks for a stack, and what would bring it; empty if nothing."""
    return "; ".join(one.message for one in lacks(stack.layers.value, machine, facts, profile))


def host_limited(
    done: Sequence[Report], work: Workload, bound: float, beside: counters.TrialUse | None = None
) -> dict[str, Any]:
    """Return the share of time lost to the host, with its causes if it exceeds the bound.

    Work with pauses leaves disks idle on purpose, so there the way of its requests counts.
    """
    overload = overload_of(done)
    if overload and work.pauses:
        transit = counters.transit_share(beside, done, direct=work.direct) if beside else 0.0
        overload = replace(overload, starved=0.0, crowded=0.0, transit=transit)
    if overload is None:
        return {}
    causes = _part_by_processor(overload, beside) if beside else overload.causes
    return _shares_lost(overload.share, causes if overload.exceeds(bound) else {})


def _part_by_processor(overload: Overload, beside: counters.TrialUse) -> dict[str, float]:
    """Return the causes of a loss; of the time in which disks were idle, the part with a busy processor by itself.

    It is at most the time in which the busiest processor worked. That does not tell whether both were at once.
    """
    causes = overload.causes
    idle, busy = causes.get("idle", 0.0), max(0.0, beside.processors.busiest - overload.crowded)
    return causes | {"idle": max(0.0, idle - busy), "processor": min(idle, busy)} if min(idle, busy) else causes


def _shares_lost(share: float, causes: Mapping[str, float]) -> dict[str, Any]:
    whole = {"host_limited_share": round(share, DECIMALS["host_limited_share"])}
    return whole | (losses_of(share, causes) if causes else {})


def busy_host(
    figures: Figures | None, work: Workload, bound: float, beside: counters.TrialUse | None
) -> dict[str, Any]:
    """Return the shares lost if other programs, or other virtual machines, left too little of the processors.

    Disks without a model cannot tell how much time was lost, so this is a bound of it.
    """
    if figures is None or beside is None:
        return {}
    programs, machines = counters.lost_to_others(beside, figures, work)
    lost = programs + machines
    return _shares_lost(lost, {"programs": programs, "machines": machines}) if lost > bound else {}


def kept_pace(done: Sequence[Report], bound: float, seconds: float) -> bool:
    """Return whether disks delayed a late replay, not the host: disks without a model, or a full one that lost no time.

    If the disks were often idle, a slow guest may be the reason, so the answer is no.
    """
    overload = overload_of(done)
    is_full = max((one.occupied for one in done), default=0.0) >= counters.FULL * seconds
    return not done or bool(overload and not overload.exceeds(bound) and is_full)


def late_replay(report: ReplayReport, length: float, losses: Mapping[str, Any], *, kept_up: bool) -> dict[str, Any]:
    """Return facts of a replay of `length` seconds. One that fell behind is saturated if the host kept up."""
    if not report.fell_behind:
        return {}
    return {"saturated": True} if kept_up else {"lost": round_loss(report.behind(length)), **losses}


def overload_words(facts: TrialFacts, notes: Mapping[str, str]) -> str:
    whose = "processor of the machine" if facts.is_processor_limited else "host"
    return f"{whose}: too slow or too busy, {notes[HOST_LIMITED]}" if HOST_LIMITED in notes else ""


def loss_notes(facts: TrialFacts, replay: ReplayReport | None, length: float) -> dict[str, str]:
    share, found = facts.host_limited_share, dict[str, str]()
    if share is not None:
        found["host_limited_share"] = f"{share:.{DECIMALS['host_limited_share']}f}"
    if facts.lost is not None and facts.losses:
        found[HOST_LIMITED] = format_loss(facts.lost, facts.losses)
    if replay:
        found[REPLAY] = str(replay)
        if facts.saturated or (facts.is_host_limited and not facts.losses):
            behind = f"{replay.behind(length):.1%} (the replay fell behind its trace: {replay})"
            found[SATURATED if facts.saturated else HOST_LIMITED] = behind
    return found


_PREPARING = 2  # steps before the measurement


def _steps(scripts: CellScripts, fio_job: str, *, shared_shell: bool) -> list[Step]:
    files = {name: text for name, text in (("job.fio", fio_job), *scripts.files.items()) if text}
    return [
        Step("tune", scripts.tune),
        Step("verify", scripts.verify, continues_shell=shared_shell),
        Step("measure", scripts.measure, files, continues_shell=shared_shell),
        *([Step("samples", scripts.samples)] if scripts.samples else []),
        *([Step("profile", scripts.profile)] if scripts.profile else []),
        *(Step(file, script) for file, script in scripts.profilers.items()),
    ]


def _outputs(results: Sequence[StepResult], fio_job: str, set_up_log: str, aftermath: str) -> dict[str, str]:
    logs = {"set-up.log": set_up_log, **({"aftermath.log": aftermath} if aftermath else {})}
    measured = "fio.json" if fio_job else "measure.log"
    names = {"tune": "tune.log", "verify": "read-back.tsv", "measure": measured}
    outputs = {names[result.name]: result.output for result in results if result.output}
    return {**({"job.fio": fio_job} if fio_job else {}), **logs, **outputs}
