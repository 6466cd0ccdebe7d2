"""Designs (`--design`): some of many cells, which show effects of axes, or have each pair of values."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from matrix_runner.base.errors import BadInput
from matrix_runner.space.select import MOST_LISTED, refuse_many
from matrix_runner.statistics.screening import Factors, choose, cover_pairs

if TYPE_CHECKING:
    from matrix_runner.space.select import Selection

_CHEAP = 200  # cells: with fewer, a design saves little
_LEAST = 8
_CELLS_OF_A_STACK = 4  # a set-up costs more than a trial, so a screen has few stacks
_LEAST_STACKS = 8


@dataclass(frozen=True, slots=True)
class Design:
    cells: int | None  # of a screen; None: each pair of values once

    @classmethod
    def parsed(cls, text: str) -> Design:
        found = re.fullmatch(r"pairwise|screen:([1-9][0-9]{0,5})", text)
        if not found:
            raise ValueError(f"{text!r} is neither screen:N, such as screen:100, nor pairwise")
        if found[1] and int(found[1]) < _LEAST:
            raise ValueError(f"a screen needs {_LEAST} cells or more, not {found[1]}")
        return cls(int(found[1]) if found[1] else None)

    def __str__(self) -> str:
        return f"screen:{self.cells}" if self.cells else "pairwise"


def design_refusal(other: str) -> BadInput:
    return BadInput(
        f"--design chooses the cells that are compared, and {other} leaves out some of them",
        resolution="leave one of them out; --jobs and --cluster measure a design in parallel",
    )


def designed(selection: Selection, design: Design, seed: int) -> Selection:
    """Select the cells of a design. The same matrix always gives the same cells."""
    refuse_many(selection, "choose from", MOST_LISTED)
    if finds := selection.space.matrix.finds:
        raise BadInput(
            f"--design chooses the cells, and `find` of {', '.join(finds)} does so, too",
            resolution="remove one of them",
        )
    cells = list(selection.cells())
    if design.cells and len(cells) < max(_CHEAP, 2 * design.cells):
        raise BadInput(
            f"--design {design}: this matrix has {len(cells)} cells, so all of them are about as cheap, and show more",
            resolution="leave --design out",
        )
    factors = Factors.of([cell.axes for cell in cells])
    if design.cells:
        plots: dict[str, int] = {}
        numbers = [plots.setdefault(cell.stack.key, len(plots)) for cell in cells]
        stacks = max(_LEAST_STACKS, design.cells // _CELLS_OF_A_STACK)
        rows = choose(factors.levels, design.cells, numbers, stacks, seed)
    else:
        rows = cover_pairs(factors.levels)
    return replace(selection, ids=frozenset(cells[row].id for row in rows))
