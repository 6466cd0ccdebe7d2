"""Lines that arrive together are recorded in one transaction, and no event of a record is shown before its end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from matrix_runner.carry.events import BatchDone
from matrix_runner.carry.flight import Inbox
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Attempt, CellRow, Outcome, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matrix_runner.carry.events import Event


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.sqlite") as made:
        made.add_cells([CellRow("cell", "cell", {})])
        yield made


def trial(number: int) -> Trial:
    return Trial("cell", number, Outcome.SKIPPED, "why")


def test_lines_are_recorded_together_and_shown_afterwards(journal: Journal, tmp_path: Path) -> None:
    shown: list[int] = []

    def show(_: Event) -> None:
        with Journal.existing(tmp_path / "journal.sqlite") as other:
            shown.append(len(list(other.trials())))

    def take(number: int) -> None:
        journal.record(trial(number))
        inbox.listen(BatchDone(1, "stack"))

    async def run() -> None:
        for number in (1, 2, 3):
            inbox.add(partial(take, number), 1)
        assert list(journal.trials()) == []
        await inbox.settled()

    inbox = Inbox(journal, show, asyncio.create_task)
    asyncio.run(run())
    assert shown == [3, 3, 3]


def test_an_error_discards_its_events_and_records(journal: Journal) -> None:
    shown: list[Event] = []

    def take(number: int) -> None:
        journal.record(trial(1))
        inbox.listen(BatchDone(1, "stack"))
        if number == 0:
            raise ValueError("bad")

    inbox = Inbox(journal, shown.append, asyncio.create_task)

    async def run() -> None:
        inbox.add(partial(take, 0), 1)
        inbox.settle()

    with pytest.raises(ValueError, match="bad"):
        asyncio.run(run())
    assert shown == []
    assert list(journal.trials()) == []


def test_all_kinds_of_records_join_one_transaction(journal: Journal) -> None:
    def write() -> None:
        with journal.together():
            journal.record_set_up(1, "stack", 1.0)
            journal.record_lost(Attempt("cell", 1, 1, "", "lost", ""))
            journal.begin("cell", 1, 2, "boot")
            journal.record(trial(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert [*journal.set_up_times(), *journal.attempts(), *journal.unended_attempts(), *journal.trials()] == []
