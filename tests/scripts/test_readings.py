"""What every reading is called, and what is read of what is not there."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from tests.support.matrices import space

TEXT = """\
name: names
disks: {count: 4, size: 2GiB, bus: sata}
layouts:
  one: [md: {level: 5}]
  hierarchical: [partition: {count: 2}, lvm: {groups: 2, stripes: 4}, lvm: {order: "2 1"}]
  striped-mirrors: [md: {level: 1, groups: 2}, md: {level: 0}]
  crypts: [disks: {count: 2}, crypt, md: {level: 1}, fs: {type: ext4}]
  third: [disk: {number: 2}]
  picked: [lvm: {groups: 2}, pick: {number: 2}]
  rebuilt: [md: {level: 1, groups: 2, sync: background}]
tune: {readahead: 256KiB, ncq_depth: 8, sysfs: {queue/nobody: [default, 1]}, md: {nomerges: 1}}
workloads: {work: {rw: read}}
"""


def readings(layout: str) -> list[str]:
    cell = next(cell for cell in space(TEXT).cells() if cell.axes["layout"] == layout)
    stack = stack_scripts(cell.stack, [f"/dev/sd{letter}" for letter in "abcd"], zeroed=True).stack
    scripts = cell_scripts(cell, stack)
    asked = re.findall(r"^(?:look|look_anyway|told|told_role) .+$", scripts.verify, re.MULTILINE)
    recorded = map(shlex.split, re.findall(r"^ *look_on .+$", scripts.measure, re.MULTILINE))
    return [
        *(shlex.split(line)[1] for line in asked),
        *(f"{name}.{what}" for _, name, _, *files in recorded for what in ("node", *files)),
    ]


@pytest.mark.parametrize("layout", ["one", "hierarchical", "striped-mirrors", "crypts", "third", "picked"])
def test_no_two_readings_of_a_trial_have_one_name(layout: str) -> None:
    names = [name for name in readings(layout) if name != "fs.mounted"]  # told once, in one way or another
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


def test_a_single_device_has_its_declared_name() -> None:
    names = readings("one")
    assert {"md.level", "md.member4", "md.stripe_width", "readahead", "md.nomerges", "disk3.queue/scheduler"} <= {
        *names
    }


@pytest.mark.parametrize(
    ("layout", "names"),
    [
        ("one", {"disk0.ncq_depth", "disk3.ncq_depth", "disk3.sysfs.queue/nobody"}),
        ("hierarchical", {"partition[8].start", "lvm[1].order", "lvm[2].order", "lvm2.order", "lvm2.size"}),
        ("striped-mirrors", {"md[1].level", "md[2].member2", "md2.level", "md[1].nomerges", "md2.nomerges"}),
        ("crypts", {"crypt[1].cipher", "crypt[2].queue/read_ahead_kb", "fs.type"}),
        ("third", {"ncq_depth", "disk2.queue/scheduler", "readahead"}),
        ("picked", {"lvm[1].order", "lvm[2].order", "lvm[2].size"}),
    ],
)
def test_several_devices_have_numbered_names(layout: str, names: set[str]) -> None:
    assert names <= {*readings(layout)}


def test_an_early_end_names_the_device() -> None:
    cell = next(cell for cell in space(TEXT).cells() if cell.axes["layout"] == "rebuilt")
    stack = stack_scripts(cell.stack, [f"/dev/sd{letter}" for letter in "abcd"], zeroed=True).stack
    measure = cell_scripts(cell, stack).measure
    assert "name='md[2]'\n" in measure
    assert '"not as declared: $name.sync_action wanted' in measure


ENDS = """\
name: ends
disks: {count: 4, size: 64MiB, model: nas-7200}
layouts:
  whole: [md: {level: 5}]
  lost: [md: {level: 6, state: degraded}]
faults: {none: [], dies: [{disk: 1, at: 0s, kind: dies}]}
workloads: {work: {rw: read, bs: 4KiB, runtime: 1s}}
"""


def _ended(folder: Path, layout: str, meanwhile: str, faults: str = "none") -> tuple[int, str]:
    """The very script, with fio and an array that stand in; what becomes of the array while fio is at work."""
    wanted = (layout, faults)
    cell = next(cell for cell in space(ENDS).cells() if (cell.axes["layout"], cell.axes["faults"]) == wanted)
    stack = stack_scripts(cell.stack, [f"/dev/sd{letter}" for letter in "abcd"], zeroed=True).stack
    array = folder / "md127" / "md"
    array.mkdir(parents=True)
    (array / "degraded").write_text("1\n" if layout == "lost" else "0\n")
    (array / "sync_action").write_text("idle\n")
    stand_ins = (
        'look_up() { return 1; }\nkernel_name() { REPLY=md127; }\nconfined() { "$@"; }\n'
        'fio() { echo "{}" >fio.json; ' + meanwhile + "; }\n"
    )
    script = cell_scripts(cell, stack).measure.replace("/sys/class/block", str(folder))
    done = subprocess.run(
        ["bash", "-c", script.replace("\ncounted before\n", f"\n{stand_ins}counted before\n")],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("layout", ["whole", "lost"])
def test_an_unchanged_array_is_measured(tmp_path: Path, layout: str) -> None:
    assert _ended(tmp_path, layout, ":") == (0, "")


@pytest.mark.parametrize(
    ("layout", "meanwhile", "said"),
    [
        ("whole", "echo check >md127/md/sync_action", "md.sync_action wanted idle until the end of the measurement, kernel says check"),
        ("whole", "echo 1 >md127/md/degraded", "md.degraded wanted 0 until the end of the measurement, kernel says 1"),
        ("lost", "echo 2 >md127/md/degraded", "md.degraded wanted 1 until the end of the measurement, kernel says 2"),
    ],
)  # fmt: skip
def test_a_change_of_an_array_during_a_trial_is_reported(
    tmp_path: Path, layout: str, meanwhile: str, said: str
) -> None:
    status, told = _ended(tmp_path, layout, meanwhile)
    assert status == 1
    assert told.startswith(f"matrix: not as declared: {said} (")


def test_planned_faults_do_not_break_a_trial(tmp_path: Path) -> None:
    assert _ended(tmp_path, "whole", "echo 1 >md127/md/degraded", faults="dies") == (0, "")


def _turned(folder: Path, value: str) -> subprocess.CompletedProcess[str]:
    """The very script, on a device of which only the folder is there."""
    text = TEXT.replace(", ncq_depth: 8", "").replace(", md: {nomerges: 1}", "").replace("readahead: 256KiB, ", "")
    cell = next(
        cell
        for cell in space(text).cells()
        if (cell.axes["layout"], cell.axes["tune.sysfs.queue/nobody"]) == ("third", value)
    )
    stack = stack_scripts(cell.stack, [f"/dev/sd{letter}" for letter in "abcd"], zeroed=True).stack
    (folder / "sdc" / "queue").mkdir(parents=True)
    scripts = cell_scripts(cell, stack)
    parts = [
        part.replace("/sys/class/block/", f"{folder}/").replace("/sys/class/block", str(folder))
        for part in (scripts.tune, scripts.verify)
    ]
    own = "\nkernel_name() { REPLY=sdc; }\n"
    tune = parts[0].replace("\nturn_own /dev", f"{own}turn_own /dev")
    verify = parts[1].replace("\nkernel_name /dev", f"{own}kernel_name /dev", 1)
    return subprocess.run(
        ["bash", "-c", f"({tune})\n{verify}"],
        env={"PATH": "/usr/bin:/bin", "MATRIX_MEMORY": str(folder / "state")},
        capture_output=True,
        text=True,
    )


def test_a_file_that_is_not_there_breaks_only_the_cells_that_set_it(tmp_path: Path) -> None:
    left, set_ = _turned(tmp_path / "left", "default"), _turned(tmp_path / "set", "1")
    assert (left.returncode, left.stderr) == (0, "")
    assert "reading\tsysfs.queue/nobody\t-\tabsent\n" in left.stdout
    assert "matrix: /dev/sdc has no queue/nobody in its own folder" in set_.stderr
