"""What guidelines speak of, held against what there is: axes and values of a matrix, or of what was recorded."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from runner.language.filter import Where
from runner.language.guidelines import SHAPES, Guideline
from runner.language.suggestions import did_you_mean
from runner.language.yaml_source import Flaw
from runner.space.axis_catalogue import ever, words
from runner.space.select import Selection

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from runner.language.filter import Condition
    from runner.language.guidelines import Claim
    from runner.language.yaml_source import Path
    from runner.space.axis_catalogue import Known
    from runner.space.rules import Rule
    from runner.space.space import Space

#: What a claim calls the cells that it speaks of.
_SIDES = ("where", "of", "to", "over", "whole")
_CONDITION: TypeAdapter[Condition] = TypeAdapter(Where)


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


def malformed_too(known: Known, data: Any, sound: Collection[int]) -> Iterator[Flaw]:
    """What those of the guidelines speak of that are not well formed, as far as that can be read."""
    for at, one in enumerate(data if isinstance(data, list) else ()):
        if at in sound or not isinstance(one, dict):
            continue
        for shape in SHAPES.keys() & one.keys():
            claim = one[shape] if isinstance(one[shape], dict) else {}
            place: Path = ("guidelines", at, shape)
            for side in claim.keys() & _SIDES:
                yield from _wrong_in_text(known, claim[side], (*place, side))
            parts = claim.get("parts")
            for number, part in enumerate(parts if isinstance(parts, list) else ()):
                yield from _wrong_in_text(known, part, (*place, "parts", number))
            along = claim.get("along")
            if isinstance(along, str) and (unknown := known.wrong_axis(along)):
                yield Flaw((*place, "along"), unknown.message)


def _wrong_in_text(known: Known, text: Any, place: Path) -> Iterator[Flaw]:
    with suppress(ValidationError):
        for error in known.wrong_in(_CONDITION.validate_python(text)):
            yield Flaw((*place, error.key), error.message, error.of_key)


def unfounded(
    space: Space, known: Known, guidelines: Mapping[int, Guideline], ahead: Mapping[int, Flaw], loose: frozenset[int]
) -> tuple[list[Flaw], list[str]]:
    """What guidelines speak of that this matrix has not, as far as it is known; `ahead`: which none of its cells could
    decide.

    That is a flaw, but where they came along with a whole file, which serves many matrices: those are only mentioned,
    unless no matrix at all could have such an axis.
    """
    flaws, idle = list[Flaw](), list[str]()
    for at, guideline in guidelines.items():
        amiss = list(_amiss(guideline, at, known, space))
        if not (amiss or known.partly) and at in ahead:
            amiss = [(ahead[at], False)]
        for flaw, certain in amiss:
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
                if not ever(key):
                    told = f"no matrix has an axis '{key}'; {did_you_mean(key.rpartition('.')[2], sorted(words()))}"
                    yield Flaw((*place, *path, key), told, of_key=True)
        along = getattr(guideline.claimed, "along", "")
        if along and not ever(along):
            told = f"no matrix has an axis '{along}'; {did_you_mean(along.rpartition('.')[2], sorted(words()))}"
            yield Flaw((*place, "along"), told)


def _amiss(guideline: Guideline, at: int, known: Known, space: Space) -> Iterator[tuple[Flaw, bool]]:
    """What is wrong with one, and whether it would be with any matrix."""
    claim, found = guideline.claimed, False
    place: Path = ("guidelines", at, guideline.shape)
    for path, condition in conditions_of(claim):
        for error in known.wrong_in(condition):
            found = True
            yield Flaw((*place, *path, error.key), error.message, error.of_key), error.of_key and not ever(error.key)
    along = getattr(claim, "along", "")
    if along and (unknown := known.wrong_axis(along)):
        found = True
        yield Flaw((*place, "along"), unknown.message), not ever(along)
    elif along and (best := getattr(claim, "value", None)) is not None:
        for error in known.wrong_in({along: best}):
            found = True
            yield Flaw((*place, "is"), error.message), False
    if not (found or known.partly):
        yield from ((flaw, False) for flaw in _empty(claim, place, known, space))


def _empty(claim: Claim, place: Path, known: Known, space: Space) -> Iterator[Flaw]:
    """Conditions that hold of no cell, though each of their parts does of some."""
    where = known.rule(claim.where)
    for path, condition in conditions_of(claim):
        rule = narrowed(where, known.rule(condition))
        if rule is None or next(Selection(space, only=((rule,),)).cells(), None) is None:
            yield Flaw((*place, *path), "no cell is all of this")


def narrowed(one: Rule, other: Rule) -> Rule | None:
    """What holds where both do; None if they exclude each other."""
    both = {axis: one.get(axis, other.get(axis, frozenset())) for axis in {**one, **other}}
    for axis in one.keys() & other.keys():
        both[axis] = one[axis] & other[axis]
    return both if all(both.values()) else None
