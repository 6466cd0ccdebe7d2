"""Which runs, and which of their cells: names of runs as people write them, and rules on axes."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from runner.analysis.axes import with_aliases
from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.results.record import CellRow
    from runner.results.store import RunRow

LATEST = "latest"
_BACK = re.compile(r"(?P<name>.+?)~(?P<back>\d+)")
_GOOD = "~good"
_LEAST = 4  # characters of an id that may stand for all of it


def runs_named(text: str, runs: Sequence[RunRow]) -> list[RunRow]:
    """The runs that a word on the command line means; `runs` has the latest first. BadInput if there is none.

    A folder or its name; a pattern of names (`nightly-*`); the beginning of an id; `latest` for the last run with
    results, or the name of a matrix for its last one (made-up ones, if there are no others); `~2` behind either: the
    second before that, of the same matrix on the same machine.
    `~good` behind any of these: the last before it that ended well. Several words with commas between: all of them.
    """
    name = Path(text).name if "/" in text else text
    if "," in text and all(run.name != name for run in runs):
        meant = {run.id for word in text.split(",") if word.strip() for run in runs_named(word.strip(), runs)}
        return [run for run in runs if run.id in meant]
    if name.endswith(_GOOD):
        return [_good(run, runs) for run in runs_named(name.removesuffix(_GOOD), runs)]
    found = [run for run in runs if name in {run.name, run.id}] or _matching(name, runs) or _counted(name, runs)
    if not found and len(name) >= _LEAST:
        found = [run for run in runs if run.id.startswith(name)]
    if not found:
        raise BadInput(
            f"no run in the store is meant by '{text}'",
            details=_there(runs),
            resolution="name a folder below results/, a pattern of names, `latest`, `latest~1`, MATRIX or MATRIX~1",
        )
    return found


def good_before(run: RunRow, runs: Sequence[RunRow]) -> RunRow | None:
    """The last run before it, of the same part of the same matrix in the same place, that ended well.

    That is: it was finished, nothing broke and no guideline failed. `runs` has the latest first.
    """
    before = runs[[one.id for one in runs].index(run.id) + 1 :]
    return next((one for one in before if one.finished and one.exit == 0 and _place(one) == _place(run)), None)


def _place(run: RunRow) -> tuple[str, str, str, bool, str]:
    return run.matrix, run.machine, run.host, run.made_up, run.part


def _good(run: RunRow, runs: Sequence[RunRow]) -> RunRow:
    found = good_before(run, runs)
    if found is None:
        part = f", {run.part}" if run.part else ""
        raise BadInput(
            f"no run before {run.name} ended well",
            details=f"wanted: {run.matrix}{part}, on {run.machine} of the host {run.host or 'without a name'}, "
            "finished, nothing broken, no guideline failing",
            resolution="compare with a run that you name; `matrix results` shows which there are",
        )
    return found


def done_on(where: str, runs: Sequence[RunRow]) -> list[RunRow]:
    """Those that were done on a machine (`qemu`), a host or for a matrix that is called so, or has such a pattern."""
    found = [run for run in runs if any(fnmatchcase(name, where) for name in (run.machine, run.host, run.matrix))]
    if not found:
        there = {f"{run.matrix} on {run.machine} of {run.host or 'a host without a name'}": None for run in runs}
        raise BadInput(
            f"--on {where}: none of these runs was done there",
            details="they are: " + ", ".join(list(there)[:8]),
            resolution="name a machine (qemu, local), a host, a matrix, or a pattern of either",
        )
    return found


def measured_first(runs: Sequence[RunRow]) -> tuple[list[RunRow], str]:
    """The runs that are meant where nobody names any, and what is to be said of the others.

    What somebody walked through on the dry machine is no part of what was measured, unless there is nothing else.
    """
    measured = [run for run in runs if not run.made_up]
    left = len(runs) - len(measured)
    if not measured or not left:
        return list(runs), ""
    return measured, f"{left:,} made-up run{'s' if left != 1 else ''} left out; name them with --runs"


def passed_over(words: Sequence[str], runs: Sequence[RunRow]) -> str:
    """Say why `latest`, or a matrix by its name, is not the run that began last; empty if it is."""
    folders = {run.name for run in runs}
    for name in dict.fromkeys(word.strip().partition("~")[0] for text in words for word in text.split(",")):
        among = [run for run in runs if name in {LATEST, run.matrix}] if name not in folders else []
        if among and with_results(among)[0] is not among[0]:
            return why_passed_over(among[0].name, measured=among[0].measured)
    return ""


def why_passed_over(name: str, *, measured: bool) -> str:
    """Say why `latest` is not this later run: it has no results, or else they are made up."""
    return f"{name} is later, but {'made up' if measured else 'has no results yet'}; name it to see it"


def with_results(runs: Sequence[RunRow]) -> list[RunRow]:
    """Choose the runs that `latest` counts: those with a measured trial, made-up ones only if there are no others."""
    found = [run for run in runs if run.measured] or list(runs)
    return [run for run in found if not run.made_up] or found


@contextmanager
def with_hint(hint: str) -> Iterator[None]:
    """What cannot be answered may be for that reason."""
    try:
        yield
    except BadInput as problem:
        if not hint:
            raise
        details = f"{problem.details}\n{hint}" if problem.details else hint
        raise BadInput(problem.brief, details=details, resolution=problem.resolution) from None


def _matching(pattern: str, runs: Sequence[RunRow]) -> list[RunRow]:
    return [run for run in runs if fnmatchcase(run.name, pattern)] if set("*?[") & set(pattern) else []


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


def _there(runs: Sequence[RunRow]) -> str:
    if not runs:
        return "it holds no run at all"
    more = f" and {len(runs) - 5} more" if len(runs) > 5 else ""
    return f"it holds {', '.join(run.name for run in runs[:5])}{more}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Cells that were asked for: their ids, and rules of which any must hold for what a run says of such a cell."""

    ids: frozenset[str]
    rules: Sequence[Mapping[str, frozenset[str]]] = ()

    def takes(self, cell: CellRow) -> bool:
        """Whether a cell, as some run has it, is one of them."""
        if cell.id not in self.ids:
            return False
        return not self.rules or any(_fits(cell.axes, rule) for rule in self.rules)


def wanted(word: str | None, only: Sequence[str], cells: Sequence[CellRow]) -> Wanted | None:
    """What a name or id and the rules of `--only` ask for of these cells; None if that is all."""
    if word is None and not only:
        return None
    rules = _rules(only, cells)
    named = cell_named(word, cells) if word is not None else {cell.id for cell in cells}
    return Wanted(frozenset({cell.id for cell in cells if Wanted(frozenset(named), rules).takes(cell)}), rules)


def _rules(only: Sequence[str], cells: Iterable[CellRow]) -> list[Mapping[str, frozenset[str]]]:
    if not only:
        return []
    from runner.space.rules import BadRule, parse_only, rule_of

    values: dict[str, set[str]] = {}
    for cell in cells:
        for axis, value in with_aliases(cell.axes).items():
            values.setdefault(axis, set()).add(value)
    rules: list[Mapping[str, frozenset[str]]] = []
    for text in only:
        try:
            rules.append(rule_of(parse_only(text, values), values))
        except BadRule as error:
            raise BadInput(
                f"--only '{text}': {error.message}", resolution="`matrix results --format csv` shows all axes"
            ) from None
    return rules


def _fits(axes: Mapping[str, str], rule: Mapping[str, frozenset[str]]) -> bool:
    there = with_aliases(axes)
    return all(there.get(axis) in allowed for axis, allowed in rule.items())


def cell_named(text: str, cells: Iterable[CellRow]) -> set[str]:
    """Ids of the cells that a word means: a name, or the beginning of an id."""
    known = {cell.id: cell.name for cell in cells}
    found = {key for key, name in known.items() if text in {key, name}}
    if not found and len(text) >= _LEAST:
        found = {key for key in known if key.startswith(text)}
    if not found:
        from difflib import get_close_matches

        near = get_close_matches(text, known.values(), n=3, cutoff=0.4)
        raise BadInput(
            f"no cell in the store is called '{text}'",
            details=f"close to it: {', '.join(near)}" if near else "",
            resolution="`matrix results` lists cells; `--only 'AXIS=VALUE'` chooses by axes",
        )
    return found
