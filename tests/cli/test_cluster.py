"""`matrix worker` and `matrix cluster`: what they refuse, and the systemd unit."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.cluster import worker_command

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call


def test_the_unit_starts_the_program_that_printed_it(call: Call, tmp_path: Path) -> None:
    unit = call("worker", "--unit").out
    assert f"ExecStart={tmp_path / 'matrix'} worker --cluster tls://" in unit
    if shutil.which("systemd-analyze"):
        path = tmp_path / "matrix-worker.service"
        path.write_text(unit.replace(str(tmp_path / "matrix"), "/bin/true"))
        checked = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
        assert checked.stderr == ""


@pytest.mark.parametrize(
    ("folder", "word"), [("a b", '"{}/a b/matrix"'), ("a%h", '"{}/a%%h/matrix"'), ("a$b", '"{}/a$$b/matrix"')]
)
def test_the_unit_quotes_the_place_of_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str, word: str
) -> None:
    (tmp_path / folder).mkdir()
    monkeypatch.setattr("sys.argv", [str(tmp_path / folder / "matrix")])
    assert (
        f"ExecStart={word.format(tmp_path)} worker --cluster" in CliRunner().invoke(worker_command, ["--unit"]).output
    )


def test_the_unit_has_no_line_of_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/a\nUser=root/matrix"])
    assert isinstance(CliRunner().invoke(worker_command, ["--unit"]).exception, BadInput)


@pytest.mark.parametrize("words", [("worker",), ("cluster", "status"), ("cluster", "scheduler")])
@pytest.mark.parametrize("address", [(), ("--cluster", "local:2")])
def test_members_need_the_address_of_a_scheduler(call: Call, words: tuple[str, ...], address: tuple[str, ...]) -> None:
    refused = call(*words, *address)
    assert refused.status == 2
    assert "--cluster" in refused.err


def test_rigs_are_the_only_resource(call: Call) -> None:
    refused = call("worker", "--cluster", "tcp://localhost:1", "--resources", "rig=1,kvm=1")
    assert refused.status == 2
    assert "`rig` is the only resource; --tags names other properties" in refused.err


def test_tags_choose_workers_of_a_scheduler_only(call: Call, matrix: object) -> None:
    refused = call("run", "--on", "dry", "--tags", "nvme", "small.yaml")
    assert (refused.status, "--tags chooses workers of a scheduler" in refused.err) == (2, True)


def test_resources_are_numbers(call: Call) -> None:
    refused = call("worker", "--cluster", "tcp://localhost:1", "--resources", "rig=many")
    assert refused.status == 2
    assert "'rig=many': write NAME=NUMBER, for example rig=2" in refused.err
