"""The list of studies says what their own pages say, which are made anew when they are measured."""

import re
from pathlib import Path

STUDIES = Path(__file__).parents[2] / "matrix" / "studies"
_RATIOS = re.compile(r"\*\*(\d+) of (\d+) published ratios met within 15 %(?: \(([^)]*)\))?\.\*\*")
_COUNT = re.compile(r"(\d+) (not within|cannot tell|not measured)")


def told_by(page: str) -> tuple[int, ...]:
    """Published ratios that were met, not met, and still open."""
    (met, of, rest) = next(iter(_RATIOS.findall(page)))
    others = {said: int(count) for count, said in _COUNT.findall(rest)}
    found = int(met), others.get("not within", 0), others.get("cannot tell", 0) + others.get("not measured", 0)
    assert sum(found) == int(of)
    return found


def listed() -> dict[str, tuple[int, ...]]:
    rows = re.findall(r"^\| \[[^\]]*\]\(([^)]*)/README\.md\) \|.*\| (\d+) \| (\d+) \| (\d+) \|$", page(), re.MULTILINE)
    return {folder: (int(met), int(missed), int(unsure)) for folder, met, missed, unsure in rows}


def page() -> str:
    return (STUDIES / "README.md").read_text()


def test_every_study_that_was_measured_is_in_it_with_its_counts() -> None:
    pages = {str(path.parent.relative_to(STUDIES)): path.read_text() for path in STUDIES.glob("*/**/README.md")}
    assert listed() == {folder: told_by(text) for folder, text in pages.items() if _RATIOS.search(text)}


def test_the_last_line_counts_them_together() -> None:
    total = tuple(map(sum, zip(*listed().values(), strict=True)))
    assert f"| all | | {total[0]} | {total[1]} | {total[2]} |" in page()
