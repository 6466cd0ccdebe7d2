"""The choice of physical disks for a matrix, and what may run on a disk that is only read."""

from pathlib import Path

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.machines import Where
from matrix_runner.session.disk_lease import check_only_read, match_disks
from matrix_runner.session.selected_matrix import load_selected
from tests.support.matrices import space

HOSTS = """\
hosts:
  here:
    disks:
      - {id: ssd-1, serial: S1, size: 1GiB, kind: ssd}
      - {id: hdd-1, serial: H1, size: 1GiB, kind: hdd}
      - {id: hdd-2, serial: H2, size: 1GiB, kind: hdd}
"""
GROUPS = """\
name: m
disks: {hdd: {count: 2, size: 1GiB}, ssd: {count: 1, size: 1GiB}}
needs: {disks: {ssd: {count: 1, kind: ssd}, hdd: {count: 2, kind: hdd}}}
layouts: {one: {on: hdd, layers: [md: {level: 1}, lvm: {type: cache, fast: ssd}]}}
workloads: {w: {rw: read, bs: 64KiB, size: 8MiB}}
"""
ONE = """\
name: m
disks: {count: 1, size: 1GiB}
layouts: {alone: [disk], %s}
workloads: {%s: {rw: %s, bs: 64KiB, size: 8MiB}}
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    return tmp_path / "hosts.yaml"


def test_disks_are_leased_in_the_order_of_the_declared_groups(hosts: Path) -> None:
    found = match_disks(space(GROUPS).matrix, hosts, Where("local"))
    assert [disk.id for disk in found.disks] == ["hdd-1", "hdd-2", "ssd-1"], "not in that of `needs:`"


@pytest.mark.parametrize("wanted", ["hdd-1", "hdd-2", "ssd-1"])
def test_only_the_named_disk_is_leased(hosts: Path, wanted: str) -> None:
    text = "name: m\ndisks: {count: 1, size: 1GiB}\nlayouts: {alone: [disk]}\nworkloads: {w: {rw: read, bs: 64KiB}}\n"
    assert [one.id for one in match_disks(space(text).matrix, hosts, Where("local"), only=wanted).disks] == [wanted]


@pytest.mark.parametrize(
    ("layout", "rw", "writes"),
    [
        ("two: [disk]", "randread", False),
        ("two: [disk]", "randrw", True),
        ("two: [disk]", "write", True),
        ("two: [partition: {count: 1}]", "read", True),
        ("two: [fs: {type: ext4}]", "read", True),
    ],
)
def test_a_disk_that_is_only_read_refuses_cells_that_write(tmp_path: Path, layout: str, rw: str, writes: bool) -> None:
    (tmp_path / "m.yaml").write_text(ONE % (layout, "w", rw))
    selected = load_selected(tmp_path / "m.yaml")
    check_only_read(selected, wanted=False)
    if not writes:
        check_only_read(selected, wanted=True)
        return
    with pytest.raises(BadInput, match="the disk may only be read"):
        check_only_read(selected, wanted=True)
