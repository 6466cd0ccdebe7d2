"""What we write on a disk that is ours: whose it is, since which run, and what the run had it for.

One block at a place that no signature known to libblkid uses, and that partition tables with the usual alignment leave
alone. It tells that *nothing but us* wrote there only as long as nothing else is recognised on the disk: a file system
made later may well leave it standing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

MAGIC = "matrix-disk"
BYTES = 4096
#: In blocks of BYTES, from the start: 768 KiB.
BLOCK = 192

State = Literal["held", "free"]


@dataclass(frozen=True, slots=True)
class Label:
    """`held` by a run that has not given it back yet, or `free` for the next one."""

    run: str
    disk: str
    serial: str
    state: State


def written(label: Label) -> bytes:
    """The block as it stands on the disk, in printable ASCII whatever serial numbers hold: no more of it is read."""
    content = json.dumps(asdict(label), separators=(",", ":"))
    text = f"{MAGIC} 1 {_digest(content)} {content}"
    if len(text) >= BYTES:
        raise ValueError(f"{label} is no label: it has to be shorter than {BYTES} bytes")
    return text.encode().ljust(BYTES, b"\0")


def read(text: str) -> Label | None:
    """The label in such a block; None if it is none, or not whole."""
    words = text.rstrip("\0").split(" ", 3)
    if len(words) != 4 or words[:2] != [MAGIC, "1"] or words[2] != _digest(words[3]):
        return None
    try:
        return Label(**json.loads(words[3]))
    except (json.JSONDecodeError, TypeError):
        return None


def _digest(content: str) -> str:
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
