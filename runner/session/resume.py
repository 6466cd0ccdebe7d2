"""Which run is gone on with, if any, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runner.base.errors import BadInput
from runner.results.run_folder import RunFolder, create, find_unfinished, latest, runs
from runner.results.store_address import without_passwords

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from runner.results.journal import Journal
    from runner.results.run_folder import Manifest


@dataclass(frozen=True)
class Chosen:
    """A run that was there already, or a new one; `why` is why an unfinished one is not gone on with."""

    folder: RunFolder
    new: bool
    retry: bool = False
    why: str = ""

    def told(self, done: int) -> str:
        """What a user should know of it."""
        if self.new:
            return self.why
        manifest = self.folder.manifest
        return f"continuing the run of {_moment(manifest)} ({done:,} of {manifest.planned:,} trials done)"

    def prepared(self, journal: Journal) -> RunFolder:
        """Ready to be run: what broke is taken back if it is to be tried again."""
        if not self.retry:
            return self.folder
        # First, so that a kill from here on leaves a run that is gone on with.
        folder = self.folder.update_manifest(finished=False)
        names = {cell.id: cell.name for cell in journal.cells()}
        for trial in journal.take_back():
            folder.set_aside(names[trial.cell], trial.block, trial.attempts)
        return folder


def chosen_run(results: Path, wanted: Manifest, *, fresh: bool, retry_broken: bool) -> Chosen:
    """The run to go on with, or a new one."""
    if retry_broken and fresh:
        raise BadInput("--fresh starts a new run, --retry-broken goes on with one", resolution="take one of the two")
    named = [run for run in runs(results) if (run.manifest.matrix, run.manifest.machine) == _name(wanted)]
    ours = [run for run in named if run.manifest.fingerprint == wanted.fingerprint]
    if retry_broken:
        found = latest(ours)
        if found is None:
            raise BadInput(
                f"there is no run of this very matrix and command line in {results}/ to go on with",
                resolution="leave --retry-broken out: the first run tries everything",
            )
        return Chosen(found, new=False, retry=True)
    unfinished = latest(run for run in ours if not run.manifest.finished)
    if unfinished and not fresh:
        return Chosen(unfinished, new=False)
    return Chosen(create(results, wanted), new=True, why="" if fresh else _why_not(latest(named), wanted))


def begins_anew(results: Path, fingerprint: str, *, fresh: bool, retry_broken: bool) -> bool:
    """Whether no run is gone on with: one that is may have left on its disks what only it may take back."""
    return fresh or not (retry_broken or find_unfinished(results, fingerprint))


def readable(text: str) -> str:
    """A name from the command line or of a file, which need not be UTF-8, as a text that can be stored."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def command_line(words: Iterable[str]) -> tuple[str, ...]:
    """A command line as it is kept: readable, and without the passwords of databases."""
    return tuple(without_passwords(readable(word)) for word in words)


def _name(manifest: Manifest) -> tuple[str, str]:
    return manifest.matrix, manifest.machine


def _why_not(last: RunFolder | None, wanted: Manifest) -> str:
    """Why the last run of this name is not gone on with although it is unfinished; empty if it is not."""
    if last is None or last.manifest.finished:
        return ""
    same = (last.manifest.text, last.manifest.used) == (wanted.text, wanted.used)
    differs = "--only, --shard, --kernel or --templates differ" if same else "the matrix differs"
    return f"not continuing {last.path}/, which is unfinished: {differs}"


def _moment(manifest: Manifest) -> str:
    return f"{datetime.fromisoformat(manifest.started).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
