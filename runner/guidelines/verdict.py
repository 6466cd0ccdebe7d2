"""The possible verdicts."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The verdict on a guideline, or on one of its questions."""

    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"
