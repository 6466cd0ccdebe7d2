"""A cluster: real schedulers and workers, whose batches are killed, and members that must not join."""

from __future__ import annotations

import asyncio
import csv
import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.children import hang_up
from matrix_runner.base.errors import BadInput
from matrix_runner.carry.batch_messages import BatchRequest
from matrix_runner.carry.coordinator import Coordinator
from matrix_runner.carry.events import BatchDone, BatchStarted, Event, RigWasLost, Waiting
from matrix_runner.carry.recorder import RunContext
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.records.run_folder import runs
from tests.support.batches import ORDER
from tests.support.dry import Dry
from tests.support.engine import Bench
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from matrix_runner.carry.batch_messages import Cluster
    from matrix_runner.carry.cluster.frames import Lines
    from tests.support.command import Call, Said

from matrix_runner.base.version import matrix_version
from matrix_runner.carry.batch_messages import BatchLost, SchedulerLost, Worker, WorkerLost
from matrix_runner.carry.cluster import relayed, seats
from matrix_runner.carry.cluster.connection import (
    Address,
    ClusterLost,
    Ended,
    check_listening,
    connect,
    load_certificates,
    make_certificates,
)
from matrix_runner.carry.cluster.frames import packed
from matrix_runner.carry.cluster.members import Membership, scheduler, stay_member, worker
from matrix_runner.carry.cluster.relayed import RelayedCluster, Status, query
from matrix_runner.carry.cluster.seats import Seats
from matrix_runner.session.cluster import slots_of_hosts
from matrix_runner.session.run_request import ClusterOptions


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.journal.close()


async def coordinate(
    bench: Bench,
    cluster: Cluster,
    listen: Callable[[Event], None],
    notice: Callable[[str], None] = lambda _: None,
) -> None:
    context = RunContext(Dry(), bench.journal, bench.shelf, bench.folder, listen, "here")
    await Coordinator(Scheduler(bench.plan), context, cluster, ORDER, notice).run()


def planned_once(bench: Bench) -> bool:
    return Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())


def test_a_batch_process_that_is_killed_costs_no_trial(bench: Bench) -> None:
    killed: list[int] = []

    def kill_one(event: Event) -> None:
        if isinstance(event, BatchDone) and len(killed) < 3:
            for pid in _batch_processes()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    async def run() -> None:
        async with members("one", "two") as address:
            await coordinate(bench, RelayedCluster(address), kill_one)

    asyncio.run(run())
    assert killed
    assert planned_once(bench)
    assert _batch_processes() == []


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of temporary files of this process and its batches."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def farewell(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Return what shows that a batch process is about to end."""
    begun = asyncio.Event()

    async def observed(child: asyncio.subprocess.Process, patience: float) -> None:
        begun.set()
        await hang_up(child, patience)

    monkeypatch.setattr(seats, "hang_up", observed)
    return begun


def test_a_worker_removes_what_one_before_it_left(temporary: Path) -> None:
    """A worker that was killed leaves the folders of its batches; the next one need not reach its scheduler."""
    (temporary / f"{seats.SCRATCH}-{os.getuid()}-killed").mkdir()

    def end_one_more() -> None:
        assert list(temporary.iterdir()) == []
        (temporary / f"{seats.SCRATCH}-{os.getuid()}-ended-later").mkdir()

    async def look_for_a_scheduler() -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
        tried = asyncio.Event()
        member = asyncio.create_task(stay_member(address, Membership("one"), None, lambda _: tried.set()))
        await tried.wait()
        end_one_more()
        member.cancel()
        await asyncio.wait([member])

    asyncio.run(look_for_a_scheduler())
    assert list(temporary.iterdir()) == []


async def stop_a_worker_that_lost_its_scheduler(bench: Bench, moment: asyncio.Event) -> None:
    async with scheduler("tcp://127.0.0.1:0") as address:
        joined = asyncio.Event()
        member = asyncio.create_task(stay_member(address, Membership("one"), None, lambda _: joined.set()))
        await joined.wait()
        await coordinate(bench, RelayedCluster(address), lambda _: None)
    await moment.wait()
    member.cancel()
    await asyncio.wait([member])


def test_a_worker_that_is_stopped_while_it_leaves_a_scheduler_removes_its_folders(
    bench: Bench, temporary: Path, farewell: asyncio.Event
) -> None:
    asyncio.run(stop_a_worker_that_lost_its_scheduler(bench, farewell))
    assert list(temporary.iterdir()) == []
    assert _batch_processes() == []


def test_a_worker_that_is_stopped_when_it_begins_to_leave_removes_its_folders(
    bench: Bench, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving = asyncio.Event()

    async def stay_alive(_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            leaving.set()
            await asyncio.sleep(0.1)

    monkeypatch.setattr("matrix_runner.carry.cluster.members.Worker.stay_alive", stay_alive)

    asyncio.run(stop_a_worker_that_lost_its_scheduler(bench, leaving))
    assert list(temporary.iterdir()) == []
    assert _batch_processes() == []


LASTING = """\
import sys
from matrix_runner.base.files import scratch_folder
with scratch_folder("matrix-batch"):
    print("{}", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("is_lost", [False, True], ids=["cancelled", "its coordinator is lost"])
def test_a_batch_that_is_given_up_by_a_worker_that_ends_removes_its_folder(
    is_lost: bool, temporary: Path, farewell: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time to take a rig down and to return disks counts from the first cancellation, and is not cut short."""
    monkeypatch.setattr(seats, "COMMAND", (sys.executable, "-c", LASTING))

    async def run() -> None:
        begun = asyncio.Event()

        def send(*_: object) -> None:
            begun.set()
            if is_lost:
                raise Ended

        made = Seats(send, 1)
        made.begin("token", packed(b"{}"), measures=True)
        await begun.wait()
        if not is_lost:
            made.cancel("token")
        await farewell.wait()
        await made.close()

    asyncio.run(run())
    assert list(temporary.iterdir()) == []


def _batch_processes() -> list[int]:
    listed = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "matrix_runner.cli batch"], capture_output=True, text=True
    )
    return [int(pid) for pid in listed.stdout.split()]


@asynccontextmanager
async def members(*hosts: str, folder: Path | None = None, address: str = "") -> AsyncIterator[str]:
    """Start a scheduler and a worker for each host, in this process; yield the address."""
    security = load_certificates(folder) if folder else None
    listen = address or f"{'tls' if folder else 'tcp'}://127.0.0.1:0"
    async with scheduler(listen, security) as address:
        made = [worker(address, Membership(host, 1), security) for host in hosts]
        for one in made:
            await one.__aenter__()
        try:
            yield address
        finally:
            for one in made:
                await one.__aexit__(None, None, None)


@contextmanager
def members_in_a_thread(*hosts: str) -> Iterator[str]:
    """Start members beside a command, which handles signals and so needs the main thread."""
    started, over, loop = Queue[str](), asyncio.Event(), asyncio.new_event_loop()

    async def stay() -> None:
        async with members(*hosts) as address:
            started.put(address)
            await over.wait()

    thread = Thread(target=loop.run_until_complete, args=(stay(),))
    thread.start()
    try:
        yield started.get()
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


def test_hosts_join_over_tls_and_others_cannot(bench: Bench, tmp_path: Path) -> None:
    make_certificates(tmp_path / "ours")
    make_certificates(tmp_path / "others")

    async def run() -> None:
        async with members("one", folder=tmp_path / "ours") as address:
            stranger = RelayedCluster(address, certificates=load_certificates(tmp_path / "others"))
            with pytest.raises(ClusterLost, match="the certificates do not match"):
                await coordinate(bench, stranger, lambda _: None)
            ours = RelayedCluster(address, certificates=load_certificates(tmp_path / "ours"))
            await coordinate(bench, ours, lambda _: None)

    asyncio.run(run())
    assert planned_once(bench)


async def test_a_worker_joins_again_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.carry.cluster.members._PAUSE", 0.01)
    make_certificates(tmp_path)
    ours, reports = load_certificates(tmp_path), asyncio.Queue[str]()

    async def join() -> None:
        while not (report := await reports.get()).startswith("joined"):
            assert report != "ended"

    async with scheduler("tls://127.0.0.1:0", ours) as address:
        task = asyncio.create_task(stay_member(address, Membership("one"), ours, reports.put_nowait))
        task.add_done_callback(lambda _: reports.put_nowait("ended"))
        await join()
    async with scheduler(address, ours):
        await join()
        task.cancel()
        await asyncio.wait([task])


def test_a_worker_opens_no_port(bench: Bench, tmp_path: Path) -> None:
    """Only the scheduler listens, with TLS, at the address that it was given; nor does a process of a batch."""
    make_certificates(tmp_path)
    before, found = _listeners(), set[str]()  # a plugin of pytest listens

    async def run() -> None:
        async with members("one", "two", folder=tmp_path) as address:
            cluster = RelayedCluster(address, load_certificates(tmp_path))
            await coordinate(bench, cluster, lambda _: found.update(_listeners() - before))

    asyncio.run(run())
    assert planned_once(bench)
    assert [one.partition(":")[0] for one in found] == ["0100007F"]


def _listeners() -> set[str]:
    """Return the addresses, as the kernel writes them, at which this process and its batches listen."""
    ours = set[str]()
    for pid in (os.getpid(), *_batch_processes()):
        with suppress(FileNotFoundError):  # the batch has ended
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(FileNotFoundError):
                    ours.add(str(descriptor.readlink()))
    tables = [Path(f"/proc/net/{kind}").read_text() for kind in ("tcp", "tcp6", "udp", "udp6")]
    lines = [line.split() for table in tables for line in table.splitlines()]
    return {line[1] for line in lines if line[3] in {"0A", "07"} and f"socket:[{line[9]}]" in ours}


def test_a_cancelled_run_stops_its_batches_on_the_workers(bench: Bench) -> None:
    started = asyncio.Event()

    def note(event: Event) -> None:
        if isinstance(event, BatchStarted):
            started.set()

    async def run() -> None:
        async with members("one") as address:
            task = asyncio.create_task(coordinate(bench, RelayedCluster(address), note))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await coordinate(bench, RelayedCluster(address), lambda _: None)

    asyncio.run(run())
    assert planned_once(bench)


def request(token: str) -> BatchRequest:
    return BatchRequest(token=token, order=ORDER, round=1, stack="stack", cells=("cell",))


def test_two_coordinators_share_the_slot_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, second = 0, 0, asyncio.Event()

    async def execute(_: Seats, content: bytes, lines: list[bytes]) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await second.wait()
        running -= 1
        lines.append(b"line")
        return ""

    monkeypatch.setattr(Seats, "execute", execute)

    async def run() -> list[bytes]:
        lines: list[bytes] = []
        async with members("one") as address:
            one, two = RelayedCluster(address), RelayedCluster(address)
            async with one.open(lambda: None), two.open(lambda: None):
                (place,) = one.workers
                both = ((one, request("one")), (two, request("two")))
                tasks = [asyncio.create_task(it.carry_out(place, what, lines.append)) for it, what in both]
                while (await query(address, None)).busy[place.address] < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                second.set()
                await asyncio.gather(*tasks)
                assert (await query(address, None)).busy[place.address] == 0
        return lines

    assert asyncio.run(run()) == [b"line", b"line"]
    assert most == 1


async def test_a_silent_worker_with_a_batch_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayed, "_LOOK", 0.01)
    monkeypatch.setattr(Seats, "begin", lambda *_, **__: None)
    async with members("one") as address:
        cluster = RelayedCluster(address)
        async with cluster.open(lambda: None):
            (place,) = cluster.workers
            with pytest.raises(BatchLost, match="its worker sent nothing for"):
                await cluster.carry_out(place, request("one"), lambda _: None)


async def test_a_worker_with_a_silent_batch_sends_signs_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard, both = Counter[str](), asyncio.Event()
    received = RelayedCluster._receive

    def receive(cluster: RelayedCluster, head: Lines, body: bytes) -> None:
        received(cluster, head, body)
        heard[head.token] += 1
        if min(heard["one"], heard["two"]) > 2:
            both.set()

    async def execute(*_: object) -> str:
        await both.wait()
        return ""

    monkeypatch.setattr(RelayedCluster, "_receive", receive)
    monkeypatch.setattr(Seats, "execute", execute)
    monkeypatch.setattr(seats, "INTERVAL", 0.001)
    async with members("one") as address:
        cluster = RelayedCluster(address)
        async with cluster.open(lambda: None), asyncio.timeout(60):
            (place,) = cluster.workers
            await asyncio.gather(*(cluster.carry_out(place, request(one), lambda _: None) for one in ("one", "two")))
    assert both.is_set()


def test_a_request_to_a_worker_that_left_is_lost_at_once() -> None:
    async def run() -> None:
        async with members("one") as address:
            cluster = RelayedCluster(address)
            async with cluster.open(lambda: None):
                with pytest.raises(WorkerLost, match="the worker is gone"):
                    await cluster.carry_out(Worker("tcp://127.0.0.1:1", "two"), request("one"), lambda _: None)

    asyncio.run(run())


async def test_an_address_without_a_dask_scheduler_is_refused() -> None:
    """Such as a server of HTTP, or a scheduler of another version."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    with pytest.raises(ClusterLost, match="does not answer as a scheduler"):
        await connect(f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", None)
    server.close()


def test_a_run_that_no_host_can_measure_leaves_no_folder(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)

    async def run() -> Said:
        async with members("one") as address:
            words = ("run", "--on", "dry", "--cluster", address, "--insecure", "--tags", "nvme", "small.yaml")
            return await asyncio.to_thread(call, *words)

    refused = asyncio.run(run())
    assert refused.status == 2
    assert "it has no tag nvme" in refused.err
    assert not (tmp_path / "results").exists()


def test_a_run_goes_on_when_its_scheduler_comes_back(bench: Bench) -> None:
    """And ends with what to do, when it stays away."""
    started = asyncio.Event()

    def note(event: Event) -> None:
        if isinstance(event, BatchStarted):
            started.set()

    async def run() -> None:
        async with members("one") as address:
            task = asyncio.create_task(coordinate(bench, RelayedCluster(address), note))
            await started.wait()
        async with members("one", address=address):
            await task

    asyncio.run(run())
    assert planned_once(bench)


def test_a_scheduler_that_is_stopped_is_one_message_and_not_a_loss_of_every_worker(bench: Bench) -> None:
    started, events, notices = asyncio.Event(), list[Event](), list[str]()

    def note(event: Event) -> None:
        events.append(event)
        if isinstance(event, BatchStarted):
            started.set()

    async def run() -> None:
        joined = list[asyncio.Task[None]]()
        async with scheduler("tcp://127.0.0.1:0") as address:
            for host in ("one", "two"):
                member = Membership(host, 1)
                joined.append(asyncio.create_task(stay_member(address, member, None, lambda _: None)))
            task = asyncio.create_task(coordinate(bench, RelayedCluster(address), note, notices.append))
            await started.wait()
        async with scheduler(address):
            await task
            for one in joined:
                one.cancel()
            await asyncio.wait(joined)

    asyncio.run(run())
    assert planned_once(bench)
    (gone,) = (one for one in notices if "gone" in one)
    assert gone.endswith("the run waits up to 30 s for it: start it again with `matrix cluster scheduler`")
    assert not [one for one in events if isinstance(one, RigWasLost)]
    waits = [one.what for one in events if isinstance(one, Waiting)]
    assert "waiting for the scheduler" in waits
    assert waits[-1] == ""


def test_a_run_ends_when_its_scheduler_stays_away(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.carry.batch_messages.RECONNECT", 1.0)
    waits, events, notices = asyncio.Event(), list[str](), list[str]()

    def note(event: Event) -> None:
        if isinstance(event, Waiting):
            events.append(event.what)
            waits.set()

    async def run() -> None:
        async with members() as address:  # without a worker, so that it waits
            cluster = RelayedCluster(address)
            task = asyncio.create_task(coordinate(bench, cluster, note, notices.append))
            await waits.wait()
        with pytest.raises(ClusterLost, match="the scheduler of the cluster is gone") as lost:
            await task
        assert lost.value.resolution == "start it again; the same command continues"
        assert not cluster.connected

    asyncio.run(run())
    assert events == ["waiting for workers", "waiting for the scheduler"]
    assert notices[1].endswith("start it again with `matrix cluster scheduler`")


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the trials without what differs from run to run."""
    varying = {"seconds", "started", "host", "notes"}
    with path.open(newline="") as lines:
        return [{name: text for name, text in row.items() if name not in varying} for row in csv.DictReader(lines)]


def test_a_run_on_a_cluster_gives_the_same_results(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)

    with members_in_a_thread("one") as address:
        said = call("run", "--on", "dry", "--cluster", address, "--insecure", "small.yaml")
    assert said.status == 0
    assert said.out.count(", on one\n") == 8
    assert call("run", "--on", "dry", "--fresh", "small.yaml").status == 0
    assert [run.manifest.on_cluster for run in runs(tmp_path / "results")] == [True, False]
    cluster, plain = (rows_of(path) for path in sorted(tmp_path.glob("results/*/trials.csv")))
    assert cluster == plain


def test_a_search_on_a_cluster_gives_the_same_answer(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    ends = ("--along", "md.chunk", "--good", "16KiB", "--bad", "64KiB", "--only", "rw=read")
    words = ("bisect", "--on", "dry", *ends, "small.yaml")
    with members_in_a_thread("one") as address:
        on_cluster = call(*words, "--cluster", address, "--insecure")
    plain = call(*words, "--fresh")
    assert on_cluster.status == plain.status, on_cluster.err
    assert plain.status in {0, 1}
    answers = [one.out.partition("\n┏")[2].partition("results/")[0] for one in (on_cluster, plain)]
    assert answers[0] == answers[1] != ""


async def test_the_status_of_a_cluster_has_its_workers() -> None:
    async with scheduler("tcp://127.0.0.1:0") as address, worker(address, Membership("one", 2, ("nvme",))):
        found = await query(address, None)
    assert [row[:5] for row in found.rows()] == [("one", "2", "0", matrix_version(), "nvme")]


def test_the_estimate_of_a_run_asks_the_scheduler_for_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [
        Worker("a", "one", 2, matrix_version(), tags=("nvme",)),
        Worker("b", "one", 1, matrix_version(), tags=("nvme",)),
    ]
    workers += [Worker("c", "two", 4, matrix_version()), Worker("d", "three", 8, "9.9", tags=("nvme",))]

    async def known(*_: object) -> Status:
        return Status(workers, {})

    monkeypatch.setattr(relayed, "query", known)
    cluster = ClusterOptions(Address.parsed("tcp://127.0.0.1:1"), insecure=True)
    assert slots_of_hosts(cluster, ()) == [3, 4]
    assert slots_of_hosts(cluster, ("nvme",)) == [3]


async def test_a_worker_reports_a_missing_scheduler_and_joins_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    said = asyncio.Queue[str]()
    joining = asyncio.create_task(stay_member(address, Membership("one", 1), None, said.put_nowait))
    assert (await said.get()).startswith(f"no scheduler answers at {address}; trying again\n→ start it with")
    async with scheduler(address):
        assert await said.get() == f"joined {address} as one, with rig=1"
        joining.cancel()
        await asyncio.wait([joining])


@pytest.mark.parametrize(
    ("place", "brief"),
    [
        ("127.0.0.1:{used}", "the port is in use"),
        ("192.0.2.7:8786", "the address is not one of this host"),
        ("no-such-host.invalid:8786", "it cannot be used: "),
    ],
)
def test_a_scheduler_that_cannot_listen_is_refused_in_two_lines(call: Call, place: str, brief: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = place.format(used=other.getsockname()[1])
        refused = call("cluster", "scheduler", "--insecure", "--cluster", f"tcp://{place}")
    assert refused.status == 2
    first, second = refused.err.splitlines()
    assert first.startswith(f"matrix: {place}: {brief}")
    assert second.startswith("→ ")


@pytest.mark.parametrize(("number", "brief"), [(errno.EACCES, "only root"), (errno.ENOBUFS, "it cannot be used: ")])
def test_the_cause_is_named(monkeypatch: pytest.MonkeyPatch, number: int, brief: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(BadInput, match=f"127.0.0.1:80: {brief}"):
        check_listening("127.0.0.1:80")


@pytest.mark.parametrize(
    ("words", "brief"),
    [
        (["--cluster", "tcp://10.0.0.1:1"], "tcp://10.0.0.1:1: without certificates"),
        (["--cluster", "tls://10.0.0.1:1"], "tls://10.0.0.1:1 needs certificates"),
        (["--cluster", "tcp://10.0.0.1:1", "--insecure", "--jobs", "2"], "--jobs does not work with --cluster"),
        (["--cluster", "somewhere"], "'somewhere' is not an address"),
        (["--cluster", "local:2"], "'local:2' is not an address; use --jobs 2 for several rigs on this host"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused_before_the_run(
    call: Call, tmp_path: Path, words: list[str], brief: str
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    refused = call("run", "--on", "dry", *words, "small.yaml")
    assert refused.status == 2
    assert brief in refused.err
    assert not (tmp_path / "results").exists()


async def test_batches_of_a_lost_scheduler_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = RelayedCluster("tcp://1")

    def closed(*_: object) -> None:
        raise Ended

    monkeypatch.setattr(cluster, "_send", closed)
    request = BatchRequest(token="t", order=ORDER)  # noqa: S106 - no password
    with pytest.raises(SchedulerLost, match="the scheduler of the cluster is gone"):
        await cluster.carry_out(Worker("tcp://1", "a"), request, lambda _: None)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["cluster", "status"], 1),
        (["run", "--on", "dry", "small.yaml"], 1),
        (["run", "--on", "dry", "--quiet", "small.yaml"], 0),
    ],
)
def test_a_command_reports_that_it_waits_for_a_scheduler(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], shown: int
) -> None:
    begun: list[str] = []
    monkeypatch.setattr("matrix_runner.carry.batch_messages.RECONNECT", 0.0)
    monkeypatch.setattr("matrix_runner.cli.screen.slow_start.begin", begun.append)
    (tmp_path / "small.yaml").write_text(SMALL)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    failed = call(*words, "--cluster", address, "--insecure")
    assert "no scheduler answers" in failed.err
    assert sum(text.startswith(f"connecting to {address}, for up to ") for text in begun) == shown
