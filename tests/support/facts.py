"""Trials with facts, from their notes: tests name a fact once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from matrix_runner.records.record import HOST, HOST_LIMITED, SATURATED, SLOW, SPREAD, UNSETTLED, TrialFacts

if TYPE_CHECKING:
    from collections.abc import Mapping


def noted(notes: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields `notes` and `facts` of a trial."""
    shares: dict[str, Any] = {
        name: float(notes[name]) for name in ("iowait", "evenness", "host_limited_share") if notes.get(name)
    }
    lost = re.match(r"(\d+(?:\.\d+)?) ?%", notes.get(HOST_LIMITED, ""))
    facts = TrialFacts(
        kernel=notes.get("kernel", ""),
        slow=int(notes.get(SLOW, 1)),
        settled=UNSETTLED not in notes,
        saturated=SATURATED in notes,
        host=notes.get(HOST, ""),
        spread=SPREAD in notes,
        lost=(float(lost[1]) / 100 if lost else 0.0) if HOST_LIMITED in notes else None,
        **shares,
    )
    return {"notes": notes, "facts": facts}
