"""`matrix doctor --kernel`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.kernels import BUILT_IN, RELEASE, ikconfig, image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from matrix_runner.machines.base import RigSpec
    from tests.support.command import Call, Matrix, Said


def test_doctor_judges_a_kernel(call: Callable[..., Said], tmp_path: Path) -> None:
    path = image(tmp_path, ikconfig(BUILT_IN.replace("CONFIG_DM_CACHE=y\n", "")))
    good = call("doctor", "--kernel", str(path))
    assert (good.status, f"Linux {RELEASE}" in good.out) == (0, True)
    assert "optional  CONFIG_DM_CACHE is not set: `lvm` of type cache" in good.out
    assert "verdict   boots the appliance; 1 option is missing" in good.out
    path = image(tmp_path, ikconfig(BUILT_IN.replace("CONFIG_SQUASHFS=y", "CONFIG_SQUASHFS=m")))
    bad = call("doctor", "--kernel", str(path))
    assert (bad.status, "- CONFIG_SQUASHFS is a module that cannot be loaded" in bad.out) == (3, True)
    unknown = call("doctor", "--kernel", str(image(tmp_path)))
    assert (unknown.status, f"copy its .config to {tmp_path}/config-{RELEASE}" in unknown.out) == (3, True)
    assert call("doctor", "--kernel", "debian-13").status == 0
    typo = call("doctor", "--kernel", "debian-31")
    assert (typo.status, "did you mean debian-12 or debian-13" in typo.err) == (2, True)


def test_a_plan_for_another_kernel(call: Callable[..., Said], tmp_path: Path) -> None:
    matrix = tmp_path / "my.yaml"
    matrix.write_text(
        "name: my\ndisks: {count: 1, size: 64MiB}\nlayouts: {one: [disk]}\nworkloads: {read: {rw: read}}\n"
    )
    assert call("plan", "--kernel", "debian-12", str(matrix)).status == 0
    typo = call("plan", "--kernel", "debian-31", str(matrix))
    assert "`matrix run --on qemu` would be refused here: no such kernel: debian-31" in typo.out
    matrix.write_text(matrix.read_text() + "machine: {kernel: debian-13}\n")
    other = call("plan", "--kernel", "debian-12", str(matrix))
    assert (other.status, "--kernel debian-12: the matrix itself names debian-13" in other.err) == (2, True)


def test_doctor(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix("doctor", "--on", "dry")
    assert result.returncode == 0
    assert "dry       ready" in result.stdout
    assert "kvm       " in result.stdout
    assert f"GB free for {tmp_path}/results/" in result.stdout


def test_the_doctor_names_one_command_for_a_machine(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/gcc" if name == "gcc" else None)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    done = call("doctor", "--on", "qemu")
    assert done.status == 3
    (command,) = [line.strip() for line in done.out.splitlines() if "→" in line]
    assert command.startswith("→ apt install qemu-system-x86 ")
    assert command.endswith(" zstd nbdkit nbdkit-plugin-dev fio")


def test_modules_that_a_host_lacks_skip_only_their_stacks(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def query(_: object, spec: RigSpec, __: str) -> str:
        return "".join(f"no-module {one}\n" for one in ("raid456", "f2fs") if one in spec.modules) + "kernel 6.1.0\n"

    monkeypatch.setattr("matrix_runner.machines.requirements.query", query)
    done = call("doctor", "--on", "local")
    assert (done.status, "local     ready\n" in done.out) == (0, True)
    (line,) = [line for line in done.out.splitlines() if "skips     stacks" in line]
    assert "`md: {level: 4 or 5 or 6}`" in line
    assert "`md: {level: 1}`" not in line
    assert "the kernel (6.1.0) has no f2fs, raid456; other stacks run." in line
