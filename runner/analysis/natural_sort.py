"""Natural sort order of values and names: sizes and numbers by value, not by digits."""

from __future__ import annotations

import re
from functools import lru_cache

_DIGITS = re.compile(r"(\d+)")
Place = tuple[int, float, str]


@lru_cache(maxsize=4096)
def value_key(value: str) -> Place:
    """Sort sizes, times and numbers before words."""
    from runner.base.quantities import parse_size, parse_time

    for number in (float, parse_size, parse_time):
        try:
            return 0, float(number(value)), value
        except (ValueError, TypeError):
            continue
    return 1, 0.0, value


def declared_key(value: str) -> tuple[int, float]:
    """Sort numbers by value, and keep the order of words, because sorts are stable."""
    return value_key(value)[:2]


@lru_cache(maxsize=65536)
def name_key(name: str) -> tuple[tuple[Place, ...], ...]:
    """Sort cell names part by part: `raid5/chunk=16KiB/…` after `raid5/chunk=4KiB/…`, and before `raid10/…`."""
    return tuple(_of_part(part) for part in name.split("/"))


def _of_part(part: str) -> tuple[Place, ...]:
    axis, equals, value = part.partition("=")
    return (*_of_word(axis), *((value_key(value),) if equals else ()))


def _of_word(word: str) -> tuple[Place, ...]:
    return tuple((0, float(one), "") if one.isdecimal() else (1, 0.0, one) for one in _DIGITS.split(word) if one)
