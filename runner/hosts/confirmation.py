"""What a run is going to destroy, said once before it does, and only if it was asked for by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from runner.hosts.checks import Judged
    from runner.hosts.inventory import Node


class NotAskedFor(BadInput):
    """Disks would be written that nobody named on the command line or in hosts.yaml."""


def intent(judged: Sequence[Judged]) -> str:
    """What is lost, disk by disk, as a user sees it."""
    lines = [f"Everything on {'these disks' if len(judged) != 1 else 'this disk'} will be destroyed:"]
    return "\n".join([*lines, *(f"  {_loss(one)}" for one in judged)])


def asked_for(judged: Sequence[Judged], given: Collection[str], standing: Collection[str]) -> str:
    """The intent, if every disk was named, now (`--destroy`) or for good (`destroy:` of the host); else NotAskedFor."""
    missing = [one.claim.id for one in judged if one.claim.id not in given and one.claim.id not in standing]
    if missing:
        words = " ".join(f"--destroy {name}" for name in missing)
        raise NotAskedFor(
            f"{len(missing)} of {len(judged)} disks may be written, but nobody asked for that",
            details=intent(judged),
            resolution=f"if that is what you want, add  {words}  or the same to `destroy:` of the host in hosts.yaml",
        )
    return intent(judged)


def _loss(one: Judged) -> str:
    node = one.node
    if node is None:
        return f"{one.claim.id}: not there"
    what = " ".join(
        filter(None, (node.path, node.model, f"serial {node.serial}" if node.serial else "", f"{node.size} bytes"))
    )
    written = ", ".join(map(str, node.signatures))
    return f"{one.claim.id} ({what}): {written or _seen(node)}"


def _seen(node: Node) -> str:
    """Of a disk on which nothing is recognised."""
    if node.filled is None:
        return "nobody could look what is on it"
    if not node.filled:
        return "zeros in the eight places that were looked at"
    return f"labelled by the run {node.label.run}" if node.label else "data that nothing recognises"
