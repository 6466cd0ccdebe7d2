"""What may be declared of NVMe over TCP, and what its scripts do, before anything is built."""

from __future__ import annotations

import pytest

from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.layers.nvme_tcp import NvmeTcp
from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.scripts.recommended_commands import recommended_script
from matrix_runner.space.load import BadMatrix
from tests.support.matrices import space

OVER = """\
name: over
disks: {count: 3, size: 1GiB}
workloads: {work: {rw: write}}
layouts:
  one: [nvme-tcp: {%s}, md: {level: 5, chunk: 64KiB}]
"""
DISKS = [f"/dev/disk/by-id/matrix-{number}" for number in range(3)]


@pytest.mark.parametrize(("keys", "why"), [("queues: 0", "1"), ("depth: 8", "16"), ("queues: 65", "64")])
def test_impossible_connections_are_refused(keys: str, why: str) -> None:
    with pytest.raises(BadMatrix) as bad:
        space(OVER % keys)
    assert why in str(bad.value.details)


def test_a_namespace_has_the_size_of_its_device_and_no_queue_of_a_disk() -> None:
    below = Below((Shape(1 << 30, 65536, 3, losses=1), Shape(1 << 28, sector=4096)))
    assert NvmeTcp().devices_above(below) == (
        Shape(1 << 30, queued=False, losses=1),
        Shape(1 << 28, sector=4096, queued=False),
    )


def test_the_scripts_export_each_device_on_the_loopback_and_read_it_back() -> None:
    (cell,) = space(OVER % "queues: 2, depth: 64, data_digest: true").cells()
    scripts = stack_scripts(cell.stack, DISKS, zeroed=True)
    view, _ = scripts.stack.layers
    uuids, options = view.values["uuids"], str(view.values["options"])
    assert isinstance(uuids, tuple)
    assert len(set(uuids)) == 3
    assert "echo 127.0.0.1 >" in scripts.set_up
    assert options.endswith("nr_io_queues=2,queue_size=64,data_digest")
    assert options in scripts.set_up
    assert "nr_io_queues=2,queue_size=64,data_digest" in recommended_script(cell)
    verify = cell_scripts(cell, scripts.stack).verify
    for text in ("queue_count 3", "sqsize 63", "transport tcp"):
        assert text in verify
    assert 'data_digest - "set, not read back"' in verify.replace("'", "")
    assert "header_digest" not in verify


def test_two_stacks_have_names_and_ports_of_their_own() -> None:
    views = [
        stack_scripts(cell.stack, DISKS, zeroed=True).stack.layers[0]
        for cell in space(OVER % "depth: [32, 64]").cells()
    ]
    assert len({view.values["nqn"] for view in views}) == 2
