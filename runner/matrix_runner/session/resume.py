"""The run to continue, or a new one: which interrupted run does the same work, and why none does."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matrix_runner.base.errors import BadInput
from matrix_runner.base.text import of_planned
from matrix_runner.records.cell_files import open_files
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import Manifest, RunFolder, create, latest, runs


@dataclass(frozen=True)
class RunChoice:
    folder: RunFolder
    new: bool
    retry: bool = False
    #: The repeats, if `repeat:` was changed since the run began.
    repeats: Mapping[str, Any] | None = None
    reason: str = ""

    def message(self, done: int) -> str:
        if self.new:
            return self.reason
        planned = self.repeats["planned"] if self.repeats else self.folder.manifest.planned
        changed = ", with the changed `repeat:` of the matrix" if self.repeats else ""
        started = datetime.fromisoformat(self.folder.manifest.started).astimezone(UTC)
        count = of_planned(done, planned)
        return f"continuing the run of {started:%Y-%m-%d %H:%M} UTC ({count} trials done){changed}"

    def prepare_folder(self, journal: Journal) -> RunFolder:
        folder = self.folder
        if self.retry or self.repeats:
            # First: after a kill, the same command must continue this run.
            folder = folder.update_manifest(finished=False, **(self.repeats or {}))
        if self.retry:
            names = {cell.id: cell.name for cell in journal.cells()}
            with open_files(folder, writing=True) as files:
                for trial in journal.take_back():
                    files.set_aside(names[trial.cell], trial.round, trial.attempts)
        return folder


def choose_run(results: Path, wanted: Manifest, *, fresh: bool, retry_broken: bool) -> RunChoice:
    if retry_broken and fresh:
        raise BadInput("--fresh starts a new run, --retry-broken continues one", resolution="use one of the two")
    if found := run_to_continue(results, wanted, fresh=fresh, retry_broken=retry_broken):
        repeats = _repeats(wanted) if _repeats(wanted) != _repeats(found.manifest) else None
        return RunChoice(found, new=False, retry=retry_broken, repeats=repeats)
    if retry_broken:
        raise BadInput(
            f"{results}/ has no run of this matrix with these options to continue",
            resolution="leave --retry-broken out: a first run tries all trials",
        )
    reason = "" if fresh else _why_new(results, wanted)
    return RunChoice(create(results, wanted), new=True, reason=reason)


def run_to_continue(results: Path, wanted: Manifest, *, fresh: bool, retry_broken: bool) -> RunFolder | None:
    if fresh:
        return None
    candidates = [
        run for run in runs(results) if _work(run.manifest) == _work(wanted) and _can_hold(run.manifest, wanted)
    ]
    return latest(run for run in candidates if retry_broken or not run.manifest.finished or _extends(run, wanted))


def _work(manifest: Manifest) -> tuple[str, ...]:
    return manifest.matrix, manifest.machine, manifest.fingerprint


def _can_hold(manifest: Manifest, wanted: Manifest) -> bool:
    """Return whether the wanted trials include all planned ones. Steered runs planned for themselves only."""
    if _repeats(manifest) == _repeats(wanted):
        return True
    if manifest.steered or manifest.most is None or wanted.most is None:
        return False
    return manifest.least <= wanted.least and manifest.most <= wanted.most


def _extends(run: RunFolder, wanted: Manifest) -> bool:
    planned = run.manifest
    narrower = planned.until is not None and (wanted.until is None or wanted.until < planned.until)
    return narrower or (wanted.most or 0) > (planned.most or 0)


def _repeats(manifest: Manifest) -> dict[str, Any]:
    return manifest.model_dump(include={"planned", "least", "most", "until", "confidence"})


def _why_new(results: Path, wanted: Manifest) -> str:
    last = latest(
        run for run in runs(results) if (run.manifest.matrix, run.manifest.machine) == (wanted.matrix, wanted.machine)
    )
    if last is None:
        return ""
    if last.manifest.finished:
        if _work(last.manifest) != _work(wanted):
            return ""
        changed = last.manifest.steered and _repeats(last.manifest) != _repeats(wanted)
        option = "--until-decided" if last.manifest.requested.race is None else "--race"
        why = f" and was made with `{option}`, so a changed `repeat:` does not continue it" if changed else ""
        return f"this is a new run, as {last.path}/ is finished{why}; `matrix results {last.path.name}` shows that one"
    same = (last.manifest.text, last.manifest.used) == (wanted.text, wanted.used)
    differs = "--only, --shard, --race, --kernel, --templates or hosts.yaml differ" if same else "the matrix differs"
    return f"not continuing {last.path}/, which is not finished: {differs}"
