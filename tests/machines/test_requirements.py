"""What a host must have: asked by a real bash, answered by a kernel that we make up."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from matrix_runner.machines import requirements
from matrix_runner.machines.base import Refusal, RigSpec

if TYPE_CHECKING:
    from pathlib import Path

SPEC = RigSpec(disks=(), modules=("raid456", "xfs"), programs=("mdadm", "mkfs.xfs"))


def test_each_required_program_has_a_package() -> None:
    assert set(requirements.ALWAYS) <= set(requirements.PACKAGES)


def test_missing_requirements_are_refused_with_a_remedy() -> None:
    said = "no-program mdadm\nno-module raid456\nno-root alice\nkernel 6.1.0\nfio fio-3.33\n"
    found = [(one.brief, one.resolution.split(",")[0]) for one in requirements.refusals(said, "shelf")]
    assert found == [
        ("shelf has no mdadm", "on shelf: apt install mdadm"),
        (
            "the kernel of shelf (6.1.0) has no raid456, neither built in nor as a module",
            "install the modules of that kernel",
        ),
        ("alice may not work on the disks of shelf", "log in as root: on this host by sudo"),
    ]
    known = {"kernel": "6.1.0", "fio": "fio-3.33"}
    assert requirements.facts(said) == {**known, "without": "raid456", "absent": "mdadm"}
    assert requirements.facts("kernel 6.1.0\nfio fio-3.33\n") == known


def test_optional_programs_are_not_missing() -> None:
    said = "no-program smartctl\nno-program mdadm\nkernel 6.1.0\n"
    assert requirements.missing(said) == ["mdadm (apt install mdadm)"]
    assert requirements.missing_optional(said) == [
        "smartctl (apt install smartmontools): reads the health of disks before and after a run"
    ]
    assert requirements.missing_optional("kernel 6.1.0\n") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give up a right")
def test_the_doctor_names_a_host_where_root_may_not_mount() -> None:
    ask = requirements.query_command((), ())
    dropped = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", *ask]
    with_right, without = (subprocess.run(one, capture_output=True, text=True).stdout for one in (ask, dropped))
    assert requirements.missing_optional(with_right) == []
    (lack,) = requirements.missing_optional(without)
    assert "CAP_SYS_ADMIN" in lack
    assert requirements.facts(without) == requirements.facts(with_right)


def test_a_host_that_has_it_all_is_not_refused() -> None:
    assert not list(requirements.refusals("kernel 6.1.0\n", "shelf"))


def test_missing_programs_are_found(tmp_path: Path) -> None:
    for name in ("fio", "id", "mdadm", "modprobe", "dmsetup"):
        body = {"modprobe": "exit 1", "dmsetup": "exit 1", "id": "echo 0"}.get(name, "exit 0")
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "grep").symlink_to("/usr/bin/grep")
    asked = subprocess.run(
        ["/bin/bash", "-c", requirements.ASK, "ask", "no_such_module_x", "mdadm,no-such-program"],
        env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert asked.stdout.splitlines() == ["no-program no-such-program", "no-module no_such_module_x"]
    assert asked.stderr == ""


def test_a_missing_option_is_a_fact() -> None:
    said = "kernel 6.1\nno-option MD_LLBITMAP\n"
    assert requirements.facts(said) == {"kernel": "6.1", "unset": "MD_LLBITMAP"}
    assert not list(requirements.refusals(said, "here"))
    assert requirements.query_command((), (), ["A", "B"])[-1] == "A,B"


@pytest.mark.parametrize(("version", "found"), [("3.8.18", False), ("3.9.0", True), ("3.13.1", True)])
def test_the_agent_needs_a_python_that_is_not_too_old(version: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "python3").write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = ({version.replace(".", ",")}); $3"\n'
    )
    (tmp_path / "python3").chmod(0o755)
    asked = subprocess.run(
        requirements.query_command((), ("python3",)),
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ("no-program python3\n" not in asked.stdout) == found
    assert found or "python3 3.9 or later (apt install python3)" in requirements.missing(asked.stdout)
    assert [
        one for one in requirements.refusals(asked.stdout, "shelf") if one.resolution == "on shelf: apt install python3"
    ] == [one for one in requirements.refusals("no-program python3", "shelf") if not found]


def test_a_host_without_a_shell_is_reported() -> None:
    from matrix_runner.base.errors import HarnessBroken

    with pytest.raises(HarnessBroken, match="no shell on shelf: status 1"):
        requirements.query(("false",), SPEC, "shelf")


def test_one_command_installs_all_missing_packages_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    refusals = [
        Refusal("gcc is not installed:", "apt install gcc libc6-dev"),
        Refusal("xz is not installed", "apt install xz-utils"),
        Refusal("shelf has no mdadm", "on shelf: apt install mdadm"),
        Refusal("no engine is installed", "apt install podman, or docker.io"),
    ]
    lines, commands = requirements.describe(refusals, also=["fio", "gcc"])
    assert lines == [
        "gcc is not installed",
        "xz is not installed",
        "shelf has no mdadm",
        "no engine is installed: apt install podman, or docker.io",
    ]
    assert commands == ["sudo apt install gcc libc6-dev xz-utils fio", "on shelf: apt install mdadm"]


def test_without_sudo_only_root_can_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    refusals = [Refusal("xz is not installed", "apt install xz-utils")]
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert requirements.describe(refusals)[1] == ["as root: apt install xz-utils"]
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert requirements.describe(refusals)[1] == ["apt install xz-utils"]
