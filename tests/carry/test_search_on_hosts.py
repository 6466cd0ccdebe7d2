"""A search on a cluster: one host measures all versions, also after a kill, and makes those that it lacks."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.carry import members
from matrix_runner.carry.batch_messages import CHECKED, NOTICE, TRIAL, BatchRequest, Worker, WorkerLost
from matrix_runner.carry.coordinator import Coordinator
from matrix_runner.carry.events import Waiting
from matrix_runner.carry.recorder import RunContext
from matrix_runner.decide.plan import Plan
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.machines import dry
from matrix_runner.machines.base import Refusal
from matrix_runner.records.record import HOST, Outcome
from matrix_runner.session.selected_matrix import on_kernels
from matrix_runner.session.versions import WantedVersions, find_versions
from matrix_runner.space.load import parse
from matrix_runner.space.select import select
from tests.support.batches import ORDER, messages_of, request_of
from tests.support.cluster import ONE, TWO, FakeCluster
from tests.support.commits import repository
from tests.support.dry import Unsynthetic
from tests.support.engine import Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from matrix_runner.carry.batch_messages import Message, Order
    from matrix_runner.carry.events import Event
    from matrix_runner.decide.plan import Batch
    from matrix_runner.machines.base import RigSpec
    from matrix_runner.session.versions import Versions


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.journal.close()


def search(bench: Bench, cluster: FakeCluster, listen: Callable[[Event], None] = lambda _: None) -> list[str]:
    """Measure all rounds as a search does. Return the notices."""
    notices: list[str] = []
    context = RunContext(Unsynthetic(), bench.journal, bench.shelf, bench.folder, listen, "here")
    coordinator = Coordinator(Scheduler(bench.plan), context, cluster, ORDER, notices.append, one_host=True)
    asyncio.run(coordinator.run())
    return notices


def hosts(bench: Bench) -> list[str]:
    return [trial.notes[HOST] for trial in bench.trials]


def test_one_host_measures_all_rounds(bench: Bench, tmp_path: Path) -> None:
    notices = search(bench, FakeCluster(tmp_path, ONE, TWO))
    assert hosts(bench) == ["one"] * 8
    assert notices == ["one measures the versions"]


class Killed(FakeCluster):
    """Its coordinator ends after so many batches."""

    left = 1

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        await super().carry_out(worker, request, receive)
        if request.cells:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt


def test_a_search_that_continues_stays_on_its_host(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(bench, Killed(tmp_path, TWO))
    assert 0 < len(bench.trials) < 8
    notices = search(bench, FakeCluster(tmp_path, ONE, TWO))
    assert set(hosts(bench)) == {"two"}
    assert not notices


def test_another_host_continues_a_search_whose_host_stays_away(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(bench, Killed(tmp_path, TWO))
    done, waits = len(bench.trials), list[str]()

    def end_patience(event: Event) -> None:
        if isinstance(event, Waiting):
            waits.append(event.what)
            monkeypatch.setattr(members, "PATIENCE", 0.01)

    notices = search(bench, FakeCluster(tmp_path, ONE), end_patience)
    assert hosts(bench) == ["two"] * done + ["one"] * (8 - done)
    assert waits == ["waiting up to 60 s for two", ""]
    assert notices == ["one measures the versions"]
    blocks = {trial.block for trial in bench.trials}
    assert len(blocks) == 3, "the round that both hosts measured is two blocks"


def test_a_worker_that_goes_in_the_middle_of_a_round_costs_no_trial(bench: Bench, tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, ONE, TWO)

    def lost(worker: Worker, request: BatchRequest, line: int) -> bool:
        return worker == ONE and bool(request.cells) and line == 3 and len(cluster.requests) == 1

    cluster.lost_at, cluster.loss = lost, WorkerLost
    search(bench, cluster)
    assert hosts(bench) == ["one"] * 8
    assert {(one.cell, one.round) for one in bench.trials} == bench.planned()


def refusing(monkeypatch: pytest.MonkeyPatch, why: Callable[[RigSpec], str]) -> None:
    def refusals(_: dry.Dry, spec: RigSpec) -> list[Refusal]:
        return [Refusal(text)] if (text := why(spec)) else []

    monkeypatch.setattr(dry.Dry, "refusals", refusals)


KERNELS = """\
name: kernels
machine: {kernel: [debian-12, debian-13]}
disks: {count: 2, size: 64MiB}
layouts: {one: [disk]}
workloads: {work: {rw: read, bs: 4KiB, runtime: 1s}}
repeat: 2
"""


def test_a_host_without_one_of_the_versions_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, lambda spec: "no such kernel: debian-12" if spec.kernel == "debian-12" else "")
    bench = Bench(tmp_path, KERNELS)
    context = RunContext(Unsynthetic(), bench.journal, bench.shelf, bench.folder, lambda _: None, "here")
    order, notices = order_with(KERNELS), list[str]()
    work = Coordinator(Scheduler(bench.plan), context, FakeCluster(tmp_path, ONE), order, notices.append, one_host=True)
    with pytest.raises(BadInput) as refused:
        asyncio.run(work.run())
    assert refused.value.brief == "one: it cannot measure all versions of the search"
    assert refused.value.details == "no such kernel: debian-12"
    assert refused.value.resolution
    bench.journal.close()


def order_with(text: str, **more: object) -> Order:
    return ORDER.model_copy(update={"text": text, "digest": "other", **more})


PLAIN = KERNELS.replace("machine: {kernel: [debian-12, debian-13]}\n", "")


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Versions:
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    wanted = WantedVersions(repository(tmp_path / "repo", ["a", "b", "c"]), "install -D state $OUT/usr/sbin/mdadm")
    return find_versions(wanted, "HEAD~2", "HEAD", lambda _: None)


def order_of(commits: Versions) -> tuple[Order, list[Batch]]:
    declared = on_kernels(parse("sweep.yaml", PLAIN), commits.names)
    selection = select(declared.space)
    plan = Plan(selection, declared.space.matrix.repeat, declared.space.matrix.seed)
    return order_with(PLAIN, versions=commits.as_sent()), [*plan.batches(1)]


def of_kind(found: list[Message], *kinds: str) -> list[Message]:
    return [one for one in found if one["event"] in kinds]


def test_a_worker_builds_the_commits_that_it_measures(commits: Versions, tmp_path: Path) -> None:
    order, batches = order_of(commits)
    found = messages_of(tmp_path, *(request_of(batch, order) for batch in batches))
    assert {one["outcome"] for one in of_kind(found, TRIAL)} == {Outcome.MEASURED}
    assert len(of_kind(found, TRIAL)) == 3
    texts = [one["text"] for one in of_kind(found, NOTICE)]
    assert sorted(one for one in texts if "building" in one) == sorted(f"building {name}" for name in commits.names)
    assert all(commits.cost(name) == 0 for name in commits.names)
    assert all((commits.builder.folder(name) / "usr/sbin/mdadm").exists() for name in commits.names if commits.builder)


def test_a_worker_without_the_commits_refuses_them(commits: Versions, tmp_path: Path) -> None:
    order, _ = order_of(commits)
    subprocess.run(["git", "-C", tmp_path / "repo", "update-ref", "-d", "HEAD"], check=True)
    subprocess.run(["git", "-C", tmp_path / "repo", "reflog", "expire", "--expire=now", "--all"], check=True)
    subprocess.run(["git", "-C", tmp_path / "repo", "prune", "--expire=now"], check=True)
    checked = of_kind(messages_of(tmp_path, BatchRequest.model_validate({"token": "one", "order": order})), CHECKED)[0]
    assert {one.partition(" has no commit")[0] for one in checked["refusals"].values()} == {str(tmp_path / "repo")}
    assert len(checked["refusals"]) == 3
