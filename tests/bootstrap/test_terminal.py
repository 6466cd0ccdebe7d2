"""`./bootstrap` at a pseudo-terminal: the question, the progress, and the hand-over to matrix."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.bootstrap.place import REPOSITORY, Place
from tests.support.terminal import Terminal

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"
QUESTION = "go ahead? [Y/n]"
#: Waits until the test opens the other end of a named pipe.
WAIT = 'read -r _ <"$PLACE/gate"'


def terminal(place: Place, *words: str, columns: int = 110) -> Terminal:
    return Terminal(place.argv(*words), columns=columns, env=place.env, cwd=place.checkout)


def open_gate(place: Place) -> None:
    (place.folder / "gate").write_text("go\n")


@pytest.fixture
def user(place: Place) -> Place:
    """Somebody without root, on a machine that has nothing yet."""
    place.write("uid", "1000")
    os.mkfifo(place.folder / "gate")
    return place


def test_enter_agrees_and_matrix_has_the_last_word(user: Place) -> None:
    with terminal(user, "run", "a.yaml") as shown:
        shown.wait_for(QUESTION)
        shown.type(ENTER)
        assert shown.wait() == 0
        assert re.search(r"^  fio +checks every job file", shown.transcript, re.MULTILINE)
        assert shown.transcript.endswith("<run><a.yaml>")


@pytest.mark.parametrize("keys", ["n\r", CTRL_D])
def test_no_and_ctrl_d_install_no_packages_and_show_the_command(user: Place, keys: str) -> None:
    with terminal(user, "plan") as shown:
        shown.wait_for(QUESTION)
        shown.type(keys)
        assert shown.wait() == 2
        assert "\nbootstrap: nothing was installed. When you are ready:\n  sudo apt-get install" in shown.transcript
    assert user.calls() == []


def test_ctrl_c_at_the_question_installs_nothing(user: Place) -> None:
    with terminal(user, "plan") as shown:
        shown.wait_for(QUESTION)
        shown.type(CTRL_C)
        assert shown.wait() == -signal.SIGINT
        assert shown.left_behind == []
    assert user.calls() == []


def test_the_password_prompt_comes_before_progress_lines(user: Place) -> None:
    user.program("sudo", 'note "sudo $*"; case $1 in -n) exit 1 ;; -v) echo "password:" >&2 ;; *) exec "$@" ;; esac')
    with terminal(user, "plan") as shown:
        shown.wait_for(QUESTION)
        shown.type(ENTER)
        assert shown.wait() == 0
        assert "[Y/n]\npassword:\nbootstrap: fetching" in shown.transcript


def test_a_sudo_that_refuses_is_explained(user: Place) -> None:
    user.program("sudo", "echo 'you are not in the sudoers file' >&2; exit 1")
    with terminal(user, "plan") as shown:
        shown.wait_for(QUESTION)
        shown.type(ENTER)
        assert shown.wait() == 2
        assert "sudo did not make you root. As root, run" in shown.transcript


@pytest.mark.parametrize("columns", [60, 110])
def test_a_phase_counts_its_seconds(user: Place, columns: int) -> None:
    user.write("uid", "0")
    user.once("install", WAIT)
    with terminal(user, "plan", columns=columns) as shown:
        shown.wait_for_match(r"installing packages \(\d+\) … [1-9]\d* s")
        open_gate(user)
        assert shown.wait() == 0
        line = next(line for line in shown.transcript.splitlines() if "installing packages" in line)
        assert line.endswith(" s")
        assert line.count(" s") == 1, "the seconds so far are gone"
        assert shown.left_behind == []


def test_ctrl_c_in_a_phase_ends_it_and_the_next_time_starts_over(user: Place) -> None:
    user.write("uid", "0")
    user.once("pip", WAIT)
    with terminal(user, "plan") as shown:
        shown.wait_for("requirements.lock names")
        shown.type(CTRL_C)
        assert shown.wait() == -signal.SIGINT
        assert shown.left_behind == []
    with terminal(user, "plan") as shown:
        assert shown.wait() == 0
        assert shown.transcript.endswith("<plan>")


def test_matrix_has_the_terminal_and_the_process(user: Place) -> None:
    user.write("uid", "0")
    user.once("matrix", 'echo "process $$"; [[ -t 0 && -t 1 && -t 2 ]] && echo "a terminal"; exit 7')
    with terminal(user, "plan") as shown:
        assert shown.wait() == 7
        assert f"process {shown.pid}" in shown.transcript
        assert "a terminal" in shown.transcript


@pytest.mark.parametrize("name", ["INT", "HUP"])
def test_signals_reach_matrix_alone(user: Place, name: str) -> None:
    user.write("uid", "0")
    user.once("matrix", f"trap 'echo in order >\"$PLACE/ended\"; exit 130' {name}; echo ready; {WAIT}")
    with terminal(user, "plan") as shown:
        shown.wait_for("ready")
        if name == "INT":
            shown.type(CTRL_C)
            assert shown.wait() == 130
        else:
            shown.hang_up()
        assert shown.left_behind == []
    assert (user.folder / "ended").read_text() == "in order\n"


def test_checks_have_the_terminal(user: Place) -> None:
    user.write("uid", "0")
    user.once("pytest", '[[ -t 1 ]] && echo "pytest has a terminal"; exit 1')
    with terminal(user, "test", "-q") as shown:
        assert shown.wait() == 1
        assert "pytest has a terminal" in shown.transcript
        assert shown.transcript.endswith("failed:\n  pytest -q")


def readme_command() -> list[str]:
    """The first command of the README."""
    lines = (REPOSITORY / "README.md").read_text().splitlines()
    return shlex.split(
        next(line.removeprefix("$ ") for line in lines if line.startswith("$ ./bootstrap ")), comments=True
    )


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(["--on", "dry"], id="dry"),
        # All of it takes six minutes where the CPU is emulated.
        pytest.param(["--only", "layout=raid0,md.chunk=64KiB,rw=read"], id="qemu", marks=pytest.mark.vm),
    ],
)
def test_the_first_command_of_the_readme_runs_to_its_last_line(user: Place, more: list[str]) -> None:
    """On a machine with nothing, as far as installing goes; matrix is the real one."""
    command = readme_command()
    assert command == ["./bootstrap", "run", "matrix/chunk-sweep.yaml"]
    real = [sys.executable, "-m", "matrix_runner.cli", *command[1:], *more, "--results", str(user.folder / "results")]
    environment = f"export PATH={shlex.quote(os.environ['PATH'])} HOME={shlex.quote(str(Path.home()))}"
    user.once("matrix", f"cd {shlex.quote(str(REPOSITORY))}; {environment}; echo; exec {shlex.join(real)}")
    with terminal(user, *command[1:], columns=80) as shown:
        shown.wait_for(QUESTION)
        shown.type(ENTER)
        assert shown.wait(280) in {0, 1}, shown.transcript
        assert "<run><matrix/chunk-sweep.yaml>" in shown.transcript
        assert shown.transcript.replace("\n", " ").endswith("under cells/")
