"""The label that a run writes on its disks."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Literal

MAGIC = "matrix-disk"
BYTES = 4096
#: In blocks of BYTES, from the start: 768 KiB.
BLOCK = 192
State = Literal["held", "free"]


@dataclass(frozen=True, slots=True)
class Label:
    """`held`: leased to the run. `free`: the next run may use the disk."""

    run: str
    disk: str
    serial: str
    state: State


def encode(label: Label) -> bytes:
    """Return the block. It is printable ASCII, also for odd serial numbers: the inventory reads only that."""
    content = json.dumps(asdict(label), separators=(",", ":"))
    text = f"{MAGIC} 1 {_digest(content)} {content}"
    if len(text) >= BYTES:
        raise ValueError(f"{label} is no label: it has to be shorter than {BYTES} bytes")
    return text.encode().ljust(BYTES, b"\0")


def decode(text: str) -> Label | None:
    words = text.rstrip("\0").split(" ", 3)
    if len(words) != 4 or words[:2] != [MAGIC, "1"] or words[2] != _digest(words[3]):
        return None
    with suppress(json.JSONDecodeError, TypeError):
        return Label(**json.loads(words[3]))
    return None


def _digest(content: str) -> str:
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
