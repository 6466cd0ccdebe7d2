"""Help texts: what they name, and what they cost."""

import subprocess
import sys

from tests.support.command import Matrix
from tests.support.shipped import ROOT


def test_help_names_every_command_and_every_exit_code(matrix: Matrix) -> None:
    said = matrix("--help").stdout
    for word in ("validate", "plan", "render", "run", "schema", "doctor", "Examples", "130 interrupted"):
        assert word in said
    for command in ("validate", "plan", "render", "run", "schema", "doctor"):
        assert "Example" in matrix(command, "--help").stdout


def test_help_needs_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys; sys.argv = ['matrix', '--help']\n"
        "from matrix_runner.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'pydantic', 'sqlalchemy', 'scipy', 'numpy', 'jinja2', 'rich', 'asyncio', 'ruamel'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
