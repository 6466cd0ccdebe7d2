"""`--confirm`: the look after the planned rounds, and the second run, on the kernel of the accepted level.

The second run has a folder of its own in that of the run: its trials are no figures of the night.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from secrets import token_hex

from matrix_runner.answers.comparison import Comparison, Speed
from matrix_runner.answers.history import compare_with_level
from matrix_runner.answers.old_kernel import appliance_of, cells_by_old_kernel
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
from matrix_runner.records.run_folder import OLD_KERNEL, RunFolder, create, load_old_kernel, runs
from matrix_runner.session.run_request import RunOptions
from matrix_runner.session.versions import fetch_kernel


@dataclass(frozen=True)
class _OldKernel:
    release: str
    cells: frozenset[str]  # the slower ones whose level is from it
    done: Comparison

    @property
    def appliance(self) -> str:
        return appliance_of(self.done.a, self.release)


@dataclass
class Confirming:
    options: RunOptions
    plan: Plan
    here: Machine
    folder: Callable[[], RunFolder]  # as it is now
    journal: Journal
    spending: Spending
    notice: Callable[[str], None]
    trouble: Callable[[str], None]
    show: Callable[[Event], None]
    steering: Confirmation = field(init=False)
    _old: _OldKernel | None = None
    _second: LocalRun | None = None

    def __post_init__(self) -> None:
        self.steering = Confirmation(self.plan.repeat, self._find_slower)

    @property
    def has_turns(self) -> bool:
        return self.here.takes_folders and self.here.brings_disks and not self.options.cluster

    def _find_slower(self) -> Mapping[str, float]:
        self.spending.grant(self.options.confirm or 0.0)
        store = address_of(self.options.store, self.options.results)
        try:
            done = compare_with_level(self.folder(), self.journal, store, planned=True)
        except MatrixError as problem:
            rest = f"\n{problem.details}" if problem.details else f"; {problem.resolution}"
            self.trouble(f"--confirm: no cell is measured again: {problem.brief}{rest}")
            return {}
        slower = {line.cells[1]: abs(line.log_speed) for line in done.lines if line.speed is Speed.SLOWER}
        if not slower:
            level = few(run.name for run in done.a.runs)
            self.notice(f"--confirm: no cell is slower than the accepted level ({level})")
        elif found := cells_by_old_kernel(done):
            self._old = _OldKernel(*max(found.items(), key=lambda one: (len(one[1]), one[0])), done)
            if not self.has_turns:
                what = "--cluster" if self.options.cluster else self.here.name
                remedy = "`matrix bisect` compares kernels"
                self.give_up(BadInput(f"{what} cannot start both in turns", resolution=remedy))
        return slower

    async def second(self, context: RunContext, level: Level, exits: ExitStack) -> LocalRun | None:
        """Return the second run, if one measures the rounds after the planned ones, too."""
        if self._old and not self._second:
            try:
                name, images = await self._find_kernel(self._old)
                self._second = self._begin(self._old, name, images, context, level, exits)
                self.steering.beside = f", and measured on its kernel {self._old.release}, too"
            except MatrixError as problem:
                self.give_up(problem)
        return self._second

    def give_up(self, problem: MatrixError) -> None:
        if old := self._old:
            self.notice(
                f"--confirm: the accepted level is from kernel {old.release}, this run is on "
                f"{few(sorted(old.done.b.kernels))}, and the old one is not measured beside it: {problem.brief}; "
                f"{problem.resolution or problem.details}"
            )
        self._old, self._second, self.steering.beside = None, None, ""

    async def _find_kernel(self, old: _OldKernel) -> tuple[str, Mapping[str, str]]:
        """Return the name of the old kernel for the machine, and its content if that is in the cache only."""
        ids = {run.id for run in old.done.a.runs}
        names = [name for one in runs(self.options.results) if one.manifest.id in ids for name in one.manifest.kernels]
        name, content = self.here.find_kernel(old.release, old.appliance, names)
        if not name:
            name = str(await fetch_kernel(old.release, self.here.options.progress, self.notice) or "")
        if not name:
            remedy = "keep it in a folder: --kernel FOLDER"
            raise BadInput("neither the cache nor Debian's mirror has it", resolution=remedy)
        return name, {name: content} if content else {}

    def _begin(
        self, old: _OldKernel, name: str, images: Mapping[str, str], context: RunContext, level: Level, exits: ExitStack
    ) -> LocalRun:
        own = self._own_folder(old.release)
        synthetic, options = own.manifest.synthetic, self.here.options

        def listen(event: Event) -> None:
            """Show events of this kernel as those of cells with it as an axis."""
            names = {key: f"{old.release}/{value}" for key in ("name", "stack") if (value := getattr(event, key, ""))}
            self.show(replace(event, **names))

        second = replace(
            context,
            machine=machine(own.manifest.machine, replace(options, images={**options.images, **images})),
            journal=exits.enter_context(Journal.open(own.journal, synthetic=synthetic, run=own.manifest.id)),
            shelf=exits.enter_context(open_files(own, writing=True)),
            scratch=own.path,
            listen=listen,
            kernel=name,
        )
        steering = OnOldKernel(self.steering, old.cells)
        scheduler = Scheduler(replace(self.plan, follows=False), spending=self.spending, steering=steering)
        run = LocalRun(scheduler, second, level)
        run.recorder.start()
        return run

    def _own_folder(self, release: str) -> RunFolder:
        folder = self.folder()
        found = load_old_kernel(folder.path)
        if not found:
            changes = {"id": token_hex(8), "kernels": (release,), "versions": {}, "finished": True}
            return create(folder.path, folder.manifest.model_copy(update=changes), OLD_KERNEL)
        if found.manifest.kernels != (release,):
            before = few(found.manifest.kernels)
            raise BadInput(f"this run began with kernel {before}", resolution="--fresh starts a new run")
        return found
