"""Validate the data of a file against its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from runner.base.model import Model
from runner.language.matrix import Matrix
from runner.language.messages import from_pydantic
from runner.language.workload import misplaced
from runner.language.yaml_source import Flaw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.language.yaml_source import Path

M = TypeVar("M", bound=Model)


def validated(data: Any, model: type[M]) -> tuple[M | None, list[Flaw]]:
    """Return the model of a file, or everything malformed in it."""
    try:
        whole, flaws = model.model_validate(data), list[Flaw]()
    except ValidationError as error:
        whole, flaws = None, list(from_pydantic(error, data, model))
    for beside in (_too_large(data), _misplaced(data) if model is Matrix else ()):
        found = {flaw.path for flaw in flaws}
        flaws += [flaw for flaw in beside if flaw.path not in found]
    return (None if flaws else whole), flaws


def _too_large(data: Any, path: Path = ()) -> Iterator[Flaw]:
    # Neither cell ids nor the store can hold integers of more than 63 bits.
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _too_large(value, (*path, key))
    elif isinstance(data, int) and abs(data) >= 2**63:
        yield Flaw(path, "this number is too large")


def _misplaced(data: Any) -> Iterator[Flaw]:
    # Other options are checked by fio itself, later.
    for name, work in _items(_items(data).get("workloads")).items():
        for option, values in _items(_items(work).get("fio")).items():
            path: Path = ("workloads", name, "fio", option)
            if not isinstance(option, str):
                continue
            if isinstance(values, list):
                each = ((at, misplaced(option, one)) for at, one in enumerate(values))
                yield from (Flaw((*path, at), why) for at, why in each if why)
            elif why := misplaced(option, values):
                yield Flaw(path, why)


def _items(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}
