"""What is pasted on a machine of one's own."""

from __future__ import annotations

import re
import subprocess
from configparser import ConfigParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.scripts.recommended_commands import recommended_script
from matrix_runner.space.load import load
from tests.support.amounts import TIMES
from tests.support.matrices import space
from tests.support.scripts import EVERYTHING
from tests.support.shell import complaints

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from matrix_runner.space.space import Cell

ROOT = Path(__file__).parents[2]
TUNED = """\
name: tuned
disks: {count: 3, size: 256MiB, bus: sata}
layouts:
  mirror: [disks: {count: 2}, md: {level: 1, write_mostly: 1}, crypt: {}]
  pool: [partition: {count: 2}, integrity: {}, lvm: {type: cache}, fs: {type: xfs}]
  many: [lvm: {volumes: 2}, pick: {number: 2}, fs: {type: ext4, options: "noatime"}]
  sums: [disks: {count: 1}, integrity: {algorithm: sha512, mode: bitmap}]
  odd:  [disks: {count: 1}, crypt: {format: plain, cipher: "xchacha12,aes-adiantum-plain64", key_size: 256}]
  bare: [disks: {count: 1}, crypt: {format: plain, allow_discards: true, no_read_workqueue: true}]
  wide: [fs: {type: btrfs, data: raid0}]
tune:
  scheduler: mq-deadline
  iosched: {read_expire: 500}
  nr_requests: 64
  readahead: 4MiB
  write_cache: write through
  cpu_governor: performance
  transparent_hugepages: never
  vm: {dirty_ratio: 5}
  sysfs: {queue/iostats: 0}
workloads: {work: {rw: read, runtime: 1s}}
"""


def cells() -> dict[str, Cell]:
    return {cell.axes["layout"]: cell for cell in space(TUNED).cells()}


def test_pinned(snapshot: SnapshotAssertion) -> None:
    for layout, cell in cells().items():
        assert recommended_script(cell) == snapshot(name=layout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pasted")
    some = [cell for number, cell in enumerate(space(EVERYTHING).cells()) if number % (7507 // TIMES) == 0]
    shipped = [
        cell
        for path in sorted((ROOT / "matrix").glob("*.yaml"))
        for number, cell in enumerate(load(path).space.cells())
        if number % 5 == 0
    ]
    for number, cell in enumerate([*cells().values(), *some, *shipped]):
        (made / f"{number}.sh").write_text(recommended_script(cell))
    return made


def test_every_script_is_clean(folder: Path) -> None:
    scripts = sorted(folder.glob("*.sh"))
    assert len(scripts) >= 20
    assert complaints(path.read_text() for path in scripts) == ""


def test_recommended_scripts_contain_no_test_options(folder: Path) -> None:
    for script in folder.glob("*.sh"):
        text = script.read_text()
        assert not re.search(r"matrix-disk|/run/matrix|test key|--uuid|--addtag|assume-clean|pbkdf", text), script
        used = set(re.findall(r"\$\{?(disk\d\d)", text))
        assert used <= set(re.findall(r"^(disk\d\d)=", text, re.MULTILINE))


def test_data_on_a_disk_stops_the_script(tmp_path: Path) -> None:
    """With tools that only write down what they are told, and a disk that is none."""
    script = tmp_path / "paste.sh"
    script.write_text(recommended_script(cells()["mirror"]))
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "/dev/disk/by-id/NAME-1 is no disk\n"


def test_rules_name_devices_by_stable_ids() -> None:
    text = recommended_script(cells()["mirror"])
    assert """SYMLINK=="'"${disk01#/dev/}"'", ATTR{queue/scheduler}="mq-deadline", """ in text
    assert "'w /sys/kernel/mm/transparent_hugepage/enabled - - - - never'" in text
    assert "'[sysctl]' \\\n    vm.dirty_ratio=5" in text


def test_the_cache_of_a_drive_is_switched_at_the_drive_and_not_in_what_the_kernel_believes() -> None:
    text = recommended_script(cells()["mirror"])
    assert "queue/write_cache" not in text
    assert "drive_cache \"$disk01\" 'write through'" in text
    assert "echo write through | tee /sys%p/device/scsi_disk/*/cache_type" in text


def test_a_rule_switches_the_cache_before_it_sets_what_that_resets() -> None:
    rules = [
        line
        for line in recommended_script(cells()["mirror"]).splitlines()
        if "cache_type" in line and "ACTION==" in line
    ]
    assert rules
    for rule in rules:
        assert rule.index("IMPORT{program}=") > rule.index("SYMLINK==")
        assert "RUN" not in rule


def test_a_failed_check_of_a_disk_stops_the_script(tmp_path: Path) -> None:
    """Nothing on it and no answer are not the same. /dev/null stands for a disk, as nothing opens it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, does in {"wipefs": "exit 1", "lsblk": "echo sda", "mdadm": f"touch {tmp_path}/built"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    script = recommended_script(cells()["mirror"]).replace("-b $disk", "-e $disk")
    script = re.sub(r"(?m)^(disk\d\d)=.*", r"\1=/dev/null", script)
    environment = {"PATH": f"{tools}:/usr/bin:/bin"}
    for told, said in (("exit 1", ""), ("echo ext4", "something is on /dev/null"), ("true", "a disk is named twice")):
        (tools / "wipefs").write_text(f"#!/bin/sh\n{told}\n")
        done = subprocess.run(["bash"], input=script, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 1
        assert said in done.stderr
        assert not (tmp_path / "built").exists()


DISKS_ALONE = """\
name: alone
disks: {count: 3, size: 256MiB, bus: sata}
layouts: {raid5: [md: {level: 5, chunk: 64KiB}]}
tune: {%s}
workloads: {work: {rw: read, runtime: 1s}}
"""


def pasted_on(root: Path, script: str) -> None:
    """On a machine of which everything lies below a folder; what is built there is there already."""
    tools = root / "tools"
    for folder in (tools, root / "dev/disk/by-id", root / "dev/md", root / "etc"):
        folder.mkdir(parents=True, exist_ok=True)
    for name in ("wipefs", "lsblk", "mdadm", "udevadm"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    links = {"md/matrix-0": "md127", **{f"disk/by-id/NAME-{number}": f"sd{number}" for number in (1, 2, 3)}}
    for link, node in links.items():
        (root / "dev" / node).touch()
        (root / "dev" / link).unlink(missing_ok=True)
        (root / "dev" / link).symlink_to(root / "dev" / node)
        for file in ("queue/scheduler", "queue/read_ahead_kb", "queue/nr_requests", "md/stripe_cache_size"):
            (root / "sys/class/block" / node / file).parent.mkdir(parents=True, exist_ok=True)
    moved = re.sub(r"/(dev|etc|sys)/", rf"{root}/\1/", script.replace("-b $disk", "-e $disk"))
    environment = {"PATH": f"{tools}:/usr/bin:/bin"}
    done = subprocess.run(["bash"], input=moved, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def as_tuned_reads_it(file: Path) -> ConfigParser:
    """As tuned's own loader does."""
    found = ConfigParser(delimiters=("=",), inline_comment_prefixes=("#",), strict=False)
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read_string(file.read_text())
    return found


def test_a_profile_of_tuned_knows_disks_by_their_links_and_the_rest_by_the_names_of_the_day(tmp_path: Path) -> None:
    tune = "scheduler: mq-deadline, readahead: 8MiB, stripe_cache_size: 4096, nr_requests: 64, disk: {readahead: 1MiB}"
    (cell,) = space(DISKS_ALONE % tune).cells()
    script = recommended_script(cell)
    pasted_on(tmp_path, script)
    assert not (tmp_path / "etc/tmpfiles.d").exists()  # that is for what is the machine's
    found = as_tuned_reads_it(tmp_path / "etc/tuned/matrix/tuned.conf")
    assert found.sections() == ["main", "disk", "disk_1", "sysfs"]
    assert found["disk_1"]["type"] == "disk"
    options = {name: {key: one[key] for key in ("elevator", "readahead") if key in one} for name, one in found.items()}
    assert options["disk"] == {"elevator": "mq-deadline", "readahead": "1024"}
    assert options["disk_1"] == {"readahead": "8192"}
    assert {found[name]["dynamic"] for name in ("disk", "disk_1")} == {"0"}
    assert dict(found["sysfs"]) == {
        **{f"{tmp_path}/sys/block/sd{number}/queue/nr_requests": "64" for number in (1, 2, 3)},
        f"{tmp_path}/sys/block/md127/md/stripe_cache_size": "4096",
    }
    # As tuned asks of the properties that udev has of a device.
    ours = {name: re.compile(found[name]["devices_udev_regex"], re.MULTILINE) for name in ("disk", "disk_1")}
    for name, link, is_so in (
        *(("disk", f"disk/by-id/NAME-{number}", True) for number in (1, 2, 3)),
        *(("disk", link, False) for link in ("disk/by-id/NAME-1-part1", "disk/by-id/NAME-11", "md/matrix-0")),
        *(("disk_1", link, link == "md/matrix-0") for link in ("md/matrix-0", "md/matrix-01", "disk/by-id/NAME-1")),
    ):
        for links in (f"{tmp_path}/dev/{link}", f"/dev/a {tmp_path}/dev/{link} /dev/z"):
            assert bool(ours[name].search(f"A=b\nDEVLINKS={links}\nDEVNAME=/dev/x\n")) is is_so, (name, links)


def test_a_profile_lies_where_this_tuned_looks_for_it(tmp_path: Path) -> None:
    (cell,) = space(DISKS_ALONE % "readahead: 8MiB").cells()
    (tmp_path / "etc/tuned/profiles").mkdir(parents=True)
    pasted_on(tmp_path, recommended_script(cell))
    assert [str(one.relative_to(tmp_path)) for one in tmp_path.rglob("tuned.conf")] == [
        "etc/tuned/profiles/matrix/tuned.conf"
    ]


def test_a_profile_sets_only_the_governor_of_processors() -> None:
    """Where a profile of tuned has a section of them, they are not to sleep as deeply as before: nobody measured that."""
    text = recommended_script(cells()["mirror"])
    assert "'[cpu]'" not in text
    (profile,) = re.findall(r"(?s)tuned_profile\(\) \{.*?^\}", text, re.MULTILINE)
    assert "'/sys/devices/system/cpu/cpufreq/policy*/scaling_governor=performance'" in profile.partition("'[sysfs]'")[2]


@pytest.mark.parametrize("tune", ["write_cache: write through", "readahead: default"])
def test_an_empty_profile_is_left_out(tune: str) -> None:
    (cell,) = space(DISKS_ALONE % tune).cells()
    assert "tuned" not in recommended_script(cell).partition("\n(\n")[2]


def test_existing_settings_are_neither_overwritten_nor_doubled(tmp_path: Path) -> None:
    """/dev/null stands for a disk with nothing on it."""
    tools, etc = tmp_path / "tools", tmp_path / "etc"
    tools.mkdir()
    (etc / "tmpfiles.d").mkdir(parents=True)
    for name, does in {"wipefs": "true", "lsblk": "true", "cryptsetup": f"touch {tmp_path}/built; exit 1"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    script = recommended_script(cells()["bare"]).replace("-b $disk", "-e $disk").replace("/etc/", f"{etc}/")
    script = re.sub(r"(?m)^(disk\d\d)=.*", r"\1=/dev/null", script)
    (name,) = set(re.findall(r"matrix-\d-[0-9a-f]{8}", script))

    def pasted() -> tuple[str, bool]:
        environment = {"PATH": f"{tools}:/usr/bin:/bin"}
        done = subprocess.run(["bash"], input=script, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 1
        return done.stderr, (tmp_path / "built").exists()

    settings, open_at_boot = etc / "tmpfiles.d/matrix.conf", etc / "crypttab"
    settings.write_text("w /proc/sys/vm/swappiness - - - - 1\n")
    said, built = pasted()
    assert (f"{settings} exists with other content" in said, built) == (True, False)
    settings.unlink()
    open_at_boot.write_text(f"{name} /dev/sdz none luks\n")
    said, built = pasted()
    assert (f"{name} is open, or in {open_at_boot}" in said, built) == (True, False)
    open_at_boot.write_text(f"{name}0 /dev/sdz none luks\n")
    assert pasted() == ("", True)
