"""What answers from the store within a second has no time for what it does not need."""

import subprocess
import sys

import pytest

#: Modules of commands are loaded for `--help`, the others only to answer. The store needs pydantic.
ANSWERS = {
    "matrix_runner.cli.compare": ("numpy", "pydantic", "scipy"),
    "matrix_runner.cli.results": ("numpy", "pydantic", "scipy"),
    "matrix_runner.answers.comparison": ("numpy", "scipy"),
    "matrix_runner.pages.results": ("numpy", "scipy"),
}


@pytest.mark.parametrize("module", ANSWERS)
def test_slow_imports_are_avoided(module: str) -> None:
    script = f"import sys, {module}, matrix_runner.answers.axes; matrix_runner.answers.axes.value_key('5KiB'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {*ANSWERS[module]} & {*done.stdout.split()}
