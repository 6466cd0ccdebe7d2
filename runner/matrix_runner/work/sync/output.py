"""The line in which a script reports a rebuild or another sync of an array: how long it took, and of how many bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from matrix_runner.work.fio.output import Figures, Sync
from matrix_runner.work.result import NotReported, parse_report

_MOST = 1e18
_AT_LIMIT = 0.95  # of sync_speed_max: from here on, it is the limit
MISMATCHES = "mismatch_cnt"  # the note with the kernel's count of a check


@dataclass(frozen=True, slots=True)
class SyncReport:
    action: str
    seconds: float
    bytes: int  # of a member
    mismatches: int
    fastest: int  # the limit of md, in bytes per second

    @property
    def figures(self) -> Sync:
        return Sync(self.seconds, self.bytes / self.seconds)

    @property
    def notes(self) -> dict[str, str]:
        counted = {MISMATCHES: str(self.mismatches)} if self.action in {"check", "repair"} else {}
        if self.fastest and self.bytes / self.seconds >= _AT_LIMIT * self.fastest:
            counted["sync_limit"] = f"the {self.action} was as fast as sync_speed_max allows: {self.fastest} bytes/s"
        return counted


def parse_sync(text: str) -> SyncReport:
    """Raise NotReported for a text that the script does not print."""
    names = ("began", "ended", "bytes", "mismatch_cnt", "sync_speed_max")
    found = parse_report(text, "sync", names, _MOST)
    seconds = float(found["ended"] - found["began"])
    if seconds <= 0 or found["bytes"] <= 0:
        raise NotReported(f"the sync took {seconds:g} s for {found['bytes']:g} bytes")
    whole = [int(found[name]) for name in names[2:]]
    return SyncReport(str(found.get("action", "")), seconds, *whole)


def with_sync(figures: Figures | None, report: SyncReport) -> Figures:
    """Add a sync to the figures of fio; without fio, there are no others."""
    if figures is None:
        return Figures(None, None, report.seconds, 0.0, 0.0, 0, rebuild=report.figures)
    return replace(figures, rebuild=report.figures)
