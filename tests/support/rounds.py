"""Rates by rounds: known ones, random ones, and ones with noise and with the mood of each round."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

rates = st.floats(1e-3, 1e9)


def sample(*values: float) -> dict[int, float]:
    return dict(enumerate(values, start=1))


def noisy(chance: np.random.Generator, means: list[float], rounds: int, noise: float) -> list[dict[int, float]]:
    mood = 0.05 * chance.standard_normal(rounds)
    values = np.exp(np.log(means)[:, None] + mood + noise * chance.standard_normal((len(means), rounds)))
    return [sample(*row) for row in values]
