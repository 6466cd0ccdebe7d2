"""The scripts of LVM layouts are clean, and the read-back's parser reads what the kernel really prints."""

import subprocess
from pathlib import Path

import pytest

from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.scripts.jinja import SHIPPED
from tests.support.matrices import space
from tests.support.shell import complaints

EVERYTHING = """\
name: everything
disks: {count: 5, size: 1GiB}
layouts:
  plain: [lvm: {type: [linear, striped, raid0, raid5, thin, cache, mirror], stripes: 2}]
  synced: [lvm: {type: raid6, stripes: 3, sync: [wait, background], volumes: [1, 2]}]
  several: [lvm: {type: [linear, thin], volumes: 3}, crypt: {format: plain}, partition: {count: 2}]
  nested: [partition: {count: 2}, md: {level: linear, groups: 2}, lvm: {groups: 2}, lvm: {order: "2 1"}]
workloads: {work: {rw: read}}
"""
DISKS = (*(f"/dev/disk/by-id/matrix-{number}" for number in range(4)), "/dev/it's odd")
#: As dmsetup printed them (LVM 2.03.31, Linux 6.12).
TABLES = {
    "0 1015808 striped 4 128 8:2 2048 8:0 2048 8:1 2048 8:3 2048": "striped 4 65536 - 3 1 2 4",
    "0 253952 linear 8:3 2048\nv: 253952 253952 linear 8:2 2048": "linear 1 - - 4 3",
    "0 737280 raid raid6_zr 3 128 region_size 4096 5 - 8:0 - 8:1 - 8:2 - 8:3 - 8:4": "raid6 3 65536 - 1 2 3 4 8:4",
    "0 491520 raid raid10 6 128 nosync region_size 4096 raid10_copies 2 4 - 8:0 - 8:1 - 8:2 - 8:3": (
        "raid10 2 65536 1 1 2 3 4"
    ),
    "0 499712 raid raid1 4 0 nosync region_size 4096 2 - 8:0 - 8:1": "raid1 1 - 1 1 2",
    "0 1015808 raid raid0 1 128 4 - 8:0 - 8:1 - 8:2 - 8:3": "raid0 4 65536 - 1 2 3 4",
}


def test_every_script_is_clean() -> None:
    found, scripts = space(EVERYTHING), list[str]()
    for number, cell in enumerate(found.cells()):
        array = stack_scripts(cell.stack, DISKS, zeroed=number % 2 == 0)
        phases = cell_scripts(cell, array.stack)
        scripts += [array.set_up, array.tear_down, array.activate, phases.tune, phases.verify, phases.measure]
    assert complaints(scripts) == ""


@pytest.mark.parametrize(("table", "wanted"), TABLES.items())
def test_output_of_the_device_mapper_is_parsed(table: str, wanted: str, tmp_path: Path) -> None:
    (tmp_path / "dmsetup").write_text(f"#!/bin/sh\ncat <<'E'\nv: {table}\nE\n")
    (tmp_path / "dmsetup").chmod(0o755)
    functions = (SHIPPED / "lvm/read-volumes.sh").read_text().partition("#}\n")[2]
    script = f"""set -euo pipefail
{functions}
number_of=([8:0]=1 [8:1]=2 [8:2]=3 [8:3]=4)
read_volume v
lies_on v order
echo "${{volume[type]}} ${{volume[stripes]}} ${{volume[stripe_size]--}} ${{volume[mirrors]--}} ${{volume[order]}}"
"""
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=path)
    assert result.stdout.strip().startswith(wanted), result.stderr
