"""The space that md reserves on its members, so that the size of an array is known before it is built.

It follows the rules of mdadm (super0.c, super1.c). If a rule depends on an unknown, take the larger reserve.
"""

from __future__ import annotations

SECTOR = 512
MIB = 2**20 // SECTOR
GIB = 2**30 // SECTOR
#: Room for the partial parity log of one member.
_PPL = MIB


def usable(size: int, metadata: str, chunk: int, *, ppl: bool) -> int:
    """Return a lower bound of the data bytes of a member, if it is the first of its array or as large."""
    sectors = size // SECTOR
    if metadata == "0.90":
        left = sectors // 128 * 128 - 128
    elif metadata == "1.0":
        left = sectors // 8 * 8 - 24 - _log(sectors, ppl=ppl)
    else:
        left = sectors - data_offset(sectors, chunk, ppl=ppl)
    return max(0, left) * SECTOR


def data_offset(sectors: int, chunk: int, *, ppl: bool) -> int:
    """Return the start of data in sectors on a member with metadata at its start.

    Most of the space is for a reshape: 1/1000 of the member, but at least two chunks. `sectors` is a lower bound; a
    slightly larger member may get twice that.
    """
    most = sectors + sectors // 64
    headroom = GIB // 8
    while headroom * 1024 > most and headroom > chunk // SECTOR * 2:
        headroom //= 2
    return -(-(24 + _log(most, ppl=ppl) + headroom) // MIB) * MIB


def _log(sectors: int, *, ppl: bool) -> int:
    """Return the sectors for a bitmap (reserved in any case) or for the partial parity log."""
    if ppl:
        return _PPL
    return 256 if sectors >= 200 * GIB else 128 if sectors > 8 * GIB else 8
