"""Tunables: what may be written, where it means something, and that an unknown knob stays inside its device."""

import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from matrix_runner.base.model import constructed, written
from matrix_runner.language.tune import (
    BESIDE,
    LEADING_OUT,
    OF_THE_LAYOUT,
    SCOPES,
    TYPED,
    Tune,
    clashes,
    exclusive,
    impossible,
    meaningless,
    path_in_sysfs,
    split,
)
from matrix_runner.layers import LAYERS
from matrix_runner.layers.bare import OneDisk
from matrix_runner.layers.lvm import Lvm
from matrix_runner.layers.md import Md
from matrix_runner.layers.partition import Partition
from matrix_runner.scripts.jinja import SHIPPED
from matrix_runner.simdisks.disk import Disk
from matrix_runner.space.select import select
from matrix_runner.space.space import Space
from tests.support.matrices import space
from tests.support.mistakes import errors

GIB = 1 << 30
STACKS = """\
name: stacks
disks: {count: 4, size: 1GiB, bus: sata}
layouts:
  single: [disk]
  parts: [partition: {count: 2}, pick: {number: 1}]
  striped: [md: {level: 0}]
  parity: [md: {level: 5}]
tune: TUNE
workloads: {w: {rw: read, runtime: 1s}}
"""


def tuned(text: str) -> Space:
    return space(STACKS.replace("TUNE", text))


def flaws(text: str) -> list[str]:
    return errors(STACKS.replace("TUNE", text))


NAMES = st.sampled_from(
    ["queue", "md", "x", "a_b", "0", "A-1", "slaves", "..", ".", "", "-rf", "a b", "$(x)", "é", "*"]
)


@given(st.lists(NAMES, min_size=1, max_size=4).map("/".join) | st.text(max_size=20))
@example("queue/wbt_lat_usec\n")
@example("/etc/passwd")
@example("device/timeout")
@example("queue/../../x")
def test_a_path_that_is_taken_goes_down_only(path: str) -> None:
    """Whatever is taken stays below any folder, names no other device, and needs no quoting."""
    try:
        path_in_sysfs(path)
    except ValueError:
        return
    whole = os.path.normpath(f"/sys/class/block/sda/{path}")
    assert whole == f"/sys/class/block/sda/{path}"
    assert shlex.quote(path) == path
    assert not path.startswith("-")
    assert path in BESIDE or not LEADING_OUT.intersection(path.split("/"))
    assert path not in TYPED
    assert path not in OF_THE_LAYOUT


@pytest.mark.parametrize("path", ["device/timeout", "bdi/max_ratio", "bdi/strict_limit"])
def test_tunables_of_guides_behind_two_links_are_taken(path: str) -> None:
    assert path_in_sysfs(path) == path


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../sdb/queue/x", "not a path in the device's folder"),
        ("/proc/sys/vm/x", "not a path in the device's folder"),
        ("-x", "not a path in the device's folder"),
        ("queue/a b", "not a path in the device's folder"),
        ("queue//x", "not a path in the device's folder"),
        ("queue/", "not a path in the device's folder"),
        ("slaves/sda/queue/x", "`slaves` leads out of the device's own folder"),
        ("holders/md0/md/x", "`holders` leads out"),
        ("subsystem/sda/x", "`subsystem` leads out"),
        ("power/control", "`power` leads out"),
        ("device/delete", "`device` leads out of the device's own folder; known there are device/cdl_enable, "),
        ("bdi/stats", "`bdi` leads out of the device's own folder; known there are bdi/max_bytes, "),
        ("bdi/read_ahead_kb", "this file has a key; write `readahead:`"),
        ("device/queue_depth", "this file has a key; write `ncq_depth:`"),
        ("md/device/timeout", "`device` leads out"),
        ("queue/nr_requests", "this file has a key; write `nr_requests:`"),
        ("queue/read_ahead_kb", "write `readahead:`"),
        ("md/stripe_cache_size", "write `stripe_cache_size:`"),
        ("queue/iosched/read_expire", "write `iosched: {read_expire: …}`"),
        ("md/level", "this is set by the layout"),
        ("md/dev-sda/state", "this is set by the layout"),
        ("md/bitmap/location", "this is set by the layout"),
        ("md/bitmap/backlog", "the array hangs"),
        ("uevent", "not a tunable"),
    ],
)  # fmt: skip
def test_a_refused_path_has_its_reason_and_place(path: str, said: str) -> None:
    (found,) = flaws(f'{{sysfs: {{"{path}": [0, 1]}}}}')
    assert found.startswith("8:")
    assert said in found


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("vm.page-cluster", "write the path below /proc/sys: vm/page-cluster"),
        ("vm/dirty_ratio", "this file has a key; write `vm: {dirty_ratio: …}`"),
        ("vm/drop_caches", "this is a command"),
        ("fs/protected_hardlinks", "this is not about speed"),
        ("kernel/core_pattern", "not a sysctl about storage, memory or scheduling"),
        ("net/core/somaxconn", "not a sysctl about storage, memory or scheduling"),
        ("fs/../vm/swappiness", "not a sysctl about storage"),
        ("vm", "not a sysctl about storage"),
        ("vm/", "not a sysctl about storage"),
    ],
)
def test_a_refused_sysctl_has_its_reason_and_place(path: str, reason: str) -> None:
    (found,) = flaws(f'{{sysctl: {{"{path}": [0, 1]}}}}')
    assert found.startswith("8:")
    assert reason in found


def test_a_sysctl_is_an_axis_and_one_word() -> None:
    found = tuned("{sysctl: {vm/page-cluster: [default, 0], kernel/sched_autogroup_enabled: 0}}")
    assert select(found, ["vm/page-cluster=0"]).count() == found.count() // 2
    assert "cannot be compared" in flaws("{sysctl: {vm/lowmem_reserve_ratio: 256 32 0}}")[0]


@pytest.mark.parametrize("value", ["''", '"a\\nb"', '" x"', "[]", "[1, null]", '"\\t"'])
def test_a_text_for_sysfs_is_one_line(value: str) -> None:
    assert len(flaws(f"{{sysfs: {{queue/x: {value}}}}}")) == 1


def _sysfs(root: Path) -> None:
    """Two devices, with links between them as the kernel makes them."""
    for name in ("sda", "sdb"):
        device = root / "devices" / name
        (device / "queue").mkdir(parents=True)
        (device / "queue/knob").write_text("old\n")
        (device / "plain").write_text("old\n")
    (root / "class/block").mkdir(parents=True)
    for name in ("sda", "sdb"):
        (root / "class/block" / name).symlink_to(root / "devices" / name)
    (root / "devices/sda/slaves").mkdir()
    (root / "devices/sda/slaves/sdb").symlink_to(root / "devices/sdb")
    (root / "devices/sda/parent").symlink_to("..")
    (root / "devices/sda/queue/linked").symlink_to(root / "devices/sdb/queue/knob")
    (root / "devices/sda/within").symlink_to("queue")
    (root / "devices/sda-too").mkdir()
    (root / "devices/sda-too/knob").write_text("old\n")
    (root / "devices/sda/near").symlink_to("../sda-too")


def _turned(root: Path, path: str) -> tuple[int, str]:
    """The functions of the very templates, told to set one file of sda."""
    parts = ["prelude.sh", "tunables.sh", "turn/own.sh"]
    text = "\n".join(re.sub(r"\{#.*?#\}", "", (SHIPPED / part).read_text(), flags=re.DOTALL) for part in parts)
    tune = (SHIPPED / "tune.sh").read_text()
    turn_file = tune[tune.index("turn_file() {") : tune.index("turn() {")]
    whole = text.replace("/sys/class/block", str(root / "class/block")).replace("{{ stack.bay }}", "bay")
    whole = re.sub(r"kernel_name\(\) \{.*?\n\}\n", "kernel_name() { REPLY=$1; }\n", whole, flags=re.DOTALL)
    script = f"set -euo pipefail\n{whole}\n{turn_file}\nturn_own sda {shlex.quote(path)} new\n"
    environment = {"MATRIX_MEMORY": str(root / "state"), "PATH": os.environ["PATH"]}
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=root)
    return result.returncode, result.stderr


@pytest.mark.parametrize("path", ["queue/knob", "plain", "within/knob"])
def test_the_script_turns_what_is_inside(tmp_path: Path, path: str) -> None:
    _sysfs(tmp_path)
    assert _turned(tmp_path, path) == (0, "")
    assert (tmp_path / "devices/sda" / path).read_text() == "new\n"
    assert (tmp_path / "devices/sdb/queue/knob").read_text() == "old\n"


@given(
    st.lists(
        st.sampled_from(["..", "queue", "knob", "slaves", "sdb", "parent", "linked", "near", "", "no", "-P"]),
        min_size=1,
        max_size=4,
    ).map("/".join)
)
@example("slaves/sdb/queue/knob")
@example("queue/linked")
@example("parent/sdb/plain")
@example("near/knob")
@example("../sdb/plain")
@example("/etc/hostname")
def test_the_script_writes_only_below_the_folder_of_the_device(path: str) -> None:
    """Even of paths that would never get so far."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _sysfs(root)
        status, said = _turned(root, path)
        outside = [root / "devices" / name for name in ("sdb/queue/knob", "sdb/plain", "sda-too/knob")]
        assert [file.read_text() for file in outside] == ["old\n"] * 3
        assert (status == 0) != ("has no" in said)


def test_every_kind_that_makes_block_devices_has_a_map() -> None:
    assert set(SCOPES) == {kind for kind, layer in LAYERS.items() if kind == "disk" or not layer.selects}
    assert {"disk", "md", "partition"} <= set(SCOPES)
    assert set(SCOPES) <= set(Tune.model_fields)
    assert split("md.readahead") == ("md", "readahead")
    assert split("vm.dirty_ratio") == ("", "vm.dirty_ratio")


def test_a_map_of_a_kind_is_named_by_it_everywhere() -> None:
    found = tuned("{readahead: [default, 1MiB], disk: {nr_requests: [32, 64]}, md: {nomerges: [0, 2]}}")
    names = [cell.name for cell in found.cells()]
    assert "parity/readahead=1MiB,disk.nr_requests=64,md.nomerges=2/w" in names
    assert "single/readahead=1MiB,disk.nr_requests=64/w" in names
    assert found.notes[0] == "md.nomerges is not an axis for single, parts: it has no md"
    assert list(found.cells())[-1].axes["tune.disk.nr_requests"] == "64"
    assert select(found, ["nr_requests=64,layout=single"]).count() == 2
    assert select(found, ["disk.nr_requests=64,layout=single"]).count() == 2


def test_the_plain_name_means_the_plain_one() -> None:
    found = tuned(
        "{readahead: [default, 1MiB], partition: {}, vm: {dirty_ratio: [5, 10]}, sysfs: {queue/iostats: [0, 1]}}"
    )
    assert select(found, ["readahead=1MiB"]).count() == found.count() // 2
    both = space(
        STACKS.replace("  single: [disk]\n  parts: [partition: {count: 2}, pick: {number: 1}]\n", "").replace(
            "TUNE", "{readahead: [default, 1MiB], disk: {readahead: [4KiB, 8KiB]}}"
        )
    )
    assert select(both, ["readahead=1MiB"]).count() == 4
    assert select(both, ["disk.readahead=4KiB,tune.readahead=default"]).count() == 2
    assert select(found, ["dirty_ratio=5,queue/iostats=1"]).count() == found.count() // 4


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        ("{readahead: 1MiB, md: {readahead: 2MiB}}", "8:41: 'md.readahead' and 'readahead' set the same file of the same devices of striped, parity; keep one"),
        ("{readahead: 1MiB, partition: {readahead: 2MiB}}", "'partition.readahead' and 'readahead' set the same file of the same devices of parts"),
        ("{partition: {readahead: 1MiB}, disk: {readahead: 2MiB}}", "set the same file of the same devices of parts"),
        ("{scheduler: none, disk: {scheduler: bfq}}", "'disk.scheduler' and 'scheduler' set the same file"),
        ("{stripe_cache_size: 256, md: {stripe_cache_size: 512}}", "of parity; keep one"),
        ("{wbt_lat_usec: 0, sysfs: {queue/wbt_lat_usec: 1}}", "set the same file of the same devices of single, parts, striped, parity; keep one"),
        ("{disk: {write_cache: write back, sysfs: {queue/write_cache: write through}}}", "set the same file"),
        ("{sysfs: {md/rmw_level: 0}, md: {sysfs: {md/rmw_level: 1}}}", "of striped, parity"),
        ("{vm: {dirty_ratio: 10, dirty_bytes: 64MiB}}", "the kernel clears dirty_ratio when dirty_bytes is set; write one of them"),
        ("{vm: {dirty_bytes: 4KiB}}", "write at least 8KiB, or default"),
        ("{vm: {dirty_ratoi: 10}}", "unknown key 'dirty_ratoi'; did you mean dirty_ratio"),
        ("{disk: {raedahead: 1MiB}}", "unknown key 'raedahead'; did you mean readahead?"),
        ("{md: {nr_requests: 64}}", "md has no 'nr_requests'; write `tune: {nr_requests: 64}`"),
        ("{partition: {scheduler: none}}", "partition has no 'scheduler'; write `tune: {scheduler: none}`"),
        ("{disk: {sysfs: {md/rmw_level: 0}}}", "'disk.sysfs.md/rmw_level' has no effect: only md arrays have md/…"),
        ("{ncq_depth: 33}", "'33': sata takes a queue depth from 1 to 32"),
        ("{disk: {ncq_depth: [1, 33]}}", "'33': sata takes a queue depth from 1 to 32"),
        ("{max_sectors_kb: 32768}", "sata takes at most 32767 KiB"),
        ("{scheduler: none, nr_requests: 33}", "a sata disk without a scheduler takes at most 32"),
        ("{nr_requests: 3}", "write a whole number from 4 to 2048, or default"),
        ("{stripe_cache_size: 256, preread_bypass_threshold: 257}", "must be at most stripe_cache_size (256)"),
        ("{sync_speed_min: 50MiB}", "not a rate; write it like 50MiB/s"),
        ("{sync_speed_min: 1500B/s}", "the kernel takes whole KiB/s"),
        ("{sync_speed_min: 50k/s}", "did you mean 50KiB"),
        ("{scheduler: [none, kyber], iosched: {read_expire: 100}}", "'iosched.read_expire' has no effect: scheduler none has no such tunable; scheduler kyber has no such tunable"),
        ("{disk: {scheduler: bfq, iosched: {read_expire: 100}}}", "'disk.iosched.read_expire' has no effect"),
        ("{write_cache: writeback}", "did you mean write back?"),
        ("{cpu_governor: 'a b'}", "write small letters"),
        ("{iosched: {Read: 1}}", "an option has small letters"),
    ],
)  # fmt: skip
def test_impossible_combinations_are_refused_before_the_start(tune: str, said: str) -> None:
    (found,) = flaws(tune)
    assert said in found
    assert found.startswith("8:")


def test_a_tunable_of_one_scheduler_is_no_axis_under_another() -> None:
    found = tuned("{scheduler: [none, mq-deadline], iosched: {read_expire: [100, 500]}}")
    assert sorted(cell.name for cell in found.cells() if cell.name.startswith("single")) == [
        "single/scheduler=mq-deadline,iosched.read_expire=100/w",
        "single/scheduler=mq-deadline,iosched.read_expire=500/w",
        "single/scheduler=none/w",
    ]
    assert found.notes == ("tune: iosched.read_expire is not an axis where scheduler none has no such tunable",)


@pytest.mark.parametrize(
    ("tunable", "stack", "bus", "said"),
    [
        ("md.readahead", (OneDisk(),), "sata", "it has no md"),
        ("disk.readahead", (OneDisk(),), "sata", ""),
        ("partition.readahead", (Partition.model_construct(count=2),), "sata", ""),
        ("md.stripe_cache_size", (Md.model_construct(level=0),), "sata", "it has no RAID 4, 5 or 6"),
        ("group_thread_cnt", (Md.model_construct(level=1),), "sata", "it has no RAID 4, 5 or 6"),
        ("preread_bypass_threshold", (Md.model_construct(level=6),), "sata", ""),
        ("sync_speed_min", (Md.model_construct(level="linear"),), "sata", "it has no array with redundancy"),
        ("sync_speed_max", (Md.model_construct(level=10),), "sata", ""),
        ("sysfs.md/rmw_level", (OneDisk(),), "sata", "it has no md"),
        ("disk.ncq_depth", (OneDisk(),), "virtio", "disks on virtio have no queue depth"),
        ("vm.dirty_ratio", (OneDisk(),), "virtio", ""),
    ],
)
def test_tunables_without_effect_are_found(tunable: str, stack: Any, bus: Any, said: str) -> None:
    found = meaningless(tunable, stack, (Disk(GIB, bus),))
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_a_default_is_never_refused() -> None:
    names = ["ncq_depth", "max_sectors_kb", "nr_requests", "preread_bypass_threshold"]
    values = {**dict.fromkeys(names, "default"), "scheduler": "none", "stripe_cache_size": 17}
    assert impossible(values, (Disk(GIB, "sata"),)) == {}
    assert list(exclusive({"vm.dirty_ratio": 1, "vm.dirty_background_bytes": 1})) == []
    assert list(clashes(["readahead", "disk.readahead"], (Md.model_construct(level=0),))) == []


PARTED = Partition.model_construct(count=2)
VOLUMES, ARRAY = Lvm.model_construct(), Md.model_construct(level=0)


@pytest.mark.parametrize(
    ("names", "stack", "clashing"),
    [
        (["disk.readahead", "partition.readahead"], (PARTED,), True),
        (["md.readahead", "partition.readahead"], (ARRAY, PARTED), True),
        (["lvm.readahead", "partition.readahead"], (VOLUMES, PARTED), False),
        (["readahead", "partition.readahead"], (VOLUMES, PARTED), True),
        (["readahead", "lvm.readahead"], (VOLUMES, PARTED), False),
        (["disk.readahead", "partition.readahead"], (PARTED, VOLUMES, PARTED), True),
        (["readahead", "md.readahead"], (VOLUMES, ARRAY, VOLUMES), False),
        (["readahead", "lvm.readahead"], (VOLUMES, ARRAY, VOLUMES), True),
    ],
)
def test_a_partition_of_a_mapping_has_its_readahead(names: list[str], stack: Any, clashing: bool) -> None:
    assert bool(list(clashes(names, stack))) == clashing


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "readahead": st.sampled_from(["default", 4096, 1 << 20]),
        "disk.nr_requests": st.sampled_from(["default", 4, 64]),
        "disk.iosched.read_expire": st.integers(0, 100),
        "md.sysfs.md/rmw_level": st.sampled_from(["0", "1"]),
        "vm.dirty_ratio": st.integers(0, 100),
        "iosched.x": st.integers(0, 5),
    },
)


@given(VALUES)
def test_flat_and_nested_keys_are_equal(values: dict[str, Any]) -> None:
    assert written(constructed(Tune, values)) == values
