"""Rules as they are written, in a matrix and behind `--only`: axes, and the values that match."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from runner.errors import BadInput
from runner.model.units import format_rate, format_size, format_time, parse_percent, parse_rate, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.model.condition import Condition, Scalar

#: How to say it, where an axis stands twice in one rule.
_EITHER = "for either of two values write a list, or A|B behind --only"
#: What values have as another spelling where they are declared: YAML takes 0.90 for 0.9.
_ALSO = {"readwrite": "rw", "0.9": "0.90"}
#: One rule: for each axis (by its full name) the values that match.
Rule = dict[str, frozenset[str]]


class BadRule(Exception):
    """A rule that names an axis or a value that no cell has. `key` is the axis as it was written."""

    def __init__(self, key: str, message: str, *, of_key: bool) -> None:
        super().__init__(message)
        self.key = key
        self.message = message
        self.of_key = of_key


def axis_named(key: str, known: Iterable[str]) -> str:
    """The full name of an axis that may be written short (`bs` for `workload.bs`)."""
    names = list(known)
    if key in names:
        return key
    fitting = [name for name in names if name.endswith(f".{key}")]
    # `readahead` is the plain one, where there is one beside that of a kind of device.
    least = min((name.count(".") for name in fitting), default=0)
    fitting = [name for name in fitting if name.count(".") == least]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise BadRule(key, f"'{key}' could be {' or '.join(fitting)}; write one of these", of_key=True)
    raise BadRule(key, f"unknown axis '{key}'; {_did_you_mean(key, names)}", of_key=True)


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    from runner.model.flaws import did_you_mean  # imports the whole language

    return did_you_mean(word, known)


def _spellings(value: Scalar) -> set[str]:
    """All canonical texts that somebody who wrote this value may mean."""
    if isinstance(value, bool):
        return {str(value).lower(), *({"none"} if value is False else ())}
    texts = {str(value)}
    with suppress(ValueError):
        if str(value).isdecimal():
            texts.add(format_size(int(value)))  # a plain number may be bytes: here it can only match what is there
    with suppress(ValueError):
        texts.add(format_size(parse_size(value)))
    with suppress(ValueError):
        texts.add(format_time(parse_time(value)))
    with suppress(ValueError):
        texts.add(format_rate(parse_rate(value)))
    with suppress(ValueError):
        texts.add(str(parse_percent(value)))
    if level := re.fullmatch(r"raid-?(\d+)", str(value), re.IGNORECASE):
        texts.add(level[1])
    return {*texts, *(_ALSO[text] for text in texts if text in _ALSO)}


def rule_of(condition: Condition, values: Mapping[str, set[str]]) -> Rule:
    """A condition as it was written, checked against the axes and values that there are."""
    rule: Rule = {}
    for key, wanted in condition.items():
        axis = axis_named(key, values)
        if axis in rule:
            also = next(one for one in condition if axis_named(one, values) == axis)
            raise BadRule(key, f"'{also}' and '{key}' are one axis; {_EITHER}", of_key=True)
        matching: set[str] = set()
        for one in wanted if isinstance(wanted, tuple) else (wanted,):
            found = _spellings(one) & values[axis]
            if not found:
                raise BadRule(
                    key, f"no cell has {axis}={one}; {_did_you_mean(str(one), sorted(values[axis]))}", of_key=False
                )
            matching |= found
        rule[axis] = frozenset(matching)
    return rule


def parse_only(text: str) -> Condition:
    """`layout=raid5,bs=64KiB|128KiB` as a condition."""
    condition: dict[str, tuple[str, ...]] = {}
    for part in text.split(","):
        key, equals, wanted = part.partition("=")
        if not equals or not key.strip() or not wanted.strip():
            raise BadInput(
                f"--only '{text}': '{part}' is not AXIS=VALUE",
                resolution="for example --only 'layout=raid5,bs=64KiB|1MiB'",
            )
        values = tuple(value.strip() for value in wanted.split("|"))
        if (axis := key.strip()) in condition:
            either = "|".join(dict.fromkeys((*condition[axis], *values)))
            raise BadInput(
                f"--only '{text}': '{axis}' stands there twice, and no cell has two values of one axis",
                resolution=f"for cells with either, write  {axis}={either}",
            )
        condition[axis] = values
    return condition  # type: ignore[return-value]
