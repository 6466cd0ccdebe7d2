"""The check, at the start of every script, that a disk is still the device that was checked."""

from __future__ import annotations

from shlex import join
from typing import TYPE_CHECKING

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
