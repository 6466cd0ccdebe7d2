"""An executor with its scheduler, from what most tests have at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matrix_runner.carry.executor import ONE, LocalRun
from matrix_runner.carry.recorder import RunContext
from matrix_runner.decide.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matrix_runner.carry.events import Listener
    from matrix_runner.carry.recorder import Shelf
    from matrix_runner.decide.budget import Spending
    from matrix_runner.decide.concurrency import Level
    from matrix_runner.decide.plan import Plan
    from matrix_runner.decide.scheduler import Steering
    from matrix_runner.hosts.exclusive import LeasedDisk
    from matrix_runner.machines.base import Machine
    from matrix_runner.records.journal import Journal


def executor(
    plan: Plan,
    machine: Machine,
    journal: Journal,
    shelf: Shelf,
    scratch: Path,
    listen: Listener = lambda _: None,
    *,
    boot_id: str = "one",
    own_templates: Path | None = None,
    level: Level = ONE,
    spending: Spending | None = None,
    steering: Steering | None = None,
    lent: Mapping[str, LeasedDisk] | None = None,
) -> LocalRun:
    context = RunContext(machine, journal, shelf, scratch, listen, boot_id, own_templates, leased=lent or {})
    return LocalRun(Scheduler(plan, spending=spending, steering=steering), context, level)
