"""A run as one HTML page, complete without scripts and network access. A second rendering gives the same bytes."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from matrix_runner.base.text import strip_illegal
from matrix_runner.pages import verdicts
from matrix_runner.pages.answer import summarize_rankings
from matrix_runner.pages.explore import script_hash
from matrix_runner.pages.pts import pts_reports
from matrix_runner.pages.ranking import MOST_STACKS, beaten_rows, decision_grid
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.sections import BEFORE_FOLD, MOST_CHARTS, MOST_ROWS, sections
from matrix_runner.pages.stack_pictures import stack_pictures
from matrix_runner.pages.table import Grid
from matrix_runner.pages.terminal import correlation_note, drift_note, host_note, precision_note
from matrix_runner.pages.terminal_text import figures_from, legend
from matrix_runner.pages.use import curves, describe_uses, uses
from matrix_runner.pages.verdicts import knee_table
from matrix_runner.records.record import Outcome
from matrix_runner.records.run_folder import Manifest
from matrix_runner.work.profilers import PROFILERS

_PAGE = Path(__file__).with_name("page")
SHOWN_CURVES, SHOWN_USES = 2, 4  # charts before a fold
MOST_TESTS = 20  # tests of SNIA with tables
_IN_BACKTICKS = re.compile("`([^`]+)`")
MOST_GROUNDS = 50  # cells and results to list for each guideline


@dataclass(frozen=True, slots=True)
class Grounds:
    guideline: str
    results: Grid | None  # None if the guideline asks only one thing
    cells: tuple[str, ...]
    is_cut: bool  # some cells or results are not listed


def page(
    recorded: RunData, manifest: Manifest, name: str, *, rows: int = MOST_ROWS, charts: int = MOST_CHARTS
) -> bytes:
    over_device, used = list(islice(curves(recorded), charts)), uses(recorded)
    before = BEFORE_FOLD - len(over_device[:SHOWN_CURVES]) - len(used[:SHOWN_USES])
    shown = list(sections(recorded, rows=rows, charts=charts, before=before))
    found = recorded.concerns
    of_rounds = (precision_note(recorded), correlation_note(recorded))
    notes = (recorded.unread, drift_note(recorded), host_note(recorded, certain=True), *of_rounds)
    answer = summarize_rankings(recorded.rankings, synthetic=False, over=recorded.over)
    explained = answer.notes if answer else ()
    return render_page(
        "report.html.j2",
        run=recorded,
        invented=recorded.synthetic,
        manifest=manifest,
        name=name,
        facts=dict(_facts(recorded, manifest)),
        standing=list(_standing(recorded, manifest)),
        environment=dict(_environment_of(manifest)),
        decision=decision_grid(recorded.decision, MOST_STACKS) if recorded.decision else None,
        beaten=beaten_rows(recorded.decision) if recorded.decision else (),
        answer=answer,
        doubts=[*filter(None, (one.doubt for one in found)), *(_sentence(one) for one in notes if one)],
        concerns=found,
        pts=list(islice(pts_reports(recorded), MOST_TESTS)),
        knees=knee_table(recorded.knees, over=recorded.over) if recorded.knees else None,
        verdicts=verdicts.verdict_table(recorded.judgements, claims=False) if recorded.judgements else None,
        claims={one.guideline.id: one.guideline.claim for one in recorded.judgements},
        grounds=list(_grounds(recorded)),
        most_grounds=MOST_GROUNDS,
        sections=shown,
        legend=[mark for mark in legend(row.outcome for one in shown for row in one.rows) if mark not in explained],
        left=len(recorded.summaries) - sum(len(one.rows) for one in shown),
        is_cut=any(one.is_cut for one in shown),
        stack_pictures=stack_pictures(recorded),
        profiles=[*recorded.profiles.items()],
        about_profiles=PROFILERS,
        curves=over_device,
        shown_curves=SHOWN_CURVES,
        uses=used,
        about_uses=describe_uses(used, recorded) if used else "",
        shown_uses=SHOWN_USES,
    )


def render_page(template: str, *, script_of: str = "report.js", **values: object) -> bytes:
    """Render a page with its script. The usual one sorts and filters tables."""
    script = _script(script_of)
    text = (
        _environment()
        .get_template(template)
        .render(
            **values,
            script=Markup(script),  # noqa: S704 - of this package
            script_hash=script_hash(script),
        )
    )
    return text.encode()


def own_scripts_only() -> str:
    """Return the `<meta>` of a report from a run folder, which may be of somebody else: it runs no other script."""
    policy = f"default-src 'none'; script-src {script_hash(_script('report.js'))}; style-src 'unsafe-inline'"
    policy += "; base-uri 'none'; form-action 'none'"
    named = {"viewport": "width=device-width, initial-scale=1", "color-scheme": "light dark"}
    others = "".join(f'<meta name="{name}" content="{content}"/>' for name, content in named.items())
    return f'<meta charset="utf-8"/><meta http-equiv="Content-Security-Policy" content="{policy}"/>{others}'


@cache
def _script(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _code
    return environment


def _plain(value: object) -> object:
    if value is None:
        raise TypeError("a value of the page is None")
    return value if isinstance(value, Markup) else strip_illegal(str(value))


def _code(text: object) -> Markup:
    """Show parts in backticks as code."""
    plain = str(escape(strip_illegal(str(text))))
    return Markup(_IN_BACKTICKS.sub(r"<code>\1</code>", plain))  # noqa: S704 - escaped


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:].removesuffix('.')}."


def _facts(recorded: RunData, manifest: Manifest) -> Iterator[tuple[str, str]]:
    host = manifest.host
    yield "machine", recorded.machine
    if measured_on := recorded.trials_by_host:
        yield "measured on", ", ".join(f"{name} ({count:,} trial{'s' * (count > 1)})" for name, count in measured_on)
    own = "host of the command" if measured_on else "host"
    yield own, ", ".join(filter(None, (host.hostname, host.cpu, f"{host.cores} cores", host.system)))
    if manifest.versions:
        yield "kernel under test", ", ".join(manifest.versions)
    if models := dict.fromkeys((one.name or one.model, one.fitted_to) for one in manifest.disks if one.digest):
        yield "simulated disks", "; ".join(f"{name}: {figures_from(fitted_to)}" for name, fitted_to in models)
    if links := dict.fromkeys(one.link for one in manifest.disks if one.link):
        yield "links of disks", "; ".join(links)
    if last := recorded.survey.last if recorded.survey else max((one.started for one in recorded.trials), default=""):
        yield "last trial started", last
    yield "part of the matrix", manifest.part or "all"


def _standing(recorded: RunData, manifest: Manifest) -> Iterator[tuple[str, str]]:
    counts = recorded.counts
    cells = Counter(summary.outcome or summary.text_without_trials for summary in recorded.summaries)
    if recorded.survey:
        cells = Counter({outcome or "not yet run": count for outcome, count in recorded.survey.cells.items()})
    yield "started", f"{manifest.started[:16].replace('T', ' ')} UTC"
    yield "cells", f"{len(recorded.every):,}: {_counted(cells)}"
    done, planned = sum(counts.values()), manifest.planned
    added = done - planned
    of = f"{done:,} ({planned:,} planned, {added:,} added)" if added > 0 else f"{done:,} of {planned:,} planned"
    yield "trials", f"{of}: {_counted(counts)}"
    yield "state", "finished" if recorded.over else "not finished: the same command continues it"
    if recorded.slow:
        yield "slow motion", recorded.slow_motion


def _counted(counts: Mapping[Outcome, int] | Mapping[str, int]) -> str:
    order = (*Outcome, *(text for text in counts if text not in {*Outcome}))
    return ", ".join(f"{count:,} {one}" for one in order if (count := counts.get(one, 0))) or "none yet"


def _environment_of(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "command", shlex.join(manifest.command)
    yield "run", manifest.id
    yield "fingerprint", manifest.fingerprint
    if one := manifest.revision:
        dirty = ", with files or changes that are not committed" if one.dirty else ""
        yield "git revision of the matrix", f"{one.commit}{f' ({one.branch})' if one.branch else ''}{dirty}"
    models = {f"disk{number}.model": disk.name for number, disk in enumerate(manifest.disks) if disk.name}
    for name, text in manifest.environment.items():
        yield name, f"{models[name]} ({text})" if name in models else text
    for health in manifest.health:
        yield f"{health.disk} before", str(health.before)
        yield f"{health.disk} after", str(health.after or "")


def _grounds(recorded: RunData) -> Iterator[Grounds]:
    names = {cell.id: cell.name for cell in recorded.every}
    for one in verdicts.sort_by_verdict(recorded.judgements):
        if any(result.n for result in one.results):
            table = verdicts.case_table(one) if len(one.results) > 1 else None
            few = replace(table, rows=table.rows[:MOST_GROUNDS]) if table else None
            cells = tuple(names.get(cell, cell) for cell in one.cells)
            cut = max(len(cells), len(one.results)) > MOST_GROUNDS
            yield Grounds(one.guideline.id, few, cells, cut)
