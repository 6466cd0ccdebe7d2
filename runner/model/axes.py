"""A list is an axis: from a model of single values, the model of what a user may write.

`axes_of(Md)` is `Md` with a tuple of values in every place; a scalar is an axis with one value. There is one place to
say what a field is, and both what is written and what is run follow from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, create_model

from runner.model.base import Model

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


def as_tuple(value: object) -> tuple[object, ...]:
    """One value is an axis of one."""
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not values:
        raise ValueError("an empty list is an axis without values: there would be no cell at all")
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


def _axis_field(info: FieldInfo) -> tuple[Any, Any]:
    default = ... if info.is_required() else None
    described = Field(default, description=info.description)
    if get_origin(info.annotation) is dict:
        key, value = get_args(info.annotation)
        return dict[key, _axis(value, [])] | None, described  # type: ignore[misc,valid-type]
    axis = _axis(info.annotation, info.metadata)
    return (axis if info.is_required() else axis | None), described


def axes_of(model: type[Model]) -> type[Model]:
    """The model of what may be written where `model` is what is run."""
    fields: dict[str, Any] = {name: _axis_field(info) for name, info in model.model_fields.items()}
    return create_model(f"{model.__name__}Axes", __base__=Model, __doc__=model.__doc__, **fields)


def written(declared: Model) -> dict[str, tuple[Any, ...]]:
    """The axes somebody wrote down, by field name; entries of an open map as `map.key`."""
    axes: dict[str, tuple[Any, ...]] = {}
    for name in type(declared).model_fields:
        if name not in declared.model_fields_set:
            continue
        value = getattr(declared, name)
        if isinstance(value, dict):
            axes |= {f"{name}.{key}": values for key, values in value.items()}
        else:
            axes[name] = value
    return axes
