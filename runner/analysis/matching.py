"""Rows of items of several columns that agree on the axes that both have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")
#: A position on each of some axes; None agrees with every position.
Key = tuple[str | None, ...]
#: The most rows of one combination that a table can have.
MOST = 1000


class TooManyRows(Exception):
    """Items lack so many positions that the combinations are too many."""


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """A combination of positions, and the items that agree with it in each column."""

    key: Key
    columns: tuple[tuple[T, ...], ...]


def side_by_side(columns: Sequence[Sequence[tuple[Key, T]]]) -> list[Row[T]]:
    """Return the rows: items of two columns share one if they agree on all positions that both have.

    An item that lacks a position is in the row of each item that it agrees with. Every item is in a row.
    """
    keys = list(dict.fromkeys(key for column in columns for key, _ in column))
    open_places = {place for key in keys for place, value in enumerate(key) if value is None}
    groups: dict[Key, tuple[list[Key], list[list[tuple[Key, T]]]]] = {}

    def group_of(key: Key) -> tuple[list[Key], list[list[tuple[Key, T]]]]:
        fixed = tuple(None if place in open_places else value for place, value in enumerate(key))
        return groups.setdefault(fixed, ([], [[] for _ in columns]))

    for key in keys:
        group_of(key)[0].append(key)
    for number, column in enumerate(columns):
        for key, item in column:
            group_of(key)[1][number].append((key, item))
    return [
        Row(key, tuple(tuple(item for own, item in column if _merged(own, key) == key) for column in items))
        for own_keys, items in groups.values()
        for key in combinations(own_keys)
    ]


def combinations(keys: Iterable[Key]) -> list[Key]:
    """Return all maximal keys from merging keys that agree."""
    given = list(dict.fromkeys(keys))
    seen, waiting, complete = set(given), list(given), []
    while waiting:
        key = waiting.pop(0)
        grown = [more for one in given if (more := _merged(key, one)) is not None and more != key]
        if not grown:
            complete.append(key)
        for more in grown:
            if more not in seen:
                seen.add(more)
                waiting.append(more)
        if len(seen) > MOST:
            raise TooManyRows
    return complete


def _merged(one: Key, other: Key) -> Key | None:
    """Return the positions of both; None if they differ in one."""
    if any(None not in pair and pair[0] != pair[1] for pair in zip(one, other, strict=True)):
        return None
    return tuple(left if left is not None else right for left, right in zip(one, other, strict=True))
