"""From the axes of one thing (a layer, the tunables, a workload) to its variants."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runner.base.model import Model

T = TypeVar("T")
_LONGEST = 200
Coords = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Variant(Generic[T]):
    """One resolved choice: its value, where it stands on every declared axis, and its part of a cell's name and id."""

    value: T
    coords: Coords
    label: str
    digest: bytes
    #: The coordinates of other spellings of the same thing, which are run as this one.
    also: tuple[Coords, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One value for every axis, and the place in its list where each stands (None: it was no list)."""

    values: dict[str, Any]
    places: dict[str, int | None]


def choices(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[Choice]:
    """Every combination, the last axis fastest."""
    numbered = [
        [(name, place if len(values) > 1 else None, value) for place, value in enumerate(values)]
        for name, values in axes.items()
    ]
    for combination in itertools.product(*numbered):
        yield Choice({name: value for name, _, value in combination}, {name: place for name, place, _ in combination})


def texts(value: Model, fields: Iterable[str]) -> dict[str, str]:
    """Declared fields in the one spelling that names, columns and filters use."""
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
    """`level=5,chunk=64KiB`: what tells variants apart, short, safe in a path."""
    shown = set(axes)
    return ",".join(f"{_short_name(name)}={safe(text)}" for name, text in coords if name in shown)


def _short_name(axis: str) -> str:
    """Without what it belongs to; but a tunable is told from the same one of another kind of device."""
    return safe(axis.removeprefix("tune.")) if axis.startswith("tune.") else axis.rpartition(".")[2]


def safe(text: str) -> str:
    """What of a text can stand in a name that is also a folder."""
    return "".join(char if (char.isascii() and char.isalnum()) or char in "._+-%" else "_" for char in text)


def digest(content: object) -> bytes:
    """Of the content alone: not of order, spelling or name."""
    return hashlib.blake2b(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def _short(label: str, digest: bytes) -> str:
    """No part longer than a file name may be."""
    parts = label.split("/")
    return "/".join(part if len(part) <= _LONGEST else f"{part[: _LONGEST - 8]}+{digest.hex()[:6]}" for part in parts)


def collapsed(variants: Iterable[Variant[T]]) -> tuple[Variant[T], ...]:
    """Equal variants once, under the first of their spellings; different ones never under one label."""
    kept: dict[bytes, Variant[T]] = {}
    labels: set[str] = set()
    for variant in variants:
        known = kept.get(variant.digest)
        if known is not None:
            kept[variant.digest] = replace(known, also=tuple(dict.fromkeys((*known.also, variant.coords))))
            continue
        label = _short(variant.label, variant.digest)
        label = label if label not in labels else f"{label}+{variant.digest.hex()[:6]}"
        labels.add(label)
        kept[variant.digest] = replace(variant, label=label)
    return tuple(kept.values())
