"""baselines.yaml and known-changes.yaml of a folder: loaded with the places of their entries, checked, added to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from matrix_runner.base.files import write_atomically
from matrix_runner.base.findings import Flaw
from matrix_runner.language.accepted import BASELINES, KNOWN_CHANGES, Accepted, Baseline, KnownChange
from matrix_runner.language.messages import from_pydantic
from matrix_runner.language.yaml_source import Source, read
from matrix_runner.space.load import BadMatrix, placed, readable, text_of
from matrix_runner.space.rules import amiss, rule_of
from matrix_runner.space.select import select, values_of

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.space.space import Space

T = TypeVar("T")
_ADAPTERS: dict[str, TypeAdapter[Any]] = {"baselines": BASELINES, "known_changes": KNOWN_CHANGES}
FILES = {"baselines": "baselines.yaml", "known_changes": "known-changes.yaml"}


@dataclass(frozen=True)
class Listed(Generic[T]):
    """The entries of a file; without a source, the file does not exist."""

    entries: tuple[T, ...] = ()
    source: Source | None = None

    def check(self, flaws: Iterable[Flaw]) -> None:
        if self.source and (found := list(flaws)):
            raise BadMatrix(self.source, placed(self.source, found))


@dataclass(frozen=True)
class AcceptedFiles:
    baselines: Listed[Baseline] = field(default_factory=Listed)
    known_changes: Listed[KnownChange] = field(default_factory=Listed)

    @property
    def changes(self) -> Sequence[KnownChange]:
        return self.known_changes.entries

    def check_cells(self, space: Space) -> None:
        """Refuse accepted changes of cells that the matrix does not have."""
        entries = enumerate(self.changes)
        of_matrix = [(at, one) for at, one in entries if fnmatchcase(space.matrix.name, one.matrix)]
        if of_matrix:
            self.known_changes.check(flaw for at, one in of_matrix for flaw in _unknown_cells(one, at, space))

    def check_baselines(self, has_runs: Callable[[Baseline], object]) -> None:
        """Refuse baselines without a run."""
        self.baselines.check(
            Flaw((at, "run"), f"no run of {one.matrix} on {one.host} is called '{one.run}'; `matrix runs` lists them")
            for at, one in enumerate(self.baselines.entries)
            if not has_runs(one)
        )


def _unknown_cells(change: KnownChange, at: int, space: Space) -> Iterator[Flaw]:
    values = values_of(space)
    wrong = [Flaw((at, "cells", error.key), error.message, error.of_key) for error in amiss(change.cells, values)]
    yield from wrong
    chosen = select(space)
    if change.cells and not wrong:
        only = (*chosen.only, (rule_of(change.cells, values),))
        if not replace(chosen, only=only).count():
            yield Flaw((at, "cells"), "no cell matches all of these values")


def load_accepted(folder: Path) -> AcceptedFiles:
    return AcceptedFiles(**{kind: _listed(kind, folder / name) for kind, name in FILES.items()})


def _listed(kind: str, path: Path) -> Listed[Any]:
    return parse_listed(kind, str(path), text_of(path)) if path.exists() else Listed()


def parse_listed(kind: str, name: str, text: str) -> Listed[Any]:
    source = readable(name, text, read)
    if source.data is None:
        return Listed((), source)
    try:
        return Listed(_ADAPTERS[kind].validate_python(source.data), source)
    except ValidationError as error:
        malformed = from_pydantic(error, source, Accepted, within=(kind,))
        raise BadMatrix(source, placed(source, malformed)) from None


def append_entries(kind: str, folder: Path, texts: Sequence[str]) -> Path:
    """Add entries to a file of a folder, below those that are there. A text that cannot be read is not written."""
    path = folder / FILES[kind]
    before = text_of(path) if path.exists() else ""
    text = before + "\n" * (not before.endswith("\n") and bool(before)) + "".join(texts)
    parse_listed(kind, str(path), text)
    write_atomically(path, text.encode())
    return path
