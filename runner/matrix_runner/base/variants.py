"""The variants of a layer, of the tunables or of a workload: one for each combination of their axes."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

if TYPE_CHECKING:
    from matrix_runner.base.model import Model

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
