"""What a host keeps for whoever has some of its disks: two runs side by side leave each other's alone."""

import os
import re
import subprocess
from pathlib import Path

from matrix_runner.scripts.cell import stack_scripts
from matrix_runner.scripts.jinja import SHIPPED
from matrix_runner.scripts.stack import bay_of
from tests.support.matrices import space
from tests.support.scripts import rendered

TEXT = """\
name: fs
disks: {count: 2, size: 1GiB}
layouts: {nas: [md: {level: 1}, fs: {type: ext4}]}
workloads: {work: {rw: read, bs: 64KiB, size: 1MiB}}
repeat: 1
"""


def test_layouts_on_the_same_disks_share_a_bay() -> None:
    assert bay_of(["/dev/a", "/dev/b"]) == bay_of(["/dev/b", "/dev/a"])
    assert bay_of(["/dev/a", "/dev/b"]) != bay_of(["/dev/a", "/dev/c"])


def test_mount_points_are_private() -> None:
    (array,) = space(TEXT).stacks
    one, other = (stack_scripts(array, disks, zeroed=True) for disks in (("/dev/a", "/dev/b"), ("/dev/c", "/dev/d")))
    assert one.stack.directory is not None
    assert one.stack.directory != other.stack.directory
    assert one.stack.directory in one.tear_down
    assert one.stack.directory not in other.set_up + other.tear_down


STACKED = TEXT.replace("md: {level: 1}, fs", "md: {level: 1}, crypt: {}, lvm: {}, fs")


def test_parallel_runs_on_a_host_use_different_names() -> None:
    (array,) = space(STACKED).stacks
    bays = (("/dev/disk/by-id/ata-a", "/dev/disk/by-id/ata-b"), ("/dev/disk/by-id/ata-c", "/dev/disk/by-id/ata-d"))
    one, other = (stack_scripts(array, disks, zeroed=True).stack for disks in bays)
    assert not {top for layer in one.layers for top in layer.tops} & {
        top for layer in other.layers for top in layer.tops
    }
    assert one.layers[0].tops == (f"/dev/md/matrix-{one.bay}-0",)


def test_names_in_a_private_machine_are_short() -> None:
    (array,) = space(STACKED).stacks
    for name in ("matrix-{}", "virtio-matrix-{}", "scsi-0QEMU_QEMU_HARDDISK_matrix-{}", "matrix-disk0{}"):
        disks = tuple(f"/dev/disk/by-id/{name.format(number)}" for number in range(2))
        assert stack_scripts(array, disks, zeroed=True).stack.layers[0].tops == ("/dev/md/matrix-0",)


def _say(root: Path, bay: str, command: str) -> None:
    parts = "\n".join((SHIPPED / part).read_text() for part in ("prelude.sh", "tunables.sh"))
    functions = re.sub(r"\{#.*?#\}|\{% (end)?raw %\}", "", parts, flags=re.DOTALL)
    functions = functions.replace("{{ stack.bay }}", bay).replace("/proc/*", f"{root}/host/*")
    script = f"set -euo pipefail\n{functions}\n{command}\n"
    environment = {"MATRIX_MEMORY": str(root / "memory"), "PATH": os.environ["PATH"]}
    subprocess.run(["bash", "-c", script], env=environment, check=True)


def _turn(root: Path, bay: str, knob: Path) -> None:
    _say(root, bay, f"remember_knob {knob}; echo new >{knob}")


def test_tunables_are_remembered_per_device_and_once_for_the_host(tmp_path: Path) -> None:
    one, other, whole = (tmp_path / name for name in ("one", "other", "host/vm"))
    whole.parent.mkdir()
    for knob in (one, other, whole):
        knob.write_text("old\n")
    _turn(tmp_path, "first", one)
    _turn(tmp_path, "second", other)
    _turn(tmp_path, "second", whole)
    _turn(tmp_path, "first", whole)
    _say(tmp_path, "first", "restore_knobs")
    assert [knob.read_text() for knob in (one, other, whole)] == ["old\n", "new\n", "old\n"]
    _say(tmp_path, "second", "restore_knobs; restore_knobs")
    assert other.read_text() == "old\n"
    assert not [path for path in tmp_path.glob("memory/**/*") if path.is_file()]


def test_an_empty_memory_file_is_written_again(tmp_path: Path) -> None:
    """Whoever is killed, or finds /run full, in that moment leaves an empty file, and has not turned the knob yet."""
    knob = tmp_path / "knob"
    knob.write_text("old\n")
    begun = tmp_path / "memory/knobs/first" / str(knob).replace("/", "_")
    begun.parent.mkdir(parents=True)
    begun.touch()
    _say(tmp_path, "first", f"restore_knob {begun}")
    _turn(tmp_path, "first", knob)
    _say(tmp_path, "first", "restore_knobs")
    assert knob.read_text() == "old\n"
    begun.parent.mkdir(parents=True)
    begun.touch()
    _say(tmp_path, "first", "restore_knobs")
    assert not begun.exists()


def test_the_path_of_a_disk_needs_no_utf8() -> None:
    assert bay_of(["/dev/\udcff"]) != bay_of(["/dev/\udcfe"])


def test_times_of_bitmaps_and_caches_are_slowed() -> None:
    text = """
        name: cached
        disks: {hdd: {count: 3, size: 1GiB, model: nas-7200, slow: 4}, ssd: {count: 1, size: 1GiB, model: sata-ssd, slow: 4}}
        layouts:
          cached: {on: hdd, layers: [md: {level: 5, bitmap: internal}, bcache: {cache: ssd}]}
        workloads: {any: {rw: read}}
    """
    (cell,) = space(text).cells()
    lines = rendered(cell)["2-tune.sh"].splitlines()
    (md,) = (line for line in lines if line.startswith("slow_times") and "md/bitmap/time_base" in line)
    assert "md/safe_mode_delay" in md
    (bcache,) = (line for line in lines if line.startswith("slow_times") and "bcache/writeback_delay" in line)
    assert "bcache/cache/congested_read_threshold_us" in bcache


def test_the_time_of_a_transaction_group_is_slowed_only_with_zfs() -> None:
    def tuned(layers: str) -> str:
        text = TEXT.replace("md: {level: 1}, fs: {type: ext4}", layers).replace(
            "GiB}", "GiB, bus: sata, model: nas-7200, slow: 4}"
        )
        return rendered(next(space(text).cells()))["2-tune.sh"]

    assert "zfs_txg_timeout" in tuned("zfs: {vdev: mirror}")
    assert "zfs_txg_timeout" not in tuned("md: {level: 1}, fs: {type: xfs}")
