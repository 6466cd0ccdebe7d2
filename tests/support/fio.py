"""What fio writes, and the profile of a rate beside it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data"


NEWER = (DATA / "fio-3.39-libaio.json").read_text()


def table(text: str) -> list[dict[str, Any]]:
    return list(csv.DictReader(text.splitlines()))
