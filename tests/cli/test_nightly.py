"""`matrix nightly`: what it checks before it writes a timer, and that systemd reads what it writes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.cli import nightly

if TYPE_CHECKING:
    from tests.support.command import Call

MATRIX = """\
name: nas
disks: {count: 1, size: 1GiB, model: nas-7200}
layouts: {plain: [disk]}
workloads: {read: {rw: read, runtime: 1s}}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """An ordinary user in a folder with a matrix; returns the calls of systemctl."""
    called: list[tuple[str, ...]] = []
    (folder := tmp_path / "100 % $HOME").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MATRIX_STORE", f"{tmp_path}/%h $HOME")
    monkeypatch.setattr(nightly, "_has_systemd", lambda: True)
    monkeypatch.setattr(nightly, "_systemctl", lambda *words: called.append(words))
    monkeypatch.setattr("matrix_runner.session.selected_matrix.refusals_of", lambda _machine, _specs: [])
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    Path("nas.yaml").write_text(MATRIX)
    return called


def test_install_writes_units_that_systemd_reads(call: Call, calls: list[tuple[str, ...]], tmp_path: Path) -> None:
    done = call("nightly", "install", "nas.yaml", "--at", "01:30")
    assert done.status == 0, done.err
    service, timer = (tmp_path / ".config/systemd/user" / f"matrix-nas.{kind}" for kind in ("service", "timer"))
    assert '"' + str(Path.cwd()).replace("%", "%%").replace("$", "$$") + '/nas.yaml"' in service.read_text()
    assert "OnCalendar=*-*-* 01:30:00" in timer.read_text()
    assert service.stat().st_mode & 0o077 == 0
    assert f'Environment="MATRIX_STORE={tmp_path}/%%h $HOME"' in service.read_text()
    assert calls == [("daemon-reload",), ("enable", "--now", "matrix-nas.timer")]
    if shutil.which("systemd-analyze"):
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--user", service, timer], capture_output=True, text=True
        )
        assert "matrix-nas" not in checked.stderr


def test_the_name_of_a_folder_adds_no_line_to_a_unit(
    call: Call, calls: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = Path.cwd() / "nas.yaml"
    (folder := tmp_path / "a\nUser=root").mkdir()
    monkeypatch.chdir(folder)
    done = call("nightly", "install", str(matrix), "--results", str(tmp_path / "results"))
    assert (done.status, "has a control character" in done.err) == (2, True), done
    assert calls == []


def test_a_dry_run_writes_no_file(call: Call, calls: list[tuple[str, ...]], tmp_path: Path) -> None:
    done = call("nightly", "install", "nas.yaml", "--dry-run")
    assert "OnCalendar=*-*-* 02:00:00" in done.out
    assert "checked: 1 cell, qemu" in done.err
    assert calls == []
    assert not (tmp_path / ".config").exists()


def test_remove_undoes_install(call: Call, calls: list[tuple[str, ...]], tmp_path: Path) -> None:
    call("nightly", "install", "nas.yaml")
    assert call("nightly", "remove", "nas.yaml").status == 0
    assert not [*(tmp_path / ".config/systemd/user").iterdir()]
    assert calls[2:] == [("disable", "--now", "matrix-nas.timer"), ("daemon-reload",)]
    assert "no nightly of nas.yaml is installed" in call("nightly", "remove", "nas.yaml").err


def test_physical_disks_must_be_permitted_before_the_first_night(call: Call, calls: list[tuple[str, ...]]) -> None:
    refused = call("nightly", "install", "nas.yaml", "--on", "local")
    assert (refused.status, "there is no hosts.yaml" in refused.err) == (2, True)
    Path("hosts.yaml").write_text("hosts: {here: {disks: [{id: no-such-disk, serial: x, size: 1GiB}]}}\n")
    refused = call("nightly", "install", "nas.yaml", "--on", "local")
    assert "no-such-disk: `destroy:` of its host in hosts.yaml does not list it" in refused.err
    assert refused.err.count("no-such-disk") > 1
    assert calls == []


@pytest.mark.parametrize(
    "wrong", [("--at", "25:00"), ("--results", "/proc/1/x"), ("--confirm", "20x"), ("--confirm", "0s")]
)
def test_what_cannot_work_is_refused(call: Call, calls: list[tuple[str, ...]], wrong: tuple[str, str]) -> None:
    assert call("nightly", "install", "nas.yaml", *wrong).status == 2
    assert calls == []


def test_what_the_machine_lacks_is_said(
    call: Call, calls: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from matrix_runner.machines.base import Refusal

    refusals = [Refusal("there is no qemu", "apt install qemu")]
    monkeypatch.setattr("matrix_runner.session.selected_matrix.refusals_of", lambda _machine, _specs: refusals)
    refused = call("nightly", "install", "nas.yaml")
    assert (refused.status, calls) == (2, [])
    assert "- there is no qemu" in refused.err


def test_a_unit_of_something_else_stays(call: Call, calls: list[tuple[str, ...]], tmp_path: Path) -> None:
    call("nightly", "install", "nas.yaml")
    written = {path: path.read_text() for path in (tmp_path / ".config/systemd/user").iterdir()}
    assert call("nightly", "install", "nas.yaml").status == 0  # again
    Path("other").mkdir()
    Path("other/nas.yaml").write_text(MATRIX)
    for words in (("install", "other/nas.yaml"), ("remove", "other/nas.yaml")):
        refused = call("nightly", *words)
        assert (refused.status, "is another unit" in refused.err) == (2, True)
    assert written == {path: path.read_text() for path in written}
    assert len(calls) == 4


def test_without_systemd_the_line_of_a_crontab_works(
    call: Call, calls: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(nightly, "_has_systemd", lambda: False)
    monkeypatch.setenv("MATRIX_STORE", f"{Path.cwd()}/50 % '$x'.db")
    Path("nas.yaml").write_text(MATRIX)
    done = call("nightly", "install", "nas.yaml", "--on", "dry", "--at", "01:30", "--results", "my results")
    assert (done.status, calls) == (0, [])
    assert "systemd does not run here. Add this line by `crontab -e`" in done.err
    assert not (tmp_path / ".config").exists()
    (line,) = done.out.splitlines()
    minute, hour, *days, command = line.split(" ", 5)
    assert (minute, hour, *days) == ("30", "1", "*", "*", "*")
    assert not re.search(r"(?<!\\)%", command), "cron takes it for the end of the line"
    words, bare = ["/bin/sh", "-c", command.replace(r"\%", "%")], {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    night = subprocess.run(words, env=bare, cwd="/", capture_output=True, text=True)
    log = Path("nightly-nas.log").read_text()
    assert (night.returncode, night.stdout, night.stderr) == (0, "", ""), log
    assert len(list(Path("my results").glob("nas-dry-*/report.html"))) == 1
    assert "| plain/read |" in log, "its summary"
    assert Path("50 % '$x'.db").is_file()
    Path("nas.yaml").write_text("name: [")
    night = subprocess.run(words, env=bare, cwd="/", capture_output=True, text=True)
    assert night.stdout == "nas failed: see nightly-nas.log\n", "cron sends what a job prints"
    assert "nas.yaml:" in Path("nightly-nas.log").read_text().removeprefix(log)
