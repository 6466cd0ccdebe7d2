"""Programs are found in the sbin folders, too."""

import os

import pytest

from matrix_runner.base import add_sbin


def test_the_folders_come_last_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/sbin:/usr/bin")
    add_sbin()
    add_sbin()
    assert os.environ["PATH"] == "/sbin:/usr/bin:/usr/sbin"
