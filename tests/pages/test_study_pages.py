"""A study's page begins with its claim, its result and its certainty, and these agree with the measured part."""

import re
from pathlib import Path

import pytest

from matrix_runner.pages.study import BEGIN, END_STATE, replace_state, state_line
from matrix_runner.space.basis import basis_of, measured_page
from matrix_runner.space.load import load

STUDIES = Path(__file__).parents[2] / "matrix" / "studies"
PAGES = sorted(STUDIES.glob("*/**/README.md"))
_RATIOS = re.compile(r"(\d+) of (\d+) published ratios")
_TRIALS = re.compile(r"(\d+) trials of (\d+) cells")
_HOST_LIMITED = re.compile(r"(\d+) of them")
_CLAIM = re.compile(r"^\| .*\(`([a-z0-9-]+)`\) \| ([a-z ]+) \| (.*) \((.*)\) \|$", re.MULTILINE)
_VERDICT = re.compile(
    r"^\| ([a-z0-9-]+) \| (holds|fails|inconclusive|not tested) \| ([^|]*) \| ([^|]*) \|", re.MULTILINE
)


@pytest.fixture(params=PAGES, ids=lambda path: path.parent.name)
def page(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def parts(page: Path) -> tuple[str, str]:
    written, _, measured = page.read_text().partition(BEGIN)
    return written, measured


def test_the_first_lines_have_the_result(parts: tuple[str, str]) -> None:
    written, measured = parts
    _, _, claim, result, certainty, *_ = written.split("\n")
    assert claim.startswith("- **Claim**")
    assert result.startswith("- **Result:**")
    assert certainty.startswith("- **Certainty:**")
    assert _RATIOS.findall(result) == _RATIOS.findall(measured)
    assert _TRIALS.findall(certainty) == _TRIALS.findall(measured)[:1]
    limited = _HOST_LIMITED.search(measured.partition(END_STATE)[2].partition("\n\n**")[0])
    count = int(limited[1]) if limited else 0
    assert f"{count or 'no'} trial{'s' * (count > 1)} host-limited" in certainty


def test_a_page_says_whether_it_is_out_of_date(page: Path) -> None:
    """If it fails, `matrix study --check --page` writes it: the physics, a model or the matrix has changed."""
    state = state_line(measured_page(page.parent), basis_of(load(page.with_name("matrix.yaml")).space.matrix))
    assert replace_state(page.read_text(), state) == page.read_text()


def test_each_claim_has_its_verdict_and_figure(parts: tuple[str, str]) -> None:
    written, measured = parts
    assert sorted(_CLAIM.findall(written)) == sorted(_VERDICT.findall(measured))


def test_the_result_counts_the_claims(parts: tuple[str, str]) -> None:
    written, measured = parts
    result = written.split("\n")[3]
    verdicts = [verdict for _, verdict, _, _ in _VERDICT.findall(measured)]
    words = {"holds": "holds?", "fails": "fails?", "inconclusive": "(?:is|are) inconclusive"}
    for verdict, word in words.items():
        if count := verdicts.count(verdict):
            assert re.search(rf"\b(?:{count}|Both|All {count})(?: claims?)? {word}\b", result)
