"""Commands and polled requests, which only NVMe disks take: refused elsewhere, and what is rendered for them."""

from __future__ import annotations

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.scripts.cell import job, stack_scripts
from tests.support.matrices import space
from tests.support.scripts import DISKS, rendered

TEXT = """\
name: nvme
disks: {count: 2, size: 512MiB, bus: %s}
layouts: {top: [%s]}
workloads: {work: {rw: randread, bs: 4KiB, %s}}
repeat: 1
"""
COMMANDS, POLLED = "ioengine: io_uring_cmd", "ioengine: io_uring, fio: {hipri: 1}"


@pytest.mark.parametrize(
    ("bus", "layers", "keys", "said"),
    [
        ("sata", "disks", COMMANDS, "only NVMe disks have it; write `bus: nvme`"),
        ("virtio", "disk", POLLED, "only NVMe disks have it"),
        ("nvme", "md: {level: 0}", COMMANDS, "goes to disks past all layers, and this stack has `md`"),
        ("nvme", "disk, fs: {type: ext4}", COMMANDS, "this stack has `fs`"),
    ],
)
def test_what_cannot_take_them_is_refused(bus: str, layers: str, keys: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        space(TEXT % (bus, layers, keys))
    assert said in error.value.details


def test_the_job_of_commands_names_links_to_their_devices() -> None:
    (cell,) = space(TEXT % ("nvme", "disks", COMMANDS)).cells()
    text = job(cell, stack_scripts(cell.stack, DISKS[:2], zeroed=True).stack, 1)
    assert "filename=unit-0:unit-1\n" in text
    assert "cmd_type=nvme\n" in text
    assert "direct=0\n" in text, "a character device cannot be opened with O_DIRECT"
    assert 'ln -sfn "$unit" "unit-$number"' in rendered(cell)["4-measure.sh"]


def test_polling_is_checked_on_each_device_before_the_measurement() -> None:
    (cell,) = space(TEXT % ("nvme", "disks", POLLED)).cells()
    assert "queue/io_poll" in rendered(cell)["4-measure.sh"]
    (plain,) = space(TEXT % ("nvme", "disks", "ioengine: io_uring, fio: {hipri: 0}")).cells()
    assert "queue/io_poll" not in rendered(plain)["4-measure.sh"]
