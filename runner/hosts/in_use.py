"""What stands on a disk and is in use: partitions, arrays, mappings, mounts, swap, however many floors up."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from runner.hosts.reasons import Refused, Why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.hosts.inventory import Census, Mount, Node

#: Where a machine that runs is mounted.
SYSTEM = {"/", "/boot", "/boot/efi", "/boot/firmware", "/efi", "/usr", "/var", "/etc"}
_MAPPINGS = {
    "LVM-": Why.LVM_ACTIVE,
    "CRYPT-": Why.CRYPT_OPEN,
    "mpath-": Why.MULTIPATH,
}


def in_use(census: Census, node: Node) -> Iterator[Refused]:
    """Every use of a disk: of itself, of its parts, and of whatever was built on them."""
    for chain in _floors(census, node):
        top = chain[-1]
        words = " → ".join(one.name for one in chain)
        if len(chain) > 1 and not top.partition:
            yield Refused(_kind(top), f"{words}{f' ({top.mapping})' if top.mapping else ''}")
        if top.bcache and top.bcache != "no cache":
            yield Refused(Why.BCACHE_ACTIVE, f"{words}: {top.bcache}")
        yield from _mounted(census, top, words)
        if top.dev in census.swaps:
            yield Refused(Why.SWAP_ACTIVE, f"{words} is swapped to")


def _mounted(census: Census, node: Node, words: str) -> Iterator[Refused]:
    points = list(dict.fromkeys(mount.point for mount in census.mounts if _is_of(mount, node)))
    if points:
        why = Why.BOOT_DISK if SYSTEM & set(points) else Why.MOUNTED
        more = f" and {len(points) - 3} more" if len(points) > 3 else ""
        yield Refused(why, f"{words} is mounted at {', '.join(points[:3])}{more}")
    # One of several devices of a btrfs: only one of them is named in the list of mounts.
    elif node.name in census.btrfs:
        yield Refused(Why.MOUNTED, f"{words} is a device of the mounted btrfs {census.btrfs[node.name]}")


def _is_of(mount: Mount, node: Node) -> bool:
    return mount.dev == node.dev or mount.source in {
        node.path,
        f"/dev/mapper/{node.mapping}" if node.mapping else node.path,
    }


def _kind(node: Node) -> Why:
    if node.mapping or node.name.startswith("dm-"):
        return next((why for prefix, why in _MAPPINGS.items() if node.mapping_uuid.startswith(prefix)), Why.MAPPED)
    if node.array_state or node.name.startswith("md"):
        return Why.MD_ACTIVE
    return Why.BCACHE_ACTIVE if node.name.startswith("bcache") else Why.HELD


def _floors(census: Census, node: Node) -> Iterator[tuple[Node, ...]]:
    """Each device that stands on it, once, with the way to it; itself first."""
    ahead: deque[tuple[Node, ...]] = deque([(node,)])
    seen = {node.name}
    while ahead:
        chain = ahead.popleft()
        yield chain
        name = chain[-1].name
        for above in (*census.parts.get(name, ()), *census.holders.get(name, ()), *_loops(census, chain[-1])):
            if above not in seen and above in census.nodes:
                seen.add(above)
                ahead.append((*chain, census.nodes[above]))


def _loops(census: Census, node: Node) -> Iterator[str]:
    """Loop devices of a device, of which the kernel keeps no list."""
    return (other.name for other in census.nodes.values() if other.backing == node.path)


def twins(census: Census, node: Node) -> Iterator[Node]:
    """Other nodes of the very same disk or file: two paths to one disk, two loop devices of one file."""
    for other in census.disks:
        if other.name == node.name:
            continue
        same_wwn = bool(node.wwn) and other.wwn == node.wwn
        same_serial = not node.wwn and bool(node.serial) and (other.serial, other.model) == (node.serial, node.model)
        if same_wwn or (same_serial and other.size == node.size) or (node.backing and other.backing == node.backing):
            yield other
