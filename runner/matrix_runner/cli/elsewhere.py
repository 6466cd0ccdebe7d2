"""Runs by the path of their folder, such as a colleague's: they and the other named runs become one results folder."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from matrix_runner.cli.store_options import Source

#: The parameters of commands that name runs.
_NAMES = ("runs", "among", "run", "against", "a", "b")
_OF_ANY_KIND = {"a", "b"}  # with `--by`, the sides of `compare` are no runs


def with_folders_elsewhere(values: Mapping[str, Any], source: Source) -> tuple[Mapping[str, Any], Source]:
    """Return parameters and the source that they mean. Without a path of a run folder, both stay as they are."""
    names = [name for name in _NAMES if name not in _OF_ANY_KIND or values.get("by", "run") == "run"]
    parts = [part for name in names for word in _words(values.get(name)) for part in word.split(",")]
    if not any(_elsewhere(part, source.results) for part in parts):
        return values, source
    view = _View(source.results)
    changed = {name: _changed(values[name], view.name_of) for name in names if values.get(name)}
    return {**values, **changed}, type(source)(
        view.folder, None, home=source.results if source.results.is_dir() else Path()
    )


def _words(value: object) -> Iterable[str]:
    return value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()


def _changed(value: Any, name_of: Callable[[str], str]) -> Any:
    if isinstance(value, tuple):
        return tuple(map(name_of, value))
    return name_of(value) if isinstance(value, str) else value


def _elsewhere(word: str, results: Path) -> list[Path]:
    """Return the run folders that a path means: itself, or those in it."""
    from matrix_runner.records.run_folder import MANIFEST, run_folders

    folder = Path(word)
    if "/" not in word or not (folder / MANIFEST).is_file():
        return run_folders(folder) if "/" in word else []
    return [folder] if folder.resolve().parent != results.resolve() else []


class _View:
    """A temporary results folder of links to run folders."""

    def __init__(self, results: Path) -> None:
        context = click.get_current_context()
        self.folder = Path(context.with_resource(tempfile.TemporaryDirectory(prefix="matrix-runs-")))
        self._results = results
        self._linked: dict[Path, str] = {}

    def name_of(self, word: str) -> str:
        """Return a word for the runs that a word means: the names of the links."""
        return ",".join(self._link(folder) for part in word.split(",") for folder in self._folders(part))

    def _folders(self, part: str) -> list[Path]:
        from matrix_runner.answers.selectors import runs_named
        from matrix_runner.records.observe import readable_runs
        from matrix_runner.records.store import describe_run

        if found := _elsewhere(part, self._results):
            return found
        own = {folder.manifest.identity: folder for folder in readable_runs(self._results)[0]}
        return [own[run.id].path for run in runs_named(part, [describe_run(one) for one in own.values()])]

    def _link(self, folder: Path) -> str:
        target = folder.resolve()
        if target not in self._linked:
            names = (target.name if number == 1 else f"{target.name}-{number}" for number in count(1))
            name = next(name for name in names if name not in self._linked.values())
            (self.folder / name).symlink_to(target)
            self._linked[target] = name
        return self._linked[target]
