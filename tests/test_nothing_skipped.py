"""Where everything has to run, what is skipped is a failure."""

from __future__ import annotations

import pytest

SKIPPED, PASSED = "import pytest\ndef test_it(): pytest.skip('no such program')\n", "def test_it(): pass\n"


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("text", [SKIPPED, PASSED])
def test_what_is_skipped_fails_if_all_is_asked_for(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, text: str, asked: bool
) -> None:
    monkeypatch.setenv("MATRIX_TEST_ALL", "1" if asked else "")
    pytester.makeconftest("from tests.conftest import pytest_sessionfinish")
    pytester.makepyfile(text)
    found = pytester.runpytest_inprocess("-p", "no:matrix", "-p", "no:randomly")
    failed = asked and text == SKIPPED
    assert found.ret == (pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK)
    assert ("which counts as failed here" in found.stdout.str()) == failed
