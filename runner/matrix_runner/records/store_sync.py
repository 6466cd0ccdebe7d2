"""Copies trials from the journals of runs to the shared store, during a run and afterwards."""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Self

from matrix_runner.base.errors import Damaged, HarnessBroken, MatrixError
from matrix_runner.base.findings import few
from matrix_runner.records.address import Address
from matrix_runner.records.files import InUse
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import RunFolder, UnusableManifest, load, run_folders, state_of
from matrix_runner.records.store import SharedStore

_PATIENCE = 30.0  # seconds before another attempt at a failed store, so that trials do not wait for it each time
#: Seconds that the end of a run waits: for a store without progress, and for one with progress.
_SILENCE, _LAST = 10.0, 60.0
#: Trials that arrive within these seconds go into one transaction, at most this many. A transaction takes as long as a
#: trial that the dry machine invents.
_GATHERED, _AT_ONCE = 0.5, 500


class Feed:
    """A thread that copies new trials from the journal of a run to the store."""

    def __init__(
        self,
        address: Address,
        folder: RunFolder,
        notice: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address, self._folder = address, folder
        self._notice, self._clock = notice, clock
        self._notices: SimpleQueue[str] = SimpleQueue()  # the thread of the run prints them
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._is_copy_queued = False
        self._urgent = Event()  # other work waits for the trials before it
        self._over = False
        # Only the feeding thread uses these:
        self._held = ExitStack()
        self._journal: Journal | None = None
        self._store: SharedStore | None = None
        self._last = 0  # the number of the last copied trial
        self._reported = False
        self._next_attempt: float | None = None  # a time; None while the store works
        self._work.put(self._catch_up)
        # A daemon thread, so that the process can end while it waits for a silent server.
        self._thread = Thread(target=self._feed, name="feed", daemon=True)
        self._thread.start()

    def copy_new(self) -> None:
        """Have new trials of the journal copied. This never waits."""
        if not self._is_copy_queued:
            self._is_copy_queued = True
            self._urgent.clear()
            self._work.put(self._copy_new)
        self._print_notices()

    def wait_until_caught_up(self, silence: float = _SILENCE, last: float = _LAST) -> bool:
        """Wait until all trials were tried, for `last` seconds, and `silence` seconds without progress."""
        done = Event()
        until = time.monotonic() + last
        self._do(done.set)
        turns = -1
        while self._thread.is_alive() and turns != (turns := self._turns()) and time.monotonic() < until:
            if done.wait(min(silence, max(0.0, until - time.monotonic()))):
                break
        self._print_notices()
        return done.is_set()

    def end(self, folder: RunFolder, silence: float = _SILENCE, last: float = _LAST) -> bool:
        """Add missing trials, and return whether the store is complete. `folder` has the final manifest."""
        self._do(lambda: self._catch_up(folder))
        complete = self.wait_until_caught_up(silence, last) and self._next_attempt is None
        self._over = True
        self._do(None)
        if complete:
            self._thread.join(silence)
        else:
            self._notice(
                f"the store {self._address} lacks trials; the journal of the run has them, and `matrix results` "
                "adds them"
            )
        return complete

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._over:
            self._do(None)
            self._thread.join(_SILENCE)

    def _do(self, work: Callable[[], object] | None) -> None:
        self._work.put(work)
        self._urgent.set()

    def _print_notices(self) -> None:
        with suppress(Empty):
            while True:
                self._notice(self._notices.get_nowait())

    def _turns(self) -> int:
        store = self._store
        return store.turns if store else 0

    def _feed(self) -> None:
        with self._held:
            while work := self._work.get():
                try:
                    work()
                except MatrixError as trouble:
                    self._fail(trouble)
                except Exception as trouble:  # noqa: BLE001 - after any error, the run goes on without a store
                    self._fail(HarnessBroken(f"{type(trouble).__name__}: {trouble}"))
            self._close_store()

    def _copy_new(self) -> None:
        """Wait for more trials, then copy all. Other work ends the wait at once."""
        self._urgent.wait(_GATHERED)
        self._is_copy_queued = False
        if self._next_attempt is not None and self._clock() < self._next_attempt:
            return
        if self._next_attempt is not None or self._store is None or self._journal is None:
            self._catch_up()
            return
        while found := self._journal.trials_after(self._last, _AT_ONCE):
            trials = list(found.values())
            cells = self._journal.cells_of({trial.cell for trial in trials})
            self._store.add(self._folder.manifest.id, cells, trials)
            self._last = max(found)

    def _catch_up(self, folder: RunFolder | None = None) -> None:
        self._folder = folder or self._folder
        if self._journal is None:
            with ExitStack() as held:
                held.enter_context(self._folder.feeding(wait=True))
                self._journal = held.enter_context(Journal.existing(self._folder.journal))
                self._held.enter_context(held.pop_all())
        if self._store is None:
            self._store = SharedStore.open(self._address)
            if self._store.note:
                self._notices.put(f"note: {self._store.note}")
        last = self._journal.last_number()
        self._store.catch_up(self._folder, self._journal, grows=folder is None)
        self._last = last
        self._next_attempt = None

    def _fail(self, trouble: MatrixError) -> None:
        self._next_attempt = self._clock() + _PATIENCE
        self._close_store()
        if self._reported:
            return
        self._reported = True
        reason = f"{trouble.brief}" + (f" ({trouble.details})" if trouble.details else "")
        reason = " ".join(reason.split())
        self._notices.put(
            f"note: cannot write to the shared store: {reason}; the run continues, and its journal keeps every trial"
            + (f" → {trouble.resolution}" if trouble.resolution else "")
        )
        if self._journal is not None:
            with suppress(MatrixError):  # if the journal fails, too, the run reports it
                self._journal.record_trouble(datetime.now(UTC).isoformat(timespec="seconds"), f"shared store: {reason}")

    def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            with suppress(Exception):
                store.close()


def bring_up_to_date(store: SharedStore, results: Path) -> list[str]:
    settled = store.complete_states()
    waiting = [path for path in run_folders(results) if state_of(path) not in settled]
    if store.fixed:
        which = few((path.name for path in waiting), 3)
        return [f"{store.address} is read-only; it may lack trials of {which}"] if waiting else []
    failed: dict[str, list[str]] = {}
    notes = [store.note] if store.note else []
    for path in waiting:
        try:
            folder = load(path)
            with folder.feeding(wait=False), Journal.existing(folder.journal) as journal:
                store.catch_up(load(path), journal)
        except InUse:
            continue  # the process that measures this run feeds the store itself
        except (Damaged, UnusableManifest) as trouble:
            store.damage[path.name] = trouble
        except MatrixError as trouble:
            failed.setdefault(trouble.brief, []).append(path.name)
        except Exception as trouble:  # noqa: BLE001 - one odd run does not hide the others
            failed.setdefault(f"{type(trouble).__name__}: {trouble}", []).append(path.name)
    return notes + [f"not completely in the store: {few(names, 3)}: {brief}" for brief, names in failed.items()]
