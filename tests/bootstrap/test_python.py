"""The private Python environment: built from the lock, once, and never half."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.bootstrap.place import Place

OUT_OF_REACH = 'echo "NewConnectionError: nobody there"; exit 1'
HALF_DONE = 'echo "Installing collected packages: click"; echo "No space left on device"; exit 1'
KILLED = "kill -KILL $PPID"


def built(place: Place) -> list[str]:
    """Which lock files were installed since last asked, and `venv` for each environment made anew."""
    return [
        "venv" if call.startswith("venv") else call.rpartition("/")[2]
        for call in place.calls()
        if call.startswith(("venv", "pip"))
    ]


def test_only_what_is_locked_and_needs_no_compiler(place: Place) -> None:
    place.bootstrap("plan")
    [pip] = [call for call in place.calls() if call.startswith("pip")]
    assert "--require-hashes" in pip
    assert "--only-binary :all:" in pip
    assert pip.endswith(f"-r {place.checkout}/requirements.lock")
    assert "index" not in pip


def test_the_checkout_itself_is_installed_without_an_index(place: Place) -> None:
    place.bootstrap("plan")
    [editable] = [call for call in place.calls() if call.startswith("editable")]
    assert editable.endswith(f"--editable {place.checkout}")
    assert "--no-index --no-deps --no-build-isolation" in editable


def test_another_declaration_of_the_package_means_starting_over(set_up: Place) -> None:
    set_up.write("a check out/pyproject.toml", "[project]\nname = 'other'\n")
    set_up.bootstrap("plan")
    assert built(set_up) == ["venv", "requirements.lock"]


def test_tools_are_added_to_an_environment_that_runs(set_up: Place) -> None:
    set_up.bootstrap("test")
    assert built(set_up) == ["requirements-dev.lock"]
    set_up.bootstrap("test")
    set_up.bootstrap("plan")
    assert built(set_up) == []


def test_commands_run_in_the_environment_of_the_tests(place: Place) -> None:
    place.bootstrap("test")
    assert built(place) == ["venv", "requirements-dev.lock"]
    place.bootstrap("plan")
    assert built(place) == []


def test_another_lock_means_starting_over(set_up: Place) -> None:
    (set_up.venv / "leftover").touch()
    set_up.write("a check out/requirements.lock", "click==9\n")
    set_up.bootstrap("plan")
    assert built(set_up) == ["venv", "requirements.lock"]
    assert not (set_up.venv / "leftover").exists()


def test_another_python_means_starting_over(set_up: Place) -> None:
    set_up.write("version", "3.13.5")
    set_up.bootstrap("plan")
    assert built(set_up) == ["venv", "requirements.lock"]


def test_a_checkout_that_moved_means_starting_over(set_up: Place) -> None:
    set_up.checkout = set_up.checkout.rename(set_up.folder / "elsewhere")
    set_up.bootstrap("plan")
    assert built(set_up) == ["venv", "requirements.lock"]


def test_an_interpreter_that_went_away_means_starting_over(set_up: Place) -> None:
    (set_up.venv / "bin/python").unlink()
    set_up.bootstrap("plan")
    assert built(set_up) == ["venv", "requirements.lock"]


@pytest.mark.parametrize("step", ["venv", "pip"])
def test_a_killed_run_is_repaired_by_the_next(place: Place, step: str) -> None:
    place.once(step, KILLED)
    assert place.bootstrap("plan").returncode == -signal.SIGKILL
    place.calls()
    assert place.bootstrap("plan").returncode == 0
    assert built(place) == ["venv", "requirements.lock"]


def test_a_kill_while_the_old_one_is_cleared_away(set_up: Place) -> None:
    set_up.write("a check out/requirements.lock", "click==9\n")
    find = (set_up.bin / "find").readlink()
    set_up.lacks("find")
    set_up.program("find", KILLED)
    assert set_up.bootstrap("plan").returncode == -signal.SIGKILL
    (set_up.bin / "find").unlink()
    (set_up.bin / "find").symlink_to(find)
    set_up.write("a check out/requirements.lock", "click==8\n")
    set_up.bootstrap("plan")
    assert built(set_up) == ["venv", "requirements.lock"]


def test_a_kill_during_installation_leaves_an_environment_to_rebuild(set_up: Place) -> None:
    set_up.once("pip", KILLED)
    set_up.bootstrap("test")
    set_up.calls()
    set_up.bootstrap("plan")
    assert built(set_up) == ["venv", "requirements.lock"]


def test_out_of_reach_of_an_index_what_runs_keeps_running(set_up: Place) -> None:
    set_up.once("pip", OUT_OF_REACH)
    ended = set_up.bootstrap("test")
    assert ended.returncode == 3
    assert "  | NewConnectionError: nobody there\n" in ended.stderr
    assert "out of reach" in ended.stderr
    set_up.calls()
    assert set_up.bootstrap("plan").returncode == 0
    assert built(set_up) == []


def test_a_failure_half_way_is_no_environment(set_up: Place) -> None:
    set_up.once("pip", HALF_DONE)
    ended = set_up.bootstrap("test")
    assert "disk is full" in ended.stderr
    set_up.calls()
    set_up.bootstrap("plan")
    assert built(set_up) == ["venv", "requirements.lock"]


@pytest.mark.parametrize(
    ("pip_says", "hint"),
    [
        ("THESE PACKAGES DO NOT MATCH THE HASHES", "do not use it"),
        ("SSL: CERTIFICATE_VERIFY_FAILED", "PIP_CERT"),
        ("No matching distribution found for click (from versions: 7, 8)", "no ready-made wheel"),
        ("No matching distribution found for click (from versions: none)", "did not answer"),
        ("something new", "no reason this script knows"),
    ],
)
def test_a_failed_installation_gives_a_hint(place: Place, pip_says: str, hint: str) -> None:
    place.once("pip", f'echo "{pip_says}"; exit 1')
    ended = place.bootstrap("plan")
    assert ended.returncode == 3
    assert hint in ended.stderr
    assert "matrix plan" not in place.calls()


def test_two_at_once_build_once(place: Place) -> None:
    place.once("pip", 'read -r <"$PLACE/go"')
    os.mkfifo(place.folder / "go")
    with (
        subprocess.Popen(place.argv("plan"), env=place.env, stderr=subprocess.PIPE, text=True) as first,
        (place.folder / "go").open("w") as go,  # opens once the first is in the middle of it
        subprocess.Popen(place.argv("plan"), env=place.env, stderr=subprocess.PIPE, text=True) as second,
    ):
        assert second.stderr
        assert "another bootstrap is at work" in second.stderr.readline()
        go.write("on you go\n")
        go.flush()
        first.communicate()
        second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert built(place) == ["venv", "requirements.lock"]


def test_matrix_does_not_hold_the_lock(place: Place) -> None:
    place.once("matrix", 'ls -l /proc/self/fd >"$PLACE/open"')
    place.bootstrap("plan")
    assert ".lock" not in (place.folder / "open").read_text()


@pytest.mark.parametrize("occupied", ["by a file", "by somebody's environment"])
def test_foreign_files_at_the_place_of_the_environment_stay(place: Place, occupied: str) -> None:
    theirs = place.venv if occupied == "by a file" else place.venv / "pyvenv.cfg"
    theirs.parent.mkdir(exist_ok=True)
    theirs.touch()
    first = place.bootstrap("plan")
    assert first.returncode == 0
    assert theirs.is_file()
    assert "cannot be used" in first.stderr
    assert list((place.folder / "home/.cache/matrix").glob("venv-*/bin/matrix"))
    place.calls()
    assert place.bootstrap("plan").stderr == ""
    assert built(place) == []


def test_nowhere_to_put_it(place: Place) -> None:
    place.venv.touch()
    place.env["XDG_CACHE_HOME"] = str(place.venv)
    ended = place.bootstrap("plan")
    assert ended.returncode == 2
    assert "XDG_CACHE_HOME" in ended.stderr


def test_too_old_a_python(place: Place) -> None:
    place.write("version", "3.10.12")
    ended = place.bootstrap("plan")
    assert ended.returncode == 2
    assert "Python 3.10.12; matrix needs 3.11" in ended.stderr


def test_no_python(place: Place) -> None:
    place.lacks("python3")
    assert "there is no" in place.bootstrap("plan").stderr
