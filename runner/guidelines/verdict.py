"""What is said of a claim."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """Of a guideline, or of one of the questions that it comes to."""

    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"
