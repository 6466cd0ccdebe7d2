"""Commands that change files, killed or interrupted in the middle: the same command ends the work, and nothing is lost."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.cli import nightly
from matrix_runner.hosts.scratch import practice_disks
from tests.records import past
from tests.support import forked

if TYPE_CHECKING:
    from tests.support.command import Call

#: Python reports each change of a file before it happens; the process gets the signal at the n-th one.
CODE = """
import os, signal, sys
from matrix_runner.cli import main, nightly
if "nightly" in sys.argv:
    os.geteuid = lambda: 1000  # a unit of root would be one of this host
    nightly._has_systemd = lambda: True
    nightly._systemctl = lambda *words: None
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
left = [{times}]

def hook(event, arguments):
    left[0] -= event == "{event}"
    if event == "{event}" and left[0] == 0:
        os.kill(os.getpid(), {number})

sys.addaudithook(hook)
main()
"""
MATRIX = """\
name: nas
disks: {count: 1, size: 1GiB}
layouts: {plain: [disk]}
workloads: {read: {rw: read, runtime: 1s}}
"""
NIGHTS = 5


@pytest.fixture
def place(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number in range(1, NIGHTS + 1):
        run = past.recorded(tmp_path / "results", [past.measured("c1", 1, number * 1e8)], number, exit=0, planned=1)
        (run.path / "cells/c1").mkdir(parents=True)
        for name in ("fio.json", "job.fio", "read-back.tsv"):
            (run.path / "cells/c1" / name).write_text(f"{name} of {number}")
    (tmp_path / "nas.yaml").write_text(MATRIX)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "state"))
    for name in ("appliances", "images"):
        (tmp_path / "cache" / name).mkdir(parents=True)
        for part in ("one", "two"):
            (tmp_path / "cache" / name / part).write_text(part)
    assert call("results").status == 0  # makes the store
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    """Return the files that a user sees."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


CASES = [
    ("runs rm --yes run-2", "os.rename", 1),
    ("runs rm --yes run-2", "os.remove", 3),
    ("runs prune --keep-last 1 --yes", "os.rename", 2),
    ("runs prune --keep-last 1 --yes", "os.remove", 9),
    ("runs exclude run-2 --reason rebuild", "os.rename", 1),
    ("site", "os.rename", 9),
    ("chart run-2 --metric read_bw --to chart.svg", "os.rename", 1),
    ("bug-report run-2", "os.rename", 1),
    ("report run-2", "os.rename", 3),
    ("accept run-2 --baseline --reason upgrade", "os.rename", 1),
    ("clean --cache", "os.remove", 2),
    ("nightly install nas.yaml --on dry", "os.rename", 1),
    ("nightly install nas.yaml --on dry", "os.rename", 2),
]
#: What is written once and the same again: it is whole, or not there.
WRITTEN = ("public/index.html", "chart.svg", "bug-report.tar.gz", "baselines.yaml")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill", "interrupt"])
@pytest.mark.parametrize(("words", "event", "times"), CASES)
def test_the_same_command_ends_the_work(
    place: Path, call: Call, monkeypatch: pytest.MonkeyPatch, words: str, event: str, times: int, number: signal.Signals
) -> None:
    before = files(place / "results")
    ended = forked.run(words.split(), code=CODE.format(event=event, times=times, number=int(number)), cwd=place)
    assert ended.returncode == (-number if number == signal.SIGKILL else 130), ended.stdout + ended.stderr
    after = files(place / "results")
    lost = {name for name in before if name not in after and "store.db" not in name}
    assert {name.partition("/")[0] for name in lost} <= (
        {"run-1", "run-2", "run-3", "run-4"} if "runs" in words else set()
    )
    for name in {one.partition("/")[0] for one in lost}:
        assert not (place / "results" / name).exists(), "a run is there as a whole, or not at all"
    assert not [name for name in WRITTEN if (place / name).exists()]
    if "nightly" in words:
        monkeypatch.setattr("os.geteuid", lambda: 1000)
        monkeypatch.setattr(nightly, "_has_systemd", lambda: True)
        monkeypatch.setattr(nightly, "_systemctl", lambda *_: None)
    again = call(*words.split())
    is_gone = "runs rm" in words and (place / "results/run-2").exists() is False and again.status == 2
    assert again.status == 0 or is_gone, again.err
    names = {one.split(" ")[1] for one in call("runs").out.splitlines() if one.startswith("│")}
    kept = (
        {"run-5"}
        if "prune" in words
        else {f"run-{one}" for one in range(1, NIGHTS + 1) if "rm" not in words or one != 2}
    )
    assert names == kept
    if "prune" in words:
        assert not [*(place / "results").glob(".*.half")], "their space is free"
    if "clean" in words:
        assert not [path for path in (place / "cache").rglob("*") if path.is_file() and not path.name.startswith(".")]
    if "nightly" in words:
        units = [path.read_text() for path in (place / ".config/systemd/user").iterdir()]
        assert len(units) == 2
        assert all("[Unit]" in text for text in units)


def test_a_practice_disk_that_was_half_made_is_removed(
    place: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matrix_runner.hosts.scratch.NAMES", place / "by-id")
    code = CODE.format(event="os.rename", times=1, number=int(signal.SIGKILL))
    assert forked.run(["disks", "scratch", "--size", "4MiB"], code=code, cwd=place).returncode == -signal.SIGKILL
    assert [path.name for path in place.glob("scratch-*")] == ["scratch-1.half"]
    assert [disk.name for disk in practice_disks(place)] == ["matrix-scratch-1"]
    assert call("disks", "scratch", "--remove").status == 0
    assert not [*place.glob("scratch-*")]
