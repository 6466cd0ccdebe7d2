"""Two whole runs at a time on one host whose disks share nothing: neither is in the way of the other's arrays."""

from __future__ import annotations

import csv
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.lab import Bay, Lab, up

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(1500)]

MATRIX = """\
name: {tag}
needs: {{disks: {{count: 2, tag: {tag}}}}}
disks: {{count: 2, size: 320MiB, bus: scsi}}
layouts:
  mirror: [md: {{level: 1}}, fs: {{type: xfs}}]
  nested: [md: {{level: 0, chunk: 64KiB}}, lvm: {{}}, fs: {{type: ext4}}]
  striped: [lvm: {{stripes: 2}}]
tune: {{readahead: [default, 1MiB]}}
workloads:
  work: {{rw: randwrite, bs: 4KiB, iodepth: 4, runtime: 1s, size: 8MiB}}
repeat: 2
"""
HOME = "/root/work"
TAGS = ("left", "right")


def hosts(lab: Lab) -> str:
    """Two disks for either."""
    text = lab.hosts_yaml().replace("    disks:\n", "    shares: nothing\n    disks:\n")
    for number, name in enumerate(lab.bay.names()):
        text = text.replace(f"id: {name},", f"id: {name}, tags: [{TAGS[number // 2]}],")
    return text


def test_runs_on_disks_of_their_own_do_not_meet(tmp_path: Path) -> None:
    with up(tmp_path, Bay(4, 320 * 2**20)) as lab:
        lab.put(f"{HOME}/hosts.yaml", hosts(lab))
        running = []
        for tag, names in zip(TAGS, (lab.bay.names()[:2], lab.bay.names()[2:]), strict=True):
            lab.put(f"{HOME}/{tag}.yaml", MATRIX.format(tag=tag))
            lent = " ".join(f"--destroy {name}" for name in names)
            words = lab.ssh(f"cd {HOME} && exec matrix run --json --on local {lent} {tag}.yaml")
            running.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        said = [one.communicate(timeout=1200)[0] for one in running]
        assert [one.returncode for one in running] == [0, 0], "\n".join(said)
        for tag in TAGS:
            trials = list(csv.DictReader(lab.said(f"cat {HOME}/results/{tag}-*/trials.csv").splitlines()))
            assert [(one["outcome"], one["reason"]) for one in trials] == [("measured", "")] * 12
        used = " ".join(lab.disks)
        assert lab.said(f"lsblk -nro NAME,TYPE {used} | grep -v ' disk$' || :; grep ^md /proc/mdstat || :") == ""
