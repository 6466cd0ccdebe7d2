"""What is written on a disk that is held: our label when a run gets it, and again when it gives it back.

Everything here takes a disk that is held, so nothing here can be done to one that was not judged.
"""

from __future__ import annotations

import errno
import time
from contextlib import contextmanager
from shlex import join, quote
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.hosts import label
from runner.hosts.checks import Judged
from runner.hosts.exclusive import DisksRefused
from runner.hosts.inventory import SECTOR
from runner.hosts.label import Label
from runner.hosts.local_operations import GLANCE, GLANCES
from runner.hosts.reasons import Refused, Why
from runner.hosts.signatures import marked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.hosts.exclusive import Held
    from runner.hosts.inventory import Signature
    from runner.hosts.label import State
    from runner.hosts.operations import Opened
    from runner.hosts.own_work import Ours

#: Seconds that it may take to wipe what is written on a disk.
PATIENCE = 60.0
#: Parts first: once the table is gone there are none to be found. Those that the kernel knew by somebody's word alone
#: it forgot when it read the table anew. Where that has something else by now, they are nothing any more.
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


def label_of(held: Held, run: str, state: State) -> Label:
    """The label of this very disk."""
    return Label(run, held.claim.id, held.node.wwn or held.node.serial, state)


def unless_open(disks: Iterable[Held]) -> None:
    """Before anything is written on any: DisksRefused if somebody has a part open, whether they can be seen or not.

    The kernel reads a table anew only where nobody has. So that comes first, not when the parts are wiped already.
    """
    judged = [Judged(one.claim, one.node, tuple(_open_parts(one))) for one in disks]
    if any(one.refusals for one in judged):
        raise DisksRefused(judged)


def _open_parts(held: Held) -> Iterator[Refused]:
    if not (held.node.signatures or held.parts):
        return
    try:
        _reread(held, held.alone)
    except OSError as error:
        if error.errno == errno.EBUSY:
            having = filter(None, (held.hands.who_has(part.dev) for part in held.parts))
            who = ", ".join(having) or "somebody who cannot be seen"
            yield Refused(Why.BUSY, f"a partition of {held.node.path} is open by {who}")
        else:
            said = f"its partitions cannot be read anew: {error.strerror}"
            yield Refused(Why.UNREADABLE, f"{held.node.path}: {said}")


def prepare(held: Held, run: str) -> None:
    """Make a disk that was judged ready for a run: what may be wiped is, and then it says whose it is."""
    block = _block(held, run, "held")
    if held.node.signatures:
        _wipe(held)
    _write(held, block)


def give_back(held: Held, run: str) -> None:
    """Label it as ours and free, so that the next run may have it whatever fio left on it."""
    _write(held, _block(held, run, "free"))


def wipe_marked(held: Held, found: Iterable[Signature], ours: Ours) -> None:
    """Of what is written on it only what carries a mark of ours, place by place; anything else stays as it is."""
    alone, mine = held.alone, [one for one in found if one.offset and marked(one, ours)]
    for one in mine:
        script = (
            f"PATH=$PATH:/usr/sbin:/sbin wipefs --force --quiet --offset={quote(one.offset)} -- {quote(held.node.path)}"
        )
        if trouble := held.hands.run(script, PATIENCE):
            raise HarnessBroken(f"{one} on {held.node.path} could not be wiped", details=trouble)
    if mine:
        with _told(held):
            _reread(held, alone)


def _wipe(held: Held) -> None:
    """Every signature on the disk and on its parts; held as it is by us, only --force is allowed to."""
    unless_open([held])
    alone = held.alone
    parts = [word for one in held.parts for word in (one.name, one.number, one.start // SECTOR, one.size // SECTOR)]
    script = WIPE.format(name=quote(held.node.name), parts=join(map(str, parts)))
    trouble = held.hands.run(script, PATIENCE)
    if trouble:
        raise HarnessBroken(
            f"what is written on {held.node.path} could not be wiped",
            details=trouble,
            resolution=f"`matrix disks` shows how {held.claim.id} stands now",
        )
    with _told(held):
        _reread(held, alone)


def _reread(held: Held, alone: Opened) -> None:
    """Once udev's programs, which look at every part that was written, have let go of those."""
    for left in reversed(range(GLANCES)):
        try:
            alone.reread()
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EPERM} and not held.parts:
                return  # only root may; where the kernel knows of no parts there is nothing to forget
            if error.errno != errno.EBUSY or not left:
                raise
            time.sleep(GLANCE)
        else:
            return


def _block(held: Held, run: str, state: State) -> bytes:
    try:
        return label.written(label_of(held, run, state))
    except ValueError as error:
        raise HarnessBroken(f"{held.claim.id} ({held.node.path}) cannot be labelled", details=str(error)) from None


def _write(held: Held, block: bytes) -> None:
    with _told(held):
        held.alone.write(block, label.BLOCK * label.BYTES)


@contextmanager
def _told(held: Held) -> Iterator[None]:
    """A disk that does not take it any more is told of by its name: disks do die in the night."""
    try:
        yield
    except OSError as error:
        raise HarnessBroken(
            f"{held.claim.id} ({held.node.path}) does not take what is written to it: {error.strerror}",
            resolution="`dmesg` of its host says more; `matrix disks` shows how it stands now",
        ) from error
