"""Rules of a matrix and of `--only`: axes, and the values that match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from matrix_runner.base import quantities
from matrix_runner.base.errors import BadInput
from matrix_runner.language.suggestions import did_you_mean

if TYPE_CHECKING:
    from matrix_runner.base.model import Condition, Scalar

#: The remedy for an axis that occurs twice in one rule.
_EITHER = "to match either value write a list, or A|B for --only"
_BY_NAME = ("layout", "workload", "faults", "kernel")  # axes whose values are names given by the user
_ALSO = {"readwrite": "rw", "0.9": "0.90"}  # values with a second spelling. YAML reads 0.90 as 0.9.
Rule = dict[str, frozenset[str]]  # one rule: for each axis (by its full name) the values that match


class BadRule(Exception):
    """A rule that names an unknown axis or value. `key` is the axis as written."""

    def __init__(self, key: str, brief: str, remedy: str, *, of_key: bool = True) -> None:
        self.key, self.brief, self.remedy, self.of_key = key, brief, remedy, of_key
        self.message = f"{brief}; {remedy}"
        super().__init__(self.message)


def axis_named(key: str, known: Iterable[str]) -> str:
    names = list(known)
    if key in names:
        return key
    fitting = [name for name in names if name.endswith(f".{key}")]
    # `readahead` prefers `tune.readahead` to `tune.md.readahead`.
    least = min((name.count(".") for name in fitting), default=0)
    fitting = [name for name in fitting if name.count(".") == least]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise BadRule(key, f"'{key}' could be {' or '.join(fitting)}", "write one of these")
    raise BadRule(key, f"unknown axis '{key}'", did_you_mean(key, names))


def spellings(value: Scalar) -> set[str]:
    if isinstance(value, bool):
        return {str(value).lower(), *({"none"} if value is False else ())}
    texts = {str(value)}
    with suppress(ValueError):
        if str(value).isdecimal():
            texts.add(quantities.format_size(int(value)))  # a plain number may mean bytes; unknown values match no cell
    with suppress(ValueError):
        texts.add(quantities.format_size(quantities.parse_size(value)))
    with suppress(ValueError):
        texts.add(quantities.format_time(quantities.parse_time(value)))
    with suppress(ValueError):
        texts.add(quantities.format_rate(quantities.parse_rate(value)))
    with suppress(ValueError):
        texts.add(str(quantities.parse_percent(value)))
    if level := re.fullmatch(r"raid-?(\d+)", str(value), re.IGNORECASE):
        texts.add(level[1])
    return {*texts, *(_ALSO[text] for text in texts if text in _ALSO)}


def rule_of(condition: Condition, values: Mapping[str, set[str]]) -> Rule:
    for error in amiss(condition, values):
        raise error
    named = {axis_named(key, values): wanted for key, wanted in condition.items()}
    return {axis: frozenset().union(*map(spellings, each(wanted))) & values[axis] for axis, wanted in named.items()}


def amiss(
    condition: Condition, values: Mapping[str, set[str]], told: Mapping[str, set[str]] | None = None
) -> Iterator[BadRule]:
    keys: dict[str, str] = {}
    for key, wanted in condition.items():
        try:
            axis = axis_named(key, values)
        except BadRule as error:
            yield error
            continue
        if axis in keys:
            yield BadRule(key, f"'{keys[axis]}' and '{key}' are the same axis", _EITHER)
        keys.setdefault(axis, key)
        for one in each(wanted):
            if not spellings(one) & values[axis]:
                remedy = did_you_mean(str(one), sorted((told or values)[axis]))
                yield BadRule(key, f"no cell has {axis}={one}", remedy, of_key=False)


def each(wanted: Scalar | tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return wanted if isinstance(wanted, tuple) else (wanted,)


def format_condition(condition: Condition) -> str:
    return ", ".join(f"{key}: {_format_value(wanted)}" for key, wanted in condition.items())


def _format_value(wanted: Scalar | tuple[Scalar, ...]) -> str:
    if isinstance(wanted, tuple):
        return f"[{', '.join(map(_format_value, wanted))}]"
    return str(wanted).lower() if isinstance(wanted, bool) else str(wanted)


def parse_only(text: str, values: Mapping[str, set[str]]) -> Condition:
    """Parse `layout=raid5,bs=64KiB|128KiB` or `raid5,random`."""
    condition: dict[str, tuple[str, ...]] = {}
    for part in text.split(","):
        key, equals, written = part.partition("=")
        wanted = tuple(value.strip() for value in (written if equals else part).split("|"))
        if not all(wanted) or (equals and not key.strip()):
            raise BadInput(
                f"--only '{text}': '{part}' is neither a name nor AXIS=VALUE",
                resolution="for example --only raid5 or --only 'layout=raid5,bs=64KiB|1MiB'",
            )
        axis = key.strip() if equals else _axis_of(wanted, values, text)
        if axis in condition:
            either = "|".join(dict.fromkeys((*condition[axis], *wanted)))
            raise BadInput(
                f"--only '{text}': '{axis}' occurs twice, and a cell has one value on each axis",
                resolution=f"for cells with either value, write  {axis}={either}",
            )
        condition[axis] = wanted
    return condition  # type: ignore[return-value]


def _axis_of(names: tuple[str, ...], values: Mapping[str, set[str]], text: str) -> str:
    fitting = [axis for axis, known in values.items() if all(spellings(name) & known for name in names)]
    fitting = [axis for axis in fitting if axis in _BY_NAME] or fitting
    if len(fitting) == 1:
        return fitting[0]
    shown = "|".join(names)
    if fitting:
        raise BadInput(
            f"--only '{text}': {shown} is a value of {' and of '.join(fitting)}",
            resolution=f"write {' or '.join(f'{axis}={shown}' for axis in fitting)}",
        )
    known = sorted(set().union(*(values.get(axis, ()) for axis in _BY_NAME)))
    unknown = next((name for name in names if not any(spellings(name) & one for one in values.values())), "")
    raise BadInput(
        f"--only '{text}': there is no layout, workload or other value {unknown}; {did_you_mean(unknown, known)}"
        if unknown
        else f"--only '{text}': these values are not all on one axis: {', '.join(names)}",
        resolution="for example --only raid5 or --only 'layout=raid5,bs=64KiB|1MiB'",
    )
