"""From a file to the space of its cells, or to every error that is in it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from pydantic import ValidationError

from runner.errors import BadInput
from runner.expand.fit import flaws_of
from runner.expand.guidelines import sound, unfounded
from runner.expand.notes import Note
from runner.expand.select import check_rules, check_words
from runner.expand.space import Space, expand
from runner.expand.use import read_with_uses
from runner.model.base import Model
from runner.model.flaws import from_pydantic
from runner.model.matrix import Matrix
from runner.model.source import Flaw, Place, Source, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runner.model.disks import AnyModel
    from runner.model.source import Path as Keys

M = TypeVar("M", bound=Model)
#: Modelled disks in the place of those that were asked for would be another experiment under the same name.
_OF_NEEDS = "needs: is for machines whose disks exist; on all others the disks are those of `disks`, made for the run"


class BadMatrix(BadInput):
    """A matrix with errors: all of them, each with its place."""

    def __init__(self, source: Source, flaws: Iterable[tuple[Place, str]]) -> None:
        self.source = source
        self.places = sorted(dict.fromkeys(flaws), key=lambda one: (one[0].file != source.name, one))
        count = len(self.places)
        super().__init__(
            f"{source.name}: {count} error{'s' if count != 1 else ''}",
            details="\n".join(_explain(source, place, message) for place, message in self.places),
            resolution="nothing was started; put these right and run again",
        )


def placed(source: Source, flaws: Iterable[Flaw]) -> Iterator[tuple[Place, str]]:
    """Flaws with the places where they stand."""
    for flaw in flaws:
        yield source.place_of_key(flaw.path) if flaw.of_key else source.place(flaw.path), flaw.message


def _explain(source: Source, place: Place, message: str) -> str:
    line = source.line(place)
    shown = line if len(line) <= 160 else line[:157] + "..."
    return f"{place.file}:{place.line}:{place.column}: {message}\n    {shown}\n    {' ' * (place.column - 1)}^"


@dataclass(frozen=True)
class Declared:
    """A matrix that holds: its text with all places, and the space of its cells."""

    source: Source
    space: Space


def load(path: Path) -> Declared:
    """Read, check and expand a file."""
    return parse(str(path), text_of(path))


def disk_model(name: str) -> AnyModel:
    """A model of disks, by its name or its file; raises BadMatrix with everything that is wrong with it."""
    text = f"name: model\ndisks: {{count: 1, size: 1GiB, model: {orjson.dumps(name).decode()}}}\n"
    text += "layouts: {one: [disk]}\nworkloads: {any: {rw: read}}\n"
    (several,) = parse("model", text).space.matrix.disks
    if several.model is None:
        raise BadInput(f"{name} is no model")
    return several.model


def text_of(path: Path) -> str:
    """The text of a matrix file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(
            f"{path}: there is no such file", resolution="matrices that come with it are in matrix/"
        ) from None
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path}: is no text in UTF-8",
            details=f"byte {error.start + 1} of it is none of any such text: {error.reason}",
            resolution="name a matrix, or save it as UTF-8",
        ) from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read", details=str(error)) from None


def _from_disk(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def parse(name: str, text: str, text_of: Callable[[str], str] = _from_disk) -> Declared:
    """Parse, check and expand a text; raises BadMatrix with everything that is wrong with it.

    `text_of` reads the files that it uses.
    """
    try:
        source, misused = read_with_uses(name, text, text_of)
    except UnreadableError as error:
        raise unreadable(Source(name, text, None, None), error) from None
    if source.data is None:
        nothing = Place(name, 1, 1), "nothing stands in it; matrices to begin with are in matrix/"
        raise BadMatrix(source, misused or [nothing])
    _refuse_library(source)
    flaws: list[Flaw] = []
    matrix = validated(source.data, flaws, Matrix)
    if matrix is None:
        raise BadMatrix(source, [*misused, *placed(source, flaws)])
    space, found = _impossible(matrix, flaws, whole=not misused)
    amiss, idle = list[Flaw](), list[str]()
    if not misused and all(flaw.path[:1] == ("guidelines",) for flaw in found):
        amiss, idle = unfounded(space, sound(source.data.get("guidelines")), source.loose)
    if misused or (found := [*found, *amiss]):
        raise BadMatrix(source, [*misused, *placed(source, found)])
    twice = map(Note, repeated({key: source.data.get(key) for key in ("layouts", "tune", "workloads")}))
    needs = [_OF_NEEDS] if matrix.needs else []
    return Declared(source, replace(space, remarks=(*space.remarks, *twice, *map(Note, (*needs, *idle)))))


def _impossible(matrix: Matrix, flaws: list[Flaw], *, whole: bool) -> tuple[Space, list[Flaw]]:
    """The space of what is left of a matrix, and all that is wrong; `whole`: nothing that it uses is missing."""
    space, findings = expand(matrix)
    found = [*flaws, *flaws_of(space, findings)]
    if whole and not flaws:
        found += findings.unused
    return space, [*found, *(check_rules(space) if whole and not found else check_words(space))]


def repeated(data: Any, of: str = "") -> Iterator[str]:
    """A word on every list in which a value stands twice: it is one value all the same."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from repeated(value, str(key))
    elif isinstance(data, list):
        told = [str(one) for one in data if not isinstance(one, dict | list)]
        for value in dict.fromkeys(one for one in told if told.count(one) > 1):
            yield f"{of}: {value} stands there more than once, and counts once"
        for value in data:
            yield from repeated(value, of)


def _refuse_library(source: Source) -> None:
    """A file that others use layouts of is no matrix, and nothing is missing in it."""
    data = source.data
    if isinstance(data, list) and data and all(isinstance(one, dict) and "id" in one for one in data):
        raise BadInput(
            f"{source.name}: has only guidelines, for matrices to use",
            resolution=f"in a matrix, write  guidelines: [{source.name}]; `matrix guidelines list` shows what they say",
        )
    if isinstance(data, dict) and "tables" in data and "disks" not in data:
        raise BadInput(
            f"{source.name}: has what a study published, which is read with the matrix beside it",
            resolution="name the study's folder",
        )
    if isinstance(data, dict) and "layouts" in data and not {"disks", "workloads"} & data.keys():
        example = next(iter(data["layouts"] or ["NAME"]))
        raise BadInput(
            f"{source.name}: has only layouts, for matrices to use",
            resolution=f"in a matrix, write for example  mine: [use: {source.name}#{example}]",
        )


def unreadable(blank: Source, error: UnreadableError) -> BadInput:
    """What is told of a text that is no YAML."""
    return BadInput(
        f"{blank.name}: not readable as YAML",
        details=_explain(blank, error.place, error.message),
        resolution="nothing was started",
    )


def validated(data: Any, flaws: list[Flaw], top: type[M]) -> M | None:
    """All of a file, or what is left once everything malformed is cut out, so that the rest is checked as well."""
    data = copy.deepcopy(data)
    for _ in range(10):
        try:
            whole = top.model_validate(data)
        except ValidationError as error:
            found = list(from_pydantic(error, data, top))
        else:
            found = list(_beyond(data))
            if not found:
                return whole
        # What is wrong around a cut is a consequence of the cut.
        flaws += [new for new in found if not any(old.path[: len(new.path)] == new.path for old in flaws)]
        if not all(_cut(data, path) for path in sorted({flaw.path for flaw in found}, key=len, reverse=True)):
            return None
    return None


def _beyond(data: Any, path: Keys = ()) -> Iterator[Flaw]:
    """Numbers that neither an id is made of nor the store holds, whatever their keys allow."""
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _beyond(value, (*path, key))
    elif isinstance(data, int) and abs(data) >= 2**63:
        yield Flaw(path, "no number here is that large")


#: Without these nothing else could be checked. They make nothing impossible that might be possible, which no number of
#: disks can be said of.
_STANDS_IN = {("disks", "size"): "1TiB", ("workloads", "rw"): "read"}


def _cut(data: Any, path: Keys) -> bool:
    """Take what is malformed away, leaving the places of everything else as they were; False if nothing would be left.

    A list item gives way to one of its neighbours; where there is none, the key that holds the list goes, or something
    stands in for it. What went with an earlier cut is gone already.
    """
    if not _exists(data, path[:-1]):
        return True
    while path and isinstance(path[-1], int):
        *_, siblings = _walk(data, path[:-1])
        others = [one for place, one in enumerate(siblings) if place != path[-1]]
        if others and not isinstance(others[0], dict):
            siblings[path[-1]] = others[0]
            return True
        path = path[:-1]
    if not path:
        return False
    *_, parent = _walk(data, path[:-1])
    parent.pop(path[-1], None)
    if instead := _STANDS_IN.get((str(path[0]), str(path[-1]))):
        parent[path[-1]] = instead
    return True


def _exists(data: Any, path: Keys) -> bool:
    try:
        *_, _ = _walk(data, path)
    except (KeyError, IndexError):
        return False
    return True


def _walk(data: Any, path: Keys) -> Iterator[Any]:
    yield data
    for step in path:
        data = data[step]
        yield data
