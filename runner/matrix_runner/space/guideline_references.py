"""The axes and values that guidelines and rules name, checked against a matrix or recorded trials."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import NamedTuple

from matrix_runner.base.findings import Flaw, Path, few
from matrix_runner.base.model import Condition, Model, constructed, model_in, texts, written
from matrix_runner.language.guidelines import Claim, Guideline
from matrix_runner.language.layouts import layers_of
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.language.tune import IOSCHED, SCOPES, Tune
from matrix_runner.layers import LAYERS
from matrix_runner.space.rules import BadRule, Rule, amiss, axis_named, rule_of
from matrix_runner.space.select import Selection, values_of
from matrix_runner.space.space import Space
from matrix_runner.space.variants import Workloads, axis_names
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.fio.variants import Program
from matrix_runner.work.metrics import FLUSH

_MAPS = frozenset({"iosched", "sysfs", "sysctl", "vm", "fio"})  # maps with free keys


@dataclass(frozen=True)
class Known:
    values: Mapping[str, set[str]]
    partly: bool = False  # some cells are impossible, so some values belong to no cell

    @classmethod
    def of_declared(cls, space: Space) -> "Known":
        """Collect the axes of a matrix that has impossible cells: every declared value counts, possible or not."""
        values = values_of(space)
        for axis, text in _declared(space.matrix):
            values.setdefault(axis, set()).add(text)
        return cls(values, partly=True)

    def wrong_axis(self, key: str) -> BadRule | None:
        try:
            axis_named(key, self.values)
        except BadRule as error:
            return error
        return None


def ever(key: str) -> bool:
    return key.rpartition(".")[2] in words() or bool(_MAPS.intersection(key.split(".")[:-1]))


@cache
def words() -> frozenset[str]:
    models: list[type[Model]] = [*LAYERS.values(), Tune, WorkloadKeys, Program, *SCOPES.values()]
    found = {"layout", "kernel", "cmdline", "faults", "workload"}.union(*IOSCHED.values())
    while models:
        for name, field in models.pop().model_fields.items():
            found.add(name)
            if within := model_in(field.annotation):
                models.append(within)
    return frozenset(found)


def _declared(matrix: Matrix) -> Iterator[tuple[str, str]]:
    yield from (("kernel", kernel) for kernel in matrix.machine.kernel or ())
    yield from (("cmdline", text) for text in matrix.machine.cmdline or ())
    yield from (("faults", name) for name in matrix.faults if name)
    for layout, declared in matrix.layouts.items():
        yield "layout", layout
        layers = layers_of(layout, declared)
        for axis, (_, kind, layer) in zip(axis_names(kind for _, kind, _ in layers), layers, strict=True):
            yield from _values(axis, LAYERS[kind], written(layer))
    yield from _values("tune", Tune, written(matrix.tune))
    for in_files in (False, True):
        for workload in Workloads.of_kind(matrix, in_files=in_files):
            yield from chain.from_iterable(workload.spellings)


def _values(axis: str, model: type[Model], declared: Mapping[str, tuple[object, ...]]) -> Iterator[tuple[str, str]]:
    for name, values in declared.items():
        for value in values:
            yield from ((f"{axis}.{name}", text) for text in texts(constructed(model, {name: value}), [name]).values())


_SIDES = ("where", "of", "to", "whole")  # fields of claims that select cells


def conditions_of(claim: Claim) -> Iterator[tuple[Path, Condition]]:
    for name in _SIDES:
        if condition := getattr(claim, name, None):
            yield (name,), condition
    for at, part in enumerate(getattr(claim, "parts", ())):
        yield ("parts", at), part


def check_guidelines(
    space: Space, known: Known, undecidable: Mapping[int, Flaw], loose: frozenset[int]
) -> tuple[list[Flaw], list[str]]:
    """Find the wrong and the undecidable guidelines. Included ones (`loose`) serve many matrices, so they get notes."""
    flaws, notes = list[Flaw](), list[str]()
    for at, guideline in enumerate(space.matrix.guidelines):
        wrong = list(_wrong_in(guideline, at, known, space))
        if not (wrong or known.partly) and at in undecidable:
            wrong = [_Wrong(undecidable[at], undecidable[at].message)]
        for one in wrong:
            if at in loose and not one.in_any_matrix:
                notes.append(f"guideline {guideline.id} is not tested: {one.brief}")
            else:
                flaws.append(one.flaw)
        if not wrong:
            notes += _syncs_apart(guideline, known, space)
    return flaws, list(dict.fromkeys(notes))


def _syncs_apart(guideline: Guideline, known: Known, space: Space) -> Iterator[str]:
    """Yield a note if a limit of the latency of writes leaves out the fsyncs of the same work."""
    figure = guideline.claimed.figure
    if guideline.shape != "bound" or figure.unit != "ns" or ".write.lat_" not in f".{figure.name}":
        return
    rule = rule_of(guideline.claimed.where, known.values)
    works = [
        dict(one.coords)["workload"]
        for one, _ in space.workloads
        if FLUSH in one.value.directions.get(figure.job, ())
        and all(value in rule.get(axis, (value,)) for axis, value in one.coords)
    ]
    if works:
        other = figure.name.replace("write.lat_", f"{FLUSH}.lat_")
        waits = f"{few(works)} also waits for fsync or fdatasync"
        yield f"guideline {guideline.id} is about {figure.name}; {waits}, and that time is in {other} only"


def find_unknown_axes(guidelines: Iterable[Guideline]) -> Iterator[Flaw]:
    for at, guideline in enumerate(guidelines):
        place: Path = (at, guideline.shape)
        for path, condition in conditions_of(guideline.claimed):
            for key in condition:
                if not ever(key):
                    yield Flaw((*place, *path, key), _unknown_axis(key), of_key=True)
        along = getattr(guideline.claimed, "along", "")
        if along and not ever(along):
            yield Flaw((*place, "along"), _unknown_axis(along))


def _unknown_axis(key: str) -> str:
    return f"no matrix can have the axis '{key}'; {did_you_mean(key.rpartition('.')[2], sorted(words()))}"


class _Wrong(NamedTuple):
    flaw: Flaw
    brief: str  # its message without the remedy
    in_any_matrix: bool = False


def _wrong_in(guideline: Guideline, at: int, known: Known, space: Space) -> Iterator[_Wrong]:
    claim, found = guideline.claimed, False
    place: Path = ("guidelines", at, guideline.shape)
    if not known.partly and (why := _why_no_job(claim.figure.job, space)):
        found = True
        yield _Wrong(Flaw((*place, "metric"), f"{why}; {_jobs_of(space)}"), why)
    for path, condition in conditions_of(claim):
        for error in amiss(condition, known.values):
            found = True
            flaw = Flaw((*place, *path, error.key), error.message, error.of_key)
            yield _Wrong(flaw, error.brief, error.of_key and not ever(error.key))
    along = getattr(claim, "along", "")
    if along and (unknown := known.wrong_axis(along)):
        found = True
        yield _Wrong(Flaw((*place, "along"), unknown.message), unknown.brief, not ever(along))
    elif along and (best := getattr(claim, "value", None)) is not None:
        for error in amiss({along: best}, known.values):
            found = True
            yield _Wrong(Flaw((*place, "is"), error.message), error.brief)
    if not (found or known.partly):
        yield from (_Wrong(flaw, flaw.message) for flaw in _empty(claim, place, known, space))


def _why_no_job(job: str, space: Space) -> str:
    return "" if not job or job in _jobs(space) else f"this matrix has no job '{job}'"


def _jobs(space: Space) -> list[str]:
    return list(dict.fromkeys(name for workload, _ in space.workloads for name in workload.value.job_names))


def _jobs_of(space: Space) -> str:
    jobs = _jobs(space)
    return f"the jobs of its workloads are {few(jobs, 20)}" if jobs else "no workload has several jobs"


def _empty(claim: Claim, place: Path, known: Known, space: Space) -> Iterator[Flaw]:
    where = rule_of(claim.where, known.values)
    for path, condition in conditions_of(claim):
        rule = intersect_rules(where, rule_of(condition, known.values))
        if rule is None or not Selection(space, only=((rule,),)).count():
            yield Flaw((*place, *path), "no cell matches all of these values")


def intersect_rules(one: Rule, other: Rule) -> Rule | None:
    """Return the rule that matches where both match; None if they exclude each other."""
    both = {**one, **other} | {axis: one[axis] & other[axis] for axis in one.keys() & other.keys()}
    return both if all(both.values()) else None
