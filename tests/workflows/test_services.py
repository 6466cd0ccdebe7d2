"""The systemd units and the variables in docs/how-to/nightly-runner.md."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.top import TOP

UNITS = re.findall(r"```ini\n(.*?)```", (TOP / "docs/how-to/nightly-runner.md").read_text(), re.DOTALL)


def test_there_are_two_units_with_least_rights() -> None:
    assert len(UNITS) == 2
    assert ["User=matrix-runner" in unit for unit in UNITS] == [True, False]
    assert all("DevicePolicy=closed" in unit and "NoNewPrivileges=yes" in unit for unit in UNITS)


def test_the_unit_for_disks_may_write_run() -> None:
    """Locks of disks, mount points and the state of mdadm, LVM and cryptsetup are below /run."""
    assert "/run" in words_of(UNITS[1], "ReadWritePaths")


def test_the_unit_for_ssh_can_read_its_keys() -> None:
    """ssh looks in the home of passwd, not in $HOME, so the service must see that folder."""
    text = (TOP / "docs/how-to/nightly-runner.md").read_text()
    (home,) = re.findall(r"adduser --system --group --home (\S+)", text)
    assert "ProtectHome=yes" in UNITS[0]
    assert not home.startswith(("/home", "/root", "/run/user"))
    assert home in words_of(UNITS[0], "ReadWritePaths")
    assert f"{home}/.ssh/" in text


#: Groups of devices, and the module that creates each. Disks create their own.
MODULES = {"md": "md_mod", "device-mapper": "dm_mod", "loop": "loop", "sd": None, "nvme": None, "blkext": None}


def test_modules_of_allowed_devices_are_loaded_first() -> None:
    """systemd looks groups up at the start of a service, and drops those that /proc/devices lacks."""
    asked = [(unit, group) for unit in UNITS for group in re.findall(r"(?m)^DeviceAllow=(?:block|char)-(\S+)", unit)]
    assert {group for _, group in asked} == {"md", "device-mapper"}
    for unit, group in asked:
        if module := MODULES[group]:
            assert f"modprobe@{module}.service" in words_of(unit, "Wants"), group
            assert f"modprobe@{module}.service" in words_of(unit, "After"), group


def words_of(unit: str, key: str) -> set[str]:
    """Return the words of all lines with this key."""
    return {word for line in re.findall(rf"(?m)^{key}=(.*)$", unit) for word in line.split()}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=["modelled", "real"])
def test_systemd_understands_them(tmp_path: Path, unit: str) -> None:
    here = tmp_path / "matrix-runner.service"
    # The runner is not installed here.
    here.write_text(re.sub("(?m)^ExecStart=.*$", "ExecStart=/bin/true", unit))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(here)], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    said = [line for line in done.stderr.splitlines() if "matrix-runner.service" in line]
    assert not said, said


def test_all_variables_are_documented() -> None:
    text, workflow = (
        (TOP / "docs/how-to/nightly-runner.md").read_text(),
        (TOP / ".github/workflows/nightly.yml").read_text(),
    )
    asked = set(re.findall(r"vars\.(\w+)", workflow))
    scripts = "".join(path.read_text() for path in (TOP / ".github/scripts").glob("*.sh"))
    asked |= set(re.findall(r"\$\{(MATRIX_\w+)", scripts)) | set(re.findall(r":-\$\{(MATRIX_\w+)", scripts))
    assert {name for name in asked if f"`{name}`" not in text} == set()
