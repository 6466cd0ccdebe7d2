"""Disks in memory: what may be declared of them, and what their scripts do."""

from __future__ import annotations

import pytest

from matrix_runner.layers.lvm import LvmView
from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.space.load import BadMatrix
from tests.support.matrices import space

HEAD = "name: m\ndisks: {count: 2, size: 64MiB}\nworkloads: {work: {rw: read, bs: 4KiB}}\nlayouts:\n  one: "


def test_they_replace_the_declared_disks() -> None:
    keys = "{count: 4, size: 256MiB, queues: 2, depth: 32, latency: 20us, rotational: true, sector_size: 4KiB}"
    (cell,) = space(f"{HEAD}[memory: {keys}, md: {{level: 5}}]").cells()
    scripts = stack_scripts(cell.stack, ["/dev/sda", "/dev/sdb"], zeroed=True)
    memory, array = scripts.stack.layers
    names = [path.removeprefix("/dev/") for path in memory.tops]
    assert array.members == memory.tops
    assert len(set(names)) == 4
    assert cell.stack.losses == 1
    assert {one.file: one.wanted for one in memory.expects} == {
        "size": str(256 * 2048),
        "queue/rotational": "1",
        "queue/logical_block_size": "4096",
    }
    for file, value in (
        ("size", 256),
        ("submit_queues", 2),
        ("completion_nsec", 20000),
        ("irqmode", 2),
        ("blocksize", 4096),
    ):
        assert f'echo {value} >"$at"/{file}' in scripts.set_up
    assert scripts.set_up.index("/memory_backed") < scripts.set_up.index('echo 1 >"$at/power"')
    assert "memory[1].completion_nsec" in cell_scripts(cell, scripts.stack).verify
    assert all(f"nullb/{name}" in scripts.tear_down for name in names)
    assert all(f"|| [[ -e /sys/kernel/config/nullb/{name} ]]" in scripts.set_up for name in names)


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ("[memory: {count: 2, size: 1500KiB}]", "1500KiB are not whole MiB"),
        ("[md: {level: 1}, memory: {count: 2, size: 1MiB}]", "it is the lowest layer, not on arrays"),
        ("[memory: {count: 2, size: 1MiB, sector_size: 1KiB}]", "write 512B or 4KiB"),
        ("[memory: {count: 2, size: 1MiB, driver: brd, queues: 2}]", "a key of null_blk; leave it out for brd"),
    ],
)
def test_impossible_ones_are_refused(layers: str, why: str) -> None:
    with pytest.raises(BadMatrix) as bad:
        space(HEAD + layers)
    assert why in str(bad.value.details)


def test_disks_of_brd_come_with_its_module_and_go_with_it() -> None:
    (cell,) = space(f"{HEAD}[memory: {{driver: brd, count: 2, size: 64MiB}}, md: {{level: 1}}]").cells()
    scripts = stack_scripts(cell.stack, ["/dev/sda", "/dev/sdb"], zeroed=True)
    names = [path.removeprefix("/dev/") for path in scripts.stack.layers[0].tops]
    assert "modprobe brd rd_nr=2 rd_size=65536" in scripts.set_up
    assert "configfs" not in scripts.set_up
    assert scripts.set_up.index("has data of others") < scripts.set_up.rindex("then modprobe -r brd")
    assert f"ln -sfn ram1 /dev/{names[1]}" in scripts.set_up
    assert scripts.tear_down.count("modprobe -r brd") == 1
    assert f"[[ -L /dev/{names[0]} && -e /sys/module/brd ]]" in scripts.tear_down
    assert {module for need in cell.stack.layers.value[0].needed for module in need.modules} == {"brd"}


def test_without_a_latency_requests_complete_at_once() -> None:
    (cell,) = space(f"{HEAD}[memory: {{count: 1, size: 64MiB}}]").cells()
    assert 'echo 0 >"$at"/irqmode' in stack_scripts(cell.stack, ["/dev/sda", "/dev/sdb"], zeroed=True).set_up


@pytest.mark.parametrize(
    ("lowest", "types"), [("memory: {count: 2, size: 256MiB}", 'types=["nullb",16] '), ("disks", "")]
)
def test_only_stacks_with_memory_tell_lvm_the_type_of_its_disks(lowest: str, types: str) -> None:
    (cell,) = space(f"{HEAD}[{lowest}, lvm: {{}}]").cells()
    scripts = stack_scripts(cell.stack, ["/dev/sda", "/dev/sdb"], zeroed=True)
    volume = scripts.stack.layers[-1]
    assert isinstance(volume, LvmView)
    for config in (volume.config, volume.sees_all):
        assert f"external_device_info_source=none {types}global_filter" in config
