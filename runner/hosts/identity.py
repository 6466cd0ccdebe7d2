"""Whether a disk that was let go is still the one that was judged, asked by every script before its first step.

Who builds on a disk has to let go of it, and nobody holds its name meanwhile: a disk that is pulled out leaves its name
and its numbers to the next. What the kernel never gives twice is the sequence number of a medium; where it knows of
none (before Linux 5.15) there has to be a name of udev's, which goes by what the disk is.
"""

from __future__ import annotations

from shlex import join
from typing import TYPE_CHECKING

from runner.base.errors import BadInput, HarnessBroken
from runner.hosts.inventory import SECTOR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.hosts.inventory import Node

SYSFS = "/sys/class/block"
#: Starts no process: it is before every trial. $1: what scripts call the disk; $2: its node; $3: its folder in sysfs;
#: then what files there have to say. Says what it found behind the word in $matrix_mark, which nobody can guess.
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


def check(disks: Iterable[tuple[str, Node]], sysfs: str = SYSFS) -> str:
    """Bash that ends where one of them, by what scripts call it, is not the device that was judged."""
    calls = [f"{join(('matrix_same', *_words(path, node, sysfs)))} || exit 1\n" for path, node in disks]
    return "".join([CHECK, *calls]) if calls else ""


def _words(path: str, node: Node, sysfs: str) -> tuple[str, ...]:
    known = {"dev": node.dev, "size": str(node.size // SECTOR), "diskseq": node.sequence}
    told = (f"{name}={value}" for name, value in known.items() if value)
    return (path, node.path, f"{sysfs}/{node.name}", *told)


def heard(output: bytes, mark: str) -> tuple[str, str]:
    """What it found, if anything: `gone` or `other`, and in words."""
    line = output.partition(b"\n")[0].decode(errors="replace")
    word, _, said = line.removeprefix(f"{mark} ").partition(" ")
    return (word, said) if line.startswith(mark) and word in {"gone", "other"} else ("", "")


class Swapped(HarnessBroken):
    """Under the name of a disk is another one."""

    def __init__(self, said: str, where: str) -> None:
        super().__init__(
            f"a disk of {where} is another one than was lent",
            details=said,
            resolution="no script works on the other one; look what became of the disk (`dmesg`, `matrix disks`)",
        )


def unless_telling(name: str, path: str, node: Node) -> None:
    """Refuse a disk that cannot be told from the next one that is put in its place."""
    if path == node.path and not node.sequence:
        raise BadInput(
            f"{name} is only known as {path}, which would be any disk that takes its place",
            details="there is no name of it in /dev/disk/by-id, and the kernel (before Linux 5.15) numbers no media",
            resolution="have udev running there, or a newer kernel; nothing was written",
        )
