"""What md keeps of its members for itself, so that what an array holds is known before it is built.

After mdadm's own rules (super0.c, super1.c); wherever a rule hangs on something unknown, the larger of the two.
"""

from __future__ import annotations

SECTOR = 512
MIB = 2**20 // SECTOR
GIB = 2**30 // SECTOR
#: Room for the partial parity log of one member.
_PPL = MIB


def usable(size: int, metadata: str, chunk: int, *, ppl: bool) -> int:
    """At least so many bytes of a member of this size hold data, if it is the first of its array or as large."""
    sectors = size // SECTOR
    if metadata == "0.90":
        left = sectors // 128 * 128 - 128
    elif metadata == "1.0":
        left = sectors // 8 * 8 - 24 - _log(sectors, ppl=ppl)
    else:
        left = sectors - data_offset(sectors, chunk, ppl=ppl)
    return max(0, left) * SECTOR


def data_offset(sectors: int, chunk: int, *, ppl: bool) -> int:
    """Where data begin on a member with its metadata in front, in sectors.

    Most of it is room to reshape into: a thousandth of the member, but two chunks at least. Members that are a little
    larger than we know (`sectors` is a lower bound) may get twice that.
    """
    most = sectors + sectors // 64
    headroom = GIB // 8
    while headroom * 1024 > most and headroom > chunk // SECTOR * 2:
        headroom //= 2
    return -(-(24 + _log(most, ppl=ppl) + headroom) // MIB) * MIB


def _log(sectors: int, *, ppl: bool) -> int:
    """Sectors kept for a bitmap, whether there is one or not, or for the partial parity log."""
    if ppl:
        return _PPL
    return 256 if sectors >= 200 * GIB else 128 if sectors > 8 * GIB else 8
