"""A worker that lies is left out. The run goes on with others: each trial once, nothing written elsewhere, no error."""

from __future__ import annotations

import asyncio
import random
from base64 import b64encode
from collections import Counter
from typing import TYPE_CHECKING, Any
from zlib import compress

import orjson
import pytest

from matrix_runner.carry.batch_messages import BadAnswer, Worker, parsed
from matrix_runner.carry.coordinator import MOST_NOTICES, Coordinator
from matrix_runner.carry.recorder import RunContext
from matrix_runner.decide.budget import ENDLESS, Cost, Spending
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.records.record import HOST
from tests.support.amounts import times
from tests.support.batches import ORDER
from tests.support.cluster import FakeCluster
from tests.support.dry import Dry
from tests.support.engine import Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from matrix_runner.carry.batch_messages import BatchRequest

    Lie = Callable[[dict[str, Any]], list[object]]

HONEST, LIAR = Worker("tcp://one:1", "one"), Worker("tcp://two:1", "two")
OTHER = "0123456789abcdef"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.journal.close()


class Lying(FakeCluster):
    """Its worker `two` changes the messages of its batches; what is no message is sent as it is."""

    lie: Lie

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        number = 0

        def send(line: bytes) -> None:
            nonlocal number
            for one in self.lie(orjson.loads(line)):
                if isinstance(one, dict):
                    one["line"] = one.get("line", number) if one.pop("keep", False) else number
                    number += 1
                receive(one if isinstance(one, bytes) else orjson.dumps(one))

        wrong = worker == LIAR and request.cells
        await super().carry_out(worker, request, send if wrong else receive)


def run(bench: Bench, tmp_path: Path, lie: Lie, budget: Cost = ENDLESS) -> list[str]:
    cluster = Lying(tmp_path, LIAR, HONEST)
    cluster.lie = lie
    return run_on(cluster, bench, budget)


def run_on(cluster: FakeCluster, bench: Bench, budget: Cost = ENDLESS) -> list[str]:
    notices, scheduler = list[str](), Scheduler(bench.plan, spending=Spending(budget))
    context = RunContext(Dry(), bench.journal, bench.shelf, bench.folder, lambda _: None, "here")
    asyncio.run(Coordinator(scheduler, context, cluster, ORDER, notices.append).run())
    assert Counter((one.cell, one.round) for one in bench.trials) == Counter(bench.planned())
    return notices


def of(event: str, /, **changes: object) -> Lie:
    """Return a lie that changes messages of a kind; `None` removes a key."""

    def lie(message: dict[str, Any]) -> list[object]:
        if message["event"] == event:
            message |= changes
            message = {name: value for name, value in message.items() if value is not None}
        return [message]

    return lie


def after(event: str, *more: object) -> Lie:
    return lambda message: [message, *(more if message["event"] == event else ())]


def twice(message: dict[str, Any]) -> list[object]:
    return [message, dict(message)] if message["event"] == "trial" else [message]


def with_notes(message: dict[str, Any]) -> list[object]:
    return (
        [message | {"notes": orjson.dumps({str(at): "x" * 9999 for at in range(99)}).decode()}]
        if message["event"] == "trial"
        else [message]
    )


def notices(message: dict[str, Any]) -> list[object]:
    more = [{"event": "notice", "token": message["token"], "text": f"{at}"} for at in range(MOST_NOTICES + 1)]
    return [message, *(more if message["event"] == "started" else ())]


def attempts(message: dict[str, Any]) -> list[object]:
    if message["event"] != "files":
        return [message]
    lost = {"event": "attempt", "token": message["token"], "cell": message["cell"], "round": message["round"]}
    return [lost | {"number": 1, "started": "2026-01-01T00:00:00+00:00", "reason": "", "tail": ""}]


def bomb(size: int) -> str:
    return b64encode(compress(b"[[" + b"[]," * size + b"[]],[]]", 9)).decode()


LIES: dict[str, Lie] = {
    "a file above its folder": of("files", outputs={"../../../evil": "x"}),
    "a file by its path": of("files", scripts={"/tmp/evil": "x"}),
    "a hidden file": of("files", scripts={".evil": "x"}),
    "a file that is a folder of another trial": of("files", scripts={"trial-2": "x"}),
    "20,000 files": of("files", outputs={f"{at}.log": "" for at in range(20_000)}),
    "files of a foreign cell": of("files", cell="raid6/chunk=16KiB/work/rw=read"),
    "files of another round": of("files", round=7),
    "no round of files": of("files", round=None),
    "a trial of another round": of("trial", round=7),
    "a trial of a negative round": of("trial", round=-1),
    "a trial of a foreign cell": of("trial", cell=OTHER),
    "a trial twice": twice,
    "a measured trial without figures": of("trial", runtime=None),
    "a missing key of a trial": of("trial", outcome=None),
    "an unknown outcome": of("trial", outcome="fine"),
    "a negative number": of("trial", read_iops=-5.0),
    "a number beyond the journal's": of("trial", read_bytes=9_500_000_000_000_000_000, write_bytes=9_500_000_000_000_000_000),
    "a text in place of a number": of("trial", seconds="1"),
    "a huge text": of("trial", reason="x" * (2 << 20)),
    "huge notes": with_notes,
    "a date that is none": of("trial", started="yesterday"),
    "a date that no calendar of ours has": of("trial", started="0001-01-01T00:00:00+23:59"),
    "a histogram that takes much memory": of("trial", read_latencies=bomb(5_000_000), write_latencies=bomb(5_000_000)),
    "negative seconds of a rig": of("rig-up", seconds=-1.0),
    "the beginning of a foreign trial": of("started", name="raid6/chunk=16KiB/work/rw=read"),
    "text that is not UTF-8": after("started", b'{"event":"notice","text":"\xff\xfe"}'),
    "half a character": after("started", b'{"event":"notice","text":"\\ud800"}'),
    "NaN": after("started", b'{"event":"rig-up","token":"","line":1,"stack":"","seconds":NaN,"facts":{}}'),
    "too large a number": after("started", b'{"event":"rig-up","token":"","line":1,"stack":"","seconds":1e999,"facts":{}}'),
    "many values": after("started", b"[" + b"[]," * 700_000 + b"[]]"),
    "an unknown event": after("started", b'{"event":"evil","token":"","line":1}'),
    "an answer to another question": of("started", event="checked", name=None, round=None, stack=None, host=None, refusals={}, rigs=1, boot_id=""),
    "too many notices": notices,
    "too many lines again": lambda message: [message, *([orjson.dumps({"event": "notice", "token": "", "line": 0, "text": ""})] * 1001)],
    "too many attempts": lambda message: attempts(message) * 9,
    "trials of other numbers": of("trial", line=10**15, keep=True),
    "no end": lambda message: [] if message["event"] == "end" else [message],
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_worker_that_lies_is_left_out_and_others_go_on(bench: Bench, tmp_path: Path, lie: Lie) -> None:
    *others, refused = run(bench, tmp_path, lie)
    assert len(others) in {0, MOST_NOTICES}
    assert refused.startswith("a worker on two is not used: it sent ")
    assert {one.notes[HOST] for one in bench.trials} >= {"one"}
    assert not {name for name in bench.shelf.kept if name[1] > 2}


@pytest.mark.parametrize("budget", [ENDLESS, Cost(1e6, 1e18)], ids=["none", "large"])
def test_a_batch_that_ends_without_its_trials_is_measured_by_others(bench: Bench, tmp_path: Path, budget: Cost) -> None:
    """A worker leaves out what exceeds a budget, and only that."""
    run(bench, tmp_path, lambda message: [] if message["event"] in {"started", "files", "trial"} else [message], budget)
    assert {one.notes[HOST] for one in bench.trials} == {"one"}


@pytest.mark.parametrize("order", [1, -1])
def test_a_worker_by_the_name_of_another_host_takes_it_no_stack(bench: Bench, tmp_path: Path, order: int) -> None:
    class Impostor(FakeCluster):
        async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
            refusals = {one.key: "no room" for one in bench.plan.selection.space.stacks}

            def refuse_all(line: bytes) -> None:
                message = orjson.loads(line)
                receive(orjson.dumps(message | {"refusals": refusals}) if message["event"] == "checked" else line)

            await super().carry_out(worker, request, refuse_all if worker.address == LIAR.address else receive)

    assert run_on(Impostor(tmp_path, *(HONEST, Worker(LIAR.address, HONEST.host))[::order]), bench) == []


@pytest.mark.parametrize("wrong", [b"", b'{"event":"unknown"}', None], ids=["no message", "an unknown event", "twice"])
def test_a_worker_that_lies_beside_its_answer_is_not_used(bench: Bench, tmp_path: Path, wrong: bytes | None) -> None:
    class Talkative(FakeCluster):
        async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
            def add(line: bytes) -> None:
                receive(line)
                if orjson.loads(line)["event"] == "checked":
                    receive(line if wrong is None else wrong)

            await super().carry_out(worker, request, add if worker == LIAR else receive)

    (refused,) = run_on(Talkative(tmp_path, LIAR, HONEST), bench)
    assert refused.startswith("a worker on two is not used: it ")
    assert {one.notes[HOST] for one in bench.trials} == {"one"}


def test_notes_and_the_folder_of_a_trial_are_not_its_workers(bench: Bench, tmp_path: Path) -> None:
    def lie(message: dict[str, Any]) -> list[object]:
        if message["event"] == "trial":
            notes = {HOST: "one", "beside": "7", "repeated": "evil", "spread": "no"}
            message |= {"folder": "../../etc", "notes": orjson.dumps(notes).decode()}
        return [message]

    assert run(bench, tmp_path, lie) == []
    found = [one for one in bench.trials if one.notes[HOST] == "two"]
    assert found
    assert all(one.folder.startswith("cells/raid5/") for one in found)
    assert all(one.notes == {HOST: "two", "spread": "yes"} for one in found)


def test_a_run_folder_takes_no_file_of_a_liar(tmp_path: Path) -> None:
    for lie in ("a file above its folder", "a file that is a folder of another trial"):
        (tmp_path / lie).mkdir()
        bench = Bench(tmp_path / lie)
        run(bench, tmp_path / lie, LIES[lie])
        assert not {one for files in bench.shelf.kept.values() for one in files} & {"trial-2", "../../../evil"}
        bench.journal.close()


def test_only_files_records_and_refusals_are_large() -> None:
    with pytest.raises(BadAnswer, match="a message of 2,000,048 bytes"):
        parsed(b'{"event":"notice","token":"","line":0,"text":"' + b"x" * 2_000_000 + b'"}')


def test_many_values_take_little_memory() -> None:
    with pytest.raises(BadAnswer, match="of more than 200,000 values"):
        parsed(b'{"event":"files","x":"' + b"\\" * 2_000_000 + b'","y":[' + b"[]," * 5_000_000 + b"[]]}")


VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 7, 1 << 63, -(1 << 63), 1e308, -0.5, "", "x" * 70, "\0", "\x1b[2J", "../x", "é🙂", [], {}),
    *([[]], {"": ""}, {"a": {"b": 1}}, ["x"] * 300, "2026-01-01T00:00:00+00:00", "measured", "broken", "1e9"),
)


@pytest.mark.parametrize("seed", range(times(12)))
def test_no_random_lie_ends_a_run(bench: Bench, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311

    def lie(message: dict[str, Any]) -> list[object]:
        if draw.random() < 0.6:
            return [message]
        kind = draw.randrange(6)
        if kind == 0:
            return [message, dict(message)]
        if kind == 1:
            return []
        if kind == 2:
            text = bytearray(orjson.dumps(message))
            for _ in range(draw.randint(1, 4)):
                text[draw.randrange(len(text))] = draw.randrange(256)
            return [bytes(text)]
        name = draw.choice(sorted(message))
        if kind == 3:
            return [{key: value for key, value in message.items() if key != name}]
        value = draw.choice(VALUES)
        if kind == 4 and isinstance(message[name], dict):
            return [message | {name: {**message[name], draw.choice(("a", "../b", ".c", "trial-1", "")): value}}]
        return [message | {name: value, "keep": True}]

    run(bench, tmp_path, lie)
