"""The list of studies says what their own pages say, which are made anew when they are measured."""

import re
from pathlib import Path

STUDIES = Path(__file__).parents[2] / "matrix" / "studies"
_RATIOS = re.compile(
    r"\*\*(\d+) of (\d+) published ratios met within 15 %(?: \(([^)]*)\))?"
    r"; (?:(\d+) of the (\d+) that the source can tell|the source can tell none of them)"
    r"(?:, and \d+ more (?:is|are) explained [^*]*)?\.\*\*"
)
_NEAR = re.compile(r"estimates of (\d+) within")
_COUNT = re.compile(r"(\d+) (not met|undecided|not measured)")


def told_by(page: str) -> tuple[int, ...]:
    """Published ratios that were met, not met, and still open; and of how many of these the figure is within.

    Then those that were met of those that the source can tell, and how many these are.
    """
    (met, of, rest, *told) = next(iter(_RATIOS.findall(page)))
    others = {said: int(count) for count, said in _COUNT.findall(rest)}
    found = int(met), others.get("not met", 0), others.get("undecided", 0) + others.get("not measured", 0)
    assert sum(found) == int(of)
    return (*found, sum(map(int, _NEAR.findall(rest))), *(int(count or 0) for count in told))


def listed() -> dict[str, tuple[int, ...]]:
    rows = re.findall(
        r"^\| \[[^\]]*\]\(([^)]*)/README\.md\) \|.*\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) of (\d+) \|$",
        page(),
        re.MULTILINE,
    )
    return {folder: tuple(map(int, counts)) for folder, *counts in rows}


def page() -> str:
    return (STUDIES / "README.md").read_text()


def test_every_study_that_was_measured_is_in_it_with_its_counts() -> None:
    pages = {str(path.parent.relative_to(STUDIES)): path.read_text() for path in STUDIES.glob("*/**/README.md")}
    assert listed() == {folder: told_by(text) for folder, text in pages.items() if _RATIOS.search(text)}


def test_the_last_line_counts_them_together() -> None:
    total = tuple(map(sum, zip(*listed().values(), strict=True)))
    *counts, met, told = total
    assert f"| all | | {' | '.join(map(str, counts))} | {met} of {told} |" in page()
