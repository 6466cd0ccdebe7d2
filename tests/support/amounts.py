"""How much random tests try: a little with every change, more at night."""

import os

TIMES = int(os.environ.get("MATRIX_TEST_TIMES", "1"))


def times(count: int) -> int:
    """Return the number of repetitions: as many times `count` as MATRIX_TEST_TIMES asks for."""
    return count * TIMES


def kill_moments(daily: tuple[int, ...] = (1, 3, 6)) -> tuple[int, ...]:
    """Return after how many lines of output a run is killed: in set-up, in a trial, in tear-down."""
    return (1, 2, 3, 4, 6) if TIMES > 1 else daily
