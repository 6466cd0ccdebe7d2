"""`matrix disks` and `matrix clean`, as a user meets them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.clean import list_hosts, reach_for
from matrix_runner.hosts.agent.connection import connection_to
from matrix_runner.hosts.disk_ledger import LeaseRecord, write_record
from matrix_runner.machines import requirements
from tests.support.command import Said
from tests.support.terminal import Terminal

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


def test_the_disks_of_a_host_are_listed_with_refusals(call: Call, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = call("disks", "--host", "shelf")
    assert said.status == 0, said.err
    assert (shelf / "asked").read_text().endswith(""" -- shelf exec bash -c 'eval "$(cat)"'\n""")
    assert (shelf / "script").read_text().startswith("#!/usr/bin/env bash")
    assert "wwn-0x5000c500a1" in said.out
    assert "mounted: sdb is mounted at /srv" in said.out
    assert "serial [bold]odd[/bold]" in said.out
    assert " 1MiB " in said.out


def test_a_size_that_is_not_round_is_readable_and_exact(
    call: Call, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shelf / "answer").write_text(ANSWER.replace("sda\tsize\t2048", "sda\tsize\t7814037168"))
    with Terminal(["matrix", "disks", "--host", "shelf"], columns=110, cwd=shelf) as terminal:
        assert terminal.wait() == 0
        assert "4 TB" in terminal.transcript
        assert "4000787030016B" in terminal.transcript


def test_the_list_of_disks_as_json(call: Call, shelf: Path) -> None:
    found = json.loads(call("disks", "--host", "shelf", "--format", "json").out)
    assert [(one["path"], one["declared"], one["usable"]) for one in found] == [
        ("/dev/sda", "wwn-0x5000c500a1", True),
        ("/dev/sdb", "", False),
    ]
    assert [why["why"] for why in found[1]["refusals"]] == ["not named", "mounted"]


def test_a_missing_declared_disk_is_listed(call: Call, shelf: Path) -> None:
    (shelf / "hosts.yaml").write_text(LAB.replace("wwn-0x5000c500a1", "wwn-0xdead"))
    found = json.loads(call("disks", "--host", "shelf", "--format", "json").out)
    assert found[0]["path"] == ""
    assert found[0]["refusals"][0]["evidence"] == (
        "no device is called wwn-0xdead; a disk with its serial number is /dev/sda"
    )


def test_unusable_hosts_are_reported(call: Call, shelf: Path) -> None:
    assert "did you mean shelf?" in call("disks", "--host", "self").err
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


def test_without_a_host_this_machine_is_listed(call: Call, shelf: Path) -> None:
    said = call("disks", "--format", "json")
    assert said.status == 0, said.err
    assert not any(one["usable"] for one in json.loads(said.out))


def test_the_doctor_lists_missing_optional_programs(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(requirements.OPTIONAL, "no-such-program", ("no-such-package", "nothing is done"))
    said = call("doctor", "--on", "local").out
    assert "          optional  no-such-program (apt install no-such-package): nothing is done\n" in said
    assert said.count("no-such-program") == 1, "it is no reason why the host could not be used"
    assert "no-such-program" not in call("doctor", "--on", "dry").out


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


def test_an_unreachable_host_does_not_stop_the_others(call: Call, shelf: Path) -> None:
    (shelf / "hosts.yaml").write_text(LAB + "  bench:\n    reach: ssh:bench\n")
    (shelf / "bin/ssh").write_text("#!/bin/sh\necho no route to host >&2\nexit 255\n")
    said = call("clean", "--every-host", "--dry-run")
    assert said.status == 3
    for name in ("shelf", "bench"):
        assert f"{name}: not cleaned: {name} cannot be reached by ssh (no route to host" in said.out
    assert "use one of the two" in call("clean", "--every-host", "--host", "shelf").err


def test_every_host_without_ssh_hosts(call: Call, shelf: Path) -> None:
    (shelf / "hosts.yaml").unlink()
    said = call("clean", "--every-host")
    assert (said.status, said.out) == (0, "")
    assert "no ssh host in hosts.yaml" in said.err
