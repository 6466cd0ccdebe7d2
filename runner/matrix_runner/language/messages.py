"""Turn pydantic's errors into messages with a remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError

from matrix_runner.base.findings import Flaw, Path
from matrix_runner.base.model import Model
from matrix_runner.base.quantities import NotATime, NoUnit, format_size, format_time, parse_size, parse_time
from matrix_runner.language.hints import example, guess_boolean, guess_layer, guess_time, of_pattern, required
from matrix_runner.language.matrix import MachineWish, Matrix, WorkloadAxes
from matrix_runner.language.suggestions import did_you_mean, hint, near
from matrix_runner.language.tune import IOSCHED, OF_MD, SCOPES, Tune, Vm
from matrix_runner.layers import LAYERS
from matrix_runner.layers.fs import LEAST

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from matrix_runner.language.yaml_source import Source

_KINDS = {
    "bool_type": "true or false",
    "dict_type": "a map",
    "float_type": "a number",
    "int_type": "a whole number",
    "model_attributes_type": "a map",
    "model_type": "a map",
    "string_type": "text",
    "tuple_type": "a list",
}
_NO_MAP = {kind for kind, needed in _KINDS.items() if needed == "a map"}

_MOST_COMPARED = 1000  # unknown keys that are compared with missing ones

#: Pydantic reports all of these for a place that takes a value or a list of values.
_ANYTHING = {"bool_type", "float_type", "int_type", "string_type", "tuple_type"}
_BOUNDS = {
    "greater_than": "must be more than",
    "greater_than_equal": "must be at least",
    "less_than": "must be less than",
    "less_than_equal": "must be at most",
}


def keys_at(path: Sequence[str | int], top: type[Model] = Matrix) -> list[str]:
    """Return the keys that a map may have at a place in pydantic's notation."""
    found: list[Any] = [top]
    for step in path:
        found = [inner for one in found for inner in _types_below(one, step)]
    models = [one for several in found for one in _parts_of(several) if _is_model(one)]
    return [field.alias or name for name, field in models[0].model_fields.items()] if len(models) == 1 else []


def _is_model(one: Any) -> bool:
    return isinstance(one, type) and issubclass(one, Model)


def _parts_of(annotation: Any) -> Iterator[Any]:
    """Yield the members of a union, or the type itself."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        yield from _parts_of(inner)
        yield from (one.also for one in metadata if hasattr(one, "also"))
    elif get_origin(annotation) in {Union, UnionType}:
        yield from (part for one in get_args(annotation) for part in _parts_of(one))
    else:
        yield annotation


def _types_below(annotation: Any, step: str | int) -> Iterator[Any]:
    for one in _parts_of(annotation):
        if get_origin(one) is dict:
            yield get_args(one)[1]
        elif get_origin(one) is tuple:
            yield get_args(one)[0]
        elif _is_model(one):
            fields = {field.alias or name: field for name, field in one.model_fields.items()}
            if step in fields:
                yield fields[str(step)].annotation
            elif "kind" in fields and step in get_args(fields["kind"].annotation):
                yield one  # pydantic names the member of a union


def _home(key: str, around: Sequence[str | int]) -> tuple[str, ...] | None:
    kind = str(around[-1]) if around else ""
    if key in SCOPES:
        return None
    if kind in SCOPES and around[0] == "layouts" and key in SCOPES[kind].model_fields:
        return () if key in OF_MD else (kind,)
    if key in Tune.model_fields:
        return ()
    if key in Vm.model_fields:
        return ("vm",)
    return ("iosched",) if any(key in knobs for knobs in IOSCHED.values()) else None


def _is_of_a_layer(path: Sequence[str | int]) -> bool:
    """Return whether it is an item of a list of layers, in a layout or a part of one."""
    return path[:1] == ["layouts"] and isinstance(path[-1], int)


def _nested(keys: tuple[str, ...], value: str) -> str:
    """Return a text like `tune: {vm: {dirty_ratio: 5}}`."""
    first, *more = keys
    return f"{first}: {{{_nested(tuple(more), value)}}}" if more else f"{first}: {value}"


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_written(one)}' for key, one in value.items())}}}"
    if value is None:
        return "…"
    return str(value).lower() if isinstance(value, bool) else _short(value)


def _message(error: ErrorDetails, top: type[Model], within: Path) -> str:
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        *around, key = (*within, *error["loc"])
        if top is Matrix and (home := _home(str(key), around)) is not None:
            what = f"{around[1]} has no '{key}'" if around[:1] == ["tune"] and around[1:] else f"'{key}' is a tunable"
            return f"{what}; write `{_nested(('tune', *home, str(key)), _written(given))}`"
        if top is Matrix and _is_of_a_layer(around):
            return _of_unknown_layer(str(key))
        known = keys_at(around, top)
        name, colon, value = str(key).partition(":")
        if colon and value and name in known:
            return f"a space is missing after the colon; write `{name}: {value}`"
        return f"unknown key '{_short(key)}'" + (f"; {did_you_mean(str(key), known)}" if known else "")
    if kind == "invalid_key":
        return (
            f"'{_short(given)}' cannot be a key; write several values of one key in brackets, like [{_short(given)}, …]"
        )
    place = (*within, *error["loc"])
    if kind in {"missing", "union_tag_not_found"}:
        name = str(error["loc"][-1]) if kind == "missing" else context["discriminator"].strip("'")
        shown = required(name, (*within, *error["loc"][:-1])) if top is Matrix and kind == "missing" else ""
        return f"'{name}' is missing" + (f"; add `{shown}`" if shown else "")
    no_layers = isinstance(given, dict) and not given.keys() & LAYERS.keys()
    is_section = len(place) == 2 and place[0] == "layouts" and place[1] in Matrix.model_fields
    if kind == "tuple_type" and top is Matrix and no_layers and is_section:
        return f"'{place[-1]}' is indented into `layouts`; begin it in the same column as `layouts`"
    if kind in {"union_tag_invalid", "literal_error"} and given is not None:
        # Pydantic writes 'a', 'b' or 'c'.
        expected = str(context.get("expected_tags") or context["expected"]).replace("'", "")
        choices = [choice for part in expected.split(" or ") for choice in part.split(", ")]
        shown = context.get("tag", given)
        return f"'{_short(shown)}' is not one of {expected}{hint(str(shown), choices)}"
    if given is None:
        return _of_nothing(error)
    return _of_value(error, place) + (_example(error, place) if top is Matrix else "")


def _example(error: ErrorDetails, path: Path) -> str:
    kind, given = error["type"], error["input"]
    if not (kind in _NO_MAP or kind == "tuple_type") or not isinstance(given, str | int | float):
        return ""
    shown = (_in_a_map(given, path) if kind in _NO_MAP else "") or example(path, given)
    return f"; write `{shown}`" if shown else ""


def _of_unknown_layer(key: str) -> str:
    if owners := [name for name, layer in LAYERS.items() if key in layer.model_fields]:
        shown = " or ".join(f"`{name}:`" for name in owners)
        return f"unknown layer '{key}'; it is a key of {shown}: indent it deeper than that"
    if meant := guess_layer(key):
        return f"unknown layer '{key}'; write `{meant}`"
    if key.lower().endswith("fs"):
        return f"unknown layer '{_short(key)}'; the file systems are {', '.join(LEAST)}"
    return f"unknown layer '{_short(key)}'; {did_you_mean(key, LAYERS)}"


def _in_a_map(given: str | float, path: Path) -> str:
    match path:
        case ["layouts", *_, int(), str(kind)] if kind in LAYERS:
            model: type[Model] = LAYERS[kind]
        case ["workloads", _]:
            model = WorkloadAxes
        case ["machine"]:
            model = MachineWish
        case _:
            return ""
    for key in model.model_fields:
        with suppress(ValidationError):
            model.model_validate({key: given})
            return f"{{{key}: {_written(given)}}}"
    return ""


def _of_nothing(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _KINDS:
        return f"this value is empty; {_KINDS[kind]} is needed"
    if kind == "value_error":
        return f"this value is empty: {context['error']}"
    return "this value is empty; write a value or remove the key"


def _of_value(error: ErrorDetails, path: Path) -> str:
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "tuple_type" and isinstance(given, dict):
        shown = _written(given) if path[:1] in {("exclude",), ("only",)} else _written(given)[1:-1]
        return f"a list is needed here, not a map; write `[{_cut(shown)}]`"
    is_list = isinstance(given, list) and bool(given) and all(isinstance(one, dict) and len(one) == 1 for one in given)
    if kind in _NO_MAP and is_list:
        return f"a map is needed here, not a list; write `{{{_cut(', '.join(_written(one)[1:-1] for one in given))}}}`"
    if kind in _KINDS:
        meant = guess_boolean(given) if kind == "bool_type" else ""
        remedy = f"; write {meant}" if meant else ", like 4" if kind == "int_type" else ""
        return f"'{_short(given)}' is not {_KINDS[kind]}{'; quotes make it a text' if _quoted(given, kind) else remedy}"
    if kind == "value_error":
        message = _meant_otherwise(context["error"], given, path)
        return message if isinstance(given, dict | list) else f"'{_short(given)}': {message}"
    if kind in _BOUNDS:
        bound = next(iter(context.values()))
        return f"'{_short(given)}': {_BOUNDS[kind]} {_in_unit_of(given, bound)}"
    if kind == "too_short":
        return f"this {_kind_of(given)} is empty; write at least one item"
    if kind == "too_long":
        return f"this {_kind_of(given)} has {len(given):,} items; at most {context['max_length']}"
    if kind == "string_pattern_mismatch":
        return f"'{_short(given)}': {of_pattern(given, context['pattern'])}"
    return f"'{_short(given)}': {error['msg'][:1].lower()}{error['msg'][1:]}"


def _kind_of(given: Any) -> str:
    return "map" if isinstance(given, dict) else "list"


def _meant_otherwise(error: ValueError, given: Any, path: Path) -> str:
    if isinstance(error, NotATime) and (meant := guess_time(given)):
        return f"not a time; did you mean {meant}?"
    is_large = (path[-1:] == ("size",) and path[:1] == ("disks",)) or path == ("machine", "memory")
    if is_large and isinstance(error, NoUnit) and str(given).isdecimal() and int(given) < 512:
        return f"no unit; did you mean {given}GiB?"
    return str(error)


def _quoted(given: Any, kind: str) -> bool:
    if not isinstance(given, str):
        return False
    word = given.strip().lower()
    return word in {"true", "false"} if kind == "bool_type" else kind == "int_type" and word.lstrip("-").isdecimal()


def _in_unit_of(given: Any, bound: Any) -> str:
    if isinstance(given, str):
        for parse, write in ((parse_size, format_size), (parse_time, format_time)):
            with suppress(ValueError):
                parse(given)
                return write(bound)
        if given.strip().endswith("%"):
            return f"{bound * 100:g}%"
    return f"{bound}"


def _short(value: Any) -> str:
    if isinstance(value, list | dict):
        return _cut(_written(value))
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return _cut("".join(char if char.isprintable() else repr(char)[1:-1] for char in shown))


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _path_in(data: Any, loc: Sequence[str | int]) -> Path:
    """Drop the parts of pydantic's location that are not in the data: names of types, positions of a bare value."""
    path: list[str | int] = []
    for step in loc:
        there = range(len(data)) if isinstance(data, list) else data if isinstance(data, dict) else ()
        if step in there:
            data = data[step]
            path.append(step)
    return tuple(path)


#: Errors that are shown. Messages are made for them only: suggestions for 50,000 wrong keys would take a minute.
MOST_SHOWN = 50


def from_pydantic(
    error: ValidationError, source: Source, top: type[Model] = Matrix, within: Path = ()
) -> Iterator[Flaw]:
    by_place: dict[Path, list[ErrorDetails]] = {}
    every = error.errors(include_url=False)
    misspelt = set(_misspelt(every, top, within))
    for one in every:
        if one["type"] == "missing" and one["loc"] in misspelt:
            continue
        by_place.setdefault(_place(one, source.data), []).append(one)
    in_order = sorted(by_place, key=lambda path: source.order(source.place(path)))
    for path in in_order[:MOST_SHOWN]:
        yield from _flaws_at(path, by_place[path], top, within)
    yield from (Flaw(path, "not shown") for path in in_order[MOST_SHOWN:])


def _flaws_at(path: Path, found: list[ErrorDetails], top: type[Model], within: Path) -> Iterator[Flaw]:
    if {one["type"] for one in found} >= _ANYTHING:  # one error for each type that a condition accepts
        given = found[0]["input"]
        wrong = f"'{_short(given)}' is neither a value nor a list of values"
        yield Flaw(path, wrong if given is not None else "this value is empty; a value or a list of values is needed")
        return
    messages = dict.fromkeys((_message(one, top, within), one["type"] == "extra_forbidden") for one in found)
    yield from (Flaw(path, message, of_key) for message, of_key in messages)


def _misspelt(every: list[ErrorDetails], top: type[Model], within: Path) -> Iterator[tuple[int | str, ...]]:
    """Yield the places of missing keys that an unknown key beside them stands for."""
    lacking = {one["loc"][:length] for one in every if one["type"] == "missing" for length in range(len(one["loc"]))}
    unknown = [one for one in every if one["type"] == "extra_forbidden" and one["loc"][:-1] in lacking]
    for one in unknown[:_MOST_COMPARED]:
        yield from _meant(one, top, within)


def _meant(error: ErrorDetails, top: type[Model], within: Path) -> Iterator[tuple[int | str, ...]]:
    *around, key = error["loc"]
    if _is_of_a_layer(around):  # the key is beside its layer, not inside it
        yield from ((*around, kind, str(key)) for kind in LAYERS)
    name = str(key).partition(":")[0]
    yield (*around, name)
    yield from ((*around, one) for one in near(str(key), keys_at((*within, *around), top)))


def _place(error: ErrorDetails, data: Any) -> Path:
    loc = error["loc"]
    if error["type"] == "union_tag_invalid":
        loc = (*loc, error["ctx"]["discriminator"].strip("'"))
    if error["type"] == "missing":
        return _path_in(data, loc[:-1])
    return _path_in(data, [step for step in loc if step != "[key]"])
