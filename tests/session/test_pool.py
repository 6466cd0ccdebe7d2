"""Pools of physical disks: what a host refuses when a coordinator asks, and that batches take turns."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from matrix_runner.carry.batch_messages import BatchRequest
from matrix_runner.machines import Where
from matrix_runner.records.environment import DiskFacts
from matrix_runner.session import batch as session
from matrix_runner.session.batch import Pool
from matrix_runner.session.disk_lease import RunDisks
from matrix_runner.space.declared_files import Match, parse_lab
from tests.support.batches import ORDER, messages_of
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matrix_runner.carry.batch_messages import Message

TEXT = """\
name: small
disks: {count: 2, size: 64MiB}
layouts: {raw: [disk]}
workloads: {work: {rw: randread, bs: 4KiB, runtime: 1s}}
needs: {disks: {count: 2, kind: ssd}}
"""
LAB = """\
hosts:
  here:
    destroy: [disk-a, disk-b]
    disks:
      - {id: disk-a, serial: A, size: 64MiB, kind: ssd}
      - {id: disk-b, serial: B, size: 64MiB, kind: ssd}
"""
LOCAL = ORDER.model_copy(update={"machine": "local", "digest": "disks", "text": TEXT})


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "state"))


def refusal_of(tmp_path: Path, lab: str | None, **more: object) -> Message:
    hosts = tmp_path / "hosts.yaml"
    if lab:
        hosts.write_text(lab)
    refused, end = messages_of(tmp_path, BatchRequest(token="", order=LOCAL.model_copy(update=more)), hosts=hosts)
    assert (refused["event"], end["event"]) == ("refused", "end")
    return refused


@pytest.mark.parametrize(
    ("lab", "brief", "details"),
    [
        (None, "hosts.yaml, so no physical disk may be used", ""),
        (LAB.rpartition("      - ")[0].replace(", disk-b]", "]"), "small needs 2 disks, of kind ssd", "1 of 2"),
        (LAB.replace("B, size: 64MiB, kind: ssd", "B, size: 64MiB, kind: hdd"), "no host", "disk-b is of kind hdd"),
        (LAB.replace("B, size: 64MiB", "B, size: 32MiB"), "the declared size does not match", "disk-b has 33554432B"),
        (LAB.replace(", disk-b]", "]"), "does not allow runs to destroy what is on disk-b", ""),
        (LAB.replace("    destroy", "    reach: ssh:shelf\n    destroy"), "no host of", ""),
        (LAB, "2 of 2 disks cannot be used; nothing was written", "disk-a: not there"),
    ],
)
def test_a_host_refuses_what_its_own_file_does_not_offer(
    tmp_path: Path, lab: str | None, brief: str, details: str
) -> None:
    refused = refusal_of(tmp_path, lab)
    assert brief in refused["brief"]
    assert details in refused["details"]


def pool_of(reach: str = "local") -> Pool:
    return Pool(Match("here", parse_lab("hosts.yaml", LAB).hosts["here"].disks, reach), space(TEXT).matrix, "local")


def test_disks_that_runs_may_destroy_are_chosen_first(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    listed = (
        LAB.replace("[disk-a, disk-b]", "[disk-c, disk-b]")
        + "      - {id: disk-c, serial: C, size: 64MiB, kind: ssd}\n"
    )
    hosts.write_text(listed)
    chosen = Pool.of(space(TEXT).matrix, Where("local"), hosts).match.disks
    assert [disk.id for disk in chosen] == ["disk-b", "disk-c"]


async def test_two_batches_never_have_the_same_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    having: list[int] = []
    most, free = 0, asyncio.Event()

    @contextmanager
    def lease(*_: object) -> Iterator[RunDisks]:
        nonlocal most
        having.append(1)
        most = max(most, len(having))
        yield RunDisks()
        having.pop()

    async def measure() -> None:
        async with pool_of().leased(space(TEXT).stacks[0], lambda _: None):
            await free.wait()

    monkeypatch.setattr(session, "lease_run_disks", lease)
    monkeypatch.setattr(session, "PAUSE", 0.0)
    tasks = [asyncio.create_task(measure()) for _ in range(3)]
    while not (having or tasks[0].done()):  # noqa: ASYNC110
        await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*tasks)
    assert (most, having) == (1, [])


async def test_another_reach_is_another_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def lease(*_: object) -> Iterator[RunDisks]:
        yield RunDisks()

    monkeypatch.setattr(session, "lease_run_disks", lease)
    stack = space(TEXT).stacks[0]
    async with pool_of().leased(stack, lambda _: None), pool_of("ssh:shelf").leased(stack, lambda _: None):
        pass


async def test_an_empty_name_of_the_pool_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an empty name, the batch would wait for its own lock."""

    @contextmanager
    def lease(*_: object) -> Iterator[RunDisks]:
        yield RunDisks()

    monkeypatch.setattr(session, "lease_run_disks", lease)
    name = pool_of().folder / "id"
    name.parent.mkdir(parents=True)
    name.write_bytes(b"")
    async with pool_of().leased(space(TEXT).stacks[0], lambda _: None):
        assert name.read_text().startswith("worker-")


def test_other_disks_than_at_the_start_of_the_run_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def lease(*_: object) -> Iterator[RunDisks]:
        yield RunDisks(facts=(DiskFacts(size=1, bus="", serial="A"), DiskFacts(size=1, bus="", serial="C")))

    monkeypatch.setattr(session, "lease_run_disks", lease)
    (tmp_path / "hosts.yaml").write_text(LAB)
    (cell,) = space(TEXT).cells()
    request = BatchRequest(token="", order=LOCAL, round=1, stack=cell.stack.key, cells=(cell.id,), disks=("A", "B"))
    refused, _ = messages_of(tmp_path, request, hosts=tmp_path / "hosts.yaml")
    assert refused["brief"] == "it has the disks A, C, but this run began on A, B"
