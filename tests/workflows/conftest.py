"""Fixtures of the workflows: checkouts, and the folder of a runner."""

from pathlib import Path

import pytest

from tests.workflows.checkouts import RECORDER_PROGRAM, Recorder, make_checkout, real_program


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    made = tmp_path / "temp"
    made.mkdir()
    return made


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path, real_program())


@pytest.fixture
def recorder(tmp_path: Path, temp: Path) -> Recorder:
    return Recorder(make_checkout(tmp_path, RECORDER_PROGRAM), temp)
