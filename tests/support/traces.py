"""Matrices with a replay, and traces for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matrix_runner.space.load import Declared, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

MATRIX = """\
name: replays
disks: {count: 4, size: 256MiB, DISK}
layouts: {LAYOUTS}
workloads:
  web: {WORK}
repeat: 2
"""


def iolog(requests: Iterable[tuple[int, str, int, int]]) -> str:
    """Return an iolog as fio writes it, from microseconds, action, offset and length of each request."""
    lines = [f"{time} /dev/sdz {action} {offset} {size}\n" for time, action, offset, size in requests]
    return "".join(("fio version 3 iolog\n0 /dev/sdz add\n0 /dev/sdz open\n", *lines))


#: A second with a request each 10 ms: two reads, then a write.
STEADY = iolog((at * 10_000, "write" if at % 3 == 2 else "read", at * 65536, 4096) for at in range(101))


def declared(
    work: str = "replay: web.log", trace: str | bytes = STEADY, layouts: str = "raw: [disk]", disk: str = "bus: sata"
) -> Declared:
    def bytes_of(name: str) -> bytes:
        if name != "dir/web.log":
            raise FileNotFoundError
        return trace.encode() if isinstance(trace, str) else trace

    text = MATRIX.replace("LAYOUTS", layouts).replace("WORK", work).replace("DISK", disk)
    return parse("dir/m.yaml", text, bytes_of=bytes_of)
