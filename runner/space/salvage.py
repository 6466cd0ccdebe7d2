"""What is left of a file once everything malformed is cut out of it, so that the rest is checked as well."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ValidationError

from runner.base.model import Model
from runner.language.matrix import Matrix
from runner.language.messages import from_pydantic, keys_at
from runner.language.suggestions import near
from runner.language.workload import misplaced
from runner.language.yaml_source import Flaw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.language.yaml_source import Path

M = TypeVar("M", bound=Model)
_DISKS: dict[str, Any] = {"count": 1, "size": "1GiB", "model": {"kind": "ideal"}}
_WORK: dict[str, Any] = {"rw": "read"}
#: Without these nothing else could be checked.
_STANDS_IN: dict[tuple[str, str], Any] = {
    ("machine", "memory"): "1GiB",
    **{("disks", key): value for key, value in _DISKS.items()},
    **{("workloads", key): value for key, value in _WORK.items()},
}
#: The same, where nothing is left of a section.
_LAST: dict[str, Any] = {"layouts": ["disk"], "workloads": _WORK}
#: The same, where a section is missing.
_MISSING: dict[str, Any] = {
    "name": "any",
    "disks": _DISKS,
    **{section: {"any": one} for section, one in _LAST.items()},
}


@dataclass
class Remains(Generic[M]):
    """What is left of a file."""

    #: None if nothing is.
    whole: M | None = None
    #: Everything malformed.
    flaws: list[Flaw] = field(default_factory=list)
    #: Where something is gone, or something else stands in for it.
    gone: set[Path] = field(default_factory=set)


def validated(data: Any, top: type[M]) -> Remains[M]:
    """All of a file, or what is left of it; `top` is what the whole of it should be."""
    remains = Remains[M]()
    if not isinstance(data, dict):
        _, remains.flaws = _read(data, top)
        return remains
    data = copy.deepcopy(data)
    for _ in range(10):
        whole, found = _read(data, top)
        if not found:
            remains.whole = whole
            return remains
        # What is wrong around a cut is a consequence of the cut.
        told = [old.path for old in remains.flaws]
        remains.flaws += [new for new in found if not any(path[: len(new.path)] == new.path for path in told)]
        bad = frozenset(flaw.path for flaw in found)
        for path in sorted(bad, key=len, reverse=True):
            if not (_cut(data, path, bad, remains.gone) if path else top is Matrix and _filled(data, remains.gone)):
                return remains
    return remains


def _read(data: Any, top: type[M]) -> tuple[M | None, list[Flaw]]:
    """All of it, or everything malformed in it."""
    try:
        whole = top.model_validate(data)
    except ValidationError as error:
        return None, list(from_pydantic(error, data, top))
    return whole, list(_beyond(data)) or list(_misplaced(data) if top is Matrix else ())


def _beyond(data: Any, path: Path = ()) -> Iterator[Flaw]:
    """Numbers that neither an id is made of nor the store holds, whatever their keys allow."""
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _beyond(value, (*path, key))
    elif isinstance(data, int) and abs(data) >= 2**63:
        yield Flaw(path, "no number here is that large")


def _misplaced(data: Mapping[str, Any]) -> Iterator[Flaw]:
    """Options that are for no `fio:` map: fio is asked about the others."""
    for name, work in data["workloads"].items():
        for option, values in (work.get("fio") or {}).items():
            path: Path = ("workloads", name, "fio", option)
            if isinstance(values, list):
                each = ((at, misplaced(option, one)) for at, one in enumerate(values))
                yield from (Flaw((*path, at), why) for at, why in each if why)
            elif why := misplaced(option, values):
                yield Flaw(path, why)


def _filled(data: dict[str, Any], gone: set[Path]) -> bool:
    """Whether anything could be put in where a section of a matrix is missing."""
    missing = _MISSING.keys() - data.keys()
    for section in missing:
        data[section] = copy.deepcopy(_MISSING[section])
        gone.update([("disks", "count"), ("disks", "size")] if section == "disks" else [(section,)])
    return bool(missing)


def _cut(data: Any, path: Path, bad: frozenset[Path], gone: set[Path]) -> bool:
    """Take what is malformed away, leaving the places of everything else as they were; False if nothing would be left.

    A list item gives way to one of its neighbours that is well formed; where there is none, the key that holds the list
    goes, or something stands in for it. What went with an earlier cut is gone already.
    """
    if not _exists(data, path):
        gone.add(path)
        return True
    while isinstance(place := path[-1], int) and isinstance(siblings := _at(data, path[:-1]), list):
        if path[:-1] == ("disks",):
            break
        others = [one for at, one in enumerate(siblings) if (*path[:-1], at) not in bad]
        if others and (path[0] in {"exclude", "only"} or not isinstance(others[0], dict)):
            siblings[place] = others[0]
            gone.add(path)
            return True
        path = path[:-1]
    *_, parent, value = _walk(data, path)
    match path:
        case ["disks"] | ["disks", int()]:
            parent[path[-1]] = _set_of_disks(value, path, gone)
            return True
        case ["workloads", _] if isinstance(value, dict) and not {"rw", "preset"} & value.keys():
            value |= _WORK
            gone.update((*path, key) for key in _WORK)
            return True
    gone.add(path)
    parent.pop(path[-1])
    instead = _STANDS_IN.get((str(path[0]), str(path[-1]))) if path[0] != "workloads" or len(path) > 2 else None
    if _was_meant("model", path) and "model" not in parent:
        parent["model"] = dict(_DISKS["model"])
    if len(path) == 2 and not parent:
        instead = _LAST.get(str(path[0]))
    if instead:
        parent[path[-1]] = copy.deepcopy(instead)
    return True


def _was_meant(key: str, path: Path) -> bool:
    """Whether what is gone of a set of disks is this key, misspelt."""
    match path:
        case ["disks", str(word)] | ["disks", int(), str(word)]:
            return key in near(word, keys_at(path[:-1]))
    return False


def _set_of_disks(value: Any, path: Path, gone: set[Path]) -> dict[str, Any]:
    """What stands in for a set of disks that is none, or for what it does not say."""
    lacking = {"count", "size"} - value.keys() if isinstance(value, dict) else set()
    gone.update((*path, key) for key in lacking or {"count", "size"})
    return {**value, **{key: _DISKS[key] for key in lacking}} if lacking else dict(_DISKS)


def _exists(data: Any, path: Path) -> bool:
    try:
        *_, _ = _walk(data, path)
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _at(data: Any, path: Path) -> Any:
    *_, found = _walk(data, path)
    return found


def _walk(data: Any, path: Path) -> Iterator[Any]:
    yield data
    for step in path:
        if isinstance(data, str):  # it stands here since an earlier cut, and has places, too
            raise KeyError(step)
        data = data[step]
        yield data
