"""The choice between continuing a run and starting a new one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runner.base.errors import BadInput
from runner.results.run_folder import RunFolder, create, latest, runs
from runner.results.store_tables import without_passwords

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from runner.results.journal import Journal
    from runner.results.run_folder import Manifest


@dataclass(frozen=True)
class RunChoice:
    """A run to continue, or a new one."""

    folder: RunFolder
    new: bool
    #: Try broken trials again.
    retry: bool = False
    #: The repeats, if `repeat:` was changed since the run began.
    repeats: Mapping[str, Any] | None = None
    #: Why no earlier run is continued.
    reason: str = ""

    def message(self, done: int) -> str:
        """Return the notice for the user, if any."""
        if self.new:
            return self.reason
        planned = self.repeats["planned"] if self.repeats else self.folder.manifest.planned
        changed = ", with the changed `repeat:` of the matrix" if self.repeats else ""
        return f"continuing the run of {_moment(self.folder.manifest)} ({done:,} of {planned:,} trials done){changed}"

    def prepare_folder(self, journal: Journal) -> RunFolder:
        """Record the changed repeats or withdraw broken trials; return the folder."""
        folder = self.folder
        if self.retry or self.repeats:
            # First: after a kill, the same command must continue this run.
            folder = folder.update_manifest(finished=False, **(self.repeats or {}))
        if self.retry:
            names = {cell.id: cell.name for cell in journal.cells()}
            for trial in journal.take_back():
                folder.set_aside(names[trial.cell], trial.round, trial.attempts)
        return folder


def choose_run(results: Path, wanted: Manifest, *, fresh: bool, retry_broken: bool) -> RunChoice:
    """Return the run to continue, or create a new one."""
    if retry_broken and fresh:
        raise BadInput("--fresh starts a new run, --retry-broken continues one", resolution="use one of the two")
    if found := _run_to_continue(results, wanted, fresh=fresh, retry_broken=retry_broken):
        repeats = _repeats(wanted) if _repeats(wanted) != _repeats(found.manifest) else None
        return RunChoice(found, new=False, retry=retry_broken, repeats=repeats)
    if retry_broken:
        raise BadInput(
            f"{results}/ has no run of this matrix with these options to continue",
            resolution="leave --retry-broken out: a first run tries all trials",
        )
    reason = "" if fresh else _why_not(results, wanted)
    return RunChoice(create(results, wanted), new=True, reason=reason)


def starts_new_run(results: Path, wanted: Manifest, *, fresh: bool, retry_broken: bool) -> bool:
    """Return whether a new run starts. A continued run may have left stacks on its disks that only it may remove."""
    return _run_to_continue(results, wanted, fresh=fresh, retry_broken=retry_broken) is None


def _run_to_continue(results: Path, wanted: Manifest, *, fresh: bool, retry_broken: bool) -> RunFolder | None:
    """Return the latest run of the same work that is unfinished, or that a larger `repeat:` extends."""
    if fresh:
        return None
    candidates = [
        run for run in runs(results) if _work(run.manifest) == _work(wanted) and _can_hold(run.manifest, wanted)
    ]
    if retry_broken:
        return latest(candidates)
    return latest(run for run in candidates if not run.manifest.finished or _asks_for_more(run.manifest, wanted))


def _work(manifest: Manifest) -> tuple[str, ...]:
    return manifest.matrix, manifest.machine, manifest.fingerprint


def _can_hold(manifest: Manifest, wanted: Manifest) -> bool:
    """Return whether the wanted trials include all planned ones. Steered runs planned for themselves only."""
    if _repeats(manifest) == _repeats(wanted):
        return True
    if manifest.steered or manifest.most is None or wanted.most is None:
        return False
    return manifest.least <= wanted.least and manifest.most <= wanted.most


def _asks_for_more(manifest: Manifest, wanted: Manifest) -> bool:
    """Return whether a finished run needs more trials for these repeats."""
    narrower = manifest.until is not None and (wanted.until is None or wanted.until < manifest.until)
    return narrower or (wanted.most or 0) > (manifest.most or 0)


def _repeats(manifest: Manifest) -> dict[str, Any]:
    """Return the fields of a manifest that come from `repeat:`."""
    return manifest.model_dump(include={"planned", "least", "most", "until", "confidence"})


def readable(text: str) -> str:
    """Convert a name to UTF-8 text: file names and arguments may hold other bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def command_line(words: Iterable[str]) -> tuple[str, ...]:
    """Return a command line for the manifest, without database passwords."""
    return tuple(without_passwords(readable(word)) for word in words)


def _why_not(results: Path, wanted: Manifest) -> str:
    """Return why the last run of this name is not continued; empty if it did other work and is finished."""
    last = latest(
        run for run in runs(results) if (run.manifest.matrix, run.manifest.machine) == (wanted.matrix, wanted.machine)
    )
    if last is None:
        return ""
    if last.manifest.finished:
        again = _work(last.manifest) == _work(wanted)
        return f"a new run: {last.path}/ is finished; `matrix results {last.path.name}` shows it" if again else ""
    same = (last.manifest.text, last.manifest.used) == (wanted.text, wanted.used)
    differs = "--only, --shard, --kernel or --templates differ" if same else "the matrix differs"
    return f"not continuing {last.path}/, which is unfinished: {differs}"


def _moment(manifest: Manifest) -> str:
    return f"{datetime.fromisoformat(manifest.started).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
