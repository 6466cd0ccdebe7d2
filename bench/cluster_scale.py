"""Does the coordinator keep up with many workers? They answer at once, with records as those of the dry machine.

    python -m bench.cluster_scale --workers 1000 --batches 100000

Real schedulers, connections and journal; the workers share a few processes, and no batch process is started.
One side: rates against stated limits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import tempfile
import threading
import time
import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from matrix_runner.base.version import matrix_version
from matrix_runner.carry.batch_messages import Order
from matrix_runner.carry.cluster.members import Membership, scheduler, worker
from matrix_runner.carry.cluster.relayed import RelayedCluster
from matrix_runner.carry.cluster.seats import Seats
from matrix_runner.carry.coordinator import Coordinator
from matrix_runner.carry.events import Event, TrialDone
from matrix_runner.carry.recorder import RunContext
from matrix_runner.decide.plan import Plan
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.machines.dry import Dry
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.records.rows import encode_trial
from matrix_runner.space.load import parse
from matrix_runner.space.select import select
from matrix_runner.work.fio.output import Direction, Figures

if TYPE_CHECKING:
    from collections.abc import Mapping

MATRIX = """\
name: scale
disks: {{count: 4, size: 64GiB}}
layouts:
  raid: [md: {{level: [0, 5, 6, 10], chunk: [{chunks}]}}]
workloads:
  work: {{rw: read, bs: 4KiB, runtime: 1s}}
repeat: {rounds}
"""
STACKS = 40
SECONDS = 0.0


class NoShelf:
    def put(self, cell: str, round_number: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:  # noqa: ARG002
        return f"cells/{cell}/trial-{round_number}"

    def keep_tear_down(self, stack: str, tear_down: str) -> None: ...
    def forget_tear_down(self, stack: str) -> None: ...


async def answer(_: Seats, content: bytes, lines: list[bytes]) -> str:
    """Stand for a batch process, which takes as long as wanted and always has the same figures."""
    request = orjson.loads(content)
    await asyncio.sleep(SECONDS if request["cells"] else 0)
    sent: list[dict[str, Any]] = []
    if request["cells"]:
        trial = dict(TRIAL) | {"cell": request["cells"][0], "round": request["round"]}
        sent += [{"event": "rig-up", "stack": "", "seconds": 0.1, "facts": {"kernel": "synthetic"}}]
        sent += [{"event": "trial", **trial}]
    else:
        sent += [{"event": "checked", "refusals": {}, "boot_id": "one", "rigs": 1}]
    for number, one in enumerate([*sent, {"event": "end"}]):
        lines.append(orjson.dumps({"token": request["token"], "line": number, **one}))
    return ""


TRIAL = encode_trial(
    Trial(
        cell="",
        round=0,
        outcome=Outcome.MEASURED,
        started="2026-01-01T00:00:00.000+00:00",
        seconds=1.0,
        figures=Figures(
            Direction(1e8, 25e3, 10**8, 25_000, 4e4, 4e4, 4e4, 4e4, 4e4, 4e4, 4e4, 4e4), None, 1.0, 1.0, 2.0, 0
        ),
        notes={"kernel": "synthetic"},
    )
)


def end_with_parent() -> None:
    def wait() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def raise_limit() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def be_workers(address: str, first: int, count: int, seconds: float) -> None:
    global SECONDS  # noqa: PLW0603
    SECONDS = seconds
    raise_limit()
    end_with_parent()
    Seats.execute = answer  # type: ignore[method-assign, assignment]

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for number in range(first, first + count):
                await stack.enter_async_context(worker(address, Membership(f"host-{number}", 1)))
            await asyncio.get_running_loop().create_future()

    asyncio.run(run())


def be_scheduler(queue: Any) -> None:
    end_with_parent()

    async def run() -> None:
        async with scheduler("tcp://127.0.0.1:0") as address:
            queue.put(address)
            await asyncio.get_running_loop().create_future()

    asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.0, help="how long a batch takes")
    wanted = parser.parse_args()
    raise_limit()
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    members = [spawn.Process(target=be_scheduler, args=(queue,), daemon=True)]
    members[0].start()
    address = queue.get()
    each = wanted.workers // wanted.processes
    shares = ((address, at * each, each, wanted.seconds) for at in range(wanted.processes))
    members += [spawn.Process(target=be_workers, args=share, daemon=True) for share in shares]
    for one in members[1:]:
        one.start()
    chunks = ", ".join(f"{4 << number}KiB" for number in range(STACKS // 4))
    text = MATRIX.format(chunks=chunks, rounds=max(1, wanted.batches // STACKS))
    space = parse("scale.yaml", text).space
    plan = Plan(select(space), space.matrix.repeat, space.matrix.seed)
    asyncio.run(wait_for(address, each * wanted.processes))
    times: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, TrialDone):
            times.append(time.monotonic())

    with tempfile.TemporaryDirectory() as folder, Journal.open(Path(folder) / "journal.sqlite") as journal:
        context = RunContext(Dry(), journal, NoShelf(), Path(folder), listen, "here")
        order = Order(digest="scale", version=matrix_version(), name="scale.yaml", text=text, machine="dry")
        made = Coordinator(Scheduler(plan), context, RelayedCluster(address), order, print)
        idle = [processor_seconds(one) for one in members]
        before, began, used = memory(), time.monotonic(), time.process_time()
        asyncio.run(made.run())
        used = time.process_time() - used
        members_used = [processor_seconds(one) - at for one, at in zip(members, idle, strict=True)]
    print(json.dumps({
        "batches": len(times), "seconds": round(times[-1] - began, 2), "refused": made.refused,
        "first result, s": round(times[0] - began, 2),
        "batches a second": round(len(times) / (times[-1] - times[0])),
        "processor ms a batch": {
            "coordinator": round(used / len(times) * 1000, 2),
            "scheduler": round(members_used[0] / len(times) * 1000, 2),
            "workers": round(sum(members_used[1:]) / len(times) * 1000, 2),
        },
        "memory before, MB": before,
        "most memory, MB": memory(), "request, bytes": len(zlib.compress(text.encode(), 1)),
    }))  # fmt: skip
    for one in members:
        one.kill()


async def wait_for(address: str, count: int) -> None:
    cluster = RelayedCluster(address)
    async with cluster.open(lambda: None):
        while len(cluster.workers) < count:  # noqa: ASYNC110
            await asyncio.sleep(1)


def processor_seconds(process: Any) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
