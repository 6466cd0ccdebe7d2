"""Whether a machine became faster or slower while it was measured, and from when on: over blocks, and over nights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.statistics.blocks import block_effects, table_of
from runner.statistics.ratios import Ratio, unlogged, unpaired
from runner.statistics.students_t import factor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

#: A level is made of so many nights at least: one or two that are off are no change.
SETTLED = 3
#: Random orders that a history is compared with.
ORDERS = 1999
#: What is left of equal figures by arithmetic.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Drift:
    """From the first block to the last, all figures became so many times what they were."""

    change: float
    low: float
    high: float
    confidence: float
    #: Chance of a trend as steep as this, or steeper, if there were none.
    p: float
    blocks: int
    cells: int


@dataclass(frozen=True, slots=True)
class Change:
    """From `at` on (counted from 0), a history is at another level; `ratio`: the new level over the one before."""

    at: int
    ratio: Ratio
    #: Chance of a step as clear as this one anywhere, if only chance had put the nights in their order.
    p: float


def drift(samples: Iterable[Mapping[int, float]], confidence: float = 0.95) -> Drift | None:
    """The common trend of many cells over blocks; a sample is the values of one figure of a cell, by block.

    What each block did to all cells is told from what the cells are by least squares on logarithms, so cells that were
    known after three blocks take part as well as those that needed twenty. The trend is the straight line through
    these effects (`scipy.stats.linregress`). The blocks are its values, not the trials: what moves all cells of
    a block together is one accident, however many cells there are. Assumes that these accidents are independent from
    block to block and of about one size; where only few cells go on to the last blocks these are noisier, and 8 % of
    such runs instead of 5 % seem to drift without. None for less than three blocks, or where no cell was measured
    twice.
    """
    # A cell that was measured once says nothing of how blocks differ.
    table = table_of([one for one in samples if len(one) > 1 and min(one.values()) > 0])
    if table.shape[1] < 3 or not len(table):
        return None
    blocks, effects = table.shape[1], block_effects(table)
    if effects.max() - effects.min() < ROUNDING:
        return Drift(1.0, 1.0, 1.0, confidence, 1.0, blocks, len(table))
    from scipy.stats import linregress

    line = linregress(range(blocks), effects)
    half = factor(blocks - 2, confidence) * float(line.stderr)
    change, low, high = (unlogged((float(line.slope) + by) * (blocks - 1)) for by in (0.0, -half, half))
    return Drift(change, low, high, confidence, float(line.pvalue), blocks, len(table))


def changes(nights: Sequence[float], alarms: float = 0.01, *, seed: int = 1) -> list[Change]:
    """Where a history of figures, one a night, goes over to another level.

    The place with the clearest step (the largest difference of the means before and after, for the numbers of nights on
    both sides) is a change if next to no random order of the same nights has one as clear. That assumes nothing but
    that nights are exchangeable where nothing changed. It is `scipy.stats.permutation_test`, against which it is
    tested; importing that takes longer than all the rest. Both sides are then searched in the same way. A history in
    which nothing changed raises an alarm with a chance of `alarms`, however long it is, whatever its noise. How sure
    each night's own figure is need not be known: nights differ by that and by more. A slow trend is told as steps. No
    change is told of fewer than nine nights or so: they have too few orders.
    """
    nights = [float(night) for night in nights]
    logs = _logs(nights)
    found = sorted(_split(logs, 0, len(logs), alarms, seed))
    ends = [*(at for at, _ in found[1:]), len(nights)]
    begins = [0, *(at for at, _ in found)]
    told = []
    for (at, p), begin, end in zip(found, begins, ends, strict=False):
        ratio = unpaired(nights[begin:at], nights[at:end])
        if ratio is not None:
            told.append(Change(at, ratio, p))
    return told


def _split(logs: NDArray[np.float64], begin: int, end: int, alarms: float, seed: int) -> list[tuple[int, float]]:
    """The changes between two places of a history, with their p."""
    nights = logs[begin:end]
    if len(nights) < 2 * SETTLED or not nights.std():
        return []
    chance = _chance(nights, seed)
    if chance > alarms:
        return []
    at = begin + SETTLED + int(_steps(nights).argmax())
    return [*_split(logs, begin, at, alarms, seed), (at, chance), *_split(logs, at, end, alarms, seed)]


def _chance(nights: NDArray[np.float64], seed: int) -> float:
    """In what share of random orders, their own among them, a step is as clear as the clearest of these nights."""
    import numpy as np

    orders = np.random.default_rng(seed).permuted(np.tile(nights, (ORDERS, 1)), axis=1)
    as_clear = _steps(orders).max(axis=-1) >= _steps(nights).max() * (1 - ROUNDING)
    return float((as_clear.sum() + 1) / (ORDERS + 1))


def _steps(nights: NDArray[np.float64]) -> NDArray[np.float64]:
    """How clear a step is at every place where there may be one: the variance between both sides."""
    import numpy as np

    n = nights.shape[-1]
    before = np.arange(SETTLED, n - SETTLED + 1)
    sums = np.cumsum(nights - nights.mean(axis=-1, keepdims=True), axis=-1)[..., SETTLED - 1 : n - SETTLED]
    clearness: NDArray[np.float64] = sums**2 / (before * (n - before))
    return clearness


def _logs(values: Sequence[float]) -> NDArray[np.float64]:
    import numpy as np

    logs: NDArray[np.float64] = np.log(np.asarray(values, dtype=float))
    return logs
