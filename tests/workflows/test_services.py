"""The services that docs/how-to/nightly-runner.md gives are ones that systemd understands."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.top import TOP

UNITS = re.findall(r"```ini\n(.*?)```", (TOP / "docs/how-to/nightly-runner.md").read_text(), re.DOTALL)


def test_there_are_two() -> None:
    assert len(UNITS) == 2
    assert ["User=matrix-runner" in unit for unit in UNITS] == [True, False]
    assert all("DevicePolicy=closed" in unit and "NoNewPrivileges=yes" in unit for unit in UNITS)


def test_arrays_may_be_noted_down_and_mounted_where_their_programs_do_that() -> None:
    """Locks of disks, mount points, what mdadm, LVM and cryptsetup remember: all of it is below /run."""
    assert "/run" in words_of(UNITS[1], "ReadWritePaths")


def test_the_user_who_goes_to_other_hosts_finds_its_keys() -> None:
    """ssh seeks them in the home that passwd names, wherever HOME points: one that the service can see."""
    text = (TOP / "docs/how-to/nightly-runner.md").read_text()
    (home,) = re.findall(r"adduser --system --group --home (\S+)", text)
    assert "ProtectHome=yes" in UNITS[0]
    assert not home.startswith(("/home", "/root", "/run/user"))
    assert home in words_of(UNITS[0], "ReadWritePaths")
    assert f"{home}/.ssh/" in text


#: Groups of devices that are not there before a module is, and the module. Disks bring their own; others stand here or fail.
MODULES = {"md": "md_mod", "device-mapper": "dm_mod", "loop": "loop", "sd": None, "nvme": None, "blkext": None}


def test_groups_of_devices_are_known_when_a_service_starts() -> None:
    """They are looked up then; one that /proc/devices does not have is left out, and nobody may open what comes later."""
    asked = [(unit, group) for unit in UNITS for group in re.findall(r"(?m)^DeviceAllow=(?:block|char)-(\S+)", unit)]
    assert {group for _, group in asked} == {"md", "device-mapper"}
    for unit, group in asked:
        if module := MODULES[group]:
            assert f"modprobe@{module}.service" in words_of(unit, "Wants"), group
            assert f"modprobe@{module}.service" in words_of(unit, "After"), group


def words_of(unit: str, key: str) -> set[str]:
    """All that is said of it, on however many lines."""
    return {word for line in re.findall(rf"(?m)^{key}=(.*)$", unit) for word in line.split()}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
@pytest.mark.parametrize("unit", UNITS, ids=["modelled", "real"])
def test_systemd_understands_them(tmp_path: Path, unit: str) -> None:
    here = tmp_path / "matrix-runner.service"
    # What is installed by then is not here.
    here.write_text(re.sub("(?m)^ExecStart=.*$", "ExecStart=/bin/true", unit))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(here)], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    said = [line for line in done.stderr.splitlines() if "matrix-runner.service" in line]
    assert not said, said


def test_what_is_said_of_variables_is_so() -> None:
    text, workflow = (
        (TOP / "docs/how-to/nightly-runner.md").read_text(),
        (TOP / ".github/workflows/nightly.yml").read_text(),
    )
    asked = set(re.findall(r"vars\.(\w+)", workflow))
    scripts = "".join(path.read_text() for path in (TOP / ".github/scripts").glob("*.sh"))
    asked |= set(re.findall(r"\$\{(MATRIX_\w+)", scripts)) | set(re.findall(r":-\$\{(MATRIX_\w+)", scripts))
    assert {name for name in asked if f"`{name}`" not in text} == set()
