"""Student's t distribution: how likely a value is to lie so far off, and how far off it lies with so much confidence.

scipy has both, and takes a quarter of a second to be there at all, of the one that a command has which answers from the
store. Here it is the continued fraction of the incomplete beta function (DLMF 8.17.22); a property test holds both to
scipy's `stdtr` and `stdtrit`.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, pi
from statistics import NormalDist

_EXACT = 1e-15
#: More than any number of degrees of freedom that a lab could come to would take.
_MOST = 10_000


def chance(distance: float, freedom: float) -> float:
    """How likely a value is to lie this far from 0, or farther, on either side."""
    ratio = distance * distance / freedom
    if not ratio or ratio == inf:
        return 0.0 if ratio else 1.0
    a, b = freedom / 2, 0.5
    below, beyond = 1 / (1 + 1 / ratio), 1 / (1 + ratio)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) - a * log1p(ratio) - b * log1p(1 / ratio))
    # The fraction is quick on one side of the middle; on the other, so is that of the rest.
    if beyond < (a + 1) / (a + b + 2):
        return front * _fraction(beyond, a, b) / a
    return 1 - front * _fraction(below, b, a) / b


@lru_cache(maxsize=4096)
def factor(freedom: float, confidence: float) -> float:
    """Between as many standard errors on either side a value lies with so much confidence."""
    if (1 + confidence) / 2 == 1:
        return inf
    found = NormalDist().inv_cdf((1 + confidence) / 2)
    # The chance falls ever more slowly the farther off, and the normal distribution is too near: Newton's steps are all
    # in one direction, and none is too long.
    for _ in range(_MOST):
        step = (chance(found, freedom) - (1 - confidence)) / (2 * _density(found, freedom))
        found += step
        if step <= 1e-14 * found:
            break
    return found


def _density(at: float, freedom: float) -> float:
    half = freedom / 2
    return exp(lgamma(half + 0.5) - lgamma(half) - log(pi * freedom) / 2 - (half + 0.5) * log1p(at * at / freedom))


def _fraction(x: float, a: float, b: float) -> float:
    """1 / (1 + d1 / (1 + d2 / (1 + …))), by Lentz's method: each step makes it a product that nears 1."""
    upper, lower, found = 1.0, 0.0, 1.0
    for step in range(1, _MOST):
        m = step // 2
        term = -(a + m) * (a + b + m) / (a + 2 * m + 1) if step % 2 else m * (b - m) / (a + 2 * m - 1)
        term *= x / (a + 2 * m)
        upper, lower = 1 + term / upper, 1 / (1 + term * lower)
        found *= upper * lower
        if abs(upper * lower - 1) < _EXACT:
            break
    return 1 / found
