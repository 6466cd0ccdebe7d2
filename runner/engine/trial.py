"""One array on one rig, and the trials on it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.base.uncancelled import to_its_end
from runner.engine import deadlines
from runner.engine.disk_stats import watched
from runner.engine.error_line import evidence
from runner.engine.trial_result import Finding, finding, notes_of, told_apart
from runner.language.metrics import DECIMALS
from runner.machines.base import RigLost, Step
from runner.results.monitor.trial_monitor import behind_caches, buses, notes, seen
from runner.results.record import UNSETTLED
from runner.scripts.cell import ArrayScripts, CellScripts, array_scripts, cell_scripts, files_of, job, trial_seed
from runner.simdisks.overload import strain_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from runner.language.matrix import Matrix
    from runner.language.workload import Workload
    from runner.machines.base import Machine, Rig, StepResult
    from runner.results.fio_json import Figures
    from runner.results.monitor.trial_monitor import Beside
    from runner.scripts.stack import Built
    from runner.simdisks.clib import Report
    from runner.space.space import Array, Cell


class SetUpFailed(HarnessBroken):
    """The array could not be built."""


class LostInSetUp(RigLost):
    """The rig came up, and was lost while the array was built on it."""


class NotOnThisKernel(HarnessBroken):
    """The array needs something that the rig's kernel does not have: nothing is wrong, but nothing can be measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A trial as it came back: what it found, when, and everything that it left."""

    finding: Finding
    started: str
    seconds: float
    notes: Mapping[str, str]
    scripts: Mapping[str, str]
    outputs: Mapping[str, str]


class ArrayOnRig:
    """An array that is up."""

    def __init__(
        self, matrix: Matrix, array: Array, rig: Rig, scripts: ArrayScripts, own: Path | None, *, invented: bool = False
    ) -> None:
        self._matrix, self._array, self._rig, self._scripts, self._own = matrix, array, rig, scripts, own
        #: What the rig answers was never measured.
        self._invented = invented
        self.set_up_log = ""

    @property
    def stack(self) -> Built:
        """What was built."""
        return self._scripts.stack

    @classmethod
    async def build(
        cls,
        matrix: Matrix,
        array: Array,
        rig: Rig,
        machine: Machine,
        own: Path | None,
        keep: Callable[[ArrayScripts], None] | None = None,
    ) -> ArrayOnRig:
        """Run the set-up; raises NotOnThisKernel, SetUpFailed, or LostInSetUp.

        `keep` is given what starts the array again and takes it apart, before anything is built.
        """
        if lacking := _lacking(array, rig.facts):
            raise NotOnThisKernel(lacking)
        if not machine.zeroed and assumes_zeros(array):
            raise SetUpFailed(
                f"sync: assume-clean is only true on zeroed disks, and those of {machine.name} are not known to be"
            )
        scripts = array_scripts(array, rig.disks, zeroed=machine.zeroed, own=own)
        built = cls(matrix, array, rig, scripts, own, invented=machine.synthetic)
        if keep:
            keep(scripts)
        deadline = deadlines.set_up(array.stack.value, array.disks)
        try:
            await built._set_up(deadline)
        except BaseException:
            if not machine.disposable:
                # Half an array would be in the way of the next one. What is in its own way stays, and was named above.
                with suppress(RigLost):
                    await to_its_end(built.tear_down())
            raise
        return built

    async def _set_up(self, deadline: float) -> None:
        try:
            (result,) = await self._rig.run([Step("set-up", self._scripts.set_up)], expected=0.0, deadline=deadline)
        except RigLost as lost:
            raise LostInSetUp(f"set-up: {lost.brief}", tail=lost.tail, resolution=lost.resolution) from lost
        self.set_up_log = result.output
        if result.status != 0:
            raise SetUpFailed(f"set-up failed: {evidence(result.output)}", details=result.output[-4000:])

    def scripts_of(self, cell: Cell) -> dict[str, str]:
        """The scripts of a cell, as they run here."""
        return files_of(self._scripts, cell_scripts(cell, self._scripts.stack, self._own, self._matrix.monitor))

    async def tear_down(self) -> None:
        """Take the array apart, on a rig that outlives it; if a second try leaves no bare disks either, it is lost."""
        step = Step("tear-down", self._scripts.tear_down)
        for last_try in (False, True):
            (result,) = await self._rig.run([step], expected=0.0, deadline=deadlines.GRACE)
            if result.status == 0:
                return
            if last_try:
                raise RigLost(f"tear-down failed: {evidence(result.output)}", tail=result.output[-4000:])

    async def measure(self, cell: Cell, block: int) -> Measured:
        """Tune, read back, measure; raises RigLost."""
        scripts = cell_scripts(cell, self._scripts.stack, self._own, self._matrix.monitor)
        fio_job = job(cell, self._scripts.stack, trial_seed(self._matrix.seed, cell.id, block), self._own)
        work = cell.workload.value
        faults = self._array.faults
        slowest = deadlines.slowest_request(work, self._matrix.every_disk())
        deadline = deadlines.deadline(work, cell.span, cell.files.total if cell.files else 0, slowest)
        deadline += deadlines.written_out(work, self._matrix.machine.memory, slowest)
        started, clock = datetime.now(UTC), time.monotonic()
        self._rig.arm(faults)
        async with watched(self._rig) as service:
            results = await self._rig.run(
                _steps(scripts, fio_job, ours=self._own is None),
                expected=deadlines.expected(work),
                deadline=deadlines.with_faults(deadline, work, faults, slowest),
            )
        heard = told_apart(results, work, invented=self._invented)
        aftermath = await self._aftermath() if faults and heard.steps[-1].name == "measure" else ""
        found = finding(heard.steps)
        done = service.since(sum(one.seconds for one in heard.steps if one.name != "measure"))
        strain = strained(done, work, self._matrix.machine.strain)
        beside = seen(heard.before, heard.after, found.readings, found.figures, work)
        return Measured(
            finding=found,
            started=started.isoformat(timespec="milliseconds"),
            seconds=time.monotonic() - clock,
            notes={
                **self._notes(),
                **self._faults(heard.steps),
                **notes_of(aftermath),
                **strain,
                **heard.notes,
                **({UNSETTLED: found.unsettled} if found.unsettled else {}),
                **self._held_back(beside, found.figures, work, done, strain.get("strained", "")),
            },
            scripts=files_of(self._scripts, scripts),
            outputs={
                **_outputs(heard.steps, fio_job, self.set_up_log, aftermath),
                **heard.files,
                **service.files(),
                **(beside.files() if beside else {}),
            },
        )

    def _held_back(
        self, beside: Beside | None, figures: Figures | None, work: Workload, done: Sequence[Report], strain: str
    ) -> dict[str, str]:
        """What was seen beside the work, in words."""
        if beside is None or figures is None:
            return {}
        spares = sum(getattr(layer, "spare", 0) for layer in self._array.stack.value)
        links = buses(self._matrix.every_disk(), done, beside.seconds)
        return notes(behind_caches(beside, done), figures, work, spares, links, strain)

    async def _aftermath(self) -> str:
        """How the array stands now that its disks failed; raises RigLost."""
        step = Step("aftermath", self._scripts.aftermath)
        (result,) = await self._rig.run([step], expected=0.0, deadline=deadlines.GRACE)
        return result.output

    def _notes(self) -> dict[str, str]:
        """The kernel that really ran, what set-up said of itself, and how a first resync was dealt with."""
        ways = {layer.resync for layer in self._scripts.stack.layers if layer.resync}
        resync = {"resync": ", ".join(sorted(ways))} if ways else {}
        return {"kernel": self._rig.facts["kernel"], **notes_of(self.set_up_log), **resync}

    def _faults(self, results: Sequence[StepResult]) -> dict[str, str]:
        """What went wrong with the disks, and what of that the trial cannot have met."""
        if not self._array.faults:
            return {}
        used = {self._rig.disks.index(disk) for disk in self.stack.disks}
        lasted = results[-1].seconds if results[-1].name == "measure" else 0.0
        told = [
            f"{fault}{_in_vain(used=fault.disk in used, over=fault.at > lasted > 0)}" for fault in self._array.faults
        ]
        return {"faults": "; ".join(told)}


def assumes_zeros(array: Array) -> bool:
    """Whether it is only what it seems on disks that read as zeros."""
    return any(getattr(layer, "sync", "") == "assume-clean" for layer in array.stack.value)


async def again_and_apart(rig: Rig, scripts: ArrayScripts) -> bool:
    """Start an array whose rig was lost on this one, as far as it is there, and take it apart; whether that was all."""
    await rig.run([Step("activate", scripts.activate)], expected=0.0, deadline=deadlines.GRACE)
    (result,) = await rig.run([Step("tear-down", scripts.tear_down)], expected=0.0, deadline=deadlines.GRACE)
    return result.status == 0


def _in_vain(*, used: bool, over: bool) -> str:
    if not used:
        return " (which this layout does not use)"
    return " (when the work was over)" if over else ""


def _lacking(array: Array, facts: Mapping[str, str]) -> str:
    """What the kernel does not have of all that an array needs, in words; empty if nothing is missing."""
    without = set(facts.get("without", "").split())
    found = [
        f'"{module}" ({layer.title})' for layer in array.stack.value for module in layer.modules if module in without
    ]
    return f"this kernel ({facts.get('kernel', '?')}) has no {', '.join(dict.fromkeys(found))}" if found else ""


def strained(done: Sequence[Report], work: Workload, bound: float) -> dict[str, str]:
    """What was lost to the host, and a note if that is beyond a bound: it could not keep up with the disks.

    Work that paces itself leaves them waiting on purpose.
    """
    strain = strain_of(done)
    if strain and any(option.startswith(("rate", "thinktime")) for option in work.fio):
        strain = replace(strain, starved=0.0)
    if strain is None:
        return {}
    share = {"strain": f"{strain.share:.{DECIMALS['strain']}f}"}
    return {**share, "strained": str(strain)} if strain.beyond(bound) else share


def _steps(scripts: CellScripts, fio_job: str, *, ours: bool) -> list[Step]:
    """`ours`: no template is a user's own, so that none of these minds what is left of the one before it."""
    return [
        Step("tune", scripts.tune),
        Step("verify", scripts.verify, continues_shell=ours),
        Step("measure", scripts.measure, {"job.fio": fio_job}, continues_shell=ours),
        *([Step("samples", scripts.samples)] if scripts.samples else []),
        *([Step("profile", scripts.profile)] if scripts.profile else []),
    ]


def _outputs(results: Sequence[StepResult], fio_job: str, set_up_log: str, aftermath: str) -> dict[str, str]:
    """The files of a trial's folder."""
    told = {"set-up.log": set_up_log, **({"aftermath.log": aftermath} if aftermath else {})}
    names = {"tune": "tune.log", "verify": "read-back.tsv", "measure": "fio.json"}
    outputs = {names[result.name]: result.output for result in results if result.output}
    return {"job.fio": fio_job, **told, **outputs}
