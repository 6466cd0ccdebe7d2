"""Stacks with parts on real kernels: built, read back, written, taken apart; and found again after a reboot."""

import asyncio
from pathlib import Path

import pytest

from matrix_runner.carry.trial import StackOnRig
from matrix_runner.layers.base import View
from matrix_runner.machines.base import Rig
from matrix_runner.machines.qemu import Qemu
from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.space.space import Cell, Space, Stack
from tests.support.matrices import space
from tests.support.rigs import rig_of, spec_of
from tests.support.stacks_on_rigs import _rebooted, cells_of, done, read, run

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1800)]

HEAD = """\
name: parted
disks: {hdd: {count: 3, size: 1GiB}, ssd: {count: 1, size: 1GiB}}
workloads: {work: {rw: write, bs: 64KiB, size: 8MiB}}
repeat: 1
layouts:
"""
BLOCKS = """\
  cached:
    parts: {array: {on: hdd, layers: [md: {level: 5}]}}
    on: array
    layers: [lvm: {type: cache, fast: ssd, cache_mode: writeback}]
  writes: {on: hdd, layers: [md: {level: 5}, writecache: {cache: ssd, high_watermark: 20, low_watermark: 10, writeback_jobs: 64}]}
  blocks:
    on: hdd
    layers: [md: {level: 5}, bcache: {cache: ssd, cache_mode: writeback, sequential_cutoff: 0, congested: false, bucket: 64KiB}]
"""
# Without the content after a reboot.
MEMORY = """\
  memory: {on: ssd, layers: [memory: {count: 4, size: 32MiB, queues: 2, latency: 1ms, rotational: true}, md: {level: 5}]}
  brd: {on: ssd, layers: [memory: {driver: brd, count: 4, size: 32MiB}, md: {level: 5}]}
"""
OVER_TCP = """\
  alone: {on: ssd, layers: [nvme-tcp: {depth: 64}]}
  tcp: {on: hdd, layers: [nvme-tcp: {queues: 1, depth: 64, header_digest: true}, md: {level: 5}]}
"""
FILES = """\
  ext4: {on: hdd, layers: [md: {level: 5}, fs: {type: ext4, journal: ssd}]}
  xfs:
    parts: {log: {on: ssd, layers: [partition: {size: 128MiB}]}}
    on: hdd
    layers: [md: {level: 0}, fs: {type: xfs, journal: log}]
"""
#: Changes the table of the writecache while nothing watches.
MEDDLE = """\
name={name}
table=$(dmsetup table "$name")
dmsetup suspend "$name"
dmsetup load "$name" --table "${{table/high_watermark 20/high_watermark 77}}"
dmsetup resume "$name"
"""


#: Settings of a layer, and what changes each behind its back: files of its device, and a value.
MEDDLES = {
    "bcache": {
        "cache_mode": "writethrough",
        "sequential_cutoff": "1048576",
        "writeback_percent": "3",
        "cache/congested_read_threshold_us": "7",
    },
    "memory by null_blk": {"rotational": "0"},
    "memory by brd": {"rotational": "1"},
}
FOLDERS = {"bcache": "bcache", "memory": "queue"}


async def _meddle(layer: View, verify: str, rig: Rig) -> None:
    kind = f"memory by {layer.values['driver']}" if layer.kind == "memory" else layer.kind
    for file, value in MEDDLES.get(kind, {}).items():
        node = f"/sys/class/block/$(basename $(readlink -f {layer.device}))/{FOLDERS[layer.kind]}"
        await done(rig, f'echo {value} >"{node}/{file}"')
        found = await run(rig, verify)
        assert found.status == 4
        assert f"{layer.names[0]}.{file.rpartition('/')[2]} wanted" in found.output


#: Connects again with other options while nothing watches.
RECONNECT = """\
for at in /sys/class/nvme/nvme*; do
  read -r name <"$at/subsysnqn"
  if [[ $name == {nqn} ]]; then echo 1 >"$at/delete_controller"; fi
done
echo {options} >/dev/nvme-fabrics
"""


async def _reconnect(layer: View, verify: str, rig: Rig) -> None:
    options = str(layer.values["options"]).replace("queue_size=64", "queue_size=32")
    await done(rig, RECONNECT.format(nqn=layer.values["nqn"], options=options))
    found = await run(rig, verify)
    assert found.status == 4
    assert f"{layer.names[0]}.sqsize wanted 63, kernel says 31" in found.output


async def _one(stack: Stack, cell: Cell, rig: Rig) -> dict[str, tuple[str, ...]]:
    scripts = stack_scripts(stack, rig.disks, zeroed=True)
    view = scripts.stack
    await done(rig, scripts.set_up)
    phases = cell_scripts(cell, view)
    await done(rig, phases.tune)
    readings = read(await done(rig, phases.verify))
    target = f"{view.directory}/file" if view.directory else view.tops[0]
    await done(rig, f"dd if=/dev/zero of={target} bs=1M count=8 oflag=direct status=none")
    for writes in (layer for layer in view.layers if layer.kind == "writecache"):
        await done(rig, MEDDLE.format(name=writes.device.removeprefix("/dev/mapper/")))
        assert (await run(rig, phases.verify)).status == 4
    for layer in view.layers:
        await _meddle(layer, phases.verify, rig)
        if layer.kind == "nvme-tcp" and not view.layers[1:]:
            await _reconnect(layer, phases.verify, rig)
    await done(rig, scripts.set_up)
    await done(rig, scripts.tear_down)
    await done(rig, scripts.tear_down)
    left = await done(rig, f"wipefs --noheadings {' '.join(rig.disks)}; grep matrix/mnt /proc/self/mounts || true")
    assert left.strip() == "", stack.label
    return readings


async def _every(found: Space, scratch: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    async with rig_of(spec_of(found), scratch) as rig:
        return {stack.label: await _one(stack, cell, rig) for stack, cell in cells_of(found)}


PAST = """\
  past: {on: hdd, layers: [md: {level: 5}, bcache: {cache: ssd, cache_mode: writearound}]}
  into: {on: hdd, layers: [md: {level: 5}, bcache: {cache: ssd, sequential_cutoff: 0, congested: false}]}
"""
MEASURED = """\
  files: {on: hdd, layers: [md: {level: 5}, writecache: {cache: ssd}, fs: {type: ext4}]}
  raw: {on: hdd, layers: [md: {level: 0}, writecache: {cache: ssd}]}
"""


async def _measured(found: Space, scratch: Path) -> list[tuple[str, dict[str, str]]]:
    machine, seen = Qemu(), []
    async with rig_of(spec_of(found), scratch) as rig:
        for cell in found.cells():
            built = await StackOnRig.build(found.matrix, cell.stack, rig, machine, None)
            measured = await built.measure(cell, 1)
            seen.append((measured.trial.reason, {one.setting: one.got for one in measured.trial.readings}))
            await built.tear_down()
    return seen


def test_a_writecache_is_measured_and_its_state_read_back(tmp_path: Path) -> None:
    for reason, readings in asyncio.run(_measured(space(HEAD + MEASURED), tmp_path)):
        assert reason == ""
        assert readings["writecache.error"] == "0"


def test_a_trial_whose_requests_all_bypass_bcache_is_broken(tmp_path: Path) -> None:
    (past, _), (into, _) = asyncio.run(_measured(space(HEAD + PAST), tmp_path))
    assert "bcache.cache took no part: no hits and no writes" in past
    assert into == ""


def test_every_use_of_a_part_is_built_read_back_written_and_taken_apart(tmp_path: Path) -> None:
    readings = asyncio.run(_every(space(HEAD + BLOCKS + MEMORY + OVER_TCP + FILES), tmp_path))
    assert readings["cached"]["lvm.fast"] == ("2", "2")
    assert readings["writes"]["writecache.high_watermark"] == ("20", "20")
    assert readings["writes"]["writecache.error"] == ("0", "0")
    assert readings["blocks"]["bcache.bucket_size"] == ("64.0k", "64.0k")
    assert readings["memory"]["memory[4].completion_nsec"] == ("1000000", "1000000")
    assert readings["tcp"]["nvme-tcp.queue_count"] == ("2", "2")
    assert readings["tcp"]["nvme-tcp.header_digest"] == ("-", "set, not read back")
    assert readings["ext4"]["fs.journal"] == ("ssd", "ssd")
    assert readings["xfs"]["fs.journal"] == ("log", "log")


#: Another target, of somebody else, on the port of ours.
LISTEN = """\
modprobe nvmet_tcp
[[ -d /sys/kernel/config/nvmet ]] || mount -t configfs none /sys/kernel/config
busybox ip link set lo up
cd /sys/kernel/config/nvmet
mkdir subsystems/foreign ports/9
echo ipv4 >ports/9/addr_adrfam
echo tcp >ports/9/addr_trtype
echo 127.0.0.1 >ports/9/addr_traddr
echo {port} >ports/9/addr_trsvcid
ln -s "$PWD/subsystems/foreign" ports/9/subsystems/
"""
LEAVE = """\
cd /sys/kernel/config/nvmet
rm ports/9/subsystems/foreign
rmdir ports/9 subsystems/foreign
"""


async def _on_a_taken_port(found: Space, scratch: Path) -> str:
    async with rig_of(spec_of(found), scratch) as rig:
        scripts = stack_scripts(found.stacks[0], rig.disks, zeroed=True)
        port = next(layer.values["port"] for layer in scripts.stack.layers if layer.kind == "nvme-tcp")
        await done(rig, LISTEN.format(port=port))
        failed = await run(rig, scripts.set_up)
        assert failed.status
        await done(rig, scripts.tear_down)
        await done(rig, LEAVE)
        await done(rig, scripts.set_up)
        return failed.output


def test_a_port_of_another_program_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    output = asyncio.run(_on_a_taken_port(space(HEAD + OVER_TCP), tmp_path))
    assert "another program listens on TCP port" in output
    assert "stop it; `ss -ltnp` names it" in output


@pytest.mark.exhaustive
def test_caches_are_found_again_after_a_reboot_with_the_data_that_only_they_have(tmp_path: Path) -> None:
    for readings in asyncio.run(_rebooted(space(HEAD + BLOCKS), tmp_path, cold=False)):
        assert all(wanted in {"-", got} for wanted, got in readings.values())
