"""Selection of runs by the names that users type and by the accepted level, and of cells by rules on axes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from matrix_runner.answers.axes import Axes, names_of, values_by_axis, with_aliases
from matrix_runner.answers.stored_samples import CellSelection, Samples, figure_name
from matrix_runner.base.errors import BadInput
from matrix_runner.base.findings import few
from matrix_runner.language.suggestions import hint
from matrix_runner.space.rules import BadRule, axis_named, each, parse_only, rule_of, spellings

if TYPE_CHECKING:
    from matrix_runner.base.model import Condition
    from matrix_runner.language.references import Baseline, KnownChange
    from matrix_runner.records.record import CellRow
    from matrix_runner.records.store import RunRow

LATEST = "latest"
_BACK = re.compile(r"(?P<name>.+?)~(?P<back>\d+)")
_GOOD = "~good"
_LEAST = 4  # the shortest prefix that may stand for an id


def runs_named(text: str, runs: Sequence[RunRow]) -> list[RunRow]:
    """Return the runs that a word selects, as `matrix results --help` describes; `runs` has the latest first."""
    name = Path(text).name if "/" in text else text
    if "," in text and all(run.name != name for run in runs):
        words = [word.strip() for word in text.split(",") if word.strip()]
        meant = {(run.id, run.name) for word in words for run in runs_named(word, runs)}
        return [run for run in runs if (run.id, run.name) in meant]
    if name.endswith(_GOOD):
        return [_good(run, runs) for run in runs_named(name.removesuffix(_GOOD), runs)]
    found = [run for run in runs if name in {run.name, run.id}]
    if not found and set("*?[") & set(name):
        found = [run for run in runs if fnmatchcase(run.name, name)]
    found = found or _counted(name, runs)
    if not found and len(name) >= _LEAST:
        found = [run for run in runs if run.id.startswith(name)]
    if not found:
        if "/" in text:
            raise BadInput(
                f"there is no run at {text}", resolution="name the path of a run folder; `matrix runs` lists those here"
            )
        names = dict.fromkeys([LATEST, *(name for run in runs for name in (run.matrix, run.name))])
        raise BadInput(
            f"no run in the store matches '{text}'{hint(text, list(names))}",
            details=f"it holds {few(run.name for run in runs) or 'no run at all'}",
            resolution="name a folder below results/, the path of a run folder, a pattern of names, `latest`, "
            "`latest~1`, MATRIX or MATRIX~1",
        )
    return found


def run_words(runs: Sequence[RunRow]) -> str:
    return ",".join(run.id if "," in run.name else run.name for run in runs)


def _good(run: RunRow, runs: Sequence[RunRow]) -> RunRow:
    """Return the last earlier run of the same work that finished without broken trials and failed guidelines."""
    before = runs[[one.id for one in runs].index(run.id) + 1 :]
    found = next((one for one in before if one.is_good and one.kind == run.kind), None)
    if found is None:
        part = f", {run.part}" if run.part else ""
        raise BadInput(
            f"no run before {run.name} ended well",
            details=f"no earlier finished run of {run.matrix}{part} on the same machine and host has exit code 0",
            resolution="compare with a run that you name; `matrix runs` lists them",
        )
    return found


def runs_on(where: str, runs: Sequence[RunRow]) -> list[RunRow]:
    found = [run for run in runs if any(fnmatchcase(name, where) for name in (run.machine, run.host, run.matrix))]
    if not found:
        places = {f"{run.matrix} on {run.machine} of {run.host or 'a host without a name'}": None for run in runs}
        raise BadInput(
            f"--on {where}: these runs were on other machines",
            details="they are: " + ", ".join(list(places)[:8]),
            resolution="name a machine (qemu, local), a host, a matrix, or a pattern of either",
        )
    return found


def default_runs(runs: Sequence[RunRow]) -> tuple[list[RunRow], str]:
    """Return the runs without excluded and, beside measured ones, without synthetic ones, and a note about these."""
    included = [run for run in runs if not run.excluded]
    measured = [run for run in included if not run.synthetic] or included
    left = {"excluded": len(runs) - len(included), "synthetic": len(included) - len(measured)}
    counts = [f"{count:,} {kind} run{'s' if count != 1 else ''}" for kind, count in left.items() if count]
    return measured, f"{' and '.join(counts)} left out; name them with --runs" if counts else ""


def explain_passed_over(words: Sequence[str], runs: Sequence[RunRow]) -> str:
    """Explain why `latest`, or the name of a matrix, is not the run with the latest start; empty if it is."""
    folders = {run.name for run in runs}
    for name in dict.fromkeys(word.strip().partition("~")[0] for text in words for word in text.split(",")):
        among = [run for run in runs if name in {LATEST, run.matrix}] if name not in folders else []
        if among and with_results(among)[0] is not among[0]:
            return explain_later_run(among[0].name, measured=among[0].measured)
    return ""


def explain_later_run(name: str, *, measured: bool) -> str:
    return f"{name} is later, but {'synthetic' if measured else 'has no results yet'}; name it to see it"


def with_results(runs: Sequence[RunRow]) -> list[RunRow]:
    """Return the runs that `latest` considers: with a measured trial, and synthetic only as a last resort."""
    found = [run for run in runs if run.measured] or list(runs)
    return [run for run in found if not run.synthetic] or found


@contextmanager
def with_hint(hint: str) -> Iterator[None]:
    try:
        yield
    except BadInput as problem:
        if not hint:
            raise
        details = f"{problem.details}\n{hint}" if problem.details else hint
        raise BadInput(problem.brief, details=details, resolution=problem.resolution) from None


def _counted(text: str, runs: Sequence[RunRow]) -> list[RunRow]:
    parts = _BACK.fullmatch(text)
    name, back = (parts["name"], int(parts["back"])) if parts else (text, 0)
    of_name = with_results([run for run in runs if name in {LATEST, run.matrix}])
    if not of_name:
        return []
    first = of_name[0]
    alike = [run for run in of_name if (run.matrix, run.machine) == (first.matrix, first.machine)]
    if back >= len(alike):
        runs_of_it = "is one run" if len(alike) == 1 else f"are {len(alike)} runs"
        raise BadInput(
            f"there is no '{text}'",
            details=f"of {first.matrix} on {first.machine} there {runs_of_it}, the latest of them {first.name}",
            resolution="`~1` goes back among the runs of one matrix on one machine; name another run by its folder",
        )
    return alike[back : back + 1]


def select_cells(
    word: str | None, only: Sequence[str], cells: Sequence[CellRow], *, option: str = "--only"
) -> CellSelection | None:
    """Return the selection by a name or id and the rules of an option; None if that is all cells."""
    if word is None and not only:
        return None
    rules = _rules(only, cells, option)
    named = CellSelection(cell_named(word, cells) if word is not None else {cell.id for cell in cells}, rules)
    return CellSelection({cell.id for cell in cells if named.takes(cell)}, rules)


def _rules(only: Sequence[str], cells: Iterable[CellRow], option: str) -> list[Mapping[str, frozenset[str]]]:
    if not only:
        return []
    values = values_by_axis(with_aliases(cell.axes) for cell in cells)
    rules: list[Mapping[str, frozenset[str]]] = []
    for text in only:
        try:
            rules.append(rule_of(parse_only(text, values), values))
        except BadRule as error:
            raise BadInput(
                f"{option} '{text}': {error.message}", resolution="`matrix results --format csv` shows all axes"
            ) from None
    return rules


def cell_named(text: str, cells: Iterable[CellRow]) -> set[str]:
    known = {cell.id: cell.name for cell in cells}
    found = {key for key, name in known.items() if text in {key, name}}
    if not found and len(text) >= _LEAST:
        found = {key for key in known if key.startswith(text)}
    if not found:
        near = get_close_matches(text, known.values(), n=3, cutoff=0.4)
        raise BadInput(
            f"no cell in the store is called '{text}'",
            details=f"close to it: {', '.join(near)}" if near else "",
            resolution="`matrix results` lists cells; `--only 'AXIS=VALUE'` chooses by axes",
        )
    return found


def full_name(axis: str, found: Iterable[Samples]) -> str:
    """Return the full name of an axis. A short one (`chunk` for `md.chunk`) is valid if it is unambiguous."""
    found = list(found)
    if any(axis in one.cell.axes for one in found):
        return axis
    kinds = {tuple(one.cell.axes): one.cell.axes for one in found}  # many cells have the same axes
    names = names_of(map(with_aliases, kinds.values()))
    fitting = [axis] if axis in names else [name for name in names if name.endswith(f".{axis}")]
    if len(fitting) != 1:
        raise BadInput(
            f"no selected cell has an axis '{axis}'" if not fitting else f"'{axis}' could be {' or '.join(fitting)}",
            resolution=f"there are {', '.join(names) or 'none'}",
        )
    return fitting[0]


def describe_synthetic(runs: Iterable[RunRow]) -> tuple[str, ...]:
    different = {run.id: run for run in runs}.values()
    synthetic = sorted({run.machine for run in different if run.synthetic})
    if not synthetic:
        return ()
    origin = f"synthetic, from the {' and '.join(synthetic)} machine: no figure was measured"
    if all(run.synthetic for run in different):
        return (f"figures are {origin}",)
    names = ", ".join(run.name for run in different if run.synthetic)
    return (f"measured and synthetic figures are mixed: those of {names} are {origin}",)


_HARDWARE = re.compile(r"host\.(cpu|cores)|disk\d+\.(serial|model)")
ACCEPTED = "accepted"  # the word for the level of side B
#: Without a baseline, the level is that of the first good nights. So many of them need no check; so many are enough.
UNCHECKED, ENOUGH = 3, 10
#: So many good nights are looked at. If most of the first ones are slower, a baseline has to be named.
_LOOKED_AT = 30


def matches(condition: Condition, axes: Axes) -> bool:
    """Return whether a cell has all values of a condition. An axis that it lacks does not match."""
    known = with_aliases(axes)
    try:
        return all(
            known[axis_named(key, known)] in {text for one in each(wanted) for text in spellings(one)}
            for key, wanted in condition.items()
        )
    except BadRule:
        return False


def changes_of(changes: Iterable[KnownChange], run: RunRow, axes: Axes, metric: str) -> list[KnownChange]:
    """Return the changes that are accepted for a figure of a cell of a run."""
    day = date.fromisoformat(run.started[:10])
    of_run = (one for one in changes if one.is_accepted_on(day) and is_of(one, run))
    of_figure = (one for one in of_run if one.metric is None or figure_name(one.metric) == metric)
    return [one for one in of_figure if matches(one.cells, axes)]


def accepted_factor(changes: Iterable[KnownChange], run: RunRow, axes: Axes, metric: str) -> float:
    """Return the speed of a figure that is accepted for a run, relative to that without accepted changes."""
    return prod(one.change for one in changes_of(changes, run, axes, metric))


def is_of(entry: Baseline | KnownChange, run: RunRow) -> bool:
    return fnmatchcase(run.matrix, entry.matrix) and fnmatchcase(run.host, entry.host)


def baseline_of(run: RunRow, baselines: Sequence[Baseline]) -> Baseline | None:
    """Return the last baseline that fits: `matrix accept` adds at the end."""
    return next((one for one in reversed(baselines) if is_of(one, run)), None)


def runs_of_baseline(baseline: Baseline, runs: Iterable[RunRow]) -> list[RunRow]:
    return [
        run for run in runs if is_of(baseline, run) and (run.id == baseline.run or fnmatchcase(run.name, baseline.run))
    ]


def explain_baseline(night: RunRow, runs: Sequence[RunRow], baselines: Sequence[Baseline]) -> str:
    """Say that the baseline of a night is not used, as its runs are of other work; empty: it is, or there is none."""
    baseline = baseline_of(night, baselines)
    named = runs_of_baseline(baseline, runs) if baseline else []
    if not named or any(run.kind == night.kind for run in named):
        return ""
    work = "; ".join(dict.fromkeys(_work_of(run) for run in named))
    return f"its baseline {baseline.run if baseline else ''} is not used: that is {work}, not {_work_of(night)}"


def _work_of(run: RunRow) -> str:
    return " ".join(filter(None, (f"{run.matrix} on {run.machine} of {run.host}", run.part and f"({run.part})")))


def hardware_of(run: RunRow) -> tuple[tuple[str, str], ...]:
    """Return the facts of its processors and disks: with others, a host of the same name is another host."""
    return tuple(sorted(fact for fact in run.environment.items() if _HARDWARE.fullmatch(fact[0])))


def accepted_level(
    night: RunRow,
    runs: Sequence[RunRow],
    baselines: Sequence[Baseline],
    is_slower: Callable[[RunRow, Sequence[RunRow]], bool],
) -> list[RunRow]:
    """Return the runs that a night is compared with; `runs` has the latest first.

    They are those of its baseline. Without one, they are the first good runs of the same work. A slower
    one is not a part of the level, so an alarm stays until it is accepted or gone.
    """
    alike = [run for run in runs if run.id != night.id and run.kind == night.kind]
    baseline = baseline_of(night, baselines)
    if baseline and ((found := runs_of_baseline(baseline, alike)) or runs_of_baseline(baseline, [night])):
        return found  # empty: the night itself is the level
    place = hardware_of(night)
    earlier = [run for run in reversed(alike) if run.is_good and run.started < night.started]
    earlier = [run for run in earlier if hardware_of(run) == place]
    level = earlier[:UNCHECKED]
    for run in earlier[UNCHECKED:_LOOKED_AT]:
        if len(level) < ENOUGH and not is_slower(run, level):
            level.append(run)
    return level
