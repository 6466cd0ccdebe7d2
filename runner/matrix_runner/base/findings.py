"""What is wrong with a matrix, impossible in it or without effect, and notes for the user about a valid one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matrix_runner.base.model import Choice, Coords


Path = tuple[str | int, ...]


class Place(NamedTuple):
    file: str
    line: int
    column: int

    @classmethod
    def of(cls, mark: Any) -> Place:
        return cls(mark.name, mark.line + 1, mark.column + 1)


class Flaw(NamedTuple):
    path: Path
    message: str
    of_key: bool = False  # the key itself is wrong, not its value
    place: Place | None = None  # the place in another file that the value names


@dataclass(frozen=True, slots=True)
class Note:
    """A note: a text, or two texts with the names of the layouts that it is about between them."""

    text: str
    layouts: tuple[str, ...] = ()
    rest: str = ""
    simulated: bool = False  # it holds only for disks that the machine makes as they are declared

    def text_for(self, wanted: Collection[str]) -> str:
        named = [layout for layout in self.layouts if layout in wanted]
        return f"{self.text}{few(named)}{self.rest}" if named or not self.layouts else ""


def join(parts: Iterable[str]) -> str:
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last


def few(labels: Iterable[str], most: int = 5) -> str:
    unique = list(dict.fromkeys(labels))
    return ", ".join(unique[:most]) + (f" and {len(unique) - most:,} more" if len(unique) > most else "")


@dataclass
class Findings:
    flaws: list[Flaw] = field(default_factory=list)
    #: Flaws of some cells, by their coordinates. They do not count if rules exclude these cells.
    impossible: list[tuple[Coords, Flaw]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    #: Values without a user. An impossible layout may be their user, so they do not count if there is one.
    unused: list[Flaw] = field(default_factory=list)

    def flaw(self, path: Path, message: str) -> None:
        self.flaws.append(Flaw(path, message))

    def flaw_of(self, coords: Coords, path: Path, message: str) -> None:
        self.impossible.append((coords, Flaw(path, message)))


def drop_idle(model: Any, choice: Choice) -> tuple[dict[str, Any], dict[str, str]]:
    """Split the values of a choice into those that have an effect, and the reasons why the others have no effect."""
    defaults = {name: info.default for name, info in model.model_fields.items()}
    idle = model.idle({**defaults, **choice.values})
    return {name: value for name, value in choice.values.items() if name not in idle}, idle


def place_of(base: Path, choice: Choice, name: str) -> Path:
    if name not in choice.places:
        return base
    path: Path = (*base, *name.split("."))
    place = choice.places[name]
    return path if place is None else (*path, place)


def report_idle(
    base: Path, axes: Mapping[str, Any], seen: list[dict[str, str]], findings: Findings, about: Note
) -> None:
    """Report axes without effect: an error if no variant uses one, a note if only some do."""
    for name in axes:
        reasons = [idle[name] for idle in seen if name in idle]
        if not reasons:
            continue
        why = "; ".join(dict.fromkeys(reasons))
        if len(reasons) == len(seen):
            findings.flaw((*base, *name.split(".")), f"'{name}' has no effect: {why}")
        else:
            findings.notes.append(replace(about, rest=f": {name} is not an axis where {why}"))
