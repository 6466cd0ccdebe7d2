"""What each process forked from the tests would do again: compile templates, and let fio check the same jobs."""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from matrix_runner.base import process
from matrix_runner.pages import explore, html
from matrix_runner.scripts import jinja

if TYPE_CHECKING:
    from collections.abc import Sequence


_TEMPORARY = tempfile.gettempdir()  # at the start: a test may name another one, which it looks at


@cache
def compile_templates() -> None:
    for name in jinja.effective_templates(None):
        jinja._environment(None, jinja.fio_value if name.endswith(".fio") else jinja.shell_words).get_template(name)
    html._environment().get_template("report.html.j2")
    explore._environment().get_template("explore.html.j2")


@cache
def answers() -> Path:
    """Return the folder of fio's answers. Processes of any user write into it."""
    folder = Path(tempfile.mkdtemp(prefix="matrix-answers-", dir=_TEMPORARY))
    folder.chmod(0o777)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def run_once(argv: Sequence[str], *, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run fio on each job once: its start takes 0.14 s of processor time, in which it measures the processor's clock."""
    program = shutil.which(argv[0])
    if program is None:
        return process.run(argv, stdin=stdin, timeout=timeout)
    found = Path(program).stat()
    question = json.dumps([program, found.st_mtime_ns, found.st_size, *argv[1:], stdin])
    kept = answers() / hashlib.sha256(question.encode()).hexdigest()
    with suppress(OSError, ValueError):
        return subprocess.CompletedProcess(argv, *json.loads(kept.read_text()))
    done = process.run(argv, stdin=stdin, timeout=timeout)
    with suppress(OSError):
        kept.write_text(json.dumps([done.returncode, done.stdout, done.stderr]))
    return done
