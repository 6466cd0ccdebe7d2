"""`matrix disks` and `matrix clean`, as a user meets them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.base.errors import BadInput
from runner.cli.clean import reach_for, reaches
from runner.hosts.agent.connection import connection_to
from runner.hosts.disk_ledger import LeaseRecord, write_record
from runner.machines import requirements
from tests.cli.conftest import Said

Call = Callable[..., Said]

LAB = """\
hosts:
  shelf:
    reach: ssh:shelf
    disks: [{id: wwn-0x5000c500a1, serial: ZC11A, size: 1MiB}]
"""
#: What a host answers: one disk that was declared, one that was not, and is mounted.
ANSWER = """\
node\tsda\tdev\t8:0
node\tsda\tsize\t2048
node\tsda\tserial\tZC11A
node\tsda\twwid\tnaa.5000c500a1
filled\tsda\t0
node\tsdb\tdev\t8:16
node\tsdb\tsize\t4096
node\tsdb\tserial\t[bold]odd[/bold]
mount\t8:16\t/dev/sdb\t/srv\text4
end
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A host behind an ssh that is none."""
    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "state"))
    (tmp_path / "hosts.yaml").write_text(LAB)
    (tmp_path / "answer").write_text(ANSWER)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(
        "#!/bin/sh\ncase $* in *ControlMaster=yes*) echo; echo matrix is up; exec cat >/dev/null ;; esac\n"
        f'echo "$@" >{tmp_path}/asked\ncat >{tmp_path}/script\ncat {tmp_path}/answer\n'
    )
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    yield tmp_path
    connection_to("shelf").disconnect()


def test_the_disks_of_a_host_are_shown_with_why_not(call: Call, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = call("disks", "--host", "shelf")
    assert said.status == 0, said.err
    assert (shelf / "asked").read_text().endswith(""" -- shelf exec bash -c 'eval "$(cat)"'\n""")
    assert (shelf / "script").read_text().startswith("#!/usr/bin/env bash")
    assert "wwn-0x5000c500a1" in said.out
    assert "mounted: sdb is mounted at /srv" in said.out
    assert "serial [bold]odd[/bold]" in said.out


def test_programs_get_all_of_it(call: Call, shelf: Path) -> None:
    found = json.loads(call("disks", "--host", "shelf", "--format", "json").out)
    assert [(one["path"], one["declared"], one["usable"]) for one in found] == [
        ("/dev/sda", "wwn-0x5000c500a1", True),
        ("/dev/sdb", "", False),
    ]
    assert [why["why"] for why in found[1]["refusals"]] == ["not named", "mounted"]


def test_a_disk_that_was_declared_and_is_not_there_is_shown(call: Call, shelf: Path) -> None:
    (shelf / "hosts.yaml").write_text(LAB.replace("wwn-0x5000c500a1", "wwn-0xdead"))
    found = json.loads(call("disks", "--host", "shelf", "--format", "json").out)
    assert found[0]["path"] == ""
    assert found[0]["refusals"][0]["evidence"] == (
        "no device is called wwn-0xdead; a disk with its serial number is /dev/sda"
    )


def test_what_cannot_be_asked_is_told(call: Call, shelf: Path) -> None:
    assert "known are shelf" in call("disks", "--host", "self").err
    (shelf / "answer").write_text("node\tsda\tdev\t8:0\n")
    said = call("disks", "--host", "shelf")
    assert said.status == 3
    assert "was cut short" in said.err
    (shelf / "bin/ssh").write_text("#!/bin/sh\necho no route to host >&2; exit 255\n")
    said = call("disks", "--host", "shelf")
    assert said.status == 3
    assert "shelf cannot be reached by ssh\nno route to host" in said.err
    (shelf / "hosts.yaml").unlink()
    assert "there is no hosts.yaml" in call("disks", "--host", "shelf").err


def test_this_machine_is_asked_where_no_host_is_named(call: Call, shelf: Path) -> None:
    said = call("disks", "--format", "json")
    assert said.status == 0, said.err
    assert not any(one["usable"] for one in json.loads(said.out))


def test_the_doctor_tells_what_this_host_can_do_without(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(requirements.OPTIONAL, "no-such-program", ("no-such-package", "nothing is done"))
    said = call("doctor", "--on", "local").out
    assert "          optional  no-such-program (apt install no-such-package): by it nothing is done\n" in said
    assert said.count("no-such-program") == 1, "it is no reason why the host could not be used"
    assert "no-such-program" not in call("doctor", "--on", "dry").out


def test_clean_has_nothing_to_do_where_nothing_was_handed_out(
    call: Call, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests beside this one have disks of runs on this very host.
    monkeypatch.setattr("runner.hosts.probe.run_query", lambda _reach, _script: ANSWER)
    said = call("clean", "--dry-run")
    assert (said.status, said.out) == (0, "")
    assert said.err.endswith("nothing of ours is left on this machine\n")


def test_this_machine_is_cleaned_whatever_stands_in_a_file_that_lies_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text("hosts: [")
    assert reach_for(None, None) == "local"
    with pytest.raises(BadInput):
        reach_for(None, "shelf")
    Path("hosts.yaml").write_text("hosts: {shelf: {reach: ssh:shelf}}")
    assert reach_for(None, "shelf") == "ssh:shelf"


def test_every_host_behind_ssh_is_cleaned_those_of_our_records_too(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shelf)
    state = shelf / "state"
    record = LeaseRecord(disk="d", identity="d", reach="ssh:gone", size=1, run="r", folder="", since="x")
    write_record(state, record)
    write_record(state, record.model_copy(update={"reach": "local"}))
    assert reaches(None, state) == {"ssh:shelf": "shelf", "ssh:gone": "gone"}
    (shelf / "hosts.yaml").write_text(LAB + "  same:\n    reach: ssh:shelf\n  here: {reach: local}\n")
    assert set(reaches(None, state)) == {"ssh:shelf", "ssh:gone"}
    (shelf / "hosts.yaml").unlink()
    assert reaches(None, state) == {"ssh:gone": "gone"}


def test_a_host_that_is_not_to_be_had_is_told_and_keeps_no_other(call: Call, shelf: Path) -> None:
    (shelf / "hosts.yaml").write_text(LAB + "  bench:\n    reach: ssh:bench\n")
    (shelf / "bin/ssh").write_text("#!/bin/sh\necho no route to host >&2\nexit 255\n")
    said = call("clean", "--every-host", "--dry-run")
    assert said.status == 3
    for name in ("shelf", "bench"):
        assert f"{name}: not cleaned, as {name} cannot be reached by ssh (no route to host" in said.out
    assert "give one of the two" in call("clean", "--every-host", "--host", "shelf").err


def test_where_no_host_is_known_none_is_cleaned(call: Call, shelf: Path) -> None:
    (shelf / "hosts.yaml").unlink()
    said = call("clean", "--every-host")
    assert (said.status, said.out) == (0, "")
    assert "no host behind ssh is known" in said.err
