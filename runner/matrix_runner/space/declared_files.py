"""The files that users write beside a matrix, with the places of their entries: loaded, checked, added to."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import write_atomically
from matrix_runner.base.findings import Flaw
from matrix_runner.base.findings import Path as Keys
from matrix_runner.base.model import Condition
from matrix_runner.base.quantities import format_in_unit
from matrix_runner.language.guidelines import Guideline, Guidelines
from matrix_runner.language.hosts import DiskNeeds, Lab, LabDisk, LabHost, Needs
from matrix_runner.language.messages import from_pydantic
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.language.yaml_source import Source, read
from matrix_runner.space.guideline_references import find_unknown_axes, intersect_rules
from matrix_runner.space.includes import M, validated
from matrix_runner.space.load import BadMatrix, load, readable, text_of
from matrix_runner.space.rules import amiss, rule_of
from matrix_runner.space.select import Selection, select, values_of
from matrix_runner.space.space import Space

if TYPE_CHECKING:
    from matrix_runner.language.references import Baseline, KnownChange, Published, Row, Table

_ADAPTER: TypeAdapter[tuple[Guideline, ...]] = TypeAdapter(Guidelines, config=ConfigDict(defer_build=True))


def load_guidelines(path: Path) -> tuple[Guideline, ...]:
    file, hash_, name = str(path).rpartition("#")
    if not hash_ or path.exists():
        return _all_in(path)
    there = _all_in(Path(file))
    if found := tuple(one for one in there if one.id == name):
        return found
    raise BadInput(f"{file}: there is no guideline {name}; {did_you_mean(name, [one.id for one in there])}")


def _all_in(path: Path) -> tuple[Guideline, ...]:
    text = text_of(path, "name a file with a list of guidelines, or a matrix with `guidelines:`")
    source = readable(str(path), text, read)
    if not isinstance(source.data, list):
        found = load(path).space.matrix.guidelines
        if not found:
            raise BadInput(f"{path}: this matrix has no guidelines")
        return found
    try:
        found = _ADAPTER.validate_python(source.data)
    except ValidationError as error:
        # `within`: hints treat the file as the `guidelines` section of a matrix.
        malformed = from_pydantic(error, source, within=("guidelines",))
        raise BadMatrix(source, malformed) from None
    if flaws := list(find_unknown_axes(found)):
        raise BadMatrix(source, flaws)
    return found


def load_lab(path: Path) -> Lab:
    return parse_lab(str(path), text_of(path, "write it: `matrix help physical-disks` has an example"))


def parse_lab(name: str, text: str) -> Lab:
    source = readable(name, text, read)
    if source.data is None:
        raise BadMatrix(source, [Flaw((), "the file is empty; `matrix help physical-disks` has an example")])
    return _required(source, Lab)


def _required(source: Source, model: type[M]) -> M:
    found, malformed = validated(source, model)
    if found is None:
        raise BadMatrix(source, malformed)
    return found


@dataclass(frozen=True, slots=True)
class Match:
    host: str
    disks: tuple[LabDisk, ...]
    reach: str = "local"
    standing: tuple[str, ...] = ()  # ids of disks whose content may be destroyed without a question
    apart: bool = False  # its disks share no controller or bus, so several runs may measure at the same time

    @property
    def ssh(self) -> str:
        return self.reach.removeprefix("ssh:") if self.reach != "local" else ""


def matched(lab: Lab, needs: Needs, matrix: str) -> Match:
    reasons = []
    for name, host in lab.hosts.items():
        fitting, why = _fitting(host, tuple(needs.groups.values()), matrix)
        if not why:
            return Match(name, fitting, host.reach, host.destroy, apart=host.shares == "nothing")
        reasons.append(f"{name}: {why}")
    asked = " and ".join(map(described, needs.groups.values()))
    raise BadInput(
        f"{matrix} needs {asked}, and no host in hosts.yaml has them",
        details="\n".join(f"  {reason}" for reason in reasons),
        resolution="ask for less in `needs:`, or add disks to hosts.yaml",
    )


def described(needs: DiskNeeds) -> str:
    words = [f"{needs.count} disk{'s' if needs.count != 1 else ''}"]
    words += [f"of kind {needs.kind}"] if needs.kind else []
    words += [f"tagged {' and '.join(needs.tag)}"] if needs.tag else []
    words += [f"of {_format_disk_size(needs.size)} or more"] if needs.size else []
    return ", ".join(words)


def _fitting(host: LabHost, groups: tuple[DiskNeeds, ...], matrix: str) -> tuple[tuple[LabDisk, ...], str]:
    unfit = [{disk.id: ", ".join(_unfit(disk, needs, matrix)) for disk in host.disks} for needs in groups]
    wanted = [group for group, needs in enumerate(groups) for _ in range(needs.count)]
    found = _distinct([[disk for disk in host.disks if not unfit[group][disk.id]] for group in wanted])
    if len(found) == len(wanted):
        order = {disk.id: at for at, disk in enumerate(host.disks)}
        placed = sorted(zip(wanted, found, strict=True), key=lambda one: (one[0], order[one[1].id]))
        return tuple(disk for _, disk in placed), ""
    others = "".join(f"\n      {name} {why}" for each in unfit for name, why in each.items() if why)
    return (), f"it has {len(found)} of {len(wanted)}{others if host.disks else '; it lists no disks'}"


def _distinct(choices: Sequence[Sequence[LabDisk]]) -> list[LabDisk]:
    """Choose a different disk for each place: the first that fits, unless a place with fewer choices needs it."""
    place_of: dict[str, int] = {}
    chosen: dict[int, LabDisk] = {}

    def choose(place: int, seen: set[str]) -> bool:
        for disk in sorted(choices[place], key=lambda disk: disk.id in place_of):
            if disk.id in seen:
                continue
            seen.add(disk.id)
            if disk.id not in place_of or choose(place_of[disk.id], seen):
                place_of[disk.id], chosen[place] = place, disk
                return True
        return False

    for place in range(len(choices)):
        choose(place, set())
    return [chosen[place] for place in sorted(chosen)]


def _unfit(disk: LabDisk, needs: DiskNeeds, matrix: str) -> Iterator[str]:
    if needs.kind and disk.kind != needs.kind:
        yield f"is of kind {disk.kind}" if disk.kind else "has no `kind`"
    for tag in needs.tag:
        if tag not in disk.tags:
            yield f"has no tag {tag}"
    if needs.size and disk.size < needs.size:
        yield f"has only {_format_disk_size(disk.size)}"
    if disk.for_ and not any(fnmatchcase(matrix, one) for one in disk.for_):
        yield f"is for {', '.join(disk.for_)}"


def _format_disk_size(size: int) -> str:
    # Disks are sold in decimal units. A size that is a multiple of no unit is shown in bytes.
    units = {"TB": 10**12, "TiB": 1 << 40, "GB": 10**9, "GiB": 1 << 30, "MB": 10**6, "MiB": 1 << 20}
    return format_in_unit(size, next((unit for unit, bytes_ in units.items() if size % bytes_ == 0), "B"), int)


#: File names in the folder of a study, and in the folder of a run of it.
MATRIX, PUBLISHED = "matrix.yaml", "published.yaml"


@dataclass(frozen=True, slots=True)
class Study:
    text: str
    published: "Published"


def study_beside(matrix: Path, space: Space) -> Study | None:
    path = matrix.with_name(PUBLISHED)
    if matrix.name != MATRIX or not path.is_file():
        return None
    return parse_published(str(path), text_of(path), space)


def parse_published(name: str, text: str, space: Space) -> Study:
    from matrix_runner.language.references import Published

    source = readable(name, text, read)
    found = _required(source, Published)
    checks = _Checks(values_of(space), select(space))
    flaws = [flaw for at, table in enumerate(found.tables) for flaw in checks.of_table(table, ("tables", at))]
    if flaws:
        raise BadMatrix(source, flaws)
    return Study(text, found)


@dataclass(frozen=True, slots=True)
class _Checks:
    values: Mapping[str, set[str]]
    selection: Selection

    def of_table(self, table: "Table", place: Keys) -> Iterator[Flaw]:
        common = list(self._misnamed(table.where, (*place, "where")))
        yield from common
        yield from self._misnamed(table.base or {}, (*place, "base"))
        for at, row in enumerate(table.rows):
            yield from self._of_row(table, row, (*place, "rows", at), common=not common)
        for at, reason in enumerate(table.whys):
            yield from self._misnamed(reason.experiment, (*place, "whys", at, "experiment"))
            yield from self._misnamed(reason.base, (*place, "whys", at, "base"))
            if not any(reason.where.items() <= row.where.items() for row in table.rows):
                yield Flaw((*place, "whys", at, "where"), "no row of this table has all of these values")

    def _of_row(self, table: "Table", row: "Row", place: Keys, *, common: bool) -> Iterator[Flaw]:
        if any(one is not row and one.where == row.where and one.to == row.to for one in table.rows if row.where):
            yield Flaw(place, "another row of this table has the same `where` and `to`")
        if (against := table.held_against(row)) is not None and table.base_of(row) is None:
            base = ", ".join(f"{key}: {value}" for key, value in against.items())
            yield Flaw(place, f"the base of this row is missing in the table: {{{base}}}")
        if row.unmeasured:
            return
        wrong = [*self._misnamed(row.where, (*place, "where")), *self._misnamed(row.to or {}, (*place, "to"))]
        yield from wrong
        if common and not wrong:
            rule = intersect_rules(rule_of(table.where, self.values), rule_of(row.where, self.values))
            only = (*self.selection.only, (rule,)) if rule else ()
            if rule is None or not replace(self.selection, only=only).count():
                yield Flaw((*place, "where"), "no cell matches all of these values")

    def _misnamed(self, condition: Condition, place: Keys) -> Iterator[Flaw]:
        for error in amiss(condition, self.values):
            yield Flaw((*place, error.key), error.message, error.of_key)


T = TypeVar("T")
FILES = {"baselines": "baselines.yaml", "known_changes": "known-changes.yaml"}


@dataclass(frozen=True)
class Listed(Generic[T]):
    """The entries of a file; without a source, the file does not exist."""

    entries: tuple[T, ...] = ()
    source: Source | None = None

    def check(self, flaws: Iterable[Flaw]) -> None:
        if self.source and (found := list(flaws)):
            raise BadMatrix(self.source, found)


@dataclass(frozen=True)
class AcceptedFiles:
    baselines: Listed["Baseline"] = field(default_factory=Listed)
    known_changes: Listed["KnownChange"] = field(default_factory=Listed)

    @property
    def changes(self) -> Sequence["KnownChange"]:
        return self.known_changes.entries

    def check_cells(self, space: Space) -> None:
        """Refuse accepted changes of cells that the matrix does not have."""
        entries = enumerate(self.changes)
        of_matrix = [(at, one) for at, one in entries if fnmatchcase(space.matrix.name, one.matrix)]
        if of_matrix:
            self.known_changes.check(flaw for at, one in of_matrix for flaw in _unknown_cells(one, at, space))

    def check_baselines(self, has_runs: Callable[["Baseline"], object]) -> None:
        """Refuse baselines without a run."""
        self.baselines.check(
            Flaw((at, "run"), f"no run{_place_of(one)} is called '{one.run}'; `matrix runs` lists them")
            for at, one in enumerate(self.baselines.entries)
            if not has_runs(one)
        )


def _place_of(one: "Baseline") -> str:
    parts = (("of", one.matrix), ("on", one.host))
    return "".join(f" {word} {pattern}" for word, pattern in parts if pattern != "*")


def _unknown_cells(change: "KnownChange", at: int, space: Space) -> Iterator[Flaw]:
    values = values_of(space)
    wrong = [Flaw((at, "cells", error.key), error.message, error.of_key) for error in amiss(change.cells, values)]
    yield from wrong
    chosen = select(space)
    if change.cells and not wrong:
        only = (*chosen.only, (rule_of(change.cells, values),))
        if not replace(chosen, only=only).count():
            yield Flaw((at, "cells"), "no cell matches all of these values")


def load_accepted(folder: Path) -> AcceptedFiles:
    return AcceptedFiles(**{kind: _listed(kind, folder / name) for kind, name in FILES.items()})


def keep_accepted(folder: Path, run: Path) -> None:
    """Copy the files into the folder of a run, once: its reports say what it was compared with."""
    for name in FILES.values():
        if not (run / name).exists():
            write_atomically(run / name, (folder / name).read_bytes() if (folder / name).exists() else b"")


def has_accepted(run: Path) -> bool:
    return all((run / name).exists() for name in FILES.values())


def _listed(kind: str, path: Path) -> Listed[Any]:
    return parse_listed(kind, str(path), text_of(path)) if path.exists() else Listed()


def parse_listed(kind: str, name: str, text: str) -> Listed[Any]:
    from matrix_runner.language.references import BASELINES, KNOWN_CHANGES, Accepted

    source = readable(name, text, read)
    if source.data is None:
        return Listed((), source)
    adapters: dict[str, TypeAdapter[Any]] = {"baselines": BASELINES, "known_changes": KNOWN_CHANGES}
    try:
        return Listed(adapters[kind].validate_python(source.data), source)
    except ValidationError as error:
        malformed = from_pydantic(error, source, Accepted, within=(kind,))
        raise BadMatrix(source, malformed) from None


def append_entries(kind: str, folder: Path, texts: Sequence[str]) -> Path:
    """Add entries to a file of a folder, below those that are there. A text that cannot be read is not written."""
    path = folder / FILES[kind]
    before = text_of(path) if path.exists() else ""
    text = before + "\n" * (not before.endswith("\n") and bool(before)) + "".join(texts)
    parse_listed(kind, str(path), text)
    write_atomically(path, text.encode())
    return path
