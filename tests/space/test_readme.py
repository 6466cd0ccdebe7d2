"""What the README tells people to type is a matrix."""

import re
from pathlib import Path

from runner.space.load import load

ROOT = Path(__file__).parents[2]


def test_the_matrix_of_the_readme_and_its_guideline_are_good(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    mine = tmp_path / "mine.yaml"
    mine.write_text("".join(blocks))
    matrix = load(mine).space.matrix
    assert (matrix.name, [one.id for one in matrix.guidelines]) == ("mine", ["stripe-cache-helps"])
