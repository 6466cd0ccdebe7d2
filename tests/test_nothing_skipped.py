"""Where all that tests need is installed, few may be skipped, and for few reasons."""

from __future__ import annotations

import pytest

FILE = "import pytest\n{skips}\ndef test_it(): pass\n"
ROOT, OTHER = "only root may do this", "no such program"


@pytest.mark.parametrize(
    ("most", "skipped", "complaint"),
    [
        ("", [OTHER] * 3, ""),
        ("0", [], ""),
        ("0", [ROOT], "1 tests were skipped, and at most 0 may be"),
        ("2", [ROOT] * 2, ""),
        ("2", [ROOT] * 3, "3 tests were skipped, and at most 2 may be"),
        ("2", [OTHER], "does not list: no such program"),
    ],
)
def test_the_number_of_skips_is_limited(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, most: str, skipped: list[str], complaint: str
) -> None:
    monkeypatch.setenv("MATRIX_TEST_SKIPS", most)
    pytester.makeconftest("from tests.conftest import pytest_sessionfinish")
    skips = [f"def test_{number}(): pytest.skip({why!r})" for number, why in enumerate(skipped)]
    pytester.makepyfile(FILE.format(skips="\n".join(skips)))
    found = pytester.runpytest_inprocess("-p", "no:matrix", "-p", "no:randomly")
    assert found.ret == (pytest.ExitCode.TESTS_FAILED if complaint else pytest.ExitCode.OK)
    assert found.stdout.str().count("MATRIX_TEST_SKIPS") == bool(complaint)
    assert complaint in found.stdout.str()
