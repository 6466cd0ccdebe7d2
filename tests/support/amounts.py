"""How much random tests try: a little with every change, more at night."""

import os

TIMES = int(os.environ.get("MATRIX_TEST_TIMES", "1"))


def times(count: int) -> int:
    """Return the number of repetitions: as many times `count` as MATRIX_TEST_TIMES asks for."""
    return count * TIMES
