"""Record a real run of `which.yaml`: its terminal as an asciicast (version 2), and its report with verdicts."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pexpect

from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import load
from matrix_runner.session.finish import report
from matrix_runner.space.declared_files import load_guidelines

FOLDER = Path(__file__).parent
CAST = FOLDER / "run.cast"
REPORT = FOLDER / "report.html"
COLUMNS, ROWS = 100, 26
PROMPT = "$ "
COMMAND = "matrix run which.yaml"
#: A progress line that is replaced sooner is not kept.
_LEAST_SECONDS = 0.9
_REDRAW = "\r\x1b[2K"


def record(*options: str) -> None:
    """Run it and write both files; options (`--on dry`) are for tests."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(FOLDER / "which.yaml", folder)
        events = _run(
            [sys.executable, "-c", "from matrix_runner.cli import main; main()", *COMMAND.split()[1:], *options], folder
        )
        (run,) = (path.parent for path in folder.glob("results/*/journal.sqlite"))
        with Journal.open(run / "journal.sqlite") as journal:
            report(load(run), journal, load_guidelines(FOLDER / "guidelines.yaml"), interrupted=False)
        shutil.copy(run / "report.html", REPORT)
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": COMMAND}
    lines = [header, *([round(at, 2), "o", text] for at, text in thin_out(events))]
    CAST.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))


def _run(argv: list[str], folder: Path) -> list[tuple[float, str]]:
    """Run a program in a terminal, and return its output with the time of each part."""
    unwanted = {"CI", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR"}
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    top = str(FOLDER.parents[1])
    child = pexpect.spawn(
        argv[0],
        argv[1:],
        cwd=str(folder),
        dimensions=(ROWS, COLUMNS),
        encoding="utf-8",
        env={**environment, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": f"{top}/runner"},
        timeout=None,
    )
    start, events = time.monotonic(), []
    while True:
        try:
            text = child.read_nonblocking(65536, timeout=60)
        except pexpect.TIMEOUT:
            continue
        except pexpect.EOF:
            break
        events.append((time.monotonic() - start, text))
    child.close()
    if child.exitstatus:
        raise RuntimeError(f"{COMMAND} ended with exit code {child.exitstatus}")
    return events


def thin_out(events: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Leave out redrawings of the progress line that the next one soon replaces."""
    kept: list[tuple[float, str]] = []
    for at, text in events:
        if (
            kept
            and at - kept[-1][0] < _LEAST_SECONDS
            and text.startswith(_REDRAW)
            and kept[-1][1].startswith(_REDRAW)
            and "\n" not in kept[-1][1]
        ):
            kept[-1] = (kept[-1][0], text)
        else:
            kept.append((at, text))
    return kept
