"""Load guidelines from their own file, without a matrix."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from runner.base.errors import BadInput
from runner.language.guidelines import Guideline, Guidelines
from runner.language.hints import did_you_mean
from runner.language.messages import from_pydantic
from runner.language.yaml_source import Source, UnreadableError, read
from runner.space.guideline_references import find_unknown_axes
from runner.space.load import BadMatrix, load, placed, text_of, unreadable

_ADAPTER: TypeAdapter[tuple[Guideline, ...]] = TypeAdapter(Guidelines)


def load_guidelines(path: Path) -> tuple[Guideline, ...]:
    """Load all guidelines of a file, or one of them (`FILE#id`)."""
    file, hash_, name = str(path).rpartition("#")
    if not hash_ or path.exists():
        return _all_in(path)
    there = _all_in(Path(file))
    if found := tuple(one for one in there if one.id == name):
        return found
    raise BadInput(f"{file}: there is no guideline {name}; {did_you_mean(name, [one.id for one in there])}")


def _all_in(path: Path) -> tuple[Guideline, ...]:
    name, text = str(path), text_of(path)
    try:
        source = read(name, text)
    except UnreadableError as error:
        raise unreadable(Source(name, text, None, None), error) from None
    if not isinstance(source.data, list):
        found = load(path).space.matrix.guidelines
        if not found:
            raise BadInput(f"{path}: this matrix has no guidelines")
        return found
    return _checked(source)


def _checked(source: Source) -> tuple[Guideline, ...]:
    try:
        found = _ADAPTER.validate_python(source.data)
    except ValidationError as error:
        # `within`: hints treat the file as the `guidelines` section of a matrix.
        malformed = from_pydantic(error, source.data, within=("guidelines",))
        raise BadMatrix(source, placed(source, malformed)) from None
    if flaws := list(find_unknown_axes(found)):
        raise BadMatrix(source, placed(source, flaws))
    return found
