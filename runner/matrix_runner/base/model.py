"""The strict, frozen base of declared models, types of fields, and axes: a list is one, combinations are variants."""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Generic, TypeVar, cast, get_args, get_origin

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from matrix_runner.base.quantities import (
    format_size,
    format_time,
    parse_extent,
    parse_length,
    parse_percent,
    parse_size,
    parse_time,
)

NAME = r"^[A-Za-z][A-Za-z0-9_.+-]*$"
#: A name in a matrix; it becomes a part of file and folder names.
Name = Annotated[str, Field(pattern=NAME, max_length=80)]


@dataclass(frozen=True, slots=True)
class ChangeSchema:
    """Change the JSON schema of a field, if users may write it in more ways than the model shows."""

    change: Callable[[Any], Any]

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        return self.change(handler(core))


class Model(BaseModel):
    """Immutable after parsing; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)


def _schema(pattern: str, example: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "string", "pattern": pattern, "examples": [example]}, {"const": 0}]}


_SIZE_PATTERN = r"^\s*\d+(\.\d+)?\s*(B|[KMGT]iB|[kKMGT]B)\s*$"
_TIME_PATTERN = r"^\s*\d+(\.\d+)?\s*(us|ms|s|m|h)\s*$"
_MEMORY_PATTERN = r"^\s*\d+(\.\d+)?\s*x\s*memory\s*$"
_PERCENT_PATTERN = r"^\s*\d+(\.\d+)?\s*%\s*$"


def size_schema() -> dict[str, Any]:
    return _schema(_SIZE_PATTERN, "64KiB")


Size = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size), WithJsonSchema(size_schema())]
Time = Annotated[
    float, BeforeValidator(parse_time), PlainSerializer(format_time), WithJsonSchema(_schema(_TIME_PATTERN, "10s"))
]
Percent = Annotated[
    float, BeforeValidator(parse_percent), WithJsonSchema({"type": "string", "pattern": _PERCENT_PATTERN})
]
Extent = Annotated[
    int | str,
    BeforeValidator(parse_extent),
    PlainSerializer(lambda extent: extent if isinstance(extent, str) else format_size(extent)),
    WithJsonSchema(_schema(f"({_SIZE_PATTERN})|({_PERCENT_PATTERN})", "25%")),
]
Length = Annotated[
    int | str,
    BeforeValidator(parse_length),
    PlainSerializer(lambda length: length if isinstance(length, str) else format_size(length)),
    WithJsonSchema(_schema(f"({_SIZE_PATTERN})|({_PERCENT_PATTERN})|({_MEMORY_PATTERN})", "4x memory")),
]


T = TypeVar("T")
_LONGEST = 200
Coords = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Variant(Generic[T]):
    value: T
    coords: Coords
    label: str
    digest: bytes
    also: tuple[Coords, ...] = ()  # the coordinates of other spellings of the same value

    @property
    def spellings(self) -> tuple[Coords, ...]:
        return (self.coords, *self.also)


@dataclass(frozen=True, slots=True)
class Choice:
    """One value for every axis, and its position in the list of values (None: not a list)."""

    values: dict[str, Any]
    places: dict[str, int | None]


def distinct(values: tuple[T, ...]) -> list[tuple[int, T]]:
    """Return each value once, with its first position. 1 and true are different values."""
    first: dict[tuple[type, T], int] = {}
    for place, value in enumerate(values):
        first.setdefault((type(value), value), place)
    return [(place, value) for (_, value), place in first.items()]


def choices(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[Choice]:
    numbered = [
        [(name, place if len(values) > 1 else None, value) for place, value in distinct(values)]
        for name, values in axes.items()
    ]
    for combination in itertools.product(*numbered):
        yield Choice({name: value for name, _, value in combination}, {name: place for name, place, _ in combination})


def texts(value: Model, fields: Iterable[str]) -> dict[str, str]:
    dumped = value.model_dump(mode="json")
    found = {}
    for name in fields:
        one: Any = dumped
        for step in name.split("."):
            one = one[step]
        if one is not None:
            found[name] = str(one).lower() if isinstance(one, bool) else str(one)
    return found


def label_of(coords: Coords, axes: Iterable[str]) -> str:
    """Return a label like `level=5,chunk=64KiB`: short, unique among variants, safe in a path."""
    shown = set(axes)
    parts = []
    for axis, text in coords:
        if axis in shown:
            # A tunable keeps its scope, so that md.readahead and disk.readahead differ.
            name = safe(axis.removeprefix("tune.")) if axis.startswith("tune.") else axis.rpartition(".")[2]
            parts.append(f"{name}={safe(text)}")
    return ",".join(parts)


def safe(text: str) -> str:
    return "".join(char if (char.isascii() and char.isalnum()) or char in "._+-%" else "_" for char in text)


def digest(content: object) -> bytes:
    """Hash the content. Order of keys, spelling and names do not matter."""
    return hashlib.blake2b(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def _short(label: str, digest: bytes) -> str:
    parts = label.split("/")
    return "/".join(part if len(part) <= _LONGEST else f"{part[: _LONGEST - 8]}+{digest.hex()[:6]}" for part in parts)


def collapsed(variants: Iterable[Variant[T]]) -> tuple[Variant[T], ...]:
    """Merge equal variants under their first spelling, and make all labels different."""
    kept: dict[bytes, Variant[T]] = {}
    spelled: dict[bytes, dict[Coords, None]] = {}
    labels: set[str] = set()
    for variant in variants:
        if variant.digest in kept:
            spelled.setdefault(variant.digest, {})[variant.coords] = None
            continue
        label = _short(variant.label, variant.digest)
        label = label if label not in labels else f"{label}+{variant.digest.hex()[:6]}"
        labels.add(label)
        kept[variant.digest] = replace(variant, label=label)
    return tuple(replace(one, also=tuple(spelled[key])) if key in spelled else one for key, one in kept.items())


Scalar = str | int | float | bool
Condition = dict[str, Scalar | tuple[Scalar, ...]]


def condition(value: Any) -> Any:
    """Freeze lists of values. Pydantic reports anything else."""
    if not isinstance(value, dict):
        return value
    return {key: tuple(one) if isinstance(one, list) else one for key, one in value.items()}


def conditions(value: Any) -> Any:
    return tuple(map(condition, value)) if isinstance(value, list) else value


Where = Annotated[Condition, BeforeValidator(condition)]  # selects cells by their coordinates
SomeCells = Annotated[Where, Field(min_length=1)]  # the same, but it cannot be empty


M = TypeVar("M", bound=Model)


def as_tuple(value: object) -> tuple[object, ...]:
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not values:
        raise ValueError("an empty list is an axis without values, so there would be no cells")
    if value is None:
        raise ValueError("write a value or remove the key")
    if any(one is None for one in values):
        raise ValueError("this value is empty; write a value or remove the key")
    return values


def scalar_or_list(schema: Any) -> Any:
    items = schema.get("items", {})
    return {"anyOf": [items, {"type": "array", "items": items, "minItems": 1}]}


def _axis(annotation: Any, metadata: list[Any]) -> Any:
    value = Annotated[annotation, *metadata] if metadata else annotation
    return Annotated[tuple[value, ...], BeforeValidator(as_tuple), ChangeSchema(scalar_or_list)]  # type: ignore[valid-type]


def axis_type(field: FieldInfo) -> Any:
    return _axis(field.annotation, field.metadata)


def _axis_field(info: FieldInfo) -> tuple[Any, Any]:
    default = ... if info.is_required() else None
    described = Field(default, description=info.description)
    if within := model_in(info.annotation):
        return axes_of(within) | None, described
    if get_origin(info.annotation) is dict:
        key, value = get_args(info.annotation)
        return dict[key, _axis(value, [])] | None, described  # type: ignore[misc,valid-type]
    axis = _axis(info.annotation, info.metadata)
    return (axis if info.is_required() else axis | None), described


def model_in(annotation: Any) -> type[Model] | None:
    return next(
        (one for one in (annotation, *get_args(annotation)) if isinstance(one, type) and issubclass(one, Model)), None
    )


@cache
def axes_of(model: type[Model]) -> type[Model]:
    fields: dict[str, Any] = {name: _axis_field(info) for name, info in model.model_fields.items()}
    return create_model(f"{model.__name__.removesuffix('Keys')}Axes", __base__=Model, __doc__=model.__doc__, **fields)


def written(declared: Model) -> dict[str, Any]:
    """Return the written fields by name; the fields of an inner map as `map.key`."""
    found: dict[str, Any] = {}
    for name in type(declared).model_fields:
        value = getattr(declared, name) if name in declared.model_fields_set else None
        if isinstance(value, Model):
            value = written(value)
        if isinstance(value, dict):
            for key, inner in value.items():
                several = written(inner) if isinstance(inner, Model) else {"": inner}
                found |= {f"{name}.{key}.{last}".removesuffix("."): one for last, one in several.items()}
        elif value is not None:
            found[name] = value
    return found


def constructed(model: type[M], values: Mapping[str, Any]) -> M:
    """Build a model without validation, from names like those that `written` gives."""
    fields = {name: value for name, value in values.items() if "." not in name}
    maps: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        outer, dot, inner = name.partition(".")
        if dot:
            maps.setdefault(outer, {})[inner] = value
    for outer, part in maps.items():
        within = model_in(model.model_fields[outer].annotation)
        fields[outer] = constructed(within, part) if within else part
    return cast("M", model.model_construct(**fields))
