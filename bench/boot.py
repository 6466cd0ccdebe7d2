"""How soon is a machine ready? A stock Debian initramfs, our cold boot and our restored clone, side by side.

    python -m bench.boot [--rounds 5] [--kernel debian-13]

The stock image is made by the suite's own initramfs-tools (MODULES=most, gzip, with the hooks of mdadm and lvm2; fio
and the guest agent are added), and started as distributions do: bzImage, SeaBIOS, udev. It counts as ready when its
guest agent answers, before it would even look for a root file system. One harness, machine and set of disks for all.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from bench.sides import require_difference
from matrix_runner.base.cache import cache_dir, make_once
from matrix_runner.language.matrix import SUITES
from matrix_runner.machines.qemu import argv, build, host, recipe, rig, template
from matrix_runner.machines.qemu.appliance import provide
from matrix_runner.machines.qemu.guest import Guest, run_guest
from matrix_runner.simdisks.disk import Disk

PACKAGES = ["initramfs-tools", "udev", "zstd", "cpio", "gzip", *recipe.PACKAGES]
DISKS = (Disk(256 * 2**20),) * 4
HOOK = """#!/bin/sh
[ "$1" = prereqs ] && exit
. /usr/share/initramfs-tools/hook-functions
copy_exec /usr/bin/fio
copy_exec /usr/sbin/qemu-ga
manual_add_modules virtio_console
"""
START = """#!/bin/sh
[ "$1" = prereqs ] && exit
modprobe virtio_console
for port in /sys/class/virtio-ports/*; do
  read -r name <"$port/name"
  [ "$name" = org.qemu.guest_agent.0 ] && mkdir -p /run && qemu-ga -m virtio-serial -p "/dev/${port##*/}" -t /run
done
"""


#: Of QEMU's options, those that say how a machine comes up.
STARTS = ("-kernel", "-initrd", "-append", "-incoming")
Greeted = tuple[float, tuple[str, ...]]


@contextmanager
def started_as_stock(folder: Path) -> Iterator[None]:
    """Start machines in the distribution's own way. On a busy host without KVM, its check of the timer would fail."""
    files = ["-kernel", str(folder / "vmlinuz"), "-initrd", str(folder / "initramfs")]
    with patch.object(argv, "boot", lambda _: [*files, "-append", "console=ttyS0 quiet panic=-1 no_timer_check"]):
        yield


def start_of(cmdline: bytes) -> tuple[str, ...]:
    words = cmdline.decode().split("\0")
    return tuple(after for word, after in pairwise(words) if word in STARTS)


def start_of_guest(guest: Guest) -> tuple[str, ...]:
    return start_of(Path(f"/proc/{guest.process.pid}/cmdline").read_bytes())


def report(brief: str, fraction: float | None = None) -> None:  # noqa: ARG001 - the callback takes it
    print(f"  {brief}", end="\r", flush=True)


async def stock_image(suite: str, folder: Path) -> None:
    """Let the suite's own tools make an initramfs, in a tree of unpacked packages."""
    tree = folder / "tree"
    tree.mkdir()
    archives = build.fetch(folder / "apt", suite, [recipe.KERNEL_PACKAGE, *PACKAGES], report)
    for archive in archives:
        build.unpack(archive, tree, lambda path: bool(path) and not path.startswith(("usr/share/doc", "usr/share/man")))
    furnish(tree)
    release = next((tree / "usr/lib/modules").iterdir()).name
    build.tool("depmod", "-b", str(tree), release)
    become_root = [] if os.getuid() == 0 else ["unshare", "--map-root-user"]
    build.tool(*become_root, "chroot", str(tree), "mkinitramfs", "-c", "gzip", "-o", "/stock", release)
    shutil.copy(tree / "stock", folder / "initramfs")
    shutil.copy(next((tree / "boot").glob("vmlinuz-*")), folder / "vmlinuz")
    shutil.rmtree(tree)
    shutil.rmtree(folder / "apt")


def furnish(tree: Path) -> None:
    """What maintainer scripts would have done, and our two additions."""
    for name in ("bin", "sbin", "lib", "lib64"):
        if not (tree / name).exists():
            (tree / name).symlink_to(f"usr/{name}")
    for name in ("dev", "proc", "sys", "tmp", "var/tmp", "run", "etc"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    if not (tree / "usr/bin/sh").exists():
        (tree / "usr/bin/sh").symlink_to("dash")
    (tree / "usr/bin/awk").unlink(missing_ok=True)
    (tree / "usr/bin/awk").symlink_to("mawk")
    (tree / "etc/passwd").write_text(build.USERS)
    (tree / "etc/group").write_text(build.GROUPS)
    (tree / "etc/fstab").touch()
    for place, text in (("hooks", HOOK), ("scripts/init-premount", START)):
        target = tree / "etc/initramfs-tools" / place / "matrix"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755)
    build.tool("ldconfig", "-r", str(tree))


async def greet(vm: argv.Vm, stock: Path, scratch: Path) -> Greeted:
    """Seconds until the guest agent answers."""
    start = time.monotonic()
    with started_as_stock(stock):
        async with run_guest(vm, scratch) as guest:
            await rig.wait_for_agent(guest, rig.BOOT_DEADLINE, "come up")
            return time.monotonic() - start, start_of_guest(guest)


async def boot(vm: argv.Vm, scratch: Path) -> Greeted:
    """Seconds until a machine of ours is ready, its clock compared with ours."""
    start = time.monotonic()
    async with run_guest(vm, scratch) as guest:
        await rig.wait_for_boot(guest)
        return time.monotonic() - start, start_of_guest(guest)


async def restore(vm: argv.Vm, name: str, scratch: Path) -> Greeted:
    """Seconds until a clone has its own clock, entropy and identity, and answers."""
    start = time.monotonic()
    async with template.restore(vm, name, scratch) as (guest, _):
        await guest.ask("guest-ping")
        return time.monotonic() - start, start_of_guest(guest)


async def compare(kernel: str, rounds: int, scratch: Path) -> dict[str, list[float]]:
    """Time all three in turn, so that whatever else the host does meets all of them."""
    made_of = recipe.recipe_for(kernel)
    assert made_of is not None
    base = await provide(made_of, report)
    home = cache_dir() / "bench" / f"stock-{made_of.suite}-{recipe.digest(PACKAGES, HOOK, START)}"
    stock = await make_once(home, lambda half: stock_image(made_of.suite, half), "the stock initramfs", print)
    accel = await host.accelerator(base, scratch, print)
    vm = argv.Vm(base, DISKS, accel, 2, 2**30, ())
    warm = argv.with_modules(vm, recipe.TEMPLATE_MODULES)
    name = template.key(warm, host.qemu_version(), host.host())
    await restore(warm, name, scratch)  # which makes the template if there is none
    taken: dict[str, list[float]] = {"stock initramfs": [], "cold boot": [], "restored clone": []}
    for _ in range(rounds):
        sides = (await greet(vm, stock, scratch), await boot(vm, scratch), await restore(warm, name, scratch))
        require_difference("start", *(start for _, start in sides))
        for times, (seconds, _) in zip(taken.values(), sides, strict=True):
            times.append(seconds)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kernel", default=recipe.DEFAULT_KERNEL, choices=sorted(SUITES))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        taken = asyncio.run(compare(asked.kernel, asked.rounds, Path(scratch)))
    whole = statistics.median(taken["stock initramfs"])
    print(f"{asked.kernel}, median of {asked.rounds}, seconds to ready:")
    for name, seconds in taken.items():
        middle = statistics.median(seconds)
        print(f"  {name:<16} {middle:6.2f}  ({min(seconds):.2f} - {max(seconds):.2f})  ratio {middle / whole:.3f}")


if __name__ == "__main__":
    main()
