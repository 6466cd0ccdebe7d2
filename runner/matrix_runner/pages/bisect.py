"""The answer of a search for a change: lines, a table and a chart of all candidates, and a text for a bug report."""

from collections.abc import Iterator, Sequence
from math import exp
from pathlib import Path
from statistics import fmean

from matrix_runner.base.files import write_atomically
from matrix_runner.decide.bisect import Standing, State
from matrix_runner.decide.steering import BisectSteering, describe_odds, percent_of
from matrix_runner.pages.charts import Chart, RatioLine, ratio_chart
from matrix_runner.pages.table import Grid, as_markdown
from matrix_runner.pages.terminal_text import figure, percent, times, times_between
from matrix_runner.records.run_folder import RunFolder
from matrix_runner.statistics.ratios import Interval, Ratio, student_interval

FILES = "bisect.html", "bisect.md"
_ABOUT = (
    "A row for each measured version, from good to bad: a dot for its figure as a multiple of that of the good one, "
    "and a line for its interval. Differences in the shaded part count as equal. The table has the same figures."
)


def answer_lines(search: BisectSteering) -> list[str]:
    """Return the answer: what was found, the evidence, and what to do."""
    rounds, trials = len(search.standing.rounds), search.trials
    if not rounds:
        return ["cannot tell: no round is complete yet", _what_continues(search)]
    plural = "s" * (trials > 1), "s" * (rounds > 1)
    return [*_answer(search), f"{trials:,} trial{plural[0]} in {rounds:,} round{plural[1]}"]


def _answer(search: BisectSteering) -> Iterator[str]:
    about, standing = search.bisection, search.standing
    good, bad, state = about.names[0], about.names[-1], standing.state
    anchors = _change(standing.anchors)
    if state is State.FOUND:
        yield _culprit(search)
        if title := about.titles.get(about.names[standing.best.last]):
            yield f"{about.names[standing.best.last]} is: {title}"
        yield f"{about.figure} there is {_change(standing.effect)}"
        if {"fetch", "git"} <= about.about.keys():
            yield "the same command then searches the commits between both"
        best = standing.best
        near = [at for at in (best.first - 1, best.last + 1) if 1 <= at <= standing.last]
        if odds := ", ".join(f"{about.names[at]} {percent_of(standing.odds[at - 1])}" for at in near):
            yield f"the odds of its neighbours: {odds}"
    elif state is State.EQUAL:
        yield f"not found: {good} and {bad} are equal; {about.figure} of {bad} is {anchors}"
        yield f"both bounds are within --smallest {percent(exp(about.rule.smallest) - 1)}"
    elif state is State.REVERSED:
        yield f"not found: {bad} is better than {good}; its {about.figure} is {anchors}"
        yield "swap --good and --bad to find what made it better"
    elif state is State.NO_FIGURES:
        yield from map(search.explain_skipped, sorted({0, standing.last} & standing.skipped))
        yield "`matrix show` has the outputs; search between two versions that have figures"
    elif state is State.SEVERAL:
        at = [about.names[version] for version in standing.second_step[1]]
        yield f"cannot tell: there is more than one change between {good} and {bad}, near {', '.join(at)}"
        yield f"from {good} to {bad}, {about.figure} is {anchors}; search a part of the range for each change"
    elif standing.differ:
        yield f"cannot tell yet: the odds are {describe_odds(about, standing)}"
        yield _what_continues(search)
    else:
        yield f"cannot tell: from {good} to {bad}, {about.figure} is {anchors}"
        more = len(standing.pairs) >= about.rule.most_pairs
        yield "the noise hides the change; longer trials have less noise" if more else _what_continues(search)


def _what_continues(search: BisectSteering) -> str:
    if name := search.boot_next:
        return f"the next trial needs {name}; {search.boots_left} left"
    return "the same command continues the search, with a larger --budget if that is used up"


def search_values(search: BisectSteering) -> dict[str, object]:
    """Return the answer for programs."""
    standing, names = search.standing, search.bisection.names
    best, effect = standing.best, standing.effect if standing.differ else standing.anchors
    change = [exp(one) for one in (effect.mean, effect.low, effect.high)] if effect.n > 1 else []
    found = {"first": names[best.first], "last": names[best.last], "odds": best.odds}
    return {
        "state": standing.state.value,
        **(found if standing.differ else {}),
        "change": change,
        "trials": search.trials,
        **({"boot": boot} if (boot := search.boot_next) else {}),
        "odds_by_version": dict(zip(names[1:], standing.odds.tolist(), strict=True)),
    }


def _culprit(search: BisectSteering) -> str:
    best, names = search.standing.best, search.bisection.names
    odds = percent_of(best.odds)
    if best.first == best.last:
        return f"found: {names[best.first]} changed it, with odds of {odds}; {names[best.first - 1]} is good"
    hidden = f"{names[best.first]} to {names[best.last]}"
    return f"found: one of {hidden} changed it, with odds of {odds}; those before {names[best.last]} have no figures"


def _change(found: Interval) -> str:
    if found.n < 2:
        return "unknown"
    return f"{times(exp(found.mean))} as much ({times_between(exp(found.low), exp(found.high))})"


def table(search: BisectSteering) -> Grid:
    about, standing = search.bisection, search.standing
    figures = "figure" if len(about.cells[0]) == 1 else "mean"
    rows = []
    for version in _versions(standing):
        logs = [one[version] for one in standing.rounds if version in one]
        ratio = _against_good(standing, version)
        unit = about.metric.unit if about.metric else "bytes/s"
        mean = figure(exp(sum(logs) / len(logs)), unit) if logs else ""
        shown = f"{times(ratio.ratio)} ({times_between(ratio.low, ratio.high)})" if ratio else ""
        odds = percent_of(float(standing.odds[version - 1])) if version and standing.differ else ""
        rows.append((about.names[version], len(logs), mean, shown, _verdict(standing, version), odds))
    columns = (about.along, "rounds", figures, "against good", "verdict", "odds of the change")
    return Grid(columns, rows, right=frozenset({"rounds", figures, "odds of the change"}))


def _verdict(standing: Standing, version: int) -> str:
    if version in standing.skipped:
        return "skipped: no figures"
    if version == 0:
        return "good"
    if not standing.differ:  # no version is known to be worse
        return ""
    if version == standing.last:
        return "bad"
    bad = float(standing.odds[:version].sum())
    return f"bad, {percent_of(bad)}" if bad >= 0.5 else f"good, {percent_of(1 - bad)}"


def _versions(standing: Standing) -> list[int]:
    """Return the measured and skipped versions, and those of the answer."""
    best = standing.best
    of_answer = (best.first - 1, best.first, best.last) if standing.differ else ()
    return sorted({*standing.measured, *standing.skipped, *of_answer})


def _against_good(standing: Standing, version: int) -> Ratio | None:
    logs = [one[version] - one[0] for one in standing.rounds if version in one and 0 in one]
    if not version or not logs or not standing.differ:
        return None
    if len(logs) > 2:
        found = student_interval(logs, standing.rule.confidence)
    else:  # their own scatter says little
        half = standing.half_width(len(logs))
        found = Interval(mean := fmean(logs), mean - half, mean + half, len(logs), standing.rule.confidence)
    if not found:
        return None
    low, high = exp(found.low), exp(min(found.high, 600.0))
    return Ratio(exp(found.mean), low, high, found.n, found.n, found.confidence, 1.0)


def chart(search: BisectSteering) -> Chart | None:
    about, standing = search.bisection, search.standing
    ratios = ((version, _against_good(standing, version)) for version in standing.measured)
    lines = [RatioLine(f"{about.names[at]}: {times(one.ratio)}", one) for at, one in ratios if one]
    title = f"{about.figure} as a multiple of that of {about.names[0]}"
    return ratio_chart(title, lines, about=_ABOUT, equal=exp(about.rule.smallest) - 1) if lines else None


def write_search(folder: RunFolder, search: BisectSteering) -> Sequence[Path]:
    from matrix_runner.pages.html import render_page  # brings templates along

    synthetic = folder.manifest.synthetic
    page = render_page(
        "bisect.html.j2",
        title=f"{folder.manifest.matrix}: search along {search.bisection.along}",
        facts=folder.manifest.search,
        lines=answer_lines(search),
        chart=chart(search),
        table=table(search),
        confidence=f"{search.bisection.rule.confidence * 100:g}",
        invented=synthetic,
    )
    html, report = (folder.reports / name for name in FILES)
    write_atomically(html, page)
    write_atomically(report, bug_report(folder, search).encode())
    return html, report


def bug_report(folder: RunFolder, search: BisectSteering) -> str:
    manifest = folder.manifest
    about = manifest.host
    lines = answer_lines(search)
    warning = "SYNTHETIC: every figure is invented; nothing was measured.\n\n" if manifest.synthetic else ""
    short = {
        kernel: {name: one for name, one in found.items() if len(one) < 40}
        for kernel, found in manifest.versions.items()
    }
    kernels = "".join(
        f"- {kernel}: {', '.join(f'{name} {version}' for name, version in sorted(found.items()))}\n"
        for kernel, found in short.items()
    )
    return (
        f"{warning}{lines[0][0].upper()}{lines[0][1:]}.\n\n"
        + "".join(f"- {line}\n" for line in lines[1:])
        + f"\n{as_markdown(table(search)).decode()}"
        + f"\nIntervals of {search.bisection.rule.confidence * 100:g} %. Good, bad and candidates were measured in "
        "rounds, in random order.\n"
        + f"\nMeasured on {manifest.machine}, host {about.hostname}, by:\n\n"
        + f"    {' '.join(manifest.command)}\n"
        + (f"\n{kernels}" if kernels else "")
        + f"\nThe matrix:\n\n```yaml\n{manifest.text.rstrip()}\n```\n"
    )
