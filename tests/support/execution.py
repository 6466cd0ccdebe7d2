"""An executor with its scheduler, from what most tests have at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.engine.executor import ONE, Executor
from runner.engine.recorder import RunContext
from runner.engine.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.engine.budget import Spending
    from runner.engine.concurrency import Level
    from runner.engine.plan import Plan
    from runner.engine.recorder import Listener, Shelf
    from runner.guidelines.verdicts import Steering
    from runner.hosts.exclusive import LeasedDisk
    from runner.machines.base import Machine
    from runner.results.journal import Journal


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
) -> Executor:
    context = RunContext(machine, journal, shelf, scratch, listen, boot_id, own_templates, leased=lent or {})
    return Executor(Scheduler(plan, spending=spending, steering=steering), context, level)
