"""`matrix disks`, as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from matrix_runner.machines import requirements
from tests.support.command import Matrix, Said
from tests.support.shelf import ANSWER, LAB
from tests.support.terminal import Terminal

Call = Callable[..., Said]


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


def test_disk_models_are_listed_and_an_unknown_one_is_bad_input(matrix: Matrix) -> None:
    listed = matrix("disks", "models")
    assert listed.returncode == 0
    assert "st3320620as" in listed.stdout
    unknown = matrix("disks", "check", "st33206")
    assert unknown.returncode == 2
    assert "did you mean st3320620as?" in unknown.stderr
    assert matrix("disks", "check", "sata-ssd", "--size", "much").returncode == 2


@pytest.mark.parametrize(("size", "enough"), [("1MiB", "4MiB"), ("0B", "4MiB")])
def test_a_disk_with_zones_too_small_for_a_request_is_not_checked(matrix: Matrix, size: str, enough: str) -> None:
    small = matrix("disks", "check", "st3320620as", "--size", size)
    assert small.returncode == 2
    assert "sequential read in zone 1 cannot be measured: a request of 256 KiB does not fit there" in small.stderr
    assert f"--size {enough} is enough" in small.stderr
    assert not small.stdout
