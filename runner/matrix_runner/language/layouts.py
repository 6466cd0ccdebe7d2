"""Layouts as written: a list of layers on all disks, or a map of parts, each with its own list of layers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from matrix_runner.base.findings import Path
from matrix_runner.base.model import Model, Name, as_tuple, axes_of
from matrix_runner.language.guidelines import listed
from matrix_runner.layers import LAYERS


class _Entry(Model):
    """One layer of a layout: `md: {…}`, or only the name of a layer."""

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {value: {}}
        if isinstance(value, dict):
            return {kind: {} if settings is None else settings for kind, settings in value.items()}
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        use = {
            "type": "object",
            "properties": {
                "use": {
                    "type": "string",
                    "pattern": "^.+#.+$",
                    "description": "a layout of another file, in a list: `mine: [use: FILE.yaml#name]`",
                }
            },
            "required": ["use"],
            "additionalProperties": False,
        }
        return {"anyOf": [{"enum": list(LAYERS)}, {**handler(core), "minProperties": 1, "maxProperties": 1}, use]}

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"write one layer per list item; the layers are {', '.join(LAYERS)}")
        return self

    @property
    def layer(self) -> tuple[str, Model]:
        (kind,) = self.model_fields_set
        return kind, getattr(self, kind)


@dataclass(frozen=True)
class _KeysOf:
    """The keys of a layer. Its module is imported only for a matrix that has one."""

    kind: str

    @property
    def also(self) -> type[Model]:  # for suggestions of keys
        return axes_of(LAYERS[self.kind])

    def _parse(self, value: Any) -> Model:
        return self.also.model_validate(value)

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._parse)

    def __get_pydantic_json_schema__(self, _core: Any, handler: Any) -> Any:
        self.also.model_rebuild()
        return handler(core_schema.json_or_python_schema(self.also.__pydantic_core_schema__, core_schema.any_schema()))


if TYPE_CHECKING:
    LayerEntry = _Entry
else:
    LayerEntry = create_model(
        "Layer", __base__=_Entry, **{kind: (Annotated[Any, _KeysOf(kind)] | None, None) for kind in LAYERS}
    )

_MOST = 16
_Layers = Annotated[tuple[LayerEntry, ...], BeforeValidator(listed)]
_Names = Annotated[
    tuple[Name, ...],
    BeforeValidator(as_tuple),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class Column(Model):
    """A part of a layout: layers on groups of disks, or on parts that are written above it."""

    on: _Names = Field(description="names of groups of `disks:`, or of parts above; their devices together")
    layers: Annotated[_Layers, Field(max_length=_MOST)] = Field((), description="its layers, from the bottom up")


class PartedLayout(Column):
    """A layout of several parts: `on` and `layers` are its top, which can name parts as cache or journal."""

    parts: dict[Name, Column] = Field(
        default_factory=dict, max_length=_MOST, description="the parts below its top, from the bottom up"
    )


def _layout(value: Any, as_list: ValidatorFunctionWrapHandler) -> Any:
    is_parted = isinstance(value, dict) and not value.keys().isdisjoint(PartedLayout.model_fields)
    return PartedLayout.model_validate(value) if is_parted else as_list(value)


class _OrParted:
    also = PartedLayout  # for suggestions of keys

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        PartedLayout.model_rebuild()
        return {"anyOf": [handler(core), handler(PartedLayout.__pydantic_core_schema__)]}


Layers = Annotated[_Layers, Field(min_length=1, max_length=_MOST)]
if TYPE_CHECKING:
    AnyLayout = tuple[LayerEntry, ...] | PartedLayout
else:
    AnyLayout = Annotated[
        Layers,
        WrapValidator(_layout),
        SerializeAsAny(),
        _OrParted(),
    ]


class Step(NamedTuple):
    """One layer of a layout, or the change to another part: from the bottom up, a layout is a list of these."""

    path: Path
    kind: str = "on"
    declared: Model | None = None  # None: the change to another part
    on: tuple[str, ...] = ()
    keep: str = ""  # the part that ends here


def steps_of(name: str, layout: AnyLayout) -> list[Step]:
    base: Path = ("layouts", name)
    if not isinstance(layout, PartedLayout):
        return list(_steps(base, layout))
    found, before = list[Step](), ""
    for part, column in (*layout.parts.items(), ("", layout)):
        path = (*base, "parts", part) if part else base
        found += [Step((*path, "on"), on=column.on, keep=before), *_steps((*path, "layers"), column.layers)]
        before = part
    return found


def layers_of(name: str, layout: AnyLayout) -> list[tuple[Path, str, Model]]:
    """Return the place, the kind and the keys of each layer, in the order in which they are built."""
    return [(step.path, step.kind, step.declared) for step in steps_of(name, layout) if step.declared is not None]


def _steps(base: Path, entries: tuple[LayerEntry, ...]) -> Iterator[Step]:
    for at, entry in enumerate(entries):
        kind, declared = entry.layer
        yield Step((*base, at, kind), kind, declared)
