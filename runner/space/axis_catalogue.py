"""What rules and guidelines may speak of: every axis with its values, and how sure it is that there are no others."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import TypeAdapter, ValidationError

from runner.language.axes import model_in
from runner.language.knobs import IOSCHED
from runner.language.presets import Program
from runner.language.suggestions import near
from runner.language.tune import SCOPES, Tune
from runner.language.workload import Workload
from runner.layers import LAYERS
from runner.space.layouts import axis_names
from runner.space.rules import BadRule, NoSuchAxis, NoSuchValue, amiss, axis_named, rule_of, spellings
from runner.space.select import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.base.model import Model
    from runner.language.filter import Condition, Scalar
    from runner.language.matrix import Matrix
    from runner.language.yaml_source import Flaw, Source
    from runner.space.rules import Rule
    from runner.space.salvage import Remains
    from runner.space.space import Space

#: Where the values of an axis are written: by its first part, and of those of layers, `layouts`.
_SECTIONS = {"workload": "workloads", "tune": "tune", "kernel": "machine", "faults": "faults"}
#: Axes whose values are the names in a section.
_NAMES = {"layouts": "layout", "workloads": "workload", "faults": "faults"}
#: Maps whose keys are anything.
_MAPS = frozenset({"iosched", "sysfs", "vm", "fio"})


@dataclass(frozen=True)
class Known:
    """The axes of a matrix with their values."""

    values: Mapping[str, set[str]]
    #: Axes that may have more values than can be seen, and sections that may have more axes.
    doubtful: frozenset[str] = frozenset()
    #: Whether not all of this is true of cells.
    partly: bool = False
    #: What is told to be known: values in one spelling each.
    told: Mapping[str, set[str]] | None = None

    @classmethod
    def of(cls, space: Space) -> Known:
        """Of a matrix that holds: what its cells have, and nothing else."""
        return cls(values_of(space))

    @classmethod
    def of_what_is_left(cls, space: Space, source: Source, remains: Remains[Matrix]) -> Known:
        """Of a matrix with mistakes: what is written counts, be it possible or not."""
        told = values_of(space)
        values = {axis: set(texts) for axis, texts in told.items()}
        lacking = (("layout", name) for name in source.lacking)
        for axis, one in (*_written(source.data), *lacking):
            meant = spellings(one)
            shown = told.setdefault(axis, set())
            if not meant & values.setdefault(axis, set()) and _may_be(axis, one):
                shown.add(str(one))
            values[axis] |= meant
        doubtful = {*map(_doubted, remains.flaws), *(("layouts",) if source.lacking else ())}
        for flaw in remains.flaws:
            if flaw.of_key and len(flaw.path) == 1:  # a section that is misspelt
                for section in near(str(flaw.path[0]), _SECTIONS.values()):
                    doubtful.update((section, _NAMES.get(section, "")))
        for path in remains.gone:
            if len(path) == 1:  # its names as well
                doubtful.update((str(path[0]), _NAMES.get(str(path[0]), "")))
            if len(path) == 2 and path[0] == "workloads":  # what a program would have said besides is not written
                doubtful.add("workloads")
        return cls(values, frozenset(doubtful - {""}), partly=True, told=told)

    def rule(self, condition: Condition) -> Rule:
        """A condition in which nothing is wrong."""
        return rule_of(condition, self.values)

    def wrong_in(self, condition: Condition) -> Iterator[BadRule]:
        """What is certainly wrong in a condition."""
        return filter(self._is_certain, amiss(condition, self.values, self.told))

    def wrong_axis(self, key: str) -> BadRule | None:
        """Why there is certainly no such axis."""
        try:
            axis_named(key, self.values)
        except BadRule as error:
            return error if self._is_certain(error) else None
        return None

    def _is_certain(self, error: BadRule) -> bool:
        if isinstance(error, NoSuchAxis):
            return not self._may_lack(error.key)
        return not isinstance(error, NoSuchValue) or self._lacks_surely(error)

    def _lacks_surely(self, error: NoSuchValue) -> bool:
        layer, dot, name = error.axis.partition(".")
        axis = f"{layer.rstrip('0123456789')}{dot}{name}"
        if axis in _NAMES.values():
            return axis not in self.doubtful
        doubted = {_section(axis), axis, axis.rpartition(".")[0]} & self.doubtful
        return not doubted or never(error)

    def _may_lack(self, key: str) -> bool:
        """Whether an axis may be called so that cannot be seen."""
        name = key.rpartition(".")[2]
        if any(_MAPS.intersection(doubt.split(".")) for doubt in self.doubtful):
            return True
        return ever(key) and any("." not in doubt or doubt.rpartition(".")[2] == name for doubt in self.doubtful)


def _section(axis: str) -> str:
    """Where the values of an axis are written."""
    return _SECTIONS.get(axis.partition(".")[0], "layouts")


def _doubted(flaw: Flaw) -> str:
    """The axis of which something malformed would be a value; the section if that cannot be told, or nothing."""
    match flaw.path:
        case ["workloads", _, str(name), *_] if not flaw.of_key and name not in Program.model_fields:
            return f"workload.{name}"
        case ["layouts", _, int(), str(kind), str(name), *_] if not flaw.of_key:
            return f"{kind}.{name}"
        case ["tune", *names] if names and not flaw.of_key:
            return ".".join(("tune", *(name for name in names if isinstance(name, str))))
        case [str(section), *_] if section in {"layouts", *_SECTIONS.values()}:
            return section
    return ""


def ever(key: str) -> bool:
    """Whether any matrix could have such an axis, written short or in full."""
    return key.rpartition(".")[2] in words() or bool(_MAPS.intersection(key.split(".")[:-1]))


@cache
def words() -> frozenset[str]:
    """The last parts of names of axes that the language knows."""
    models: list[type[Model]] = [*LAYERS.values(), Tune, Workload, Program, *SCOPES.values()]
    found = {"layout", "kernel", "faults", "workload"}.union(*IOSCHED.values())
    while models:
        for name, field in models.pop().model_fields.items():
            found.add(name)
            if within := model_in(field.annotation):
                models.append(within)
    return frozenset(found)


def _written(data: Mapping[str, Any]) -> Iterator[tuple[str, Scalar]]:
    """Every value that stands somewhere in a matrix, whatever else would have to be true for a cell to have it."""
    for section, axis in _NAMES.items():
        yield from ((axis, str(name)) for name in _map(data.get(section)))
    for stack in _map(data.get("layouts")).values():
        layers = [_map(layer) for layer in stack] if isinstance(stack, list) else []
        layers = [layer for layer in layers if len(layer) == 1]
        for axis, layer in zip(axis_names(str(*layer) for layer in layers), layers, strict=True):
            yield from _values(axis, *layer.values())
    yield from _values("tune", data.get("tune"))
    for workload in _map(data.get("workloads")).values():
        yield from _values("workload", workload)
    yield from _values("kernel", _map(data.get("machine")).get("kernel"))


def _map(written: object) -> dict[Any, Any]:
    return written if isinstance(written, dict) else {}


def _values(axis: str, written: object) -> Iterator[tuple[str, Scalar]]:
    """What is written of an axis that the language knows."""
    if isinstance(written, dict):
        for key, value in written.items():
            yield from _values(f"{axis}.{key}", value)
    elif isinstance(written, list):
        for value in written:
            yield from _values(axis, value)
    elif isinstance(written, str | int | float) and ever(axis):
        yield axis, written


def never(error: NoSuchValue) -> bool:
    """Whether nothing that may be written there could be this value."""
    return not _may_be(error.axis, error.value)


def _may_be(axis: str, value: Scalar) -> bool:
    """Whether it could be a value of this axis, for all that its type says."""
    field = _field(axis)
    return field is None or any(_takes(field, one) for one in _meant(value))


def _meant(value: Scalar) -> Iterator[Scalar]:
    yield value
    for text in spellings(value):
        yield text
        if text.isdecimal() and len(text) < 20:
            yield int(text)
        with suppress(ValueError):
            yield float(text)
            yield f"{float(text):%}"


def _field(axis: str) -> Any:
    """The type of the values of an axis; None if it is not known, or any."""
    kind, *names = axis.split(".")
    models: dict[str, type[Model]] = {**LAYERS, "workload": Workload, "tune": Tune}
    model = models.get(kind.rstrip("0123456789"))
    while model and names:
        info = model.model_fields.get(names.pop(0))
        if info is None:
            return None
        model = model_in(info.annotation)
        if not names and model is None:
            return Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
    return None


def _takes(field: Any, value: Scalar) -> bool:
    with suppress(ValidationError):
        TypeAdapter(field).validate_python(value)
        return True
    return False
