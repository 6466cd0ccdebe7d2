"""The identity of a disk: the label that a run writes on it, and the check before each script that it is the same."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from shlex import join
from typing import TYPE_CHECKING, Literal

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.hosts import SECTOR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matrix_runner.hosts.inventory import Node

SYSFS = "/sys/class/block"
#: Starts no process, as it runs before every trial. $1: the disk's name in scripts; $2: its node; $3: its folder in
#: sysfs; then the expected values of files there. Prints its result after the secret word in $matrix_mark.
CHECK = """\
matrix_same() {
  local path=$1 node=$2 folder=$3 pair found
  shift 3
  if [ ! -b "$path" ] || [ ! -e "$folder/dev" ]; then
    printf '%s gone %s\\n' "$matrix_mark" "$path"
    return 1
  fi
  if [ ! "$path" -ef "$node" ]; then
    printf '%s other %s leads to another device than %s\\n' "$matrix_mark" "$path" "$node"
    return 1
  fi
  for pair; do
    found=
    { IFS= read -r found <"$folder/${pair%%=*}"; } 2>/dev/null
    if [ "$found" != "${pair#*=}" ]; then
      printf '%s other %s: its %s was %s, and is %s\\n' \\
        "$matrix_mark" "$path" "${pair%%=*}" "${pair#*=}" "${found:-not told}"
      return 1
    fi
  done
}
"""


def identity_check(disks: Iterable[tuple[str, Node]], sysfs: str = SYSFS) -> str:
    calls = []
    for path, node in disks:
        known = {"dev": node.dev, "size": str(node.size // SECTOR), "diskseq": node.sequence}
        expected = (f"{name}={value}" for name, value in known.items() if value)
        words = join(("matrix_same", path, node.path, f"{sysfs}/{node.name}", *expected))
        calls.append(f"{words} || exit 1\n")
    return "".join([CHECK, *calls]) if calls else ""


def parse_report(output: bytes, mark: str) -> tuple[str, str]:
    line = output.partition(b"\n")[0].decode(errors="replace")
    word, _, details = line.removeprefix(f"{mark} ").partition(" ")
    return (word, details) if line.startswith(mark) and word in {"gone", "other"} else ("", "")


class DiskSwapped(HarnessBroken):
    def __init__(self, said: str, where: str) -> None:
        super().__init__(
            f"a disk of {where} was replaced by another disk",
            details=said,
            resolution="no script touches the other disk; `dmesg` and `matrix disks` show what happened",
        )


def require_lasting_identity(name: str, path: str, node: Node) -> None:
    if path == node.path and not node.sequence:
        raise BadInput(
            f"{name} is only known as {path}, a name that another disk could get",
            details="it has no name in /dev/disk/by-id, and this kernel (before Linux 5.15) does not number media",
            resolution="run udev there, or a newer kernel; nothing was written",
        )


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


def encode_label(label: Label) -> bytes:
    """Return the block. It is printable ASCII, also for odd serial numbers: the inventory reads only that."""
    content = json.dumps(asdict(label), separators=(",", ":"))
    text = f"{MAGIC} 1 {_digest(content)} {content}"
    if len(text) >= BYTES:
        raise ValueError(f"{label} is no label: it has to be shorter than {BYTES} bytes")
    return text.encode().ljust(BYTES, b"\0")


def decode_label(text: str) -> Label | None:
    words = text.rstrip("\0").split(" ", 3)
    if len(words) != 4 or words[:2] != [MAGIC, "1"] or words[2] != _digest(words[3]):
        return None
    with suppress(json.JSONDecodeError, TypeError):
        return Label(**json.loads(words[3]))
    return None


def _digest(content: str) -> str:
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
