"""Messages of a cluster: plain data with limits. Whoever sends anything else is disconnected, and no one else."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import socket
import tracemalloc
import zlib
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from matrix_runner.carry.batch_messages import BadAnswer, BatchRequest
from matrix_runner.carry.cluster.connection import Connection, Ended, connect
from matrix_runner.carry.cluster.frames import (
    LENGTHS,
    MOST_BODY,
    MOST_HEAD,
    MOST_LINES,
    AllKnown,
    BadFrame,
    Cancel,
    Hello,
    Join,
    Lines,
    Member,
    Request,
    frame,
    in_messages,
    lines_of,
    packed,
    parsed_head,
    unpacked,
)
from matrix_runner.carry.cluster.members import Membership, scheduler, worker
from matrix_runner.carry.cluster.relayed import RelayedCluster, query, worker_of
from tests.support.batches import ORDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

FACTS = Join(host="evil", slots=1, version="1")


class Command:
    """A pickled object that runs a command when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@asynccontextmanager
async def liar() -> AsyncIterator[tuple[RelayedCluster, Connection, str]]:
    """Yield a coordinator, the connection of its only worker, and the address of their scheduler."""
    async with scheduler("tcp://127.0.0.1:0") as address:
        worker = await connect(address, None)
        worker.send(FACTS)
        assert await worker.read() == (AllKnown(), b"")
        cluster = RelayedCluster(address)
        async with cluster.open(lambda: None):
            yield cluster, worker, address
        worker.abort()


async def end_of(connection: Connection) -> None:
    while True:
        await connection.read()


@pytest.mark.parametrize("head", [False, True])
async def test_a_pickled_object_of_a_worker_is_never_read(tmp_path: Path, head: bool) -> None:
    attack = pickle.dumps(Command(tmp_path / "attacked"))
    async with scheduler("tcp://127.0.0.1:0") as address:
        near = await connect(address, None)
        if head:
            near._write(LENGTHS.pack(len(attack), 0) + attack)
        else:
            near.send(FACTS)
            await near.read()
            near.send(Lines(token="t", died="x"), attack)  # noqa: S106 - no password
            near._write(LENGTHS.pack(len(attack), len(attack)) + attack * 2)
        with pytest.raises(Ended):
            await near.read()
    assert not (tmp_path / "attacked").exists()


async def test_a_pickled_answer_costs_the_batch_of_its_worker(tmp_path: Path) -> None:
    async with liar() as (cluster, worker, _):
        (place,) = cluster.workers
        batch = asyncio.create_task(cluster.carry_out(place, BatchRequest(token="t", order=ORDER), lambda _: None))  # noqa: S106
        head, _ = await worker.read()
        assert isinstance(head, Request)
        worker.send(Lines(token="t"), pickle.dumps(Command(tmp_path / "attacked")))  # noqa: S106 - no password
        with pytest.raises(BadAnswer, match="it sent a damaged body"):
            await batch
    assert not (tmp_path / "attacked").exists()


async def test_an_error_of_a_batch_that_was_given_up_is_not_printed() -> None:
    printed = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: printed.append(context))
    async with liar() as (cluster, worker, _):

        def give_up(line: bytes) -> None:
            batches[0].cancel()
            if line == b"wrong":
                raise BadAnswer("it sent nonsense")

        (place,) = cluster.workers
        request = BatchRequest(token="t", order=ORDER)  # noqa: S106 - no password
        batches = [asyncio.create_task(cluster.carry_out(place, request, give_up))]
        await worker.read()
        worker.send(Lines(token="t"), packed(b"first\nwrong"))  # noqa: S106 - no password
        await asyncio.wait(batches)
    assert batches.pop().cancelled()
    gc.collect()
    assert printed == []


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        LENGTHS.pack(MOST_HEAD + 1, 0),
        LENGTHS.pack(8, MOST_BODY + 1),
        LENGTHS.pack(0, 8),
        LENGTHS.pack(4, 0) + b"\xff\xfe\xfd\xfc",
        LENGTHS.pack(2, 0) + b"[]",
        frame(FACTS) + frame(Cancel(token="t")),  # noqa: S106 - a message of a coordinator
        frame(FACTS) + frame(FACTS),
        frame(Hello()),
    ],
)
async def test_a_member_that_sends_nonsense_is_disconnected_and_others_are_not(sent: bytes) -> None:
    async with liar() as (cluster, _, address):
        near = await connect(address, None)
        near._write(sent)
        with pytest.raises(Ended):
            await end_of(near)
        assert cluster.connected


async def test_a_token_of_another_coordinator_gives_none_of_its_lines() -> None:
    request = BatchRequest(token="t", order=ORDER)  # noqa: S106 - no password
    async with liar() as (cluster, worker, address):
        (place,) = cluster.workers
        batch = asyncio.create_task(cluster.carry_out(place, request, lambda _: None))
        await worker.read()
        thief = RelayedCluster(address)
        async with thief.open(lambda: None):
            with pytest.raises(Exception, match="its token is in use"):
                await thief.carry_out(place, request, lambda _: None)
            thief._send(Cancel(token="t"))  # noqa: S106 - no password
        worker.send(Lines(token="t", over=True))  # noqa: S106 - no password
        await batch


@pytest.mark.parametrize(
    "facts",
    [
        '{"op":"join","host":7,"slots":1,"version":""}',
        '{"op":"join","host":"a","slots":-3,"version":""}',
        '{"op":"join","host":"a","slots":1e9,"version":""}',
        '{"op":"join","host":"","slots":1,"version":""}',
        '{"op":"join","host":"a\\u001b[2J","slots":1,"version":""}',
        '{"op":"join","host":"a","slots":1,"version":"","more":1}',
        '{"op":"join","host":"a","slots":1}',
        '{"op":"unknown"}',
        "{}",
        "null",
        "[" * 60_000,
    ],
)
def test_a_head_with_other_fields_is_refused(facts: str) -> None:
    assert worker_of(Member(address="a", facts=FACTS)).host == "evil"
    with pytest.raises(BadFrame):
        parsed_head(facts.encode())


@pytest.mark.parametrize("content", [b"", b"x", b"x" * 1_000_000, bytes(range(256)) * 9999, os.urandom(99_999)])
def test_packed_content_is_unpacked_unchanged(content: bytes) -> None:
    assert unpacked(packed(content)) == content
    assert b"\n".join(map(unpacked, in_messages([content, content]))) == b"\n".join((content, content))


@pytest.mark.parametrize("lines", [[], [b"a"], [b"a", b"b"], [b"", b""], [b"a", b""]])
def test_lines_are_read_one_by_one(lines: list[bytes]) -> None:
    assert [*lines_of(b"\n".join(lines))] == lines


def test_lines_of_any_size_fit_into_messages() -> None:
    lines = [b"a" * (MOST_LINES // 8)] * 20
    bodies = in_messages(lines)
    assert b"\n".join(map(unpacked, bodies)) == b"\n".join(lines)
    assert max(len(unpacked(body)) for body in bodies) <= MOST_LINES


@pytest.mark.parametrize(
    "body",
    [
        b"no zlib",
        zlib.compress(b"x" * 100)[:-8],
        zlib.compress(b"x") + b"more",
        zlib.compress(bytes(MOST_LINES + 1), 9),
    ],
    ids=["no zlib", "cut off", "more", "bomb"],
)
def test_a_damaged_body_is_refused(body: bytes) -> None:
    with pytest.raises(BadFrame):
        unpacked(body)


def test_a_small_message_takes_little_memory() -> None:
    bomb = zlib.compress(bytes(128 << 20), 9)
    assert len(bomb) < 140_000
    tracemalloc.start()
    try:
        with pytest.raises(BadFrame):
            unpacked(bomb)
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()


async def test_a_peer_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.carry.cluster.connection._BACKLOG", 1 << 20)
    near, far = [Connection(*await asyncio.open_connection(sock=one)) for one in socket.socketpair()]
    for _ in range(5):
        with suppress(Ended):
            near.send(Lines(token="t"), bytes(1 << 20))  # noqa: S106 - no password
    with pytest.raises(Ended, match="the connection is closed"):
        near.send(Lines(token="t"))  # noqa: S106 - no password
    far.abort()


async def test_a_silent_worker_is_no_member_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.carry.cluster.members.SILENCE", 0.1)
    async with scheduler("tcp://127.0.0.1:0") as address:
        silent = await connect(address, None)
        silent.send(FACTS)
        await silent.read()
        with pytest.raises(Ended):
            await silent.read()
        assert (await query(address, None)).workers == []


async def test_signs_of_life_keep_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.carry.cluster.members._PULSE", 0.001)
    sent = asyncio.Event()
    monkeypatch.setattr(Connection, "send_sign_of_life", lambda _: sent.set())
    async with scheduler("tcp://127.0.0.1:0") as address, worker(address, Membership("one")):
        await sent.wait()
