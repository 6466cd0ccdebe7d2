"""`matrix clean`: which hosts it cleans, and what it leaves."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.clean import list_hosts, reach_for
from matrix_runner.hosts.disk_ledger import LeaseRecord, delete_record, lease_records, write_record
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


def test_clean_cache_removes_all_but_the_program(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = _filled_cache(tmp_path, monkeypatch)
    listed = call("clean", "--cache", "--dry-run")
    assert listed.out.startswith(f"{cache}/appliances, ")
    assert (cache / "appliances/old/root").exists()
    done = call("clean", "--cache")
    assert (done.status, done.out.count("removed")) == (0, 1)
    assert [path.name for path in cache.iterdir()] == ["venv-0123"]


def test_clean_leaves_a_cache_in_use(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = _filled_cache(tmp_path, monkeypatch)
    with (cache / "appliances/.old.use").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        refused = call("clean", "--cache")
        listed = call("clean", "--cache", "--dry-run")
    assert (refused.status, listed.status) == (2, 0)
    assert f"a running command uses {cache}/appliances" in refused.err
    assert (cache / "appliances/old/root").exists()


def test_clean_all_asks_and_keeps_records_of_leases(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, state = _filled_cache(tmp_path, monkeypatch), tmp_path / "state"
    monkeypatch.setattr("matrix_runner.cli.clean.SWEEPERS", {})
    write_record(state, LeaseRecord(disk="d", identity="d", reach="ssh:gone", size=1, run="r", folder="", since="x"))
    refused = call("clean", "--all")
    assert (refused.status, "--yes" in refused.err) == (2, True)
    done = call("clean", "--all", "--yes")
    assert f"{cache}/appliances" in done.out
    assert "d of ssh:gone: leased by the run r" in done.out
    assert lease_records(state)
    delete_record(state, "d", "ssh:gone")
    assert f"{state}, " in call("clean", "--all", "--yes").out
    assert not state.exists()


@pytest.mark.parametrize("extent", ["--cache", "--all"])
def test_clean_of_another_host_has_no_caches(call: Call, extent: str) -> None:
    assert call("clean", extent, "--every-host").status == 2


def _filled_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("matrix_runner.hosts.checks.run_query", lambda _reach, _script: ANSWER)
    monkeypatch.setenv("MATRIX_CACHE", str(cache := tmp_path / "cache"))
    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "state"))
    for file in ("appliances/old/root", "appliances/.old.use", "venv-0123/bin"):
        (cache / file).parent.mkdir(parents=True, exist_ok=True)
        (cache / file).touch()
    return cache
