"""Writes on leased disks: wiping and labelling."""

from __future__ import annotations

import errno
import time
from contextlib import contextmanager
from shlex import join, quote
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.hosts import SECTOR, identity
from runner.hosts.checks import DiskCheck
from runner.hosts.exclusive import raise_if_refused
from runner.hosts.identity import Label
from runner.hosts.operations import OPEN_PAUSE, OPEN_TRIES
from runner.hosts.reasons import Reason, Refusal, is_marked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.hosts.exclusive import LeasedDisk
    from runner.hosts.identity import State
    from runner.hosts.inventory import Signature
    from runner.hosts.operations import OpenDisk
    from runner.hosts.reasons import OwnMarks

PATIENCE = 60.0
#: Partitions first: without the table they cannot be found. Partitions that were only added by hand (addpart) are
#: forgotten when the table is reread, so they are added again, unless the table now has others.
WIPE = """\
set -euo pipefail
shopt -s nullglob
export PATH="$PATH:/usr/sbin:/sbin"
name={name}
set -- {parts}
# A partition that the kernel does not know: told to it, or by a loop device where there is no addpart (Debian 13).
wipe_range() {{
  local loop status=0
  if command -v addpart >/dev/null; then addpart "$@"; return; fi
  loop=$(losetup --find --show --offset "$(($3 * 512))" --sizelimit "$(($4 * 512))" "$1")
  wipefs --all --force --quiet -- "$loop" || status=$?
  losetup --detach "$loop"
  return "$status"
}}
while (($#)); do
  if [[ ! -e /sys/class/block/$1 ]]; then wipe_range "/dev/${{name//!//}}" "$2" "$3" "$4" || true; fi
  shift 4
done
for part in /sys/class/block/"$name"/*/partition; do
  part=${{part%/partition}}
  wipefs --all --force --quiet -- "/dev/${{part##*/}}"
done
wipefs --all --force --quiet -- "/dev/${{name//!//}}"
"""


def label_of(held: LeasedDisk, run: str, state: State) -> Label:
    return Label(run, held.declared.id, held.node.wwn or held.node.serial, state)


def require_closed_partitions(disks: Iterable[LeasedDisk]) -> None:
    """Raise DisksRefused if a partition is open, even by a hidden process: the kernel rereads tables only then."""
    raise_if_refused([DiskCheck(one.declared, one.node, tuple(_open_partitions(one))) for one in disks])


def _open_partitions(held: LeasedDisk) -> Iterator[Refusal]:
    if not (held.node.signatures or held.parts):
        return
    try:
        _reread_partitions(held, held.opened)
    except OSError as error:
        if error.errno == errno.EBUSY:
            users = filter(None, (held.operations.find_users(part.dev) for part in held.parts))
            who = ", ".join(users) or "a process that is not visible"
            yield Refusal(Reason.BUSY, f"a partition of {held.node.path} is open by {who}")
        else:
            why = f"{held.node.path}: its partitions cannot be reread: {error.strerror}"
            yield Refusal(Reason.UNREADABLE, why)


def prepare_disk(held: LeasedDisk, run: str) -> None:
    block = _label_block(held, run, "held")
    if held.node.signatures:
        _wipe(held)
    _write_label(held, block)


def give_back(held: LeasedDisk, run: str) -> None:
    """Label the disk as free, so that the next run may use it with the data that fio left there."""
    _write_label(held, _label_block(held, run, "free"))


def wipe_marked(held: LeasedDisk, found: Iterable[Signature], ours: OwnMarks) -> None:
    opened, mine = held.opened, [one for one in found if one.offset and is_marked(one, ours)]
    for one in mine:
        words = f"wipefs --force --quiet --offset={quote(one.offset)} -- {quote(held.node.path)}"
        if trouble := held.operations.run(f"PATH=$PATH:/usr/sbin:/sbin {words}", PATIENCE):
            raise HarnessBroken(f"{one} on {held.node.path} could not be wiped", details=trouble)
    if mine:
        with _name_disk_on_error(held):
            _reread_partitions(held, opened)


def _wipe(held: LeasedDisk) -> None:
    """Wipe every signature on the disk and its partitions. It needs --force, as we have the disk open exclusively."""
    require_closed_partitions([held])
    opened = held.opened
    parts = [word for one in held.parts for word in (one.name, one.number, one.start // SECTOR, one.size // SECTOR)]
    script = WIPE.format(name=quote(held.node.name), parts=join(map(str, parts)))
    if trouble := held.operations.run(script, PATIENCE):
        raise HarnessBroken(
            f"the content of {held.node.path} could not be wiped",
            details=trouble,
            resolution=f"`matrix disks` shows the state of {held.declared.id}",
        )
    with _name_disk_on_error(held):
        _reread_partitions(held, opened)


def _reread_partitions(held: LeasedDisk, opened: OpenDisk) -> None:
    """Retry until programs of udev, which open every changed partition, have closed them."""
    for left in reversed(range(OPEN_TRIES)):
        try:
            opened.reread_partitions()
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EPERM} and not held.parts:
                return  # only root may reread; without partitions there is no need to
            if error.errno != errno.EBUSY or not left:
                raise
            time.sleep(OPEN_PAUSE)
        else:
            return


def _label_block(held: LeasedDisk, run: str, state: State) -> bytes:
    try:
        return identity.encode(label_of(held, run, state))
    except ValueError as error:
        raise HarnessBroken(f"{held.declared.id} ({held.node.path}) cannot be labelled", details=str(error)) from None


def _write_label(held: LeasedDisk, block: bytes) -> None:
    with _name_disk_on_error(held):
        held.opened.write(block, identity.BLOCK * identity.BYTES)


@contextmanager
def _name_disk_on_error(held: LeasedDisk) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HarnessBroken(
            f"{held.declared.id} ({held.node.path}) cannot be written: {error.strerror}",
            resolution="`dmesg` of its host shows more; `matrix disks` shows its state now",
        ) from error
