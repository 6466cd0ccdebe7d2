"""What blocks did to all cells alike, told from what the cells are: least squares with a level for each of both.

So cells that were measured in other blocks can be held against each other without taking the blocks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray


def table_of(samples: Sequence[Mapping[int, float]]) -> NDArray[np.float64]:
    """Logarithms by cell and block; NaN where a cell was not measured. Samples are the values of a cell by block."""
    import numpy as np

    blocks = {block: column for column, block in enumerate(sorted({block for one in samples for block in one}))}
    table = np.full((len(samples), len(blocks)), np.nan)
    for row, sample in enumerate(samples):
        table[row, [blocks[block] for block in sample]] = np.log(list(sample.values()))
    return table


def block_effects(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each block did; 0 on average over blocks that cells connect."""
    import numpy as np

    there = ~np.isnan(table)
    counts = there.sum(axis=1)
    centred = np.where(there, table - np.nanmean(table, axis=1, keepdims=True), 0.0)
    shares = there / counts[:, None]
    normal = np.diag(there.sum(axis=0)) - there.T.astype(float) @ shares
    effects: NDArray[np.float64] = np.linalg.lstsq(normal, centred.sum(axis=0))[0]
    return effects


def levels(samples: Sequence[Mapping[int, float]]) -> list[float]:
    """The logarithm of what each cell does, as if all had been measured in the same blocks."""
    import numpy as np

    table = table_of(samples)
    found: list[float] = np.nanmean(table - block_effects(table), axis=1).tolist()
    return found
