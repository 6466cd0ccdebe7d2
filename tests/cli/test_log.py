"""`matrix.log` in a run folder, `--verbose` and MATRIX_LOG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.machines.base import RigLost
from matrix_runner.machines.dry import DryRig

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call


def _log(tmp_path: Path) -> str:
    (run,) = (tmp_path / "results").glob("small-dry-*")
    return (run / "matrix.log").read_text()


@pytest.mark.usefixtures("matrix")
def test_a_run_writes_its_log(call: Call, tmp_path: Path) -> None:
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    text = _log(tmp_path)
    assert ": matrix run --on dry --quiet small.yaml\n" in text
    for part in (
        "git -c",
        "estimated: ",
        "round 1 opens",
        "batch: round 1, stack ",
        "rig-up: ",
        "started: ",
        "trial: ",
    ):
        assert part in text
    assert text.rstrip().splitlines()[-1].split("INFO    ")[1].startswith("the run ends with exit code 0: ")
    assert "DEBUG" not in text


@pytest.mark.usefixtures("matrix")
def test_verbose_shows_steps_and_programs(call: Call, tmp_path: Path) -> None:
    said = call("run", "--on", "dry", "--verbose", "--json", "small.yaml")
    assert said.status == 0
    assert "DEBUG   step measure ended with 0 after " in said.err
    assert "DEBUG   step measure ended with 0 after " in _log(tmp_path)
    assert all(line.startswith("{") for line in said.out.splitlines())


@pytest.mark.usefixtures("matrix")
def test_matrix_log_sets_the_level(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_LOG", "debug")
    assert call("run", "--on", "dry", "--quiet", "small.yaml").err == ""
    assert "DEBUG   step tune" in _log(tmp_path)
    monkeypatch.setenv("MATRIX_LOG", "loud")
    said = call("run", "--on", "dry", "--fresh", "small.yaml")
    assert (said.status, said.err) == (2, "matrix: MATRIX_LOG is 'loud'\n→ use debug, info, warning\n")
    assert len([*(tmp_path / "results").glob("small-dry-*")]) == 1


@pytest.mark.usefixtures("matrix")
def test_a_machine_that_hangs_leaves_the_last_lines_with_its_error(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object, **__: object) -> None:
        raise RigLost("the guest did not answer within 60 s", tail="its console")

    monkeypatch.setattr(DryRig, "run", hang)
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 3
    lost = next((tmp_path / "results").glob("*/cells/**/lost-1.log")).read_text()
    head, tail = lost.split("last lines of the log:\n")
    assert head == "set-up: the guest did not answer within 60 s\n\nits console\n\n"
    assert "INFO    batch: round 1, stack " in tail
    assert "rig-lost: " in _log(tmp_path)
