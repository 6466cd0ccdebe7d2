"""The coordinator of a cluster: each trial once, whatever is lost; a round on one host; refusals before the first trial."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import Mock

import orjson
import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.base.version import matrix_version
from matrix_runner.carry import coordinator as engine
from matrix_runner.carry import members
from matrix_runner.carry.batch_messages import POOL, BatchLost, Outbox, SchedulerLost, Worker, WorkerLost
from matrix_runner.carry.coordinator import Coordinator
from matrix_runner.carry.events import BatchDone, BatchStarted, Event, PoolUsed, RigWasLost, Waiting
from matrix_runner.carry.recorder import RunContext
from matrix_runner.decide.budget import Cost, Spending
from matrix_runner.decide.placement import OpenRound, RepeatsAlone
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.records.environment import DiskFacts
from matrix_runner.records.record import HOST, Outcome
from matrix_runner.session import batch as session
from tests.support.batches import ORDER
from tests.support.cluster import ONE, TWO, FakeCluster
from tests.support.dry import Dry, Unsynthetic
from tests.support.engine import Bench, Dying
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from matrix_runner.carry.batch_messages import BatchRequest, Cluster, Order


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.journal.close()


def coordinate(
    bench: Bench,
    cluster: Cluster,
    *,
    order: Order = ORDER,
    spending: Spending | None = None,
    measured: bool = True,
    tags: frozenset[str] = frozenset(),
    listen: Callable[[Event], None] = lambda _: None,
    notice: Callable[[str], None] | None = None,
) -> Coordinator:
    def note(event: Event) -> None:
        bench.events.append(event)
        listen(event)

    machine = Unsynthetic() if measured else Dry()
    context = RunContext(machine, bench.journal, bench.shelf, bench.folder, note, "here")
    scheduler = Scheduler(bench.plan, spending=spending)
    made = Coordinator(scheduler, context, cluster, order, notice or notices.append, tags=tags)
    notices.clear()
    asyncio.run(made.run())
    return made


notices: list[str] = []


def test_a_cluster_measures_what_one_process_measures(bench: Bench, tmp_path: Path) -> None:
    coordinate(bench, FakeCluster(tmp_path, ONE))
    found = {(one.cell, one.round): (one.figures, one.readings, one.folder) for one in bench.trials}
    files = {**bench.shelf.kept}
    (tmp_path / "other").mkdir()
    other = Bench(tmp_path / "other")
    other.run()
    assert found == {(one.cell, one.round): (one.figures, one.readings, one.folder) for one in other.trials}
    assert files.keys() == other.shelf.kept.keys()
    assert all(files[trial] == other.shelf.kept[trial] for trial in files)
    other.journal.close()


def test_a_round_is_measured_on_one_host_and_every_trial_names_it(bench: Bench, tmp_path: Path) -> None:
    coordinate(bench, FakeCluster(tmp_path, ONE, TWO))
    hosts = defaultdict[int, set[str]](set)
    for trial in bench.trials:
        hosts[trial.round].add(trial.notes[HOST])
    assert sorted(map(sorted, hosts.values())) == [["one"], ["two"]]


def test_synthetic_rounds_are_spread_over_all_hosts_and_their_cells_are_compared(bench: Bench, tmp_path: Path) -> None:
    coordinate(bench, FakeCluster(tmp_path, ONE, TWO), measured=False)
    hosts = Counter((one.round, one.host) for one in bench.events if isinstance(one, BatchStarted))
    assert hosts == {(1, "one"): 1, (1, "two"): 1, (2, "one"): 1, (2, "two"): 1}
    assert Counter(one.block for one in bench.trials) == {1: 4, 2: 4}


def test_a_worker_never_has_more_batches_than_slots(bench: Bench, tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, Worker("a", "one", slots=1), Worker("b", "one", slots=2))
    coordinate(bench, cluster)
    assert cluster.most == {"a": 1, "b": 2}


def test_many_cells_of_a_stack_are_several_batches(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MOST_CELLS", 1)
    cluster = FakeCluster(tmp_path, ONE)
    coordinate(bench, cluster)
    assert [len(request.cells) for _, request in cluster.requests] == [1] * 8
    assert len(bench.trials) == 8


def test_a_finished_run_gives_out_no_batch(bench: Bench, tmp_path: Path) -> None:
    coordinate(bench, FakeCluster(tmp_path, ONE))
    cluster = FakeCluster(tmp_path, ONE)
    coordinate(bench, cluster)
    assert cluster.requests == []
    assert len(bench.trials) == 8


@pytest.mark.parametrize("seed", range(10))
def test_each_trial_is_recorded_once_however_often_workers_are_lost(tmp_path: Path, seed: int) -> None:
    bench = Bench(tmp_path, SMALL.replace("repeat: 2", "repeat: 3"))
    draw = random.Random(seed)  # noqa: S311
    cluster = FakeCluster(tmp_path, ONE, TWO)

    def lost(worker: Worker, request: BatchRequest, line: int) -> bool:
        return bool(request.cells) and draw.random() < 0.1

    cluster.lost_at = lost
    order = ORDER.model_copy(update={"text": SMALL.replace("repeat: 2", "repeat: 3")})
    coordinate(bench, cluster, order=order)
    assert Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())
    bench.journal.close()


def test_the_records_before_a_loss_are_kept(bench: Bench, tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, ONE)
    once = iter([True])
    # rig-up, started, files, trial: the worker is lost when its second trial begins
    cluster.lost_at = lambda _, request, line: len(request.cells) == 2 and line == 5 and next(once, False)
    coordinate(bench, cluster)
    sizes = [len(request.cells) for _, request in cluster.requests]
    assert sorted(sizes) == [1, 2, 2, 2, 2]
    assert Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())


def test_a_lost_scheduler_is_one_message_for_all_batches(bench: Bench, tmp_path: Path) -> None:
    """It comes back before its workers."""
    cluster, lost = FakeCluster(tmp_path, ONE, TWO), set[str]()
    cluster.loss = SchedulerLost

    def lose_both(worker: Worker, request: BatchRequest, _line: int) -> bool:
        if not request.cells or len({host for host, _ in cluster.requests}) < 2 or worker.host in lost:
            return False
        if not lost:
            cluster.connected = False
            cluster.workers.clear()
            cluster.changed()
        lost.add(worker.host)
        return True

    def come_back(event: Event) -> None:
        if event == Waiting(engine.Awaited.SCHEDULER.value):
            cluster.connected = True
        elif event == Waiting(engine.Awaited.WORKERS.value):
            cluster.workers[:] = [ONE, TWO]
        cluster.changed()

    cluster.lost_at = lose_both
    coordinate(bench, cluster, listen=come_back)
    assert lost == {"one", "two"}
    assert notices == [engine._NO_SCHEDULER, engine._NO_WORKER_LEFT, engine._GOES_ON]
    assert not [event for event in bench.events if isinstance(event, RigWasLost)]
    assert Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())


def test_a_trial_whose_process_dies_again_and_again_is_broken(bench: Bench, tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, ONE)
    victim = next(bench.plan.selection.cells())
    cluster.lost_at = lambda _, request, line: bool(request.cells) and request.cells[0] == victim.id and line == 2
    coordinate(bench, cluster)
    broken = {one.cell: one for one in bench.trials if one.outcome is Outcome.BROKEN}
    assert broken.keys() == {victim.id}
    assert broken[victim.id].reason == f"the process that measured it ended {engine.DEATHS} times: the worker is gone"
    assert Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())


def test_lost_rigs_break_a_trial_as_in_one_process(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = Dying(99, lambda job: "rw=read\n" in job)
    monkeypatch.setattr(session, "machine", lambda *_: Dry(dying))
    coordinate(bench, FakeCluster(tmp_path, ONE))
    assert bench.outcomes() == {Outcome.MEASURED: 4, Outcome.BROKEN: 2, Outcome.SKIPPED: 2}
    assert len(bench.journal.attempts()) == 4
    assert "BUG: unable" in bench.shelf.kept["raid5/chunk=16KiB/work/rw=read", 1]["lost-1.log"]


class Repeating(FakeCluster):
    """Delivers every line twice, and at the end those of the first batch again."""

    first: list[bytes]

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        kept: list[bytes] = []

        def twice(line: bytes) -> None:
            kept.append(line)
            receive(line)
            receive(line)

        await super().carry_out(worker, request, twice if request.cells else receive)
        self.first = getattr(self, "first", kept)
        for line in self.first if request.cells and self.first is not kept else ():
            receive(line)


def test_repeated_and_late_records_are_refused(bench: Bench, tmp_path: Path) -> None:
    made = coordinate(bench, Repeating(tmp_path, ONE))
    assert Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())
    assert made.refused > 8


def test_a_notice_of_a_host_is_shown_once(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = session.Batches._measure

    async def noisy(batches: session.Batches, request: BatchRequest) -> None:
        batches._notice("no KVM")
        await measure(batches, request)

    monkeypatch.setattr(session.Batches, "_measure", noisy)
    coordinate(bench, FakeCluster(tmp_path, ONE, TWO))
    assert sorted(notices) == ["one: no KVM", "two: no KVM"]


@pytest.mark.parametrize(
    ("lost_at", "loss", "kept"),
    [
        ("last line", BatchLost, ""),
        ("first trial", BatchLost, ""),
        ("last pool", BatchLost, "one"),
        ("last pool", WorkerLost, ""),
    ],
)
def test_a_host_whose_last_batch_was_lost_with_its_disks_is_named(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost_at: str, loss: type[WorkerLost], kept: str
) -> None:
    """A later batch on the host returns them, a batch that sent both messages has, and that of a lost worker does."""
    measure, disk = session.Batches._measure, DiskFacts(size=1, bus="scsi", serial="A")

    async def leasing(batches: session.Batches, request: BatchRequest) -> None:
        batches.outbox.send(POOL, disks=[disk], health=[], unreturned=[])
        await measure(batches, request)
        batches.outbox.send(POOL, disks=[disk], health=[], unreturned=[])

    monkeypatch.setattr(session.Batches, "_measure", leasing)
    cluster, sent = FakeCluster(tmp_path, ONE), [0]

    def lost(_: Worker, request: BatchRequest, line: int) -> bool:
        if line == 0 and request.cells:
            sent[0] += 1
        # pool, rig-up, three lines for each of two trials, pool, end; four batches
        at = {"first trial": (1, 3), "last pool": (4, 8), "last line": (4, 9)}[lost_at]
        return bool(request.cells) and (sent[0], line) == at

    cluster.lost_at, cluster.loss = lost, loss
    coordinate(bench, cluster)
    assert len(bench.trials) == 8
    left = [(one.host, one.unreturned) for one in bench.events if isinstance(one, PoolUsed) and one.unreturned]
    assert [host for host, _ in left] == ([kept] if kept else [])
    assert [one for one in notices if "clean" in one] == [f"{kept}: {text}" for _, (text,) in left]


def test_workers_of_another_version_are_not_used_and_named(bench: Bench, tmp_path: Path) -> None:
    newer = ORDER.model_copy(update={"version": "9.9"})
    with pytest.raises(BadInput, match=re.escape(f"its matrix is {matrix_version()}, and that of `matrix run` is 9.9")):
        coordinate(bench, FakeCluster(tmp_path, ONE, TWO), order=newer)
    remedy = "on one, install the version that `matrix run` has; then start its worker again"
    assert notices[0].splitlines()[1:] == [f"→ {remedy}"]
    assert bench.trials == []


def test_stacks_that_no_host_can_run_are_refused_before_the_first_trial(bench: Bench, tmp_path: Path) -> None:
    order = ORDER.model_copy(update={"kernel": "no such kernel"})
    with pytest.raises(BadInput) as refused:
        coordinate(bench, FakeCluster(tmp_path, ONE, TWO), order=order)
    assert refused.value.brief == "no host of the cluster can run 2 of 2 stacks"
    assert "raid5/chunk=16KiB: one: --kernel no such kernel" in refused.value.details
    assert bench.trials == []


def test_only_workers_with_all_tags_are_used(bench: Bench, tmp_path: Path) -> None:
    fast = Worker("tcp://three:1", "three", tags=("kvm", "nvme"))
    cluster = FakeCluster(tmp_path, replace(ONE, tags=("nvme",)), TWO, fast)
    coordinate(bench, cluster, tags=frozenset({"kvm", "nvme"}))
    assert {trial.notes[HOST] for trial in bench.trials} == {"three"}
    assert notices == [
        "a worker on one is not used: it has no tag kvm",
        "a worker on two is not used: it has no tag kvm, nvme",
    ]


def test_a_cluster_without_a_worker_with_the_tags_is_refused_with_the_list(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        coordinate(bench, FakeCluster(tmp_path, ONE, TWO), tags=frozenset({"nvme"}))
    assert refused.value.brief == "no worker of the cluster can be used"
    assert refused.value.details == "- one: it has no tag nvme\n- two: it has no tag nvme"
    with pytest.raises(BadInput, match="one: it has no tag nvme"):
        coordinate(bench, FakeCluster(tmp_path, ONE), tags=frozenset({"nvme"}))
    assert bench.trials == []


def test_a_host_gets_no_more_rigs_than_it_has_room_for(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matrix_runner.machines.dry.Dry.max_rigs", lambda *_: 1)
    cluster = FakeCluster(tmp_path, replace(ONE, slots=2))
    coordinate(bench, cluster)
    assert cluster.most == {ONE.address: 1}
    assert notices == ["one has room for 1 of 2 rigs of this matrix"]


def test_rigs_that_would_slow_each_other_down_work_one_at_a_time(bench: Bench, tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, replace(ONE, slots=2))
    coordinate(bench, cluster, order=ORDER.model_copy(update={"one_at_a_time": "no models"}))
    assert cluster.most == {ONE.address: 1}
    assert notices == ["one gets one rig at a time: no models"]


def test_a_worker_that_does_not_survive_its_check_is_not_used(bench: Bench, tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, ONE, TWO)
    cluster.lost_at = lambda worker, request, _: worker == ONE and not request.cells
    coordinate(bench, cluster)
    remedy = "correct this on its host, and start the worker again"
    assert notices == [f"a worker on one is not used: the worker is gone\n→ {remedy}"]
    assert {trial.notes[HOST] for trial in bench.trials} == {"two"}
    cluster.lost_at = lambda _, request, __: not request.cells
    bench.journal.take_back()
    with pytest.raises(BadInput, match="the worker is gone"):
        coordinate(Bench(tmp_path), cluster)


def test_a_scheduler_that_is_lost_during_checks_costs_no_worker(bench: Bench, tmp_path: Path) -> None:
    cluster, lost = FakeCluster(tmp_path, ONE), Counter[str]()
    cluster.loss = SchedulerLost

    def lose(worker: Worker, request: BatchRequest, _: int) -> bool:
        lost[worker.address] += not request.cells
        return not request.cells and lost[worker.address] <= 5

    cluster.lost_at = lose
    coordinate(bench, cluster)
    assert notices == []
    assert Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())


class Refusing(FakeCluster):
    """Hosts that pass their check, and then refuse each batch."""

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        if not request.cells:
            await super().carry_out(worker, request, receive)
            return
        outbox = Outbox(receive)
        outbox.begin(request.token)
        outbox.send("refused", brief="its disks are in use", details="  disk-a: mounted\n", resolution="wait")
        outbox.send("end")


def test_a_run_ends_with_the_reasons_when_all_workers_have_refused(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no worker of the cluster can be used") as refused:
        coordinate(bench, Refusing(tmp_path, ONE, TWO))
    reasons = [f"{host}: its disks are in use\n  disk-a: mounted" for host in ("one", "two")]
    assert refused.value.details == "\n".join(f"- {one}" for one in reasons)
    assert [f"a worker on {one.replace(':', ' is not used:', 1)}\n→ wait" for one in reasons] == notices[:2]


class Nonsense(FakeCluster):
    """Workers that pass their check, and then answer each batch with a line."""

    line = b""

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        if request.cells:
            receive(self.line.replace(b"TOKEN", request.token.encode()))
        else:
            await super().carry_out(worker, request, receive)


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"[1]",
        b"[" * 100_000,
        b'{"event": "unknown", "token": "TOKEN", "line": 0}',
        b'{"event": "trial", "token": "TOKEN", "line": 0, "round": 1}',
        b'{"event": "rig-up", "token": "TOKEN", "line": 0, "stack": "s", "seconds": "x", "facts": {}}',
        b'{"event": "end", "token": "of another batch", "line": 0}',
    ],
)
def test_a_worker_that_sends_nonsense_is_refused(bench: Bench, tmp_path: Path, line: bytes) -> None:
    cluster = Nonsense(tmp_path, ONE)
    cluster.line = line
    lost = b"another" in line
    expected = "it sent no end of its batch" if lost else "it sent a message that does not fit"
    with pytest.raises(BadInput, match=expected):
        coordinate(bench, cluster)
    assert bench.trials == []


class Silent(FakeCluster):
    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:  # noqa: ARG002
        await asyncio.sleep(0)


def test_a_worker_that_answers_no_check_is_refused(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="it did not answer what it can run"):
        coordinate(bench, Silent(tmp_path, ONE))


class Slow(FakeCluster):
    """A host that cannot keep up with two batches at a time."""

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        def limited(line: bytes) -> None:
            message = orjson.loads(line)
            if message["event"] == "trial" and sum(self.busy.values()) > 1:
                notes = orjson.loads(message["notes"]) | {"host_limited": "12 %"}
                message |= {"notes": orjson.dumps(notes).decode(), "lost": 0.12}
            receive(orjson.dumps(message))

        await super().carry_out(worker, request, limited)


def test_a_trial_that_others_disturbed_is_repeated_alone(bench: Bench, tmp_path: Path) -> None:
    coordinate(bench, Slow(tmp_path, Worker("a", "one", slots=2)))
    assert Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())
    assert all("host_limited" not in trial.notes for trial in bench.trials)
    repeated = [trial.notes["repeated"] for trial in bench.trials if "repeated" in trial.notes]
    assert repeated
    assert set(repeated) == {"alone; host-limited 12 % with 1 beside it"}
    assert all("beside" not in trial.notes for trial in bench.trials if "repeated" in trial.notes)


@pytest.mark.parametrize(
    ("loss", "measured", "following"),
    [
        (BatchLost, True, "another process continues the batch"),
        (WorkerLost, True, "its round waits for one, up to 60 s after all other work, then goes to another host"),
        (WorkerLost, False, "another worker continues the batch"),
    ],
)
def test_a_loss_is_reported_with_who_continues(
    bench: Bench, tmp_path: Path, *, loss: type[WorkerLost], measured: bool, following: str
) -> None:
    cluster, once = FakeCluster(tmp_path, ONE), iter([True])
    cluster.loss = loss
    cluster.lost_at = lambda _, request, line: len(request.cells) == 2 and line == 5 and next(once, False)
    coordinate(bench, cluster, measured=measured)
    assert [one.next for one in bench.events if isinstance(one, RigWasLost)] == [following]


class Leaving(FakeCluster):
    """Its first worker goes after its first batch, and comes back when the run waits for it."""

    def __init__(self, scratch: Path, worker: Worker, *others: Worker) -> None:
        super().__init__(scratch, worker, *others)
        self.worker = worker

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        await super().carry_out(worker, request, receive)
        if request.cells and worker == self.worker and [host for host, _ in self.requests].count(worker.host) == 1:
            self.workers.remove(worker)
            self.changed()

    def come_back(self, event: Event) -> None:
        if isinstance(event, Waiting) and event.what and self.worker not in self.workers:
            self.workers.append(self.worker)
            self.changed()


class WithGuest(Leaving):
    """Beside it, a worker comes while the run waits, and goes before it has said what it can do."""

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        if worker == TWO:
            await asyncio.sleep(0.05)
            self.workers[:] = [self.worker]
            self.changed()
            raise WorkerLost("the worker is gone")
        await super().carry_out(worker, request, receive)

    def come_back(self, event: Event) -> None:
        if event == Waiting(engine.Awaited.WORKERS.value) and self.requests and not self.workers:
            self.workers.append(TWO)
            self.changed()


def test_a_worker_that_only_joins_does_not_make_a_run_go_on(bench: Bench, tmp_path: Path) -> None:
    cluster, there = WithGuest(tmp_path, ONE), list[bool]()

    def note(text: str) -> None:
        notices.append(text)
        there.append(ONE in cluster.workers)

    coordinate(bench, cluster, listen=cluster.come_back, notice=note)
    assert [*zip(notices, there, strict=True)] == [(engine._NO_WORKER_LEFT, False), (engine._GOES_ON, True)]


def test_a_run_without_its_workers_does_not_advise_to_start_the_first_one(bench: Bench, tmp_path: Path) -> None:
    cluster = Leaving(tmp_path, ONE)
    coordinate(bench, cluster, listen=cluster.come_back)
    assert notices == [engine._NO_WORKER_LEFT, engine._GOES_ON]
    first, *_, last = (event.what for event in bench.events if isinstance(event, Waiting))
    assert (first, last) == ("waiting for workers", "")
    assert Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())


class Coming(FakeCluster):
    """Its only worker goes after the first batch, and another host joins."""

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        await super().carry_out(worker, request, receive)
        if request.cells and worker == ONE:
            self.workers[:] = [TWO]
            self.changed()


def test_another_host_measures_the_rest_of_a_round_whose_host_stays_away(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_patience(event: Event) -> None:
        if isinstance(event, Waiting):
            monkeypatch.setattr(members, "PATIENCE", 0.01)

    coordinate(bench, Coming(tmp_path, ONE), listen=end_patience)
    assert Counter(trial.notes[HOST] for trial in bench.trials) == {"one": 2, "two": 6}
    first, *_, last = (event.what for event in bench.events if isinstance(event, Waiting))
    assert (first, last) == ("waiting up to 60 s for one", "")


def test_a_run_waits_for_a_host_only_when_no_other_goes_on(bench: Bench, tmp_path: Path) -> None:
    cluster = Leaving(tmp_path, ONE, TWO)
    coordinate(bench, cluster, listen=cluster.come_back)
    waits = [number for number, event in enumerate(bench.events) if isinstance(event, Waiting)]
    assert [bench.events[number] for number in waits] == [Waiting("waiting up to 60 s for one"), Waiting("")]
    before = Counter(type(event) for event in bench.events[: waits[0]])
    assert before[BatchStarted] == before[BatchDone] == 3
    assert Counter(trial.notes[HOST] for trial in bench.trials) == {"one": 4, "two": 4}


class SlowLeaving(FakeCluster):
    """Its host `one` cannot keep up, goes before it repeats a trial, and comes back when the run waits for it."""

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        def limited(line: bytes) -> None:
            message = orjson.loads(line)
            if message["event"] == "trial" and worker.host == "one" and self.busy[worker.address] > 1:
                notes = orjson.loads(message["notes"]) | {"host_limited": "12 %"}
                message |= {"notes": orjson.dumps(notes).decode(), "lost": 0.12}
                self.workers[:] = [TWO]
                self.changed()
            receive(orjson.dumps(message))

        await super().carry_out(worker, request, limited)

    def come_back(self, event: Event) -> None:
        if isinstance(event, Waiting) and event.what:
            self.workers[:] = [replace(ONE, slots=2), TWO]
            self.changed()


def test_a_run_names_a_host_that_must_repeat_a_trial_alone(bench: Bench, tmp_path: Path) -> None:
    cluster = SlowLeaving(tmp_path, replace(ONE, slots=2), TWO)
    coordinate(bench, cluster, measured=False, listen=cluster.come_back)  # so that no round belongs to a host
    waits = [event.what for event in bench.events if isinstance(event, Waiting)]
    assert waits == ["waiting up to 60 s for one", ""]
    assert {trial.notes[HOST] for trial in bench.trials if "repeated" in trial.notes} == {"one"}
    assert Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())


def test_a_host_without_a_trial_to_repeat_is_not_awaited() -> None:
    repeats, opened = RepeatsAlone(), OpenRound(1, bound=True)
    repeats.add("one", opened, Mock())
    assert repeats.hosts == {"one"}
    repeats.take("one")
    assert repeats.hosts == set()


def test_a_budget_of_time_ends_batches_and_counts_what_is_left(bench: Bench, tmp_path: Path) -> None:
    made = coordinate(bench, FakeCluster(tmp_path, ONE), spending=Spending(Cost(0.0)))
    assert bench.trials == []
    assert made.scheduler.short == 8


def test_a_search_is_followed_by_the_coordinator(tmp_path: Path) -> None:
    text = SMALL.replace(
        "work: {rw: [read, randwrite], bs: 4KiB, runtime: 1s}",
        "work: {rw: read, bs: 4KiB, runtime: 1s, find: {max: iops, while: 'read.p99 < 4ms'}}",
    )
    bench = Bench(tmp_path, text)
    coordinate(bench, FakeCluster(tmp_path, ONE), order=ORDER.model_copy(update={"text": text}))
    found = {(one.cell, one.round) for one in bench.trials}
    (tmp_path / "other").mkdir()
    other = Bench(tmp_path / "other", text)
    other.run()
    assert found == {(one.cell, one.round) for one in other.trials}
    other.journal.close()
    bench.journal.close()
