"""By which rate work is judged: bandwidth where requests are large, requests per second where they are small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.language.metrics import RATES as OF_SIDE
from runner.language.metrics import SIDES, TOTAL, is_large, sides_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.analysis.samples import Samples

#: What to read where no figure is asked for.
RATES = tuple(f"{side}_{rate}" for rate in OF_SIDE for side in (*SIDES, TOTAL))


def rates_of(cells: Iterable[Samples]) -> list[str]:
    """Return the rate of the total, if there is mixed work, and of each direction, the same for all of these cells."""
    there = list(cells)
    mixed = any(TOTAL in sides_of([name for name in ("read_bw", "write_bw") if one.blocks(name)]) for one in there)
    sides = (*((TOTAL,) if mixed else ()), *SIDES)
    return [f"{side}_{'bw' if any(_is_large(one, side) for one in there) else 'iops'}" for side in sides]


def metrics_for(cells: Iterable[Samples], asked: Sequence[str]) -> Sequence[str]:
    """Return the figures that were asked for, or else the rates of the work."""
    return asked or rates_of(cells)


def _is_large(one: Samples, side: str) -> bool:
    bw, iops = (list(one.blocks(f"{side}_{name}").values()) for name in ("bw", "iops"))
    return bool(bw and iops) and is_large(sum(bw), sum(iops))
