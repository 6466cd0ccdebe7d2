"""The time of the check of all cached files that a run uses: an appliance, a template and the code of disks.

    python -m bench.digests

It reads the newest folders of the cache twice, so the second time they are in the memory of the host.
One side: the same reads twice against a stated time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from matrix_runner.base.cache import cache_dir
from matrix_runner.base.digests import find_damage, forget_checks, is_complete


def newest() -> Iterator[Path]:
    for pattern in ("appliances/*-kernel-*", "appliances/*[!l]-[!k]*", "templates/*", "disks/*"):
        found = [path for path in cache_dir().glob(pattern) if is_complete(path)]
        yield from sorted(found, key=lambda path: path.stat().st_mtime)[-1:]


def main() -> None:
    folders = list(newest())
    size = sum(path.stat().st_blocks * 512 for folder in folders for path in folder.iterdir())
    for name in ("first", "again"):
        forget_checks()
        began, used = time.perf_counter(), time.process_time()
        damage = [find_damage(folder) for folder in folders]
        wall, spent = time.perf_counter() - began, time.process_time() - used
        print(f"{name}: {size / 1e6:.0f} MB in {wall:.2f} s, {spent:.2f} s of a processor; damage: {damage}")


if __name__ == "__main__":
    main()
