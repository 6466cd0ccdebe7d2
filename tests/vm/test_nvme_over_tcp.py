"""Disks of another host by NVMe over TCP, connected as the page *Run on physical disks* says: measured, and lost."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.lab import ROOT, Bay, Cable, Lab, up

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(1800)]

SIZE = 128 * 2**20
PAGE = (ROOT / "docs/how-to/physical-disks.md").read_text()
TARGET, CONNECT = re.findall(r"```bash\n(.*?)```", PAGE.partition("## Disks of another host")[2], re.DOTALL)[:2]
NUMBER = "6f6e6500-0000-4000-8000-00000000000"
#: The page exports one disk, and a mirror wants two.
SECOND = f"""\
cd /sys/kernel/config/nvmet/subsystems/nqn.2024-01.example:shelf
mkdir namespaces/2
echo /dev/sda >namespaces/2/device_path
echo {NUMBER}2 >namespaces/2/device_uuid
echo 1 >namespaces/2/enable
"""
NAMES = tuple(f"nvme-uuid.{NUMBER}{number}" for number in (1, 2))
MATRIX = """\
name: remote
disks: {count: 2, size: 128MiB}
layouts:
  mirror: [md: {level: 1}, fs: {type: ext4}]
workloads:
  work: {rw: randwrite, bs: 4KiB, iodepth: 4, runtime: RUNTIME, size: 8MiB}
repeat: 1
"""
WORK = "/root/work"
DESTROY = " ".join(f"--destroy {name}" for name in NAMES)
PATIENCE = 900.0


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Lab]]:
    """The target, and the initiator, which is not connected yet."""
    folder = tmp_path_factory.mktemp("cable")
    one, other = folder / "one", folder / "other"
    memory = 1 << 30
    with (
        up(folder / "target", Bay(2, SIZE), memory=memory, cable=Cable("192.0.2.7", one, other)) as target,
        up(folder / "initiator", Bay(1, SIZE), memory=memory, cable=Cable("192.0.2.8", other, one)) as initiator,
    ):
        target.run(f"set -e\n{TARGET}{SECOND}")
        disks = "".join(
            f"      - {{id: {name}, serial: shelf-1, wwn: {name.removeprefix('nvme-')}, size: {SIZE}B, wear: 1TB}}\n"
            for name in NAMES
        )
        initiator.put(f"{WORK}/hosts.yaml", f"hosts:\n  here:\n    disks:\n{disks}")
        initiator.put(f"{WORK}/short.yaml", MATRIX.replace("RUNTIME", "2s"))
        initiator.put(f"{WORK}/long.yaml", MATRIX.replace("RUNTIME", "60s").replace("remote", "lost"))
        yield target, initiator


def run(initiator: Lab, matrix: str) -> list[str]:
    return initiator.ssh(f"cd {WORK} && exec matrix run --on local --json {DESTROY} {matrix}")


def whole(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)


def trials(initiator: Lab, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(initiator.said(f"cat {WORK}/results/{name}-*/trials.csv").splitlines()))


def test_namespaces_are_measured_and_their_link_is_recorded(hosts: tuple[Lab, Lab]) -> None:
    _, initiator = hosts
    initiator.run(CONNECT)
    initiator.run("udevadm settle")
    listed = json.loads(initiator.said(f"cd {WORK} && matrix disks --format json"))
    assert {one["declared"]: one["usable"] for one in listed if one["declared"]} == dict.fromkeys(NAMES, True)
    done = whole(run(initiator, "short.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [one["outcome"] for one in trials(initiator, "remote")] == ["measured"]
    # Two processors have two queues, whatever was asked for.
    way = r"NVMe over tcp, traddr=192\.0\.2\.7,trsvcid=4420(,\S+)?, 2 queues, depth 128"
    manifest = json.loads(initiator.said(f"cat {WORK}/results/remote-*/manifest.json"))
    assert all(re.fullmatch(way, disk["link"]) for disk in manifest["disks"]), manifest["disks"]
    assert re.search(way, initiator.said(f"cat {WORK}/results/remote-*/report.html"))
    # Kernels such as 6.1 count requests to such a disk only on the paths to it.
    folder = trials(initiator, "remote")[0]["folder"]
    used = csv.DictReader(initiator.said(f"cat {WORK}/results/remote-*/{folder}/devices.csv").splitlines())
    moved = {one["device"]: int(one["written_bytes"]) for one in used}
    assert min(moved["disk0"], moved["disk1"]) >= moved["md"] > 0
    ledger = json.loads(initiator.said("cat /root/.local/state/matrix/wear.json"))
    assert min(night["written"] for night in ledger["nights"]) >= moved["md"], ledger
    assert initiator.said("grep ^md /proc/mdstat || :; ls /root/.local/state/matrix/disks") == ""


def test_a_lost_target_breaks_the_trial_and_clean_gets_the_disks_back(hosts: tuple[Lab, Lab]) -> None:
    target, initiator = hosts
    initiator.run(f"nvme disconnect-all; {CONNECT}")
    initiator.run("udevadm settle")
    with subprocess.Popen(
        run(initiator, "long.yaml"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as runner:
        deadline = time.monotonic() + PATIENCE
        while initiator.run("pgrep -f '[f]io .*job.fio'", check=False).returncode:
            assert runner.poll() is None, runner.stdout and runner.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.5)
        target.run("ip link set eth1 down")
        output, _ = runner.communicate(timeout=900)
    assert runner.returncode == 3, output
    assert {one["outcome"] for one in trials(initiator, "lost")} <= {"broken"}
    assert "stays with the run, for `matrix clean`" in output
    target.run("ip link set eth1 up")
    initiator.run(f"{CONNECT}\nudevadm settle")
    cleaned = initiator.run(f"cd {WORK} && matrix clean", timeout=PATIENCE).stdout
    assert cleaned.count("returned from the run") == 2
    assert initiator.said("grep ^md /proc/mdstat || :; ls /root/.local/state/matrix/disks") == ""
    listed = json.loads(initiator.said(f"cd {WORK} && matrix disks --format json"))
    assert [one["usable"] for one in listed if one["declared"]] == [True, True]
