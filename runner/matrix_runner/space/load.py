"""Load a matrix file: its space of cells, or all of its errors."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TypeVar

import orjson

from matrix_runner.base.errors import BadInput, UnfitFile
from matrix_runner.base.files import RECORDED, WRITTEN, read_input
from matrix_runner.base.findings import Flaw, Note
from matrix_runner.language.disks import AnyModel
from matrix_runner.language.guidelines import FORMER_SHAPES
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.messages import MOST_SHOWN
from matrix_runner.language.yaml_source import Source, UnreadableError, format_error
from matrix_runner.space.ceiling import find_excess, find_flaws
from matrix_runner.space.guideline_references import Known, check_guidelines
from matrix_runner.space.includes import SHELF, read_with_uses, validated
from matrix_runner.space.rules import amiss
from matrix_runner.space.select import values_of
from matrix_runner.space.space import Space, expand
from matrix_runner.work.metrics import FORMER

#: With simulated disks instead of the needed ones it would be another experiment under the same name.
_OF_NEEDS = "needs: applies to machines with physical disks; all others use the simulated disks of `disks`"
#: Files of these names may be anywhere.
_JOBS, _YAML = (".fio", ".job"), (".yaml", ".yml")
_FOREIGN = (
    "a matrix reads only files below its folder, or below the working directory if it lies there too, and no hidden "
    "ones; copy the file there (only job files .fio and .job, and layouts, models and guidelines, may be elsewhere)"
)
#: Checks of rules and guidelines may depend on the malformed parts.
_UNCHECKED = "; the rest is checked after that"
#: No layout and no workload depends on these keys.
_APART = frozenset({"name", "description", "seed", "guidelines", "tune", "repeat", "monitor", "profile", "max_cells"})
#: Fits each stack: layouts can be checked if all workloads are malformed.
_ANY_WORKLOAD = {"any": {"rw": "read"}}


class BadMatrix(BadInput):
    def __init__(self, source: Source, flaws: Iterable[Flaw], rest: str = "") -> None:
        self.source = source
        found = {(flaw.place or source.place(flaw.path, of_key=flaw.of_key), flaw.message) for flaw in flaws}
        self.places = sorted(found, key=lambda one: (source.order(one[0]), one[1]))
        count = len(self.places)
        shown = [format_error(source, *one) for one in self.places[:MOST_SHOWN]]
        hidden = count - len(shown)
        more = [f"… and {hidden:,} more error{'s' if hidden > 1 else ''}"] if hidden else []
        more += [f"note: {note}" for note in former_names(source)]
        super().__init__(
            f"{source.name}: {count:,} error{'s' if count != 1 else ''}",
            details="\n".join([*shown, *more]),
            resolution=f"no trial has started; correct {'this' if count == 1 else 'these'} and try again{rest}",
        )


@dataclass(frozen=True)
class Declared:
    source: Source
    space: Space


#: Checks of a well-formed matrix by other rooms: fio's options, the machine, the guidelines.
Ask = Callable[[Space], Iterable[Flaw]]


def load(path: Path, ask: Ask = lambda _: ()) -> Declared:
    return parse(str(path), text_of(path), ask=ask)


def disk_model(name: str) -> AnyModel:
    text = f"name: model\ndisks: {{count: 1, size: 1GiB, model: {orjson.dumps(name).decode()}}}\n"
    text += "layouts: {one: [disk]}\nworkloads: {any: {rw: read}}\n"
    (several,) = parse("model", text).space.matrix.disks
    if several.model is None:
        raise BadInput(f"{name} is not a disk model")
    return several.model


def text_of(path: Path, remedy: str = "") -> str:
    """Read a file that people write. `remedy`: what to do if it does not exist and is no matrix."""
    try:
        return read_input(path).decode()
    except FileNotFoundError:
        near = "" if remedy else " or ".join(_near(path))
        start = (
            remedy or f"`matrix init` writes a matrix as a start; the shipped matrices are in {_shown(SHELF.parent)}/"
        )
        raise BadInput(
            f"{path}: this file does not exist", resolution=f"did you mean {near}?" if near else start
        ) from None
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path}: this is not a UTF-8 text",
            details=f"byte {error.start + 1}: {error.reason}",
            resolution="name a matrix, or save it as UTF-8",
        ) from None
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise BadInput(f"{path}: cannot be read", details=str(error)) from None


def _near(path: Path) -> list[str]:
    # Only a hint: a run never guesses its matrix.
    folders = dict.fromkeys((path.parent, path.parent / "matrix", Path("matrix"), SHELF.parent))
    found = [file for folder in folders for file in sorted(folder.glob("*.yaml"))]
    found += [folder.parent for folder in sorted(SHELF.parent.glob("studies/**/matrix.yaml"))]
    wanted, known = path.stem.lower(), {file.stem.lower() for file in found}
    names = {wanted} & known or set(get_close_matches(wanted, known, n=2, cutoff=0.6))
    near = dict.fromkeys(file.resolve() for file in found if file.stem.lower() in names)
    return [_shown(file) for file in near][:3]


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def read_beside(matrix: str, file: str, most: int = WRITTEN) -> bytes:
    """Read a file that a matrix names. Errors may quote its lines, so it must not be any file of the host."""
    path = Path(file)
    real, home, here = path.resolve(), Path(matrix).parent.resolve(), Path.cwd()
    roots = (here, home) if here.parent != here and home.is_relative_to(here) else (home,)
    root = next((one for one in roots if real.is_relative_to(one)), None)
    below = real.relative_to(root or os.path.commonpath((home, real))).parts
    known = real.suffix in (_YAML if path.suffix in _YAML else _JOBS)
    hidden = any(part.startswith(".") for part in below)
    if (hidden or not (root or known)) and not real.is_relative_to(SHELF.parent.resolve()):
        raise UnfitFile(path, _FOREIGN)
    return read_input(path, most)


def parse(
    name: str,
    text: str,
    text_of: Callable[[str], str] | None = None,
    ask: Ask = lambda _: (),
    bytes_of: Callable[[str], bytes] | None = None,
) -> Declared:
    read = partial(
        read_with_uses,
        text_of=text_of or (lambda file: read_beside(name, file).decode()),
        bytes_of=bytes_of or (lambda file: read_beside(name, file, RECORDED)),
        environment=os.environ,
    )
    source, misused = readable(name, text, read)
    if source.data is None:
        raise BadMatrix(source, misused or [Flaw((), "the file is empty; `matrix init` writes a matrix as a start")])
    return check(source, misused, ask)


def check(source: Source, misused: Sequence[Flaw] = (), ask: Ask = lambda _: ()) -> Declared:
    _refuse_library(source)
    matrix, malformed = validated(source, Matrix)
    if matrix is None or misused:
        if not misused:
            malformed += _flaws_beside(source, malformed, ask)
        raise BadMatrix(source, [*misused, *malformed], rest=_UNCHECKED)
    return _expanded(source, matrix, ask)


def _flaws_beside(source: Source, malformed: Sequence[Flaw], ask: Ask) -> list[Flaw]:
    """Check the layouts and workloads that do not depend on the malformed parts."""
    rest = _without(source.data, malformed)
    matrix, flaws = validated(replace(source, data=rest), Matrix) if rest else (None, [])
    if matrix is None or flaws or [*find_excess(matrix)]:
        return []
    space, findings = expand(matrix)
    if any(_wrong_rules(matrix, Known(values_of(space)))):
        return []  # rules that name malformed parts may exclude others
    found = [*find_flaws(space, findings), *ask(space)]
    return [flaw for flaw in found if flaw.path[0] in {"layouts", "workloads"} and len(flaw.path) > 1]


def _without(data: object, malformed: Iterable[Flaw]) -> dict[str, object] | None:
    """Return a matrix without its malformed layouts, workloads and independent keys; None if more depends on these."""
    if not isinstance(data, dict):
        return None
    rest = {key: dict(one) if isinstance(one, dict) else one for key, one in data.items()}
    for flaw in malformed:
        match flaw.path:
            case ["layouts" | "workloads" as section, str(name), *_]:
                rest[section].pop(name, None)
            case [str(key), *_] if key in _APART or key not in Matrix.model_fields:
                rest.pop(key, None)
            case []:
                pass  # a missing key
            case _:
                return None
    return {"name": "rest", **rest, "workloads": rest.get("workloads") or _ANY_WORKLOAD}


def _expanded(source: Source, matrix: Matrix, ask: Ask) -> Declared:
    if excess := list(find_excess(matrix)):
        raise BadMatrix(source, excess)
    space, findings = expand(matrix)
    impossible = find_flaws(space, findings)
    if {"layouts", "disks"}.isdisjoint(flaw.path[0] for flaw in impossible):
        impossible += findings.unused  # an impossible layout may be the user
    known = Known.of_declared(space) if impossible else Known(values_of(space))
    asked = list(ask(space))
    undecidable = {int(flaw.path[1]): flaw for flaw in asked if flaw.path[0] == "guidelines"}
    unfounded, idle = check_guidelines(space, known, undecidable, source.loose)
    refused = [flaw for flaw in asked if flaw.path[0] != "guidelines"]
    if found := [*impossible, *_wrong_rules(matrix, known), *unfounded, *refused]:
        raise BadMatrix(source, found)
    needs = [_OF_NEEDS] if matrix.needs else []
    notes = map(Note, (*needs, *idle, *former_names(source)))
    return Declared(source, replace(space, remarks=(*space.remarks, *notes)))


def former_names(source: Source) -> Iterator[str]:
    """Yield a note on each former name in the guidelines, which works until version 1.0."""
    guidelines = source.data.get("guidelines") if isinstance(source.data, dict) else None
    for at, guideline in enumerate(guidelines if isinstance(guidelines, list) else ()):
        for shape, claim in guideline.items() if isinstance(guideline, dict) else ():
            used = claim.get("metric") if isinstance(claim, dict) else None
            metric, kind = FORMER.get(str(used)), FORMER_SHAPES.get(shape)
            for path, what in (((), kind), (("metric",), metric and f"`{used}` is now called `{metric}`")):
                if what:
                    place = source.place(("guidelines", at, shape, *path))
                    where = f"{place.file}:{place.line}:{place.column}"
                    yield f"{where}: {what}; the former name works until version 1.0"


def _wrong_rules(matrix: Matrix, known: Known) -> Iterator[Flaw]:
    for section, rules in (("exclude", matrix.exclude), ("only", matrix.only)):
        for at, condition in enumerate(rules):
            yield from (Flaw((section, at, bad.key), bad.message, bad.of_key) for bad in amiss(condition, known.values))


def _refuse_library(source: Source) -> None:
    """Refuse a file of layouts, guidelines or published figures, with how to use it."""
    data = source.data
    if isinstance(data, list) and data and all(isinstance(one, dict) and "id" in one for one in data):
        raise BadInput(
            f"{source.name}: this file has only guidelines; matrices include it",
            resolution=f"in a matrix, write  guidelines: [{source.name}]; `matrix guidelines list` shows them",
        )
    if isinstance(data, dict) and "tables" in data and "disks" not in data:
        raise BadInput(
            f"{source.name}: this file has the published figures of a study; its matrix is beside it",
            resolution="name the study's folder",
        )
    layouts = data.get("layouts") if isinstance(data, dict) else None
    if isinstance(layouts, dict) and layouts and data.keys() == {"layouts"}:
        example = next(iter(layouts))
        raise BadInput(
            f"{source.name}: this file has only layouts; matrices include it",
            resolution=f"in a matrix, write for example  mine: [use: {source.name}#{example}]",
        )


T = TypeVar("T")


def readable(name: str, text: str, read: Callable[[str, str], T]) -> T:
    """Read a text; raise BadInput if it is not YAML."""
    try:
        return read(name, text)
    except UnreadableError as error:
        raise BadInput(
            f"{name}: this is not valid YAML",
            details=format_error(Source(name, text, None, None), error.place, error.message),
            resolution="no trial has started; correct this and try again; the rest of the file is checked after that",
        ) from None
