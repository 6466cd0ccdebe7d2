"""What answers from the store within a second has no time for what it does not need."""

import subprocess
import sys

import pytest

ANSWERS = (
    "matrix_runner.cli.compare",
    "matrix_runner.cli.compare",
    "matrix_runner.cli.results",
    "matrix_runner.answers.comparison",
    "matrix_runner.pages.results",
)
HEAVY = ("numpy", "pydantic", "scipy")


@pytest.mark.parametrize("module", ANSWERS)
def test_slow_imports_are_avoided(module: str) -> None:
    script = f"import sys, {module}, matrix_runner.answers.axes; matrix_runner.answers.axes.value_key('5KiB'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {*HEAVY} & {*done.stdout.split()}
