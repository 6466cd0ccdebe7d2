"""Races over values that are drawn: with numpy, because a forecast runs hundreds of them."""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from matrix_runner.statistics.arrays import Floats, np
from matrix_runner.statistics.race import SHARED, Standings, error_of_pair, reach

_MANY = 1e6  # more than any degrees of freedom


class Ended(NamedTuple):
    rounds: int
    decided: bool
    at: int  # the place of the leader


def simulate(
    logs: Floats, least: int, confidence: float, within: float, powers: Sequence[float] = ()
) -> tuple[list[Ended], int]:
    """Run races over logarithms by workload, place and round, as `run --race` does; the last round is their limit.

    With `powers` of the workloads, the last race is that of all of them together. Return the races, and their trials.
    """
    works, _, most = logs.shape
    heats = [*np.eye(works), *([np.array(powers)] if powers else [])]
    ended: dict[int, Ended] = {}
    seen = np.full_like(logs, np.nan)
    seen[:, :, :least] = logs[:, :, :least]
    for rounds in range(least, most + 1):
        running = np.zeros(logs.shape[:2], dtype=bool)
        for number, heat in enumerate(heats):
            if number in ended:
                continue
            raced = np.flatnonzero(heat)
            found = _stand(np.tensordot(heat[raced], seen[raced, :, :rounds], 1), confidence)
            decided = found.is_decided(within)
            if decided or rounds == most or found.is_hopeless(within, most):
                ended[number] = Ended(rounds, decided, found.at)
            else:
                running[np.ix_(raced, np.array(found.candidates))] = True
        if len(ended) == len(heats):
            break
        seen[running, rounds] = logs[running, rounds]
    return [ended[number] for number in range(len(heats))], int(np.count_nonzero(~np.isnan(seen)))


def _stand(table: Floats, confidence: float) -> Standings:
    rounds, mean, half, scatter = _differences(table, error_of_pair(len(table), confidence))
    there, out = rounds.diagonal() > 0, (mean - half > 0).any(axis=0)
    running = np.flatnonzero(there & ~out)
    if not len(running):
        running = np.flatnonzero(there)
    at = int(running[np.argmax(mean[np.ix_(running, running)].mean(axis=1))])
    beside = rounds[at].astype(int).tolist(), mean[at].tolist(), half[at].tolist(), scatter[at].tolist()
    return Standings(at, tuple(running.tolist()), confidence, *beside)


def _differences(table: Floats, error: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return of each pair the common rounds, the mean difference (row less column), its half width, and its scatter."""
    known = (~np.isnan(table)).astype(float)
    values = np.nan_to_num(table - np.nanmean(table))  # small numbers, whose squares lose no digits
    rounds = known @ known.T
    counts, own = np.maximum(rounds, 1), np.maximum(rounds - 1, 0)
    sums, squares = values @ known.T, values**2 @ known.T
    mean = (sums - sums.T) / counts
    apart = np.maximum(squares + squares.T - 2 * values @ values.T - counts * mean**2, 0.0)
    every = known.sum() - known.any(axis=1).sum() - known.any(axis=0).sum() + 1  # degrees of freedom of all places
    others = np.maximum(every - own, 0)
    common = apart.sum() / max(own.sum() - own.trace(), 1)
    of_others = np.maximum((every * common - apart) / np.maximum(others, 1), common)
    shared = np.minimum(others, SHARED)
    half = np.minimum(
        _half_widths(apart, rounds, own, error),
        _half_widths(apart + shared * of_others, rounds, own + shared, error),
    )
    return rounds, mean, half, np.sqrt(apart / np.maximum(own, 1))


def _half_widths(squares: Floats, rounds: Floats, freedom: Floats, error: float) -> Floats:
    kinds, places = np.unique(rounds * _MANY + freedom, return_inverse=True)
    factors = np.array([reach(int(kind // _MANY), int(kind % _MANY), error) for kind in kinds])[places]
    with np.errstate(invalid="ignore"):
        half = np.sqrt(squares / np.maximum(freedom, 1)) * factors.reshape(rounds.shape)
    return np.where(np.isnan(half), inf, half)  # no scatter in too few rounds
