"""What has to fit a screen."""

from __future__ import annotations

import re
from pathlib import Path

from rich.cells import cell_len

ROOT = Path(__file__).parents[2]


SHIPPED = ROOT / "matrix/chunk-sweep.yaml"


#: Reset, bold, italic, red, green, magenta: what is readable on light and on dark backgrounds.
READABLE = {"", "0", "1", "3", "31", "32", "35"}


def too_long(lines: list[str], columns: int) -> list[str]:
    """Lines that the terminal breaks, single words such as paths excepted, alone or after a label."""
    return [line for line in lines if cell_len(line) > columns and not re.fullmatch(r"(\S+ {2,})?\S+", line.strip())]
