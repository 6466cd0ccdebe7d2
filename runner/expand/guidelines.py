"""What guidelines speak of, held against what there is: axes and values of a matrix, or of what was recorded."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from runner.expand.rules import BadRule, axis_named, rule_of
from runner.expand.select import Selection, values_of
from runner.model.axes import model_in
from runner.model.flaws import did_you_mean
from runner.model.guidelines import Guideline
from runner.model.layers import LAYERS
from runner.model.presets import Program
from runner.model.source import Flaw
from runner.model.tune import SCOPES, Tune
from runner.model.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.expand.rules import Rule
    from runner.expand.space import Space
    from runner.model.base import Model
    from runner.model.condition import Condition
    from runner.model.guidelines import Claim
    from runner.model.source import Path

#: What a claim calls the cells that it speaks of.
_SIDES = ("where", "of", "to", "over", "whole")


def conditions_of(claim: Claim) -> Iterator[tuple[Path, Condition]]:
    """Every condition of a claim, with its place in it."""
    for name in _SIDES:
        condition = getattr(claim, name, None)
        if condition:
            yield (name,), condition
    for at, part in enumerate(getattr(claim, "parts", ())):
        yield ("parts", at), part


def sound(data: Any) -> dict[int, Guideline]:
    """Those of the guidelines that were written, by their places, that are well formed, whatever the others are."""
    found: dict[int, Guideline] = {}
    for at, one in enumerate(data if isinstance(data, list) else ()):
        with suppress(ValidationError):
            found[at] = Guideline.model_validate(one)
    return found


def unfounded(
    space: Space, guidelines: Mapping[int, Guideline], loose: frozenset[int] = frozenset()
) -> tuple[list[Flaw], list[str]]:
    """What guidelines speak of that this matrix has not.

    That is a flaw, but where they came along with a whole file, which serves many matrices: those are only mentioned,
    unless no matrix at all could have such an axis.
    """
    values = values_of(space) if guidelines else {}
    flaws, idle = list[Flaw](), list[str]()
    for at, guideline in guidelines.items():
        for flaw, certain in _amiss(guideline, at, values, space):
            if at in loose and not certain:
                idle.append(f"guideline {guideline.id} is not tested: {flaw.message.partition(';')[0]}")
            else:
                flaws.append(flaw)
    return flaws, list(dict.fromkeys(idle))


def impossible_axes(guidelines: Mapping[int, Guideline]) -> Iterator[Flaw]:
    """Axes that no matrix could have."""
    for at, guideline in guidelines.items():
        place: Path = ("guidelines", at, guideline.shape)
        for path, condition in conditions_of(guideline.claimed):
            for key in condition:
                if not _ever(key):
                    told = f"no matrix has an axis '{key}'; {did_you_mean(key.rpartition('.')[2], sorted(_words()))}"
                    yield Flaw((*place, *path, key), told, of_key=True)
        along = getattr(guideline.claimed, "along", "")
        if along and not _ever(along):
            told = f"no matrix has an axis '{along}'; {did_you_mean(along.rpartition('.')[2], sorted(_words()))}"
            yield Flaw((*place, "along"), told)


def _amiss(guideline: Guideline, at: int, values: Mapping[str, set[str]], space: Space) -> Iterator[tuple[Flaw, bool]]:
    """What is wrong with one, and whether it would be with any matrix."""
    claim, found = guideline.claimed, False
    place: Path = ("guidelines", at, guideline.shape)
    for path, condition in conditions_of(claim):
        try:
            rule_of(condition, values)
        except BadRule as error:
            found = True
            yield Flaw((*place, *path, error.key), error.message, error.of_key), error.of_key and not _ever(error.key)
    if along := getattr(claim, "along", ""):
        try:
            axis_named(along, values)
        except BadRule as error:
            found = True
            yield Flaw((*place, "along"), error.message), not _ever(along)
    if not found:
        yield from ((flaw, False) for flaw in _empty(claim, place, values, space))


def _empty(claim: Claim, place: Path, values: Mapping[str, set[str]], space: Space) -> Iterator[Flaw]:
    """Conditions that hold of no cell, though each of their parts does of some; and a best value that is none."""
    where = rule_of(claim.where, values)
    for path, condition in conditions_of(claim):
        rule = narrowed(where, rule_of(condition, values))
        if rule is None or next(Selection(space, only=((rule,),)).cells(), None) is None:
            yield Flaw((*place, *path), "no cell is all of this")
    along, value = getattr(claim, "along", ""), getattr(claim, "value", None)
    if along and value is not None:
        try:
            rule_of({along: value}, values)
        except BadRule as error:
            yield Flaw((*place, "is"), error.message)


def narrowed(one: Rule, other: Rule) -> Rule | None:
    """What holds where both do; None if they exclude each other."""
    both = {axis: one.get(axis, other.get(axis, frozenset())) for axis in {**one, **other}}
    for axis in one.keys() & other.keys():
        both[axis] = one[axis] & other[axis]
    return both if all(both.values()) else None


def _ever(key: str) -> bool:
    """Whether any matrix could have such an axis, written short or in full."""
    word = key.rpartition(".")[2]
    maps = {"iosched", "sysfs", "vm", "fio"}
    return word in _words() or bool(maps.intersection(key.split(".")[:-1]))


@cache
def _words() -> frozenset[str]:
    """The last parts of names of axes that the language knows."""
    models: list[type[Model]] = [*LAYERS.values(), Tune, Workload, Program, *SCOPES.values()]
    found = {"layout", "kernel", "faults", "workload"}
    while models:
        for name, field in models.pop().model_fields.items():
            found.add(name)
            if within := model_in(field.annotation):
                models.append(within)
    return frozenset(found)
