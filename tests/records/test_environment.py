"""What disks say of their health: what is told of it, and what is told loudly."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from matrix_runner.hosts.checks import query_health
from matrix_runner.records.environment import Health, Smart, describe_missing_health, keep_first_health, parse_report
from matrix_runner.scripts.jinja import smart_script

WELL = Smart(passed=True, celsius=31, hours=1200, reallocated=0, pending=0, firmware="CC43")


def test_the_script_is_clean_and_quotes_the_names_of_disks(tmp_path: Path) -> None:
    script = tmp_path / "smart.sh"
    script.write_text(smart_script(["/dev/it's", "/dev/sdb"]))
    shellcheck = Path(sys.executable).parent / "shellcheck"
    found = subprocess.run([shellcheck, "--severity=info", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
    assert "disks=('/dev/it'\"'\"'s' /dev/sdb)" in script.read_text()


def test_health_reports_are_assigned_by_path() -> None:
    said = 'smart\t/dev/sda\t{"smart_status": {"passed": true}, "model_name": "M", "firmware_version": "F"}\nnoise\n'
    assert parse_report(f"{said}smart\t/dev/sdb\tno such thing\n") == {
        "/dev/sda": Smart(passed=True, model="M", firmware="F"),
        "/dev/sdb": Smart(absent="no such thing"),
    }


def test_a_disk_without_health_may_have_a_model() -> None:
    (found,) = parse_report('smart\t/dev/sda\t{"scsi_model_name": "M", "scsi_revision": "F"}').values()
    assert (found.absent, found.model, found.firmware) == ("the disk reports no health", "M", "F")


def test_a_host_that_does_not_tell_is_no_error() -> None:
    assert query_health(None, "exit 3") == {}


def test_in_words() -> None:
    assert str(WELL) == "passed, 31 °C, 1200 h"
    assert str(replace(WELL, passed=False, pending=3, used=40)).startswith("FAILING, 31 °C")
    assert "3 sectors that it could not read, 40 % used" in str(replace(WELL, pending=3, used=40))
    assert str(Smart(absent="nobody there")) == "nobody there"


def test_only_worse_health_is_an_alarm() -> None:
    (before,) = keep_first_health((), {"a": WELL})
    assert (before.alarm, before.over(WELL).alarm) == ("", "")
    assert "reallocated sectors: 0 before, 8 after" in before.over(replace(WELL, reallocated=8)).alarm
    assert "it reports that it is failing" in before.over(replace(WELL, passed=False)).alarm
    bad = Health(disk="a", before=replace(WELL, passed=False))
    assert bad.alarm.startswith("a has a problem: it reports that it is failing. ")
    assert bad.over(Smart(absent="asleep")).worse == ()


def test_another_disk_at_the_same_path_is_not_compared() -> None:
    (before,) = keep_first_health((), {"a": replace(WELL, serial="S1")})
    assert before.over(replace(WELL, serial="S2", passed=False)) == before
    assert before.over(replace(WELL, serial="S1", passed=False)).alarm


def test_a_resumed_run_compares_with_the_first_health() -> None:
    known = keep_first_health((), {"a": WELL, "b": Smart(absent="asleep")})
    now = keep_first_health(known, {"a": replace(WELL, pending=2), "b": WELL})
    assert [one.before for one in now] == [WELL, WELL]
    assert now[0].worse
    assert now[0].alarm.startswith("a has a problem: sectors that it could not read: 0 before, 2 after")
    assert now[1].alarm == ""


def test_unknown_health_is_stated_once() -> None:
    none = Smart(absent="smartctl is not installed")
    health = keep_first_health((), {"a": none, "b": none, "c": WELL})
    assert describe_missing_health(health) == "the health of a, b is unknown: smartctl is not installed"
    assert describe_missing_health(health[2:]) == ""


def test_it_outlives_being_written_down() -> None:
    (health,) = keep_first_health((), {"a": WELL})
    assert Health.model_validate_json(health.over(WELL).model_dump_json()) == health.over(WELL)
