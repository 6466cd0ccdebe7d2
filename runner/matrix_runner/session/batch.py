"""Execution of batches for a coordinator elsewhere: requests in, records out. It writes to temporary folders only.

The pool has the physical disks of this host, leased for one batch at a time."""

import asyncio
import re
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from secrets import token_hex
from threading import Event, Lock, Thread
from typing import BinaryIO, Self

import orjson
from pydantic import ValidationError

from matrix_runner.base.errors import BadInput, MatrixError, UnfitFile
from matrix_runner.base.files import read_input, scratch_folder, write_atomically
from matrix_runner.base.version import matrix_version
from matrix_runner.carry import batch_messages as messages
from matrix_runner.carry.cluster.seats import SCRATCH
from matrix_runner.carry.executor import Executor
from matrix_runner.carry.past_timings import factors_of
from matrix_runner.carry.recorder import BatchContext, Recorder
from matrix_runner.decide.budget import Cost, Spending
from matrix_runner.decide.plan import Batch, Plan
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.hosts import HOSTS_FILE
from matrix_runner.hosts.disk_ledger import lease_records, run_within_budget, state_dir
from matrix_runner.language.matrix import Matrix
from matrix_runner.machines import Where, machine
from matrix_runner.machines.base import APPLIANCE, Machine, MachineOptions, RigSpec
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.records.databases import translate_errors
from matrix_runner.records.environment import Health, describe_missing_health
from matrix_runner.records.files import InUse, Standing, locked
from matrix_runner.session.disk_lease import DiskUse, RunDisks, lease_run_disks, match_disks, precheck
from matrix_runner.session.host_facts import boot_id
from matrix_runner.session.selected_matrix import on_kernels
from matrix_runner.session.versions import BUILDS, NO_VERSIONS, Versions
from matrix_runner.space.declared_files import Match
from matrix_runner.space.includes import SHELF
from matrix_runner.space.load import parse
from matrix_runner.space.select import Selection
from matrix_runner.space.space import Space, Stack

PAUSE = 0.5  # seconds between two looks whether the disks are free


@dataclass(frozen=True, slots=True)
class Pool:
    match: Match
    matrix: Matrix
    machine: str

    @classmethod
    def of(cls, matrix: Matrix, place: Where, hosts: Path | None) -> Self:
        """Choose the disks of a batch. Raise BadInput if none fit, or if hosts.yaml does not allow to destroy them."""
        found = match_disks(matrix, hosts, place, prefer_standing=True)
        if missing := [disk.id for disk in found.disks if disk.id not in found.standing]:
            raise BadInput(
                f"{hosts or HOSTS_FILE} of this worker does not allow runs to destroy what is on {', '.join(missing)}",
                resolution=f"if it is not needed, list the disk in `destroy:` of the host {found.host} there",
            )
        return cls(found, matrix, place.machine)

    @property
    def folder(self) -> Path:
        """Return the folder of this user for all batches on these disks. It outlives a killed batch."""
        return state_dir() / "batches" / re.sub(r"[^A-Za-z0-9_-]+", "_", self.match.reach)

    @property
    def standing(self) -> Standing:
        return Standing(self.folder)

    def check(self) -> None:
        """Refuse disks that cannot be used. If a batch has them, or was killed with them, the lease checks them."""
        with suppress(InUse), self._locked() as run:
            if not self._unreturned(run):
                precheck(self.match, self.matrix, self.machine, ())

    @asynccontextmanager
    async def leased(self, stack: Stack, notice: Callable[[str], None]) -> AsyncIterator[RunDisks]:
        """Wait until no other batch has the disks, and lease them. Take apart what a killed batch left on them."""
        with ExitStack() as exits:
            run = ""
            while not run:
                try:
                    run = exits.enter_context(self._locked())
                except InUse:
                    await asyncio.sleep(PAUSE)
            use = DiskUse(self.match, self.matrix, (stack,), self.machine, run, self.folder)
            disks = exits.enter_context(lease_run_disks(use, notice, notice))
            if self._unreturned(run) == {one.node.identity for one in disks.leased}:
                self.standing.clear()
            yield disks

    @contextmanager
    def _locked(self) -> Iterator[str]:
        """Yield the name by which batches lease these disks, if no other batch has them. Raise InUse otherwise."""
        file = self.folder / "id"
        with translate_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            if not (file.exists() and file.read_bytes()):
                write_atomically(file, f"worker-{token_hex(4)}".encode())
            yield file.read_text(encoding="ascii")

    def _unreturned(self, run: str) -> set[str]:
        return {one.identity for one in lease_records(state_dir(), self.match.reach) if one.run == run}


HEARTBEAT = 10.0  # seconds between two empty lines, which show that the process is not stuck


@dataclass
class Batches:
    """Executes requests one after the other, and remembers the last matrix."""

    outbox: messages.Outbox
    scratch: Path
    hosts: Path | None = None  # the hosts.yaml with the disks of this host
    _order: messages.Order | None = None
    _space: Space | None = None
    _versions: Versions = NO_VERSIONS
    _stacks: dict[str, Stack] = field(default_factory=dict)

    async def execute(self, line: bytes) -> None:
        try:
            self.outbox.begin(_token_of(line))
            request = messages.BatchRequest.model_validate_json(line)
            self._expand(request.order)
            if request.cells:
                await self._measure(request)
            else:
                self._check(request)
        except MatrixError as error:
            self.outbox.send(messages.REFUSED, brief=error.brief, details=error.details, resolution=error.resolution)
        except ValidationError as error:  # such as a field that this version does not know
            self.outbox.send(messages.REFUSED, brief=_skew("another version"), details=str(error), resolution=_SAME)
        self.outbox.send(messages.END)

    def _expand(self, order: messages.Order) -> None:
        if order.version != matrix_version():
            raise BadInput(_skew(order.version), resolution=_SAME)
        if self._order and self._order.digest == order.digest:
            return
        declared = parse(order.name, order.text, lambda name: _text_of(name, order.used))
        self._versions = Versions.received(order.versions)
        if self._versions.names:
            declared = on_kernels(declared, self._versions.names)
        self._space = declared.space
        self._stacks = {stack.key: stack for stack in self._space.stacks}
        self._order = order

    @property
    def space(self) -> Space:
        assert self._space  # noqa: S101 - for the type checker: `_expand` comes first
        return self._space

    def _pool(self, order: messages.Order) -> Pool | None:
        if machine(order.machine, MachineOptions()).brings_disks:
            return None
        return Pool.of(self.space.matrix, Where(order.machine, order.host), self.hosts)

    def _machine(self, order: messages.Order, pool: Pool | None, disks: RunDisks | None = None) -> Machine:
        options = (disks or RunDisks()).machine_options(pool.match if pool else None)
        options = replace(options, cold=order.cold, notice=self._notice, progress=self._progress)
        return machine(order.machine, self._versions.provided_to(options))

    def _notice(self, text: str) -> None:
        self.outbox.send(messages.NOTICE, text=text)

    def _progress(self, brief: str, fraction: float | None = None) -> None:  # noqa: ARG002
        """Report a build, which can take minutes. A coordinator shows equal notices once."""
        if brief.startswith(APPLIANCE):
            self._notice("it builds its appliance; this can take some minutes")
        elif brief.startswith(BUILDS):
            self._notice(brief)

    def _check(self, request: messages.BatchRequest) -> None:
        """Write why this host cannot run stacks, for how many rigs it has room, and the id of its boot."""
        order, pool = request.order, self._pool(request.order)
        if pool:
            pool.check()
        place = self._machine(order, pool)
        refusals = dict[str, str]()
        known = dict[RigSpec, str]()
        for key, stack in self._stacks.items():
            spec = rig_spec(self.space.matrix, stack, order.kernel)
            if spec not in known:
                there = replace(spec, kernel=self._versions.source(spec.kernel))
                reasons = [self._versions.refusal(spec.kernel), *(one.message for one in place.refusals(there))]
                known[spec] = "; ".join(filter(None, reasons))
            if known[spec]:
                refusals[key] = known[spec]
        rigs = min((place.max_rigs(spec) for spec, refusal in known.items() if not refusal), default=1)
        self.outbox.send(messages.CHECKED, refusals=refusals, rigs=rigs, boot_id=boot_id())

    async def _measure(self, request: messages.BatchRequest) -> None:
        stack = self._stacks.get(request.stack)
        selection = Selection(replace(self.space, stacks=(stack,) if stack else ()), ids=frozenset(request.cells))
        cells = {cell.id: cell for cell in selection.cells()}
        if stack is None or cells.keys() != set(request.cells):
            raise BadInput(
                "this host makes other cells of the same matrix",
                resolution="compare the installation and the environment of both hosts",
            )
        batch = Batch(request.round, stack, tuple(cells[one] for one in request.cells))
        plan = Plan(selection, self.space.matrix.repeat, self.space.matrix.seed, follows=False)
        pool = self._pool(request.order)
        async with self._leased(pool, request, stack) as disks:
            seconds = inf if request.seconds is None else request.seconds
            spending = Spending(Cost(seconds, inf), write_budget=disks.write_budget)
            with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
                context = self._context(request, Path(folder), pool, disks)
                scheduler = Scheduler(plan, spending=spending)
                scheduler.start((), request.attempts, {(one, batch.round): n for one, n in request.retried.items()})
                executor = Executor(scheduler, context, Recorder(scheduler, context))
                work = executor.measure([[(batch, deque(batch.cells))]])
                await run_within_budget(work, disks.write_budget)
        if disks.write_budget and disks.write_budget.stop_reason:
            raise BadInput(disks.write_budget.stop_reason)

    @asynccontextmanager
    async def _leased(self, pool: Pool | None, request: messages.BatchRequest, stack: Stack) -> AsyncIterator[RunDisks]:
        """Lease the disks of this host. Tell the coordinator of them before the first trial and after the last."""
        if pool is None:
            yield RunDisks()
            return
        async with pool.leased(stack, self._notice) as disks:
            serials = tuple(disk.serial for disk in disks.facts)
            if request.disks and request.disks != serials:
                raise BadInput(
                    f"it has the disks {', '.join(serials)}, but this run began on {', '.join(request.disks)}",
                    resolution="correct hosts.yaml of the worker, or start a new run with --fresh",
                )
            if note := describe_missing_health(disks.health):
                self._notice(note)
            self._send_pool(disks, disks.health)
            try:
                yield disks
            finally:
                disks.give_back()
                with suppress(BrokenPipeError):  # the worker is gone
                    self._send_pool(disks, disks.query_health())

    def _send_pool(self, disks: RunDisks, health: tuple[Health, ...]) -> None:
        self.outbox.send(messages.POOL, disks=disks.facts, health=health, unreturned=disks.unreturned)

    def _context(
        self, request: messages.BatchRequest, folder: Path, pool: Pool | None, disks: RunDisks
    ) -> BatchContext:
        stream = messages.RecordStream(self.outbox, pool.standing if pool else None)
        place = self._machine(request.order, pool, disks)
        return BatchContext(
            machine=place,
            journal=stream,
            shelf=stream,
            scratch=folder,
            listen=self.outbox.send_event,
            boot_id=boot_id(),
            own_templates=_write_templates(request.order.templates, folder / "templates"),
            kernel=request.order.kernel,
            factors=factors_of(self.space.matrix, place),
            leased=dict(zip(disks.paths, disks.leased, strict=False)),
        )


_SAME = "install the version that `matrix run` has"


def _token_of(line: bytes) -> str:
    try:
        return str(orjson.loads(line)["token"])
    except (ValueError, KeyError, TypeError):
        return ""


def _skew(version: str) -> str:
    return f"its matrix is {matrix_version()}, and that of `matrix run` is {version}"


def _text_of(name: str, used: dict[str, str]) -> str:
    if name in used:
        return used[name]
    path = Path(name)
    if path.parent != SHELF:  # a file of this host must not become a part of another's matrix
        raise UnfitFile(path, "the coordinator did not send it")
    return read_input(path).decode()


def _write_templates(texts: dict[str, str] | None, folder: Path) -> Path | None:
    if texts is None:
        return None
    for name, text in texts.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise BadInput(f"{name!r} cannot name a template")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def serve(requests: BinaryIO, records: BinaryIO, hosts: Path | None = None) -> None:
    """Execute requests until they end. Their end also cancels the batch that runs: the worker is gone."""
    turn, over = Lock(), Event()

    def write(line: bytes) -> None:
        with turn:
            records.write(line + b"\n")
            records.flush()

    def stay_alive() -> None:
        with suppress(OSError, ValueError):  # the worker is gone
            while not over.wait(HEARTBEAT):
                write(b"")

    Thread(target=stay_alive, daemon=True).start()
    try:
        with scratch_folder(SCRATCH) as folder, suppress(asyncio.CancelledError):
            asyncio.run(_serve(requests, Batches(messages.Outbox(write), folder, hosts)))
    finally:
        over.set()


async def _serve(requests: BinaryIO, batches: Batches) -> None:
    lines, loop, task = asyncio.Queue[bytes](), asyncio.get_running_loop(), asyncio.current_task()
    assert task  # noqa: S101 - for the type checker

    def read() -> None:
        with suppress(RuntimeError):  # the loop ended first
            for line in requests:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(task.cancel)

    Thread(target=read, daemon=True).start()
    while True:
        await batches.execute(await lines.get())
