"""A static site of many runs: an index, a page for each matrix, pages of each run, one that compares any two."""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.history import find_history_alarms, timelines
from matrix_runner.answers.stored_samples import USUAL_RATES, Samples, more_is_faster, rates_of, unit_of
from matrix_runner.base.errors import BadInput, MatrixError, UnfitFile
from matrix_runner.base.extras import without_statistics
from matrix_runner.base.files import RECORDED, read_input, refuse_link, write_atomically
from matrix_runner.pages.explore import Explored, page, read_explored, shared_library, title_of
from matrix_runner.pages.html import own_scripts_only, render_page
from matrix_runner.pages.stored import Reader, read_verdicts
from matrix_runner.pages.terminal_text import figure
from matrix_runner.pages.timeline import describe_alarms, display_table, history_plots
from matrix_runner.records.record import CellRow
from matrix_runner.records.store import RunRow, SharedStore

_FILES = "matrix-site.json"  # the files that the site wrote, which a later one may remove
_HISTORY_ROWS = 500
#: Scripts and styles stay; of tags, two attributes are texts. What does not end reaches to the end of the page, as in a
#: browser: to look for its end again from each place would take hours.
_PARTS = re.compile(r"(<script.*?(?:</script>|\Z)|<style.*?(?:</style>|\Z))|(<[^>]*(?:>\s*|\Z))|([^<]+)", re.DOTALL)
_TEXTS = re.compile(r'((?:title|aria-label)=")([^"]*)')
_DOCTYPE = re.compile(r"\A(\s*<!DOCTYPE html>)?", re.IGNORECASE)
_ELSEWHERE = re.compile(r'<a href="(?!#|explore\.html")[^"]*"[^>]*(?:>|\Z)([^<]*(?:<(?!/?a\b)[^<]*)*)(?:</a>)?')
_META = re.compile(r"<meta\b[^>]*>", re.IGNORECASE)
#: What is left to lead a reader elsewhere, also at once: it becomes text.
_LEADS = re.compile(
    r'<(?=(?:meta|area|animate|set)\b|a\b(?! href="(?:#|explore\.html"|\.\./(?:index|compare)\.html)))', re.IGNORECASE
)
Replace = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Run:
    run: RunRow  # with names that may be published
    folder: Path
    place: str  # its folder in the site
    verdicts: Mapping[str, Mapping[str, str]]  # by guideline

    def text_of(self, name: str, left_out: dict[str, MatrixError]) -> str | None:
        """Return a file of the run; None if it is missing, or cannot be published."""
        try:
            refuse_link(self.folder, name)
            return read_input(self.folder / name, RECORDED).decode(errors="replace")
        except FileNotFoundError:
            return None
        except UnfitFile as problem:
            advice = "write it again with `matrix report`"
            left_out[f"{self.run.name}/{name}"] = BadInput(str(problem), resolution=advice)
            return None


@dataclass(frozen=True)
class Site:
    """The files of a site; `replace` makes texts fit to be published."""

    store: SharedStore
    chosen: Sequence[RunRow]  # the latest first
    results: Path
    replace: Replace
    _cells: dict[str, CellRow] = field(default_factory=dict, init=False)
    _reports: set[str] = field(default_factory=set, init=False)  # places of runs with a report

    def files(self, to: Path, progress: Callable[[str], None]) -> Iterator[tuple[str, bytes]]:
        library = shared_library(to / "run" / "explore.html", to)
        yield library.removeprefix("../"), (to / library.removeprefix("../")).read_bytes()
        by_run = grouped((one.run.id, one) for one in self._samples)
        for number, one in enumerate(self.runs):
            if number % 20 == 0:
                progress(f"writing run {number + 1:,} of {len(self.runs):,}")
            yield from self._files_of(one, library, by_run.get(one.run.id, ()))
        for name, several in self._matrices.items():
            yield name, self._matrix_page(several)
        shown: dict[str, Any] = {"runs": self.runs, "invented": all(one.run.synthetic for one in self.runs)}
        shown["reports"] = self._reports
        yield "compare.html", render_page("site_compare.html.j2", script_of="site_compare.js", **shown)
        cells = {run: len(several) for run, several in by_run.items()}
        pages = {one.place: name for name, several in self._matrices.items() for one in several}
        yield (
            "index.html",
            render_page("site_index.html.j2", matrices=self._matrices, pages=pages, cells=cells, **shown),
        )

    @cached_property
    def runs(self) -> Sequence[_Run]:
        names, found = dict[str, str](), list[_Run]()
        for given in self.chosen:
            texts: dict[str, Any] = {
                name: self.replace(getattr(given, name)) for name in ("name", "matrix", "host", "note", "excluded")
            }
            environment = {name: self.replace(text) for name, text in given.environment.items()}
            run = replace(given, **texts, tags=tuple(map(self.replace, given.tags)), environment=environment)
            folder = self.results / given.name
            verdicts = {
                self.replace(name): {key: self.replace(text or "") for key, text in row.items()}
                for name, row in read_verdicts(folder).items()
            }
            found.append(_Run(run, folder, _free_name(run.name, names), verdicts))
        return found

    @cached_property
    def _matrices(self) -> Mapping[str, Sequence[_Run]]:
        names = {"index": "", "compare": ""}
        by_matrix = grouped((one.run.matrix, one) for one in self.runs)
        return {f"{_free_name(f'matrix-{name}', names)}.html": several for name, several in by_matrix.items()}

    @cached_property
    def _samples(self) -> Sequence[Samples]:
        found = Reader(self.store, USUAL_RATES, self.results).read([one.run for one in self.runs])
        for one in found:
            one.cell = self._public(one.cell)
        return found

    def _public(self, cell: CellRow) -> CellRow:
        if cell.id not in self._cells:
            axes = {self.replace(name): self.replace(value) for name, value in cell.axes.items()}
            self._cells[cell.id] = replace(cell, name=self.replace(cell.name), axes=axes)
        return self._cells[cell.id]

    def _files_of(self, one: _Run, library: str, samples: Sequence[Samples]) -> Iterator[tuple[str, bytes]]:
        report = one.text_of("report.html", self.store.damage)
        if report is not None:
            self._reports.add(one.place)
            yield f"{one.place}/report.html", self._report(report, one).encode()
        explored = [self._explored(found) for found in read_explored(self.store, [one.run], one.folder, one.folder)]
        if explored:
            title = f"{title_of([one.run])}, {one.run.started[:16].replace('T', ' ')} UTC"
            yield f"{one.place}/explore.html", page(explored, title, report=report is not None, library=library)
        cells = [
            (one.cell.id, one.cell.name, metric, figure(estimate.mean, unit_of(metric)), more_is_faster(metric), values)
            for one in samples
            for metric in rates_of([one])
            if (estimate := one.estimate(metric)) and (values := list(one.rounds(metric).values()))
        ]
        content = orjson.dumps({"adaptive": one.run.is_adaptive, "cells": cells})
        yield f"{one.place}/figures.js", b"figures(" + orjson.dumps(one.place) + b", " + content + b");\n"

    def _report(self, text: str, one: _Run) -> str:
        """Return a report with public names. Its links lead to pages of the site only."""

        def public(part: re.Match[str]) -> str:
            if part[3]:
                return html.escape(self.replace(html.unescape(part[3])), quote=False)
            return part[1] or _TEXTS.sub(lambda one: one[1] + html.escape(self.replace(html.unescape(one[2]))), part[2])

        compare = f'<a href="../compare.html#b={quote(one.place)}">Compare this run</a>'
        links = f'<a href="../index.html">All runs</a> · {compare}'
        own = _ELSEWHERE.sub(r"\1", _META.sub("", text))
        found = _LEADS.sub("&lt;", _PARTS.sub(public, own).replace("<header>", f"<header>\n<p>{links}</p>", 1))
        return _DOCTYPE.sub(lambda doctype: doctype[0] + own_scripts_only(), found, count=1)

    def _explored(self, found: Explored) -> Explored:
        rows = [(*row[:3], row[3] and self.replace(row[3]), *row[4:]) for row in found.rows]
        return replace(found, cells=[self._public(cell) for cell in found.cells], rows=rows, folder=None)

    def _matrix_page(self, several: Sequence[_Run]) -> bytes:
        included = {one.run.id for one in several if not one.run.excluded}
        series = timelines([one for one in self._samples if one.run.id in included], ())
        return render_page(
            "site_matrix.html.j2",
            title=several[0].run.matrix,
            invented=all(one.run.synthetic for one in several),
            runs=several,
            reports=self._reports,
            answers=list(self._latest_answers(several)),
            claims={name: row.get("claim", "") for one in reversed(several) for name, row in one.verdicts.items()},
            alarms=describe_alarms(find_history_alarms(series)),
            unsearched=without_statistics("The search for changes of level"),
            charts=list(history_plots(series)),
            table=display_table(series, most=_HISTORY_ROWS) if series else None,
        )

    def _latest_answers(self, several: Sequence[_Run]) -> Iterator[tuple[_Run, str]]:
        for among in grouped(((one.run.machine, one.run.host), one) for one in several).values():
            for one in among:
                if (answer := one.text_of("answer.txt", self.store.damage)) is not None:
                    yield one, self.replace(answer)
                    break


def _free_name(text: str, taken: dict[str, str]) -> str:
    """Return a name of a file that is like the text, and not taken."""
    plain = re.sub(r"[^\w.=,+-]+", "-", text)[:120].strip(".-") or "run"
    number = 1
    while (name := plain if number == 1 else f"{plain}-{number}") in taken:
        number += 1
    taken[name] = text
    return name


def write_site(to: Path, files: Callable[[], Iterable[tuple[str, bytes]]]) -> int:
    """Write the files of a site, and remove those of an earlier one that it no longer has. Return their number."""
    listed = to / _FILES
    earlier = _files_of_site(to)
    to.mkdir(parents=True, exist_ok=True)
    write_atomically(listed, orjson.dumps(sorted(earlier)))
    written = set[str]()
    for name, content in files():
        path = _path_in(to, name)
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, content)
        written.add(name)
    write_atomically(listed, orjson.dumps(sorted(written)))
    for name in earlier - written:
        path = _path_in(to, name)
        path.unlink(missing_ok=True)
        if path.parent != to and path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()
    return len(written)


def _files_of_site(to: Path) -> set[str]:
    """Return the files of an earlier site in a folder. Refuse a folder with other files."""
    try:
        return {str(_path_in(to, name).relative_to(to)) for name in orjson.loads(read_input(to / _FILES, RECORDED))}
    except (OSError, ValueError, TypeError):
        if not to.is_dir() or not any(to.iterdir()):
            return set()
        raise BadInput(
            f"{to} has other files than a site of matrix", resolution="name a new or empty folder with --to"
        ) from None


def _path_in(to: Path, name: str) -> Path:
    """Return the path of a file of a site. Refuse one to which a list or a link of others leads elsewhere."""
    path, top = to / name, to.resolve()
    if path.parent.resolve() not in {top, top / path.parent.name} or not path.name.strip("."):
        raise BadInput(f"{path} is not in {to}", resolution="name a new or empty folder with --to")
    return path
