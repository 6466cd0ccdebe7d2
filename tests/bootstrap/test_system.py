"""Packages of the operating system: what is asked, of whom, and what happens when it goes wrong."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.bootstrap.place import Place


COMMAND = "apt-get install --no-install-recommends "


def apt_calls(place: Place) -> list[str]:
    return [call for call in place.calls() if call.startswith("apt-get")]


@pytest.fixture
def fio_missing(set_up: Place) -> Place:
    """Everything is there but fio, and somebody without root is about to notice."""
    installed = (set_up.folder / "installed").read_text()
    set_up.write("installed", installed.replace("fio\n", ""))
    set_up.write("uid", "1000")
    return set_up


def test_root_installs_directly_and_without_questions(place: Place) -> None:
    assert place.bootstrap("plan").returncode == 0
    update, install = apt_calls(place)
    assert "update" in update
    assert "--no-install-recommends" in install
    assert "--yes" in install
    assert install.endswith("(noninteractive)")


def test_only_what_is_missing_is_installed(fio_missing: Place) -> None:
    said = fio_missing.bootstrap("plan").stderr
    assert "needs (1):" in said
    assert "fio  " in said
    assert "squashfs-tools" not in said
    assert apt_calls(fio_missing)[-1].endswith("--no-install-recommends fio (noninteractive)")


def test_packages_for_tests_are_installed_for_tests_only(set_up: Place) -> None:
    assert "bonnie++" not in (set_up.folder / "installed").read_text()
    assert set_up.bootstrap("test", "-q").returncode == 0
    *_, install = apt_calls(set_up)
    assert " bonnie++ " in install
    assert " fio " not in install


def _disabled(place: Place) -> list[str]:
    return [call.split()[-1] for call in place.calls() if call.startswith("systemctl disable")]


@pytest.mark.parametrize(("system", "has"), [("debian", True), ("ubuntu", False)])
def test_ubuntu_has_no_package_of_chromium(set_up: Place, system: str, has: bool) -> None:
    set_up.write("os-release", f"ID={system}\n")
    set_up.bootstrap("test")
    *_, install = apt_calls(set_up)
    assert (" chromium " in install, " sqlite3 " in install) == (has, True)


def test_no_service_starts_during_an_installation(set_up: Place) -> None:
    set_up.once("install", '"$PLACE/policy-rc.d" ssh start; echo "$?" >"$PLACE/answer"')
    assert set_up.bootstrap("test", "-q").returncode == 0
    assert (set_up.folder / "answer").read_text() == "101\n"
    assert not set_up.policy.exists()


def test_services_start_again_after_a_failed_installation(set_up: Place) -> None:
    set_up.once("install", "exit 100")
    assert set_up.bootstrap("test", "-q").returncode == 3
    assert not set_up.policy.exists()


def test_a_policy_that_a_killed_bootstrap_left_forbids_no_start(set_up: Place) -> None:
    set_up.once("install", 'cp "$PLACE/policy-rc.d" "$PLACE/left"')
    (set_up.bin / "cp").symlink_to("/bin/cp")
    assert set_up.bootstrap("test", "-q").returncode == 0
    assert subprocess.run([set_up.folder / "left", "ssh", "start"]).returncode == 0


def test_a_policy_of_the_administrator_stays(set_up: Place) -> None:
    set_up.write("policy-rc.d", "#!/bin/sh\nexit 0\n")
    assert set_up.bootstrap("test", "-q").returncode == 0
    assert set_up.policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_servers_that_come_with_the_packages_are_disabled(set_up: Place) -> None:
    set_up.once("install", 'echo " ssh.service postgresql.service " >"$PLACE/units"')
    assert set_up.bootstrap("test", "-q").returncode == 0
    assert _disabled(set_up) == ["postgresql.service", "ssh.service"]


def test_servers_that_were_there_before_stay_enabled(set_up: Place) -> None:
    set_up.write("units", " ssh.service postgresql.service ")
    assert set_up.bootstrap("test", "-q").returncode == 0
    assert _disabled(set_up) == []


def test_a_system_without_systemd_has_no_unit_to_disable(set_up: Place) -> None:
    set_up.lacks("systemctl")
    assert set_up.bootstrap("test", "-q").returncode == 0


def test_a_package_with_configuration_left_is_missing(set_up: Place) -> None:
    set_up.program("dpkg-query", 'while read -r name; do echo "rc  $name"; done <"$PLACE/installed"')
    set_up.bootstrap("plan")
    assert len(apt_calls(set_up)) == 2


def test_a_package_on_hold_is_there(set_up: Place) -> None:
    set_up.program("dpkg-query", 'while read -r name; do echo "hi  $name"; done <"$PLACE/installed"')
    set_up.bootstrap("plan")
    assert apt_calls(set_up) == []


def test_a_user_goes_through_sudo(fio_missing: Place) -> None:
    assert fio_missing.bootstrap("plan").returncode == 0
    assert [call.split(" apt-get")[0] for call in fio_missing.calls() if call.startswith("sudo -n env")] == [
        "sudo -n env DEBIAN_FRONTEND=noninteractive"
    ] * 2


def test_without_sudo_the_command_is_given(fio_missing: Place) -> None:
    fio_missing.lacks("sudo")
    ended = fio_missing.bootstrap("plan")
    assert ended.returncode == 2
    assert f"{COMMAND}fio\n" in ended.stderr
    assert fio_missing.calls() == []


def test_sudo_with_a_password_needs_a_terminal(fio_missing: Place) -> None:
    fio_missing.once("sudo", "exit 1")
    ended = fio_missing.bootstrap("plan")
    assert ended.returncode == 2
    assert f"{COMMAND}fio\n" in ended.stderr
    assert apt_calls(fio_missing) == []


@pytest.mark.parametrize("answer", ["\n", "y\n", "Yes\n"])
def test_a_terminal_shows_one_question(fio_missing: Place, answer: str) -> None:
    status, shown = fio_missing.at_a_terminal(answer, "plan")
    assert status == 0
    assert shown.count("[Y/n]") == 1
    assert f"sudo {COMMAND}fio" in shown
    assert len(apt_calls(fio_missing)) == 2


def test_a_no_is_a_no(fio_missing: Place) -> None:
    status, shown = fio_missing.at_a_terminal("n\n", "plan")
    assert status == 2
    assert "nothing was installed" in shown
    assert fio_missing.calls() == []


def test_ci_shows_no_question(fio_missing: Place) -> None:
    fio_missing.env["CI"] = "true"
    status, shown = fio_missing.at_a_terminal("", "plan")
    assert status == 0
    assert "[Y/n]" not in shown


def test_without_standard_input_there_is_no_question(fio_missing: Place) -> None:
    status, shown = fio_missing.at_a_terminal("", "plan", typing=False)
    assert status == 0
    assert "[Y/n]" not in shown


def test_leaving_is_a_no(fio_missing: Place) -> None:
    assert fio_missing.at_a_terminal("", "plan")[0] == 2
    assert fio_missing.calls() == []


def test_root_sees_no_question(fio_missing: Place) -> None:
    fio_missing.write("uid", "0")
    status, shown = fio_missing.at_a_terminal("", "plan")
    assert status == 0
    assert "[Y/n]" not in shown


@pytest.mark.parametrize(
    ("apt_says", "hint"),
    [
        ("W: Failed to fetch: Temporary failure resolving 'an.archive'", "out of reach"),
        ("E: Unable to locate package fio", "universe"),
        ("E: You don't have enough free space: No space left on device", "disk is full"),
        ("E: something new", "no reason this script knows"),
    ],
)
def test_a_failure_shows_its_evidence(fio_missing: Place, apt_says: str, hint: str) -> None:
    fio_missing.once("install", f'echo "{apt_says}"; exit 100')
    ended = fio_missing.bootstrap("plan")
    assert ended.returncode == 3
    assert f"  | {apt_says}\n" in ended.stderr
    assert hint in ended.stderr
    assert str(fio_missing.logs()[0]) in ended.stderr


def test_an_old_index_will_do(fio_missing: Place) -> None:
    fio_missing.once("update", "exit 100")
    assert fio_missing.bootstrap("plan").returncode == 0


@pytest.mark.parametrize("step", ["update", "install"])
def test_another_apt_is_waited_for(fio_missing: Place, step: str) -> None:
    fio_missing.once(step, 'echo "E: Could not get lock /var/lib/apt/lists/lock"; exit 100')
    assert fio_missing.bootstrap("plan").returncode == 0
    calls = fio_missing.calls()
    assert sum(call.startswith("sleep") for call in calls) == 1
    assert sum(call.startswith("apt-get") for call in calls) == 3


def test_an_interrupted_dpkg_is_finished_first(fio_missing: Place) -> None:
    fio_missing.once("install", 'echo "E: dpkg was interrupted, you must manually run ..."; exit 100')
    assert fio_missing.bootstrap("plan").returncode == 0
    own = [call for call in fio_missing.calls() if call.startswith(("apt-get", "dpkg"))]
    assert own[2] == "dpkg --configure -a"
    assert "install" in own[3]


def test_a_dpkg_that_cannot_be_finished_is_left_to_its_owner(fio_missing: Place) -> None:
    fio_missing.once("install", 'echo "E: dpkg was interrupted, you must manually run ..."; exit 100')
    fio_missing.program("dpkg", "exit 1")
    ended = fio_missing.bootstrap("plan")
    assert ended.returncode == 3
    assert "`dpkg --configure -a` as root" in ended.stderr


def test_elsewhere_than_on_debian_the_tools_are_taken_for_granted(place: Place) -> None:
    place.lacks("dpkg-query")
    ended = place.bootstrap("plan")
    assert ended.returncode == 0
    assert "qemu-system-x86" in ended.stderr
    assert apt_calls(place) == []
