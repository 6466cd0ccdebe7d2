"""Active uses of a disk, at any depth: partitions, arrays, mappings, mounts, swap."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from runner.hosts.reasons import Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.hosts.inventory import Census, Mount, Node

#: Mount points of a running system.
SYSTEM = {"/", "/boot", "/boot/efi", "/boot/firmware", "/efi", "/usr", "/var", "/etc"}
_MAPPINGS = {
    "LVM-": Reason.LVM_ACTIVE,
    "CRYPT-": Reason.CRYPT_OPEN,
    "mpath-": Reason.MULTIPATH,
}


def find_uses(census: Census, node: Node) -> Iterator[Refusal]:
    """Yield every use of a disk, of its partitions and of what is built on them."""
    for chain in _stacks_on(census, node):
        top = chain[-1]
        words = " → ".join(one.name for one in chain)
        if len(chain) > 1 and not top.partition:
            yield Refusal(_reason_for(top), f"{words}{f' ({top.mapping})' if top.mapping else ''}")
        if top.bcache and top.bcache != "no cache":
            yield Refusal(Reason.BCACHE_ACTIVE, f"{words}: {top.bcache}")
        yield from _mount_uses(census, top, words)
        if top.dev in census.swaps:
            yield Refusal(Reason.SWAP_ACTIVE, f"{words} is swapped to")


def _mount_uses(census: Census, node: Node, words: str) -> Iterator[Refusal]:
    points = list(dict.fromkeys(mount.point for mount in census.mounts if _is_mount_of(mount, node)))
    if points:
        why = Reason.BOOT_DISK if SYSTEM & set(points) else Reason.MOUNTED
        more = f" and {len(points) - 3} more" if len(points) > 3 else ""
        yield Refusal(why, f"{words} is mounted at {', '.join(points[:3])}{more}")
    # The list of mounts names only one of several devices of a btrfs.
    elif node.name in census.btrfs:
        yield Refusal(Reason.MOUNTED, f"{words} is a device of the mounted btrfs {census.btrfs[node.name]}")


def _is_mount_of(mount: Mount, node: Node) -> bool:
    return mount.dev == node.dev or mount.source in {
        node.path,
        f"/dev/mapper/{node.mapping}" if node.mapping else node.path,
    }


def _reason_for(node: Node) -> Reason:
    if node.mapping or node.name.startswith("dm-"):
        return next((why for prefix, why in _MAPPINGS.items() if node.mapping_uuid.startswith(prefix)), Reason.MAPPED)
    if node.array_state or node.name.startswith("md"):
        return Reason.MD_ACTIVE
    return Reason.BCACHE_ACTIVE if node.name.startswith("bcache") else Reason.HELD


def _stacks_on(census: Census, node: Node) -> Iterator[tuple[Node, ...]]:
    """Yield each device that is built on the disk, once, with the path to it; the disk itself first."""
    ahead: deque[tuple[Node, ...]] = deque([(node,)])
    seen = {node.name}
    while ahead:
        chain = ahead.popleft()
        yield chain
        name = chain[-1].name
        for above in (*census.parts.get(name, ()), *census.holders.get(name, ()), *_loop_devices(census, chain[-1])):
            if above not in seen and above in census.nodes:
                seen.add(above)
                ahead.append((*chain, census.nodes[above]))


def _loop_devices(census: Census, node: Node) -> Iterator[str]:
    """Yield loop devices on a device; the kernel keeps no list of them."""
    return (other.name for other in census.nodes.values() if other.backing == node.path)


def find_twins(census: Census, node: Node) -> Iterator[Node]:
    """Yield other nodes of the same disk or file: two paths to one disk, two loop devices of one file."""
    for other in census.disks:
        if other.name == node.name:
            continue
        same_wwn = bool(node.wwn) and other.wwn == node.wwn
        same_serial = not node.wwn and bool(node.serial) and (other.serial, other.model) == (node.serial, node.model)
        if same_wwn or (same_serial and other.size == node.size) or (node.backing and other.backing == node.backing):
            yield other
