"""Errors of the command line: one style, with what is wrong and what to do."""

from __future__ import annotations

import errno
import os
import resource
from typing import TYPE_CHECKING, Never

import pytest

if TYPE_CHECKING:
    from tests.support.command import Call


@pytest.mark.parametrize(
    ("words", "brief", "remedy"),
    [
        ("nightly instal", "`matrix nightly` has no command 'instal'", "did you mean install?"),
        ("plam", "`matrix` has no command 'plam'", "did you mean plan?"),
        ("run", "`matrix run` needs MATRIX", "`matrix run [OPTIONS] MATRIX`"),
        ("runs tag latest", "`matrix runs tag` needs TAG", "`matrix runs tag [OPTIONS] RUN TAG...`"),
        ("runs exclude latest", "`matrix runs exclude` needs --reason", "explains --reason"),
        ("runs exclude latest --reason", "option '--reason' requires an argument", "write --reason VALUE"),
        ("plan a b", "got unexpected extra argument (b)", "`matrix plan [OPTIONS] MATRIX`"),
        ("runs prune --bogus", "`matrix runs prune` has no option --bogus", "`matrix runs prune --help`"),
        ("runs prune", "no rule says which runs stay", "--keep AGE"),
        ("runs prune --keep soon", "--keep: not an age; write it like 12h", "explains --keep"),
        (
            "runs prune --down-to 1 MB",
            "--down-to: no unit; did you mean 1KiB? Write number and unit as one word",
            "--help",
        ),
        ("disks scratch --size 1XB", "--size: no size unit 'XB' is known", "explains --size"),
        ("disks scratch --in nowhere", "--in: directory 'nowhere' does not exist", "explains --in"),
        ("nightly install x --at 25", "--at: '25' is no time such as 02:00", "explains --at"),
        ("nightly install x.yaml", "x.yaml", "→"),
        ("clean --cache --host shelf", "--cache and --all are for this host", "log in to the other one"),
        ("completion tcsh", "SHELL: 'tcsh' is not one of", "explains SHELL"),
        ("chart nothing --metric read_bw --to x.gif", "no picture has this suffix", "use .svg or .png"),
        ("site nothing", "no results", "`matrix run`"),
        ("bug-report nothing", "nothing is not the folder of a run", "`matrix runs` lists runs"),
    ],
)
def test_each_error_has_a_reason_and_a_remedy(call: Call, words: str, brief: str, remedy: str) -> None:
    said = call(*words.split())
    assert (said.out, said.status) == ("", 2)
    first, *_, last = said.err.splitlines()
    assert first.startswith("matrix: ")
    assert brief in first
    assert last.startswith("→ ")
    assert remedy in last


def test_a_low_limit_of_open_files_has_its_remedy(call: Call) -> None:
    kept = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, kept[1]))
    try:
        said = call("runs")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, kept)
    assert said.status == 3
    assert said.err == (
        "matrix: this shell lets a program open 50 files, which is too few\n→ raise the limit: `ulimit -n 4096`\n"
    )


def test_too_many_open_files_are_no_mistake_in_matrix(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def crowded(**_: object) -> Never:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("matrix_runner.cli.cli.main", crowded)
    said = call("runs")
    assert said.status == 3
    assert "which is too few\n→ raise the limit: `ulimit -n 4096`" in said.err
