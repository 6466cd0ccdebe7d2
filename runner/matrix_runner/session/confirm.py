"""`--confirm`: the look after the planned rounds, and the second run, on the kernel of the accepted level.

The second run has a folder of its own in that of the run: its trials are no figures of the night.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from secrets import token_hex

from matrix_runner.answers.comparison import Comparison, Speed
from matrix_runner.answers.history import compare_with_level
from matrix_runner.answers.old_kernel import OLD_KERNEL, appliance_of, cells_by_old_kernel
from matrix_runner.base.errors import BadInput, MatrixError
from matrix_runner.base.findings import few
from matrix_runner.carry.events import Event
from matrix_runner.carry.executor import LocalRun
from matrix_runner.carry.recorder import RunContext
from matrix_runner.decide.budget import Spending
from matrix_runner.decide.concurrency import Level
from matrix_runner.decide.confirm import Confirmation, OnOldKernel
from matrix_runner.decide.plan import Plan
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.machines import machine
from matrix_runner.machines.base import Machine
from matrix_runner.records.address import address_of
from matrix_runner.records.cell_files import open_files
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import MANIFEST, RunFolder, create, load, runs
from matrix_runner.session.run_request import RunOptions
from matrix_runner.session.versions import fetch_kernel

_REMEDY = "`matrix bisect` compares kernels"


@dataclass
class Confirming:
    options: RunOptions
    plan: Plan
    folder: Callable[[], RunFolder]  # as it is now
    journal: Journal
    spending: Spending
    notice: Callable[[str], None]
    trouble: Callable[[str], None]
    show: Callable[[Event], None]
    steering: Confirmation = field(init=False)
    _level: Comparison | None = None
    #: The kernel of the accepted level, and the slower cells to measure on it; empty: there is no second run.
    _kernel: str = ""
    _cells: frozenset[str] = frozenset()
    _second: LocalRun | None = None

    def __post_init__(self) -> None:
        self.steering = Confirmation(self.plan.repeat, self._find_slower)

    def _find_slower(self) -> Mapping[str, float]:
        self.spending.grant(self.options.confirm or 0.0)
        store = address_of(self.options.store, self.options.results)
        try:
            done = compare_with_level(self.folder(), self.journal, store, planned=True)
        except MatrixError as problem:
            remedy = problem.resolution or problem.details
            self.trouble(f"--confirm: no cell is measured again: {problem.brief}; {remedy}")
            return {}
        slower = {line.cells[1]: abs(line.log_speed) for line in done.lines if line.speed is Speed.SLOWER}
        if not slower:
            level = few(run.name for run in done.a.runs)
            self.notice(f"--confirm: no cell is slower than the accepted level ({level})")
        elif found := cells_by_old_kernel(done):
            self._level = done
            self._kernel, self._cells = max(found.items(), key=lambda one: (len(one[1]), one[0]))
            if self.options.cluster:
                self.give_up(BadInput("--cluster has no turns of two kernels", resolution=_REMEDY))
        return slower

    async def second(self, context: RunContext, level: Level, exits: ExitStack) -> LocalRun | None:
        """Return the second run, if one measures the rounds after the planned ones, too."""
        if self._kernel and not self._second:
            try:
                name, images = await self._find_kernel(context.machine)
                self._second = self._begin(name, images, context, level, exits)
                self.steering.beside = f", and are measured on its kernel {self._kernel}, too"
            except MatrixError as problem:
                self.give_up(problem)
        return self._second

    def give_up(self, problem: MatrixError) -> None:
        now = few(sorted(self._level.b.kernels)) if self._level else ""
        self.notice(
            f"--confirm: the accepted level is from kernel {self._kernel}, this run is on {now}, and the old one is "
            f"not measured beside it: {problem.brief}; {problem.resolution or problem.details}"
        )
        self._kernel, self._second, self.steering.beside = "", None, ""

    async def _find_kernel(self, here: Machine) -> tuple[str, Mapping[str, str]]:
        """Return the name of the old kernel for the machine, and its content if that is in the cache only."""
        if not (here.takes_folders and here.brings_disks):
            raise BadInput(f"{here.name} cannot start another kernel", resolution=_REMEDY)
        ids = {run.id for run in self._level.a.runs} if self._level else set()
        manifests = [one.manifest for one in runs(self.options.results) if one.manifest.id in ids]
        names = [name for one in manifests for name in one.kernels]
        appliance = appliance_of(self._level.a, self._kernel) if self._level else ""
        name, content = here.find_kernel(self._kernel, appliance, names)
        if not name:
            folder = await fetch_kernel(self._kernel, here.options.progress, self.notice)
            name = str(folder or "")
        if not name:
            raise BadInput(
                "neither the cache nor Debian's mirror has it", resolution="keep it in a folder: --kernel FOLDER"
            )
        return name, {name: content} if content else {}

    def _begin(
        self, name: str, images: Mapping[str, str], context: RunContext, level: Level, exits: ExitStack
    ) -> LocalRun:
        own = self._own_folder()
        synthetic = own.manifest.synthetic
        options = replace(context.machine.options, images={**context.machine.options.images, **images})

        def listen(event: Event) -> None:
            """Show events of this kernel as those of cells with it as an axis."""
            names = {key: f"{self._kernel}/{value}" for key in ("name", "stack") if (value := getattr(event, key, ""))}
            self.show(replace(event, **names))

        second = replace(
            context,
            machine=machine(own.manifest.machine, options),
            journal=exits.enter_context(Journal.open(own.journal, synthetic=synthetic, run=own.manifest.id)),
            shelf=exits.enter_context(open_files(own, writing=True)),
            scratch=own.path,
            listen=listen,
            kernel=name,
        )
        plan = replace(self.plan, follows=False)
        steering = OnOldKernel(self.steering, self._cells)
        run = LocalRun(Scheduler(plan, spending=self.spending, steering=steering), second, level)
        run.recorder.start()
        return run

    def _own_folder(self) -> RunFolder:
        folder = self.folder()
        path = folder.path / OLD_KERNEL
        if (path / MANIFEST).exists():
            return load(path)
        changes = {"id": token_hex(8), "kernels": (self._kernel,), "versions": {}, "finished": True}
        return create(folder.path, folder.manifest.model_copy(update=changes), OLD_KERNEL)
