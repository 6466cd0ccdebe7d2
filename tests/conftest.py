"""What holds for all tests."""

import gc
import os
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.amounts import TIMES, times
from tests.support.chromium import chromium
from tests.support.command import call, matrix
from tests.support.lab import lab
from tests.support.shared_rig import shared_rig
from tests.support.skips import objection

__all__ = ["call", "chromium", "lab", "matrix", "shared_rig"]

# A deadline is a wall-clock assertion, and so is what calls drawing slow: on a loaded host they fail for nothing.
settings.register_profile(
    "ours",
    max_examples=times(12) if TIMES > 1 else 8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ours")


_LONG = ("machines", "hosts", "terminal", "bootstrap", "docs", "workflows", "cli")  # tests there wait for processes


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files whose tests boot virtual machines over most of the run; of the others, long ones come first.

    Workers take file by file. Three of these files at once, or a long one at the end, would take longer.
    """
    for item in items:
        if item.get_closest_marker("vm"):
            item.add_marker(pytest.mark.flaky(reruns=2))  # for all tests, it would cost 40 ms per test
    sizes = Counter(item.path for item in items)
    booting = {item.path for item in items if item.get_closest_marker("vm")}
    others = sorted((path for path in sizes if path not in booting), key=lambda path: path.parent.name not in _LONG)
    kinds = (others, 1.0), (sorted(booting, key=lambda path: (-sizes[path], path)), 0.85)
    places = {path: part * number / len(kind) for kind, part in kinds for number, path in enumerate(kind)}
    items.sort(key=lambda item: places[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among what is imported: each worker would take another half second for it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exempt modules and collected tests, a million objects, from garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With MATRIX_TEST_SKIPS=5, at most five tests may be skipped: a skip hides that something is not installed."""
    most = os.environ.get("MATRIX_TEST_SKIPS")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if most and reporter and (why := objection(reporter.stats.get("skipped", []), int(most))):
        reporter.write_line(f"MATRIX_TEST_SKIPS={most}: {why}", red=True)
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
