"""Evidence for a change of level in nights that may be correlated: likelihoods of first-order autoregressions."""

from collections.abc import Iterator

from matrix_runner.statistics.arrays import Floats, Levels, np

#: The first nights of changes, and the nights after their last ones.
Places = tuple[Levels, Levels]

#: The least nights of a level: one or two outliers are no change.
LEAST_NIGHTS = 3
#: So many of the newest nights may be a level already: a reader can still act on them.
LEAST_NEWEST = 2
#: The longest arc, as a share of the history: longer ones are found as two steps.
LONGEST_ARC = 0.5

#: The correlations of each night with the next one that are considered.
CORRELATIONS = (0.0, 0.2, 0.4, 0.6, 0.8)
#: By how much correlated nights, and a change of the newest nights, are less likely beforehand (logarithms).
_CORRELATED, _NEWEST = 1.0, 2.0
#: By numbers of nights and by correlation: 1 % of nights without a change have more evidence for one, against each of
#: the correlations. By simulation (`bench.changes --critical`).
NIGHTS = (6, 8, 10, 13, 18, 26, 40, 65, 110)
_CRITICAL = (
    (5.84, 6.26, 6.68, 7.09, 7.84),
    (5.91, 6.36, 6.71, 7.14, 7.78),
    (5.69, 6.05, 6.50, 6.86, 7.63),
    (5.36, 5.67, 6.23, 6.55, 7.43),
    (4.64, 5.20, 5.71, 6.28, 7.17),
    (4.21, 4.87, 5.24, 5.94, 7.01),
    (3.86, 4.43, 5.46, 5.98, 6.08),
    (4.03, 4.80, 5.23, 4.81, 5.20),
    (3.71, 4.61, 4.43, 3.98, 4.48),
)


def has_clear_change(nights: Floats) -> bool:
    """Return whether in no correlation more than 1 % of nights without a change would have as much evidence for one."""
    evidence = change_evidence(nights[None, :])[:, 0]
    at = np.log(len(nights))
    critical = [np.interp(at, np.log(NIGHTS), column) for column in zip(*_CRITICAL, strict=True)]
    return bool((evidence > critical).all())


def change_evidence(rows: Floats) -> Floats:
    """Return by how much a change explains each row better than each correlation without a change: log likelihoods.

    The likelihood of a change is a mean over its places, and the highest over kinds of change and correlations.
    """
    without, with_change = [], []
    for correlation in CORRELATIONS:
        rest, gains = _fits(rows, correlation)
        base = np.log1p(-(correlation**2)) / 2 - rows.shape[1] / 2 * np.log(rest)
        without.append(base)
        with_change.append(base + gains - (_CORRELATED if correlation else 0.0))
    found: Floats = np.max(with_change, axis=0) - np.array(without)
    return found


def _fits(rows: Floats, correlation: float) -> tuple[Floats, Floats]:
    """Return the sum of squares around one level, and the logarithm of what a change adds to the likelihood."""
    nights, share = rows.shape[1], 1 - correlation
    white, level = rows.copy(), np.full(nights, share)
    white[:, 1:] -= correlation * rows[:, :-1]
    white[:, 0] *= (1 - correlation**2) ** 0.5
    level[0] = (1 - correlation**2) ** 0.5
    total = level @ level
    white -= np.outer(white @ level / total, level)
    rest = (white**2).sum(axis=1)
    white = np.pad(white, ((0, 0), (0, 1)))  # the night after the last one
    sums = np.pad(np.cumsum(white, axis=1), ((0, 0), (1, 0)))
    gains = []
    for begin, end in _places(nights):
        inside = share * (sums[:, end] - sums[:, begin + 1]) + white[:, begin] - correlation * white[:, end]
        after = correlation * (end < nights)  # the level goes back, and the night there remembers the one before
        squares = 1 + share**2 * (end - begin - 1) + correlation * after
        common = share * (1 + share * (end - begin - 1) - after)
        explained = inside**2 / (squares - common**2 / total) / rest[:, None]
        gains.append(_log_mean(-nights / 2 * np.log(np.maximum(1 - explained, 1e-300))))
    gains[-1] -= _NEWEST
    return rest, np.max(gains, axis=0)


def _places(nights: int) -> Iterator[Places]:
    """Yield the first night of each change and the night after its last one: of steps, arcs and the newest nights."""
    begins = np.arange(LEAST_NIGHTS, nights - LEAST_NIGHTS + 1)
    yield begins, np.full(len(begins), nights)
    lengths = np.arange(LEAST_NIGHTS, longest_arc(nights) + 1)
    each = nights - LEAST_NEWEST - LEAST_NIGHTS + 1 - lengths
    if len(lengths):
        begins = np.concatenate([np.arange(LEAST_NIGHTS, LEAST_NIGHTS + count) for count in each])
        yield begins, begins + np.repeat(lengths, each)
    yield np.array([nights - LEAST_NEWEST]), np.array([nights])


def longest_arc(nights: int) -> int:
    return min(int(LONGEST_ARC * nights), nights - LEAST_NIGHTS - LEAST_NEWEST)


def _log_mean(logs: Floats) -> Floats:
    """Return the logarithm of the mean of each row's exponentials."""
    most = logs.max(axis=1, keepdims=True)
    found: Floats = most[:, 0] + np.log(np.exp(logs - most).mean(axis=1))
    return found
