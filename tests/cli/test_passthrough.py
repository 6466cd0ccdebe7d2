"""What is refused of `--passthrough`, before anything is started or written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Said

Call = Callable[..., Said]

MATRIX = """\
name: small
disks: {count: 2, size: 64MiB%s}
layouts: {mirror: [md: {level: 1%s}]}
workloads: {work: {rw: randread, bs: 4KiB, runtime: 1s}}
repeat: 1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.parametrize(
    ("disks", "md", "words", "why"),
    [
        ("", "", ("--on", "local"), "--passthrough: local makes no virtual machine"),
        ("", "", ("--on", "dry"), "--passthrough: dry makes no virtual machine"),
        (", model: nas-7200", "", (), "disks that exist follow no model"),
        ("", ", sync: assume-clean", (), "those of qemu-passthrough are not known to be"),
        ("", "", (), "there is no hosts.yaml, so no disk that exists may be used"),
    ],
)
def test_it_is_refused_and_nothing_is_left(
    call: Call, here: Path, disks: str, md: str, words: tuple[str, ...], why: str
) -> None:
    (here / "m.yaml").write_text(MATRIX % (disks, md))
    said = call("run", "--passthrough", *words, "m.yaml")
    assert said.status == 2, said.err
    assert why in said.err
    assert not (here / "results").exists()
