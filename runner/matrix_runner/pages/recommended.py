"""Recommendations as tables, for people and for programs."""

from collections.abc import Mapping

from matrix_runner.answers.ranking import Recommendation, Setting
from matrix_runner.base.findings import few
from matrix_runner.pages.table import Grid, Value, ratio_values
from matrix_runner.pages.terminal_text import figure, percent, ratio_texts
from matrix_runner.records.record import CellRow


def recommendation_rows(found: Recommendation, cells: Mapping[str, CellRow]) -> Grid:
    figures = ("metric", "unit", "value", "ratio", "ratio_low", "ratio_high")
    columns = ("setting", "best", "may_be_best", *figures, "cells", "recommended")
    chosen = found.chosen
    rows: list[tuple[Value, ...]] = [
        (
            *(setting_name(one, cells), one is found.best, one.candidate),
            *(found.metric.name, found.metric.unit, one.level, *ratio_values(one.ratio)),
            " ".join(one.cells),
            one is chosen,
        )
        for one in found.settings
    ]
    return Grid(columns, rows, tuple(_notes(found, cells)))


def recommendation_table(found: Recommendation, cells: Mapping[str, CellRow], most: int | None) -> Grid:
    rows: list[tuple[Value, ...]] = [
        (setting_name(one, cells), figure(one.level, found.metric.unit), *ratio_texts(one.ratio), _remark(one, found))
        for one in found.settings[:most]
    ]
    columns = ("setting", found.metric.name, "of the best", "interval", "")
    notes = _notes(found, cells)
    if most is not None and len(found.settings) > most:
        notes.append(f"{len(found.settings) - most:,} more settings; `--rows` shows more")
    return Grid(columns, rows, tuple(notes), frozenset(columns[1:4]))


def setting_name(setting: Setting, cells: Mapping[str, CellRow]) -> str:
    return cells[setting.cells[0]].setting


def _remark(setting: Setting, found: Recommendation) -> str:
    host_limited = " (!)" if setting.host_limited else ""
    if setting is found.chosen and found.level:
        return f"recommended{host_limited}"
    if setting is found.best:
        return f"{'highest' if found.level else 'best'}{host_limited}"
    if setting.candidate:
        return f"{'may be as good' if setting.is_near else 'cannot tell'}{host_limited}"
    cost = "" if setting.ratio is None else f"costs {percent(abs(1 - setting.ratio.ratio))}"
    return f"{cost}{host_limited}"


def _notes(found: Recommendation, cells: Mapping[str, CellRow]) -> list[str]:
    work = f"{' and '.join(found.workloads)}: " if any(found.workloads) else ""
    others = found.settings[1:]
    sure = f"({found.confidence * 100:g} % confidence)"
    best = f"best is {setting_name(found.best, cells)}; all others are slower {sure}"
    if found.level:
        alike = few(setting_name(one, cells) for one in (found.best, *found.level))
        kept = setting_name(found.chosen, cells)
        why = ": the default, or the smallest value within 5 %" if found.chosen is not found.best else ""
        best = f"no difference can be told between {alike} {sure}; recommended is {kept}{why}"
    only = f"{setting_name(found.best, cells)} is the only selected setting with figures"
    notes = [f"{work}{best if others else only}"]
    if any(one.ratio is None for one in others) or (others and all(one.ratio and not one.ratio.low for one in others)):
        notes.append("a setting with one trial, or without a common round with the best, may be as good")
    if any(
        one.candidate and one.ratio and one.ratio.low and not one.ratio.low <= 1 <= one.ratio.high for one in others
    ):
        notes.append("an interval compares one pair; which settings may be best is tested for all of them together")
    if others:
        notes.append("only this figure decides, not how many lost disks a setting survives")
    if found.combined:
        works = f"{'; '.join(found.combined[:4])}{' …' if len(found.combined) > 4 else ''}"
        notes.append(
            f"{len(found.combined)} workloads count equally, by their geometric mean ({works}); --for selects one"
        )
    if found.left_out:
        some = "1 setting lacks" if found.left_out == 1 else f"{found.left_out:,} settings lack"
        notes.append(f"not compared: {some} figures for some of this work")
    if any(one.host_limited for one in found.settings):
        notes.append(
            "(!): the host was too slow or too busy in some trials. The figure may be too "
            "low, and the interval does not include the lost time"
        )
    return notes
