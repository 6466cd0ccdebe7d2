"""For which reasons tests may be skipped. All programs that they need are in the list of `bootstrap`, so none is a reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

REASONS = {
    "the user is not root": r"\broot\b",
    "a container forbids it": r"\bmounts?\b|loop device|device nodes|no new privileges|access control lists|namespace",
    "this host has what the test wants to be missing, or the reverse": r"^this host (has|does not run|is) ",
    "the network is down": r"cannot be (fetched|reached)",
    "the host is no Debian 12 or 13": r"Debian 12 or 13",
}
assert len(REASONS) <= 5


def reason_of(report: pytest.TestReport) -> str:
    _, _, text = cast("tuple[str, int, str]", report.longrepr)
    return text.removeprefix("Skipped: ")


def objection(reports: Iterable[pytest.TestReport], most: int) -> str:
    """Return why so many tests, or for such reasons, may not be skipped; empty if they may."""
    reasons = [reason_of(one) for one in reports]
    if others := {one for one in reasons if not any(re.search(known, one) for known in REASONS.values())}:
        return f"tests were skipped for reasons that tests/support/skips.py does not list: {'; '.join(sorted(others))}"
    return f"{len(reasons)} tests were skipped, and at most {most} may be" if len(reasons) > most else ""
