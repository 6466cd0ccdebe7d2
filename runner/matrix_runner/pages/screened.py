"""The effects of a screen: as a table, as lines, and the matrix to run next."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING

from matrix_runner.pages.run_data import Section
from matrix_runner.pages.table import Grid
from matrix_runner.pages.terminal_text import percent, times, times_between
from matrix_runner.statistics.changes import cell_levels
from matrix_runner.statistics.screening import Factors, screen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.pages.run_data import RunData
    from matrix_runner.records.run_folder import Manifest
    from matrix_runner.statistics.screening import Effect, Estimate, Screen

NEXT = "next.yaml"
_LEAST = 8  # cells with figures
_RATIOS = (
    "A ratio is how many times as large the rate is as with the first value, on average over the cells. Of a "
    "pair, it is how many times as large the first change is with the second one."
)
_PLOTS = "Cells of one stack share its set-up, so small effects of layers are less sure than they look."
_PAIRWISE = "This design has each pair of values once: it finds what breaks, and estimates no effect."


def screen_sections(content: RunData, manifest: Manifest) -> Iterator[Section]:
    """Yield the section of a run with `--design`, if it has enough figures."""
    if manifest.requested.design == "pairwise":
        yield Section("Pairs of values", "the design of this run", Grid(("design",), [(_PAIRWISE,)]), {}, (_PAIRWISE,))
    if not manifest.requested.design.startswith("screen"):
        return
    rates = {
        cell.id: {
            one.round: float(figures.deciding_rate) for one in content.by_cell[cell.id] if (figures := one.counted)
        }
        for cell in content.cells
    }
    cells = [cell for cell in content.cells if rates[cell.id] and min(rates[cell.id].values()) > 0]
    if len(cells) < _LEAST:
        return
    factors = Factors.of([cell.axes for cell in cells])
    import numpy as np

    found = screen(factors.levels, np.array(cell_levels([rates[cell.id] for cell in cells])), content.confidence)
    table = _table(found, factors, content.confidence)
    kept = {factors.names[at] for one in (*found.axes, *found.pairs) if one.is_active for at in one.term}
    text = _next_matrix(manifest, factors, kept)
    files = {NEXT: text.encode()} if text else {}
    yield Section(
        "Axes that matter", "the cells of this screen", table, files, tuple(_lines(found, factors, kept, text, content))
    )


def _table(found: Screen, factors: Factors, confidence: float) -> Grid:
    rows = [row for one in (*found.axes, *found.pairs) for row in _rows(one, factors)]
    sure = f"Each interval ({confidence * 100:g} %) applies to its own ratio"
    notes = (_RATIOS, f"{sure}; `matters` is tested for all axes and pairs together. {_PLOTS}")
    return Grid(("axis", "change", "ratio", "interval", "matters"), rows, notes, frozenset(("ratio", "interval")))


def _rows(effect: Effect, factors: Factors) -> Iterator[tuple[str, ...]]:
    name = " × ".join(factors.names[at] for at in effect.term)
    changes = [""]
    for at in effect.term:
        first, *others = (value or "without" for value in factors.values[at])
        changes = [" × ".join(filter(None, (one, f"{first} → {value}"))) for one in changes for value in others]
    for change, ratio in zip(changes, effect.ratios, strict=True):
        yield name, change, *_texts(ratio), "yes" if effect.is_active else ""


def _texts(ratio: Estimate | None) -> tuple[str, str]:
    if ratio is None:
        return "", "cannot be told from other axes"
    return times(ratio.ratio), times_between(ratio.low, ratio.high) if isfinite(ratio.high) else "unbounded"


def _lines(found: Screen, factors: Factors, kept: set[str], text: str, content: RunData) -> Iterator[str]:
    many = f"{found.cells} cells, which scatter by {percent(found.scatter)}" * isfinite(found.scatter)
    yield f"Axes that matter{' (synthetic)' * content.synthetic} ({many or found.cells}):"
    active = [one for one in (*found.axes, *found.pairs) if one.is_active]
    for one in active:
        name = " × ".join(factors.names[at] for at in one.term)
        yield f"  {name}: up to {times(one.size)}{' between two values' if len(one.term) == 1 else ', as a pair'}"
    if not active:
        yield "  no axis changes the rate by more than the noise"
    idle = [one for one in found.axes if not one.is_active and factors.names[one.term[0]] not in kept]
    if idle:
        yield f"  no effect seen: {', '.join(factors.names[one.term[0]] for one in idle)}"
    if text:
        yield f"{NEXT} has all values of the axes that matter, and the first value of the others."


def _next_matrix(manifest: Manifest, factors: Factors, kept: set[str]) -> str:
    """Return the matrix with one value of the other axes; empty if it has rules of its own, or all axes matter."""
    fixed = {
        name: values[0]
        for name, values in zip(factors.names, factors.values, strict=True)
        if name not in kept and "" not in values  # a rule would exclude cells without the axis
    }
    if not kept or not fixed or any(line.startswith("only:") for line in manifest.text.splitlines()):
        return ""
    rule = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fixed.items())
    about = "# Proposed by a screen. Move this file beside the first one: its paths are relative."
    return f"{about}\n{manifest.text.rstrip()}\nonly:\n  - {{{rule}}}\n"
