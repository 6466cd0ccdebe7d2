"""The axes that rules and guidelines may name, with their values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from runner.language.axes import constructed, model_in, written
from runner.language.presets import Program
from runner.language.tunables import IOSCHED
from runner.language.tune import SCOPES, Tune
from runner.language.workload import Workload
from runner.layers import LAYERS
from runner.space.layouts import axis_names
from runner.space.rules import BadRule, amiss, axis_named, rule_of
from runner.space.select import values_of
from runner.space.variants import texts
from runner.space.workloads import Workloads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.base.model import Model
    from runner.language.axes import Condition
    from runner.language.matrix import Matrix
    from runner.space.rules import Rule
    from runner.space.space import Space

#: Maps with free keys.
_MAPS = frozenset({"iosched", "sysfs", "vm", "fio"})


@dataclass(frozen=True)
class Known:
    """The axes of a matrix with their values."""

    values: Mapping[str, set[str]]
    #: Some cells are impossible, so some values belong to no cell.
    partly: bool = False

    @classmethod
    def of(cls, space: Space) -> Known:
        return cls(values_of(space))

    @classmethod
    def of_declared(cls, space: Space) -> Known:
        """Collect the axes of a matrix that has impossible cells: every declared value counts, possible or not."""
        values = values_of(space)
        for axis, text in _declared(space.matrix):
            values.setdefault(axis, set()).add(text)
        return cls(values, partly=True)

    def rule(self, condition: Condition) -> Rule:
        return rule_of(condition, self.values)

    def wrong_in(self, condition: Condition) -> Iterator[BadRule]:
        return amiss(condition, self.values)

    def wrong_axis(self, key: str) -> BadRule | None:
        try:
            axis_named(key, self.values)
        except BadRule as error:
            return error
        return None


def ever(key: str) -> bool:
    """Return whether any matrix could have this axis, in its short or its full form."""
    return key.rpartition(".")[2] in words() or bool(_MAPS.intersection(key.split(".")[:-1]))


@cache
def words() -> frozenset[str]:
    """Collect the last parts of all axis names in the language."""
    models: list[type[Model]] = [*LAYERS.values(), Tune, Workload, Program, *SCOPES.values()]
    found = {"layout", "kernel", "faults", "workload"}.union(*IOSCHED.values())
    while models:
        for name, field in models.pop().model_fields.items():
            found.add(name)
            if within := model_in(field.annotation):
                models.append(within)
    return frozenset(found)


def _declared(matrix: Matrix) -> Iterator[tuple[str, str]]:
    yield from (("kernel", kernel) for kernel in matrix.machine.kernel or ())
    yield from (("faults", name) for name in matrix.faults if name)
    for layout, entries in matrix.layouts.items():
        yield "layout", layout
        for axis, entry in zip(axis_names(one.layer[0] for one in entries), entries, strict=True):
            kind, layer = entry.layer
            yield from _values(axis, LAYERS[kind], written(layer))
    yield from _values("tune", Tune, written(matrix.tune))
    for in_files in (False, True):
        for workload in Workloads.of_kind(matrix, in_files=in_files):
            yield from (coord for coords in (workload.coords, *workload.also) for coord in coords)


def _values(axis: str, model: type[Model], declared: Mapping[str, tuple[object, ...]]) -> Iterator[tuple[str, str]]:
    for name, values in declared.items():
        for value in values:
            yield from ((f"{axis}.{name}", text) for text in texts(constructed(model, {name: value}), [name]).values())
