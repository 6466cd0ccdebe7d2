"""A trace that a real machine replays: on a device and in a file system, each request once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from runner.engine.plan import Plan
from runner.machines.qemu import Qemu
from runner.results.journal import Journal
from runner.results.record import HOST_LIMITED, REPLAY, SATURATED, Outcome
from runner.space.select import select
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.traces import declared

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive]

LAYOUTS = "device: [md: {level: 1}], files: [pick: {number: 1}, fs: {type: ext4}]"


def test_each_request_is_replayed_on_a_device_and_in_a_file(tmp_path: Path) -> None:
    found = declared("replay: web.log, size: 64MiB, iodepth: 8", layouts=LAYOUTS).space
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        asyncio.run(executor(plan, Qemu(), journal, Shelf(), tmp_path).run())
        trials = list(journal.trials())
    assert [(trial.outcome, trial.reason) for trial in trials] == [(Outcome.MEASURED, "")] * 4
    for trial in trials:
        assert trial.figures
        assert trial.figures.read
        assert trial.figures.write
        assert (trial.figures.read.ios, trial.figures.write.ios) == (68, 33)
        assert trial.figures.read.latencies
        assert trial.figures.runtime > 0.9
        assert " of 101 requests began over 10 ms late" in trial.notes[REPLAY]
        assert HOST_LIMITED not in trial.notes  # disks without a model cannot be host-limited
        assert (SATURATED in trial.notes) == (not trial.notes[REPLAY].startswith(("0.0%", "1.0%")))
