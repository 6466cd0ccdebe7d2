"""The log of a run: what it has, what it must not have, and that no run ends for it."""

import asyncio
import logging
import re
from pathlib import Path

import pytest

from matrix_runner.base import children, log, process
from matrix_runner.base.errors import BadInput
from matrix_runner.base.log import LOG, command_text, log_level, log_on_screen, log_to, recent_lines, without_secrets


def test_a_program_is_logged_with_its_exit_and_duration(tmp_path: Path) -> None:
    with log_to(tmp_path / "matrix.log", logging.INFO):
        process.run(["sh", "-c", "exit 7"])
        asyncio.run(_start())
    text = (tmp_path / "matrix.log").read_text()
    assert "INFO    ended with 7 after " in text
    assert "s: sh -c 'exit 7'\n" in text
    assert "started: sh -c 'exit 5'\n" in text
    assert "ended with 5 after " in text


async def _start() -> None:
    child = await children.spawn(["sh", "-c", "exit 5"])
    await child.wait()
    await asyncio.gather(*children._watches)


def test_a_program_that_hangs_is_logged(tmp_path: Path) -> None:
    with log_to(tmp_path / "matrix.log", logging.INFO), pytest.raises(process.TimedOut):
        process.run(["sleep", "60"], timeout=0.01)
    assert "killed, as it did not end in time after 0.0" in (tmp_path / "matrix.log").read_text()


def test_a_file_begins_with_what_was_before_it_and_has_its_level(tmp_path: Path) -> None:
    LOG.info("before %s", tmp_path)
    with log_to(tmp_path / "info.log", logging.INFO):
        LOG.debug("a detail")
    with log_to(tmp_path / "debug.log", logging.DEBUG):
        LOG.debug("another detail")
    LOG.info("later")
    info, debug = (tmp_path / "info.log").read_text(), (tmp_path / "debug.log").read_text()
    assert f"before {tmp_path}\n" in info
    assert "detail" not in info
    assert "another detail" in debug
    assert "later" not in debug
    assert recent_lines().endswith("INFO    later")


def test_recent_lines_are_the_last_fifty() -> None:
    for number in range(60):
        LOG.info("line %d", number)
    lines = recent_lines().splitlines()
    assert [lines[0][-7:], lines[-1][-7:], len(lines)] == ["line 10", "line 59", 50]


def test_a_log_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_MOST_BYTES", 4_000)
    with log_to(tmp_path / "matrix.log", logging.INFO):
        for number in range(1_000):
            LOG.info("line %d", number)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["matrix.log", "matrix.log.1", "matrix.log.2"]
    assert all(file.stat().st_size <= 4_000 for file in files)
    assert files[0].read_text().endswith("line 999\n")


def test_a_run_does_not_end_for_its_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with log_to(tmp_path / "missing" / "matrix.log", logging.INFO):
        LOG.info("no file")
    with log_to(Path("/dev/full"), logging.INFO):
        LOG.info("no room")
    assert capfd.readouterr().err == ""


def test_an_error_is_logged(tmp_path: Path) -> None:
    with pytest.raises(BadInput), log_to(tmp_path / "matrix.log", logging.INFO):
        raise BadInput("the chunk is odd")
    assert (tmp_path / "matrix.log").read_text().endswith("ERROR   BadInput: the chunk is odd\n")


@pytest.mark.parametrize(
    "text",
    [
        "psql postgresql://lab:hunter2@db/matrix",
        "curl --token hunter2 https://host",
        "env PGPASSWORD=hunter2 psql",
        "sshpass --password=hunter2",
        "API_KEY: hunter2",
        "curl -H 'Authorization: Bearer hunter2'",
        "Authorization: Basic hunter2",
        "git clone https://ghp_abcdefghhunter2@host/x",
        "glpat-abcdefghhunter2",
    ],
)
def test_no_secret_is_logged(text: str) -> None:
    assert "hunter2" not in without_secrets(text)
    LOG.info("%s", text)
    assert "hunter2" not in recent_lines()


def test_hostile_text_stays_one_line_without_control_characters() -> None:
    LOG.info("%s", command_text(["sh", "-c", "echo a\nb\x1b[2J"]))
    assert recent_lines().splitlines()[-1].endswith("sh -c 'echo a b\\x1b[2J'")


def test_the_screen_shows_a_line_once(capfd: pytest.CaptureFixture[str]) -> None:
    with log_on_screen():
        LOG.info("a program")
        log.SHOWN.info("a notice")
    LOG.info("later")
    said = capfd.readouterr().err
    assert "a program" in said
    assert "a notice" not in said
    assert "later" not in said


def test_an_unknown_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_LOG", "loud")
    assert log_level(verbose=True) == logging.DEBUG
    with pytest.raises(BadInput, match="MATRIX_LOG is 'loud'"):
        log_level()


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "one two", "x": 1}', "'api_key': 'one two'", 'password: "one two"', '["--token", "one"]',
        """VALUES('{"passphrase":"one"}')""", "--password 'one two'",
        r'"{\"token\": \"one\"}"',
    ],
)  # fmt: skip
def test_secrets_in_quotes_are_not_written(text: str) -> None:
    assert not {"one", "two"} & {*re.findall(r"\w+", without_secrets(text))}


@pytest.mark.parametrize("word", ["a1", "passw", "x-", "://a:", "token ", "pass", "a@"])
def test_long_words_take_no_time(word: str) -> None:
    """A line of an output with many such words kept a run from going on."""
    for beginning in ("", "?"):
        text = without_secrets(f"{beginning}{word * 100_000} password=hunter2")
        assert (text[:2], "hunter2" in text) == (f"{beginning}{word}"[:2], False)
