"""Random legal stacks, three deep on six disks: built for real, what the kernel says compared with what was computed."""

import asyncio
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.carry.trial import StackOnRig
from matrix_runner.machines.base import Rig, RigSpec, Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.space.load import parse
from matrix_runner.space.space import Space, Stack
from matrix_runner.space.variants import top_of
from tests.support.amounts import times

pytestmark = [pytest.mark.vm, pytest.mark.timeout(times(3000))]
DISKS, MIB = 6, 192
#: Each takes some ten seconds of emulation.
STACKS = times(1)
SEED = int(os.environ.get("MATRIX_TEST_SEED", "1"))
CHUNKS = ["4KiB", "16KiB", "64KiB", "256KiB"]
SECTORS = ["512B", "4KiB"]


def _md(dice: random.Random) -> dict[str, Any]:
    level = dice.choice([0, 1, 4, 5, 6, 10])
    chosen = {
        "level": level,
        "groups": dice.choice([1, 1, 2, 3]),
        "metadata": dice.choice(["0.90", "1.0", "1.1", "1.2"]),
    }
    if level != 1:
        chosen["chunk"] = dice.choice(CHUNKS)
    if level == 10:
        chosen["layout"] = dice.choice(["n2", "f2", "o2", "n3"])
    if level in {5, 6}:
        chosen["layout"] = dice.choice(["left-symmetric", "right-asymmetric", "left-asymmetric"])
    if level and dice.random() < 0.3:
        chosen[dice.choice(["spare", "bitmap"])] = 1
    return {"md": {**chosen, **({"bitmap": "internal"} if "bitmap" in chosen else {})}}


def _lvm(dice: random.Random) -> dict[str, Any]:
    kind = dice.choice(["linear", "striped", "striped", "raid1", "raid5", "raid10", "thin"])
    chosen = {"type": kind, "groups": dice.choice([1, 1, 2, 3]), "extent_size": dice.choice(["1MiB", "4MiB"])}
    chosen |= {"volumes": dice.choice([1, 1, 2, 3]), "size": dice.choice(["100%", "100%", "60%"])}
    if kind in {"striped", "raid5", "raid10"}:
        chosen |= {"stripes": dice.choice([2, 3]), "stripe_size": dice.choice(CHUNKS)}
    return {"lvm": chosen}


def _partition(dice: random.Random) -> dict[str, Any]:
    ranges = [{"count": 1}, {"count": 2}, {"from": "10%", "to": "80%"}, {"at": "25%", "size": "50%", "align": "64KiB"}]
    return {"partition": dice.choice(ranges)}


def _disks(dice: random.Random) -> dict[str, Any]:
    return {"disks": {"count": dice.randint(2, DISKS)}}


def _null_blk(dice: random.Random) -> dict[str, Any]:
    chosen = {"sector_size": dice.choice(SECTORS), "rotational": dice.choice([True, False])}
    return {"memory": {"count": dice.randint(2, DISKS), "size": f"{MIB // 2}MiB", **chosen}}


def _brd(dice: random.Random) -> dict[str, Any]:
    return {"memory": {"driver": "brd", "count": dice.randint(2, DISKS), "size": f"{MIB // 2}MiB"}}


def _nvme_tcp(dice: random.Random) -> dict[str, Any]:
    digests = {name: dice.choice([True, False]) for name in ("header_digest", "data_digest")}
    return {"nvme-tcp": {"depth": dice.choice([16, 128]), **digests}}


def _crypt(dice: random.Random) -> dict[str, Any]:
    chosen = {"format": dice.choice(["plain", "luks1", "luks2"])}
    return {"crypt": chosen if chosen["format"] == "luks1" else {**chosen, "sector_size": dice.choice(SECTORS)}}


def _integrity(dice: random.Random) -> dict[str, Any]:
    return {"integrity": {"mode": dice.choice(["direct", "bitmap"]), "sector_size": dice.choice(SECTORS)}}


def _fs(dice: random.Random) -> dict[str, Any]:
    return {"fs": {"type": dice.choice(["ext4", "ext3", "xfs", "btrfs"])}}


def _zfs(dice: random.Random) -> dict[str, Any]:
    chosen = {"vdev": dice.choice(["stripe", "mirror", "raidz1", "raidz2"]), "type": dice.choice(["dataset", "zvol"])}
    return {"zfs": {**chosen, "compression": dice.choice(["off", "lz4"])}}


def _cached(dice: random.Random) -> dict[str, Any]:
    """A layer that uses the fast part for something."""
    writeback = {"high_watermark": dice.choice([20, 50]), "low_watermark": 10, "block_size": dice.choice(SECTORS)}
    return dice.choice(
        [
            {"writecache": {"cache": "fast", **writeback}},
            {
                "bcache": {
                    "cache": "fast",
                    "cache_mode": dice.choice(["writeback", "writethrough"]),
                    "sequential_cutoff": 0,
                    "bucket": "64KiB",
                }
            },
            {"lvm": {"type": "cache", "fast": "fast", "cache_mode": dice.choice(["writeback", "writethrough"])}},
            {"fs": {"type": dice.choice(["ext3", "ext4", "xfs"]), "journal": "fast"}},
        ]
    )


def _parted(dice: random.Random) -> dict[str, Any]:
    """Some disks below, and a part beside them, which a layer on them uses."""
    fast = dice.choice([[], [{"partition": {"size": "75%"}}], [{"crypt": {"format": "plain"}}]])
    below = [dice.choice([_md, _md, _lvm])(dice)] if dice.random() < 0.8 else [{"pick": {"number": 1}}]
    above = [dice.choice([_partition, _crypt, _fs])(dice)] if dice.random() < 0.5 else []
    layers = [*below, _cached(dice), *above]
    return {"parts": {"fast": {"on": "ssd", "layers": fast}}, "on": "hdd", "layers": layers}


def _stack(dice: random.Random) -> list[dict[str, Any]] | dict[str, Any]:
    """Any three layers; many of them cannot stand on each other. dm-integrity wipes, so only what is small and quick."""
    if dice.random() < 0.5:
        return _parted(dice)
    bottom = dice.choice([_md, _lvm, _partition, _disks, _null_blk, _null_blk, _brd, _nvme_tcp])
    middle = dice.choice(
        [_md, _lvm, _crypt, _integrity, _nvme_tcp]
        if bottom in {_disks, _partition}
        else [_md, _lvm, _crypt, _partition, _nvme_tcp, _zfs]
    )
    top = dice.choice([_md, _lvm, _crypt, _partition, _partition, _nvme_tcp, _fs, _fs, _zfs, _zfs])
    return [bottom(dice), middle(dice), top(dice)]


def _matrix(layouts: dict[str, Any]) -> Space:
    declared = {
        "name": "any",
        "disks": {"hdd": {"count": DISKS - 1, "size": f"{MIB}MiB"}, "ssd": {"count": 1, "size": f"{MIB}MiB"}},
        "layouts": layouts,
        "workloads": {"work": {"rw": "randwrite", "bs": "4KiB", "size": "256KiB", "fio": {"verify": "crc32c"}}},
        "repeat": 1,
    }
    return parse("any.yaml", json.dumps(declared)).space


def _legal(dice: random.Random) -> Iterator[list[dict[str, Any]] | dict[str, Any]]:
    """Different stacks that the language takes."""
    seen = set()
    for _ in range(1000 * STACKS):
        stack = _stack(dice)
        text = json.dumps(stack)
        try:
            if text not in seen:
                _matrix({"one": stack})
                yield stack
        except BadInput:
            pass
        seen.add(text)
    raise AssertionError("the language refuses nearly all stacks of this test")


async def _capacities(rig: Rig, built: StackOnRig) -> list[int]:
    text = "\n".join(f"blockdev --getsize64 {device}" for device in built.view.tops)
    (result,) = await rig.run([Step("size", text)], expected=0, deadline=60)
    return [int(line) for line in result.output.split()]


async def _tried(found: Space, array: Stack, rig: Rig, machine: Qemu) -> str:
    """What is wrong with one stack; nothing, if all is well."""
    # Without a resync, the disks of a mirror would have different remains of earlier stacks.
    await rig.run(
        [Step("zero", "\n".join(f"blkdiscard --zeroout {disk}" for disk in rig.disks))], expected=0, deadline=600
    )
    try:
        built = await StackOnRig.build(found.matrix, array, rig, machine, None)
        cell = next(cell for cell in found.cells() if cell.stack is array)
        reason = (await built.measure(cell, 1)).trial.reason
        shapes = top_of(array.layers.value, found.matrix)
        sizes = await _capacities(rig, built)
        await built.tear_down()
    except HarnessBroken as error:
        return f"{error.brief}\n{error.details}"
    if shapes[0].files:
        return reason
    if len(sizes) != len(shapes):
        return f"{len(sizes)} devices, computed {len(shapes)}"
    pairs = list(zip(sizes, shapes, strict=False))
    wrong = [f"{size} bytes, computed {shape.size}" for size, shape in pairs if size < shape.size]
    wrong += [f"{size} bytes, only {shape.size} foreseen" for size, shape in pairs if shape.size < 0.8 * size]
    return "; ".join(filter(None, [reason, *wrong]))


async def _all(found: Space, scratch: Path) -> dict[str, str]:
    """What is wrong with which stack. All on one machine, unless one leaves something behind."""
    machine, told, left = Qemu(), dict[str, str](), list(found.stacks)
    modules = sorted({name for array in found.stacks for name in rig_spec(found.matrix, array, None).modules})
    while left:
        spec = RigSpec(found.matrix.every_disk(), memory=1 << 30, modules=tuple(modules))
        async with machine.rig(spec, scratch) as rig:
            while left:
                array = left.pop(0)
                if wrong := await _tried(found, array, rig, machine):
                    layers = [f"{layer.kind} {layer.model_dump(exclude_defaults=True)}" for layer in array.layers.value]
                    told[f"{array.label}: {layers}"] = wrong
                    break
    return told


@pytest.mark.exhaustive
def test_random_stacks_are_what_they_were_computed_to_be(tmp_path: Path) -> None:
    legal = _legal(random.Random(SEED))  # noqa: S311 - for variety, not for secrets
    found = _matrix({f"s{number}": next(legal) for number in range(STACKS)})
    assert len(found.stacks) == STACKS
    wrong = asyncio.run(_all(found, tmp_path))
    assert not wrong, "\n\n".join(f"{stack}\n{what}" for stack, what in wrong.items())
