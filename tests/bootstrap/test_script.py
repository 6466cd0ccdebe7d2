"""What bootstrap says and forwards."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from matrix_runner.machines import qemu
from matrix_runner.machines.qemu.appliance import BUILD_TOOLS
from tests.bootstrap.place import REPOSITORY, Place

OF_EVERY_DEBIAN = {"apt", "dpkg", "libc-bin", "util-linux"}
SCRIPTS = [REPOSITORY / "bootstrap", REPOSITORY / ".ci" / "run"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_bootstrap_passes_shellcheck(script: Path) -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    found = subprocess.run([shellcheck, script], capture_output=True, text=True)
    assert (found.stdout, found.returncode) == ("", 0)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_host_is_named(script: Path) -> None:
    assert "://" not in script.read_text()


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
def test_help_changes_nothing(place: Place, words: tuple[str, ...]) -> None:
    shown = place.bootstrap(*words)
    assert shown.returncode == 0
    assert "./bootstrap test" in shown.stdout
    assert place.calls() == []
    assert not place.venv.exists()


def test_every_package_comes_with_a_reason(place: Place) -> None:
    listed = dict(
        re.findall(r"^    ([a-z0-9+-]+) +(\S.*?)(?: \(for tests\))?$", place.bootstrap("--help").stdout, re.MULTILINE)
    )
    assert {"python3", "fio", "qemu-system-x86", "bonnie++"} <= listed.keys()
    said = place.bootstrap("test").stderr
    for package, reason in listed.items():
        assert re.search(rf"^  {re.escape(package)} +{re.escape(reason)}$", said, re.MULTILINE)


def test_all_that_the_qemu_machine_needs_is_installed(place: Place) -> None:
    place.bootstrap("plan")
    installed = set((place.folder / "installed").read_text().split())
    assert {*qemu.TOOLS.values(), *BUILD_TOOLS.values()} <= installed | OF_EVERY_DEBIAN


def test_words_reach_matrix_as_they_are(set_up: Place) -> None:
    ran = set_up.bootstrap("run", "a b.yaml", "--only", "layout=raid5,bs=64KiB", "")
    assert ran.stdout == "<run><a b.yaml><--only><layout=raid5,bs=64KiB><>"
    assert ran.stderr == ""


def test_matrix_has_the_last_word_on_the_exit_status(place: Place) -> None:
    place.once("matrix", "exit 130")
    assert place.bootstrap("run").returncode == 130


def test_a_finished_set_up_is_silent(set_up: Place) -> None:
    assert set_up.bootstrap("plan").stderr == ""
    assert set_up.calls() == ["matrix plan"]
    assert set_up.logs() == []


def test_the_launcher_it_leaves_does_the_same(set_up: Place) -> None:
    launched = subprocess.run([set_up.venv / "bin/matrix", "plan"], env=set_up.env, capture_output=True, text=True)
    assert launched.stdout == "<plan>"


def test_every_check_is_run_and_every_failure_named(place: Place) -> None:
    place.once("ruff", "exit 1")
    place.once("pytest", "exit 1")
    checked = place.bootstrap("test", "-k", "a b")
    assert checked.returncode == 1
    calls = place.calls()[-4:]
    assert calls[:2] == ["ruff check", "ruff format --check"]
    assert sorted(calls[2:]) == ["mypy", "pytest -k a b"]
    assert checked.stderr.endswith("failed:\n  ruff check\n  pytest -k a b\n")


def test_mypy_works_beside_the_tests_and_what_it_finds_comes_last(place: Place) -> None:
    """Each waits for the other, at the two ends of a named pipe."""
    os.mkfifo(place.folder / "gate")
    place.once("mypy", 'read -r word <"$PLACE/gate"; echo "wrong type: $word"; exit 1')
    place.once("pytest", 'echo str >"$PLACE/gate"; echo "tests are done"')
    checked = place.bootstrap("test", "-q")
    assert checked.returncode == 1
    assert checked.stdout == "tests are done\nwrong type: str\n"
    assert checked.stderr.endswith("failed:\n  mypy\n")
    assert place.logs() == []


def test_ctrl_c_ends_the_checks(place: Place) -> None:
    """pytest answers Ctrl-C by its own exit status, after its summary."""
    place.once("pytest", "kill -INT $PPID; exit 2")
    # A shell that starts with SIGINT ignored, as in the background, cannot answer it.
    words = ["/usr/bin/env", "--default-signal=INT", *place.argv("test", "-q")]
    checked = subprocess.run(words, env=place.env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert checked.returncode == 130
    assert checked.stderr.endswith("bootstrap: pytest -q\nbootstrap: interrupted\n")


def test_stopping_the_checks_stops_mypy(place: Place) -> None:
    for name in ("up", "never", "alive"):
        os.mkfifo(place.folder / name)
    place.once("mypy", 'exec 9>"$PLACE/alive"; echo >"$PLACE/up"; read -r word <"$PLACE/never"')
    place.once("pytest", 'read -r word <"$PLACE/up"; kill -TERM $PPID')
    alive = os.open(place.folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert place.bootstrap("test").returncode == -signal.SIGTERM
        # A pipe becomes readable when its last writer ends.
        assert select.select([alive], [], [], 20)[0]
        assert place.logs() == []
    finally:
        os.close(alive)
        with suppress(OSError):
            os.close(os.open(place.folder / "never", os.O_WRONLY | os.O_NONBLOCK))


def test_checks_that_pass(place: Place) -> None:
    checked = place.bootstrap("test")
    assert checked.returncode == 0
    assert [one for one in place.calls() if one.startswith("pytest")] == [
        "pytest --collect-only -qq",
        "pytest -n 4 --dist loadfile --no-loadscope-reorder",
    ]
    assert checked.stderr.endswith("every check passed\n")
