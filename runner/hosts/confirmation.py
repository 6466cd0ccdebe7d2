"""The confirmation of data loss: what a run destroys, and whether the user named each disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from runner.hosts.checks import DiskCheck
    from runner.hosts.inventory import Node


class NotConfirmed(BadInput):
    """Disks would be overwritten that neither the command line nor hosts.yaml names."""


def describe_losses(checks: Sequence[DiskCheck]) -> str:
    lines = [f"Everything on {'these disks' if len(checks) != 1 else 'this disk'} will be destroyed:"]
    return "\n".join([*lines, *(f"  {_describe_loss(one)}" for one in checks)])


def confirm_losses(checks: Sequence[DiskCheck], given: Collection[str], standing: Collection[str]) -> str:
    """Return the description if `--destroy` or `destroy:` of the host names every disk; else raise NotConfirmed."""
    missing = [one.declared.id for one in checks if one.declared.id not in given and one.declared.id not in standing]
    if missing:
        words = " ".join(f"--destroy {name}" for name in missing)
        raise NotConfirmed(
            f"{len(missing)} of {len(checks)} disks would be overwritten, but no --destroy names them",
            details=describe_losses(checks),
            resolution=f"to destroy their content, add  {words}  or list them in `destroy:` of the host in hosts.yaml",
        )
    return describe_losses(checks)


def _describe_loss(one: DiskCheck) -> str:
    node = one.node
    if node is None:
        return f"{one.declared.id}: not there"
    what = " ".join(
        filter(None, (node.path, node.model, f"serial {node.serial}" if node.serial else "", f"{node.size} bytes"))
    )
    written = ", ".join(map(str, node.signatures))
    return f"{one.declared.id} ({what}): {written or _describe_content(node)}"


def _describe_content(node: Node) -> str:
    if node.filled is None:
        return "its content could not be read"
    if not node.filled:
        return "zeros in the eight places that were read"
    return f"labelled by the run {node.label.run}" if node.label else "unrecognised data"
