"""The usual rate of a workload: bandwidth for large requests, IOPS for small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.language.metrics import RATES as OF_SIDE
from runner.language.metrics import SIDES, TOTAL, is_large, sides_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.analysis.samples import Samples

#: Figures to read if the user requests none.
RATES = tuple(f"{side}_{rate}" for rate in OF_SIDE for side in (*SIDES, TOTAL))


def rates_of(cells: Iterable[Samples]) -> list[str]:
    """Return the rates for these cells: of the total if work is mixed, and of each direction."""
    there = list(cells)
    mixed = any(TOTAL in sides_of([name for name in ("read_bw", "write_bw") if one.rounds(name)]) for one in there)
    sides = (*((TOTAL,) if mixed else ()), *SIDES)
    return [f"{side}_{'bw' if any(_is_large(one, side) for one in there) else 'iops'}" for side in sides]


def metrics_for(cells: Iterable[Samples], asked: Sequence[str]) -> Sequence[str]:
    """Return the requested figures, or the usual rates of the workload."""
    return asked or rates_of(cells)


def _is_large(one: Samples, side: str) -> bool:
    bw, iops = (list(one.rounds(f"{side}_{name}").values()) for name in ("bw", "iops"))
    return bool(bw and iops) and is_large(sum(bw), sum(iops))
