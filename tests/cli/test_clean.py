"""`matrix clean`: which hosts it cleans, and what it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.clean import list_hosts, reach_for
from matrix_runner.hosts.disk_ledger import LeaseRecord, write_record
from tests.support.shelf import ANSWER, LAB

if TYPE_CHECKING:
    from tests.support.command import Call


def test_clean_without_leases(call: Call, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests beside this one have disks of runs on this very host.
    monkeypatch.setattr("matrix_runner.hosts.checks.run_query", lambda _reach, _script: ANSWER)
    said = call("clean", "--dry-run")
    assert (said.status, said.out) == (0, "")
    assert said.err.endswith("this host is clean: no leftovers of runs\n")


def test_clean_of_this_machine_ignores_the_hosts_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text("hosts: [")
    assert reach_for(None, None) == "local"
    with pytest.raises(BadInput):
        reach_for(None, "shelf")
    Path("hosts.yaml").write_text("hosts: {shelf: {reach: ssh:shelf}}")
    assert reach_for(None, "shelf") == "ssh:shelf"


def test_every_host_cleans_ssh_hosts_of_the_file_and_of_leases(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf)
    state = shelf / "state"
    record = LeaseRecord(disk="d", identity="d", reach="ssh:gone", size=1, run="r", folder="", since="x")
    write_record(state, record)
    write_record(state, record.model_copy(update={"reach": "local"}))
    assert list_hosts(None, state) == {"ssh:shelf": "shelf", "ssh:gone": "gone"}
    (shelf / "hosts.yaml").write_text(LAB + "  same:\n    reach: ssh:shelf\n  here: {reach: local}\n")
    assert set(list_hosts(None, state)) == {"ssh:shelf", "ssh:gone"}
    (shelf / "hosts.yaml").unlink()
    assert list_hosts(None, state) == {"ssh:gone": "gone"}


def test_every_host_without_ssh_hosts(call: Call, shelf: Path) -> None:
    (shelf / "hosts.yaml").unlink()
    said = call("clean", "--every-host")
    assert (said.status, said.out) == (0, "")
    assert "no ssh host in hosts.yaml" in said.err


def test_an_unreachable_host_does_not_stop_the_others(call: Call, shelf: Path) -> None:
    (shelf / "hosts.yaml").write_text(LAB + "  bench:\n    reach: ssh:bench\n")
    (shelf / "bin/ssh").write_text("#!/bin/sh\necho no route to host >&2\nexit 255\n")
    said = call("clean", "--every-host", "--dry-run")
    assert said.status == 3
    for name in ("shelf", "bench"):
        assert f"{name}: not cleaned: {name} cannot be reached by ssh (no route to host" in said.out
    assert "use one of the two" in call("clean", "--every-host", "--host", "shelf").err
