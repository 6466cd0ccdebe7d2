"""Every list is an axis: the model of what users write, from the model of one cell; and conditions on axes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_origin

from pydantic import BeforeValidator, Field, create_model

from matrix_runner.base.model import ChangeSchema, Model

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

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
