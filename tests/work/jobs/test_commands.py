"""fio runs a command for some options. Each spelling that fio takes for one is refused before anything starts."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call

#: What can stand in a job file around an option that runs a command, with `{}` for the option.
LINES = (
    *("{}", " {}", "\t{}", "\x0b{}", "\x0c{}", "\r{}\r", "\ufeff{}", "\xa0{}", '"{}"', "--{}", "-{}", "{};x", "{}#x"),
    *(";\n{}", "#\\\n{}", "bs=4k\\\n{}", "bs=4k {}", "bs=4k\r{}", "bs=4k\x0b{}", "bs=4k;{}", "bs=4k\x00\n{}"),
    *("bs=4k\x85{}", "bs=4k\u2028{}", "[b]{}", "[b] {}", "[b\n{}", "[global]\n{}\n[b]\nrw=read", "{}\nexec_prerun="),
    *("include inc", "include=inc", "include\tinc", "includeinc", "include ./inc", "include deep"),
    *(f"description={'x' * length}{{}}" for length in (3988, 4082, 4083, 4084, 8178, 8179)),
)
NAMES = (
    *("exec_prerun", "exec_postrun", "EXEC_PRERUN", "Exec_prerun", "exec_pre", "exec-prerun", "exec_prerun\u200b"),
    *("exec_prerun ", "exec_prerun\t", "exec_prerun=", "exec_prerun:", "${COMMAND}", "exec_${WHEN}", "${COMMAND}="),
)
ENVIRONMENT = {"COMMAND": "exec_prerun", "WHEN": "postrun"}
MATRIX = """\
name: m
disks: {{count: 1, size: 64MiB}}
layouts: {{raw: [disk]}}
workloads: {{w: {workload}}}
"""


def texts() -> list[str]:
    return list(
        dict.fromkeys(
            (
                *(line.replace("{}", "exec_prerun=touch made") for line in LINES),
                *(f"{name}=touch made" for name in NAMES),
                *(f"{name} touch made" for name in NAMES),
            )
        )
    )


def test_each_spelling_of_a_command_in_a_job_file_is_refused(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which("fio"):
        pytest.skip("needs fio")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "inc").write_text("exec_prerun=touch made\n")
    (tmp_path / "deep").write_text("include inc\n")
    (tmp_path / "m.yaml").write_text(MATRIX.format(workload="{job: job.fio}"))
    job, made, taken = tmp_path / "job.fio", tmp_path / "made", 0
    for text in texts():
        job.write_bytes(f"[a]\nioengine=null\nrw=read\nsize=4k\n{text}\n".encode())
        subprocess.run(["fio", "job.fio"], cwd=tmp_path, capture_output=True, env={**os.environ, **ENVIRONMENT})
        runs = made.exists()
        made.unlink(missing_ok=True)
        job.write_bytes(f"[a]\nrw=read\nsize=4k\n{text}\n".encode())
        said = call("validate", "m.yaml")
        assert not made.exists()
        assert "Traceback" not in said.err, (text, said.err)
        assert not runs or said.status == 2, text
        taken += runs
    assert taken > 20


KEYS = (
    *NAMES,
    *("a.exec_prerun", "a.a.exec_prerun", " exec_prerun", "\x0bexec_prerun", "size=4k\nexec_prerun", "exec_prerun=x;"),
    *(
        "[b]\nexec_prerun",
        "a.size=4k\nexec_prerun",
        "program",
        "arguments",
        "a. exec_prerun",
        "exec_prerun;",
        "#\nexec_prerun",
    ),
)


@pytest.mark.parametrize("workload", ["{job: job.fio, set: {%s: %s}}", "{rw: read, bs: 4KiB, fio: {%s: %s}}"])
def test_each_spelling_of_a_command_as_a_key_is_refused(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, workload: str
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "job.fio").write_text("[a]\nrw=read\nsize=4k\n")
    given = [(key, "touch made") for key in KEYS]
    given += [
        (key, f"4k{end}exec_prerun=touch made") for key in ("size", "rate") for end in ("\n", "\r\n", "\x0b", "\\n")
    ]
    given += [("description", f"{'x' * length}exec_prerun=touch made") for length in (3988, 4083, 4084)]
    quoted = [
        ["".join(f"\\x{ord(char):02x}" if ord(char) < 256 else char for char in one) for one in two] for two in given
    ]
    for key, value in quoted:
        text = MATRIX.format(workload=workload % (f'"{key}"', f'"{value}"'))
        (tmp_path / "m.yaml").write_text(text)
        said = call("validate", "m.yaml")
        assert (said.status, "Traceback" in said.err) == (2, False), (text, said)
        assert not (tmp_path / "made").exists()
