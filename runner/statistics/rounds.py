"""Effects of rounds that are common to all cells, separated from those of cells by least squares.

With them, cells can be compared that were measured in different rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray


def log_table(samples: Sequence[Mapping[int, float]]) -> NDArray[np.float64]:
    """Return logarithms by cell and round, NaN where not measured; samples are the values of a cell by round."""
    import numpy as np

    rounds = {
        round_number: column
        for column, round_number in enumerate(sorted({round_number for one in samples for round_number in one}))
    }
    table = np.full((len(samples), len(rounds)), np.nan)
    for row, sample in enumerate(samples):
        table[row, [rounds[round_number] for round_number in sample]] = np.log(list(sample.values()))
    return table


def round_effects(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the effect of each round, 0 on average over rounds that cells connect."""
    import numpy as np

    there = ~np.isnan(table)
    counts = there.sum(axis=1)
    centred = np.where(there, table - np.nanmean(table, axis=1, keepdims=True), 0.0)
    shares = there / counts[:, None]
    normal = np.diag(there.sum(axis=0)) - there.T.astype(float) @ shares
    effects: NDArray[np.float64] = np.linalg.lstsq(normal, centred.sum(axis=0))[0]
    return effects


def cell_levels(samples: Sequence[Mapping[int, float]]) -> list[float]:
    """Return the logarithm of each cell's level, as if all had been measured in the same rounds."""
    import numpy as np

    table = log_table(samples)
    found: list[float] = np.nanmean(table - round_effects(table), axis=1).tolist()
    return found
