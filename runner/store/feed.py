"""From a run's journal to the shared store, while the run goes on. Whatever becomes of the store, it does not stop.

What could not be added is added by a later trial, at the run's end, or by the next command that reads the store.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runner.errors import MatrixError
from runner.store.shared import SharedStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.store.address import Address
    from runner.store.journal import Journal
    from runner.store.record import Trial
    from runner.store.run import RunFolder

#: Seconds until a store that failed is tried again: trials must not wait for it over and over.
_PATIENCE = 30.0


class Feed:
    """Adds the trials of one run, whose lock the caller holds, to one store."""

    def __init__(
        self,
        address: Address,
        folder: RunFolder,
        journal: Journal,
        notice: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address, self._folder, self._journal = address, folder, journal
        self._notice, self._clock = notice, clock
        self._store: SharedStore | None = None
        self._said = False
        #: When the store is tried again; None while it works.
        self._again: float | None = None
        self._try(self._catch_up)

    def add(self, trial: Trial) -> None:
        """Pass on a trial that is in the journal."""
        if self._again is None:
            self._try(lambda: self._one(trial))
        elif self._clock() >= self._again:
            self._try(self._catch_up)

    def end(self, folder: RunFolder) -> bool:
        """Add what is missing; whether everything is there now. `folder`: with its manifest as it is in the end."""
        self._folder = folder
        self._try(self._catch_up)
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._again is not None:
            self._notice(
                f"note: not everything is in the store {self._address}; the run's own journal has it, and "
                "`matrix results` adds what is missing"
            )
        return self._again is None

    def _one(self, trial: Trial) -> None:
        if self._store is None:
            self._catch_up()
            return
        self._store.add(self._folder.manifest.identity, self._journal.cell(trial.cell), trial)

    def _catch_up(self) -> None:
        if self._store is None:
            self._store = SharedStore.open(self._address)
        self._store.catch_up(self._folder, self._journal)

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except MatrixError as trouble:
            self._fail(trouble)
        else:
            self._again = None

    def _fail(self, trouble: MatrixError) -> None:
        self._again = self._clock() + _PATIENCE
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._said:
            return
        self._said = True
        told = f"{trouble.brief}" + (f" ({trouble.details})" if trouble.details else "")
        self._notice(
            f"note: the shared store cannot be fed: {told}; the run goes on, its journal keeps every trial"
            + (f" → {trouble.resolution}" if trouble.resolution else "")
        )
        with suppress(MatrixError):  # if the journal is in trouble too, the run will say so
            self._journal.troubled(datetime.now(UTC).isoformat(timespec="seconds"), f"shared store: {told}")
