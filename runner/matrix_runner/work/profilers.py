"""Profiles on request (`profile:`): programs that watch the machine beside a trial, each with what it needs."""

from dataclasses import dataclass
from typing import Literal

from matrix_runner.layers.needs import Need


@dataclass(frozen=True, slots=True)
class Profiler:
    """The scripts of NAME: `templates/profilers/NAME.sh` starts it, `NAME-table.sh` prints what is kept of it."""

    shows: str
    need: Need


ProfilerName = Literal["blktrace", "locks", "cpu"]
#: In the order of their starts: the last one does not see the starts of the others.
PROFILERS: dict[ProfilerName, Profiler] = {
    "blktrace": Profiler(
        "Seconds of requests of each disk, by `btt`: from queue to issue (Q2D), to completion (D2C), and both (Q2C).",
        Need(programs=("blktrace",), options=("BLK_DEV_IO_TRACE",)),
    ),
    "locks": Profiler(
        "The locks of the kernel for which others waited the longest, by `perf lock`.",
        Need(programs=("perf",), linux="5.19"),  # the first with tracepoints of contended locks
    ),
    "cpu": Profiler("The hottest functions of the machine, by `perf`.", Need(programs=("perf",))),
}
PROFILED = "profiled"  # the note of a trial beside which profilers ran


def profile_file(name: str) -> str:
    return f"profile-{name}.txt"
