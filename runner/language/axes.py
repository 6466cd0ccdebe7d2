"""A list is an axis: from a model of single values, the model of what a user may write.

`axes_of(Md)` is `Md` with a tuple of values in every place; a scalar is an axis with one value. There is one place to
say what a field is, and both what is written and what is run follow from it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_origin

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, create_model

from runner.base.model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

M = TypeVar("M", bound=Model)


def as_tuple(value: object) -> tuple[object, ...]:
    """One value is an axis of one."""
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not values:
        raise ValueError("an empty list is an axis without values: there would be no cell at all")
    if value is None:
        raise ValueError("give a value or take the key away")
    if any(one is None for one in values):
        raise ValueError("nothing is written here; give a value or take the key away")
    return values


class _ScalarOrList:
    """Lets editors accept one value or a list of them."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        items = handler(core).get("items", {})
        return {"anyOf": [items, {"type": "array", "items": items, "minItems": 1}]}


def _axis(annotation: Any, metadata: list[Any]) -> Any:
    value = Annotated[annotation, *metadata] if metadata else annotation
    return Annotated[tuple[value, ...], BeforeValidator(as_tuple), _ScalarOrList()]  # type: ignore[valid-type]


def as_written(field: FieldInfo) -> Any:
    """The type of what may be written in a field's place."""
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
    """The model that a field holds, if it holds one (or nothing)."""
    return next(
        (one for one in (annotation, *get_args(annotation)) if isinstance(one, type) and issubclass(one, Model)), None
    )


@cache
def axes_of(model: type[Model]) -> type[Model]:
    """The model of what may be written where `model` is what is run."""
    fields: dict[str, Any] = {name: _axis_field(info) for name, info in model.model_fields.items()}
    return create_model(f"{model.__name__}Axes", __base__=Model, __doc__=model.__doc__, **fields)


def written(declared: Model) -> dict[str, Any]:
    """What somebody wrote down, by field name; what stands in a map inside it as `map.key`."""
    found: dict[str, Any] = {}
    for name in type(declared).model_fields:
        value = getattr(declared, name) if name in declared.model_fields_set else None
        if isinstance(value, Model):
            value = written(value)
        if isinstance(value, dict):
            found |= {f"{name}.{key}": inner for key, inner in value.items()}
        elif value is not None:
            found[name] = value
    return found


def constructed(model: type[M], values: Mapping[str, Any]) -> M:
    """The model of values that are known to be right, by the names that `written` gives them."""
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
