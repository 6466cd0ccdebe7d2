"""Differences between hosts, and comparisons of cells that hosts do not disturb."""

from __future__ import annotations

from dataclasses import replace

import pytest

from matrix_runner.records.record import HOST
from matrix_runner.statistics.ratios import host_ratios, paired_ratio
from tests.pages.samples import measured
from tests.support.facts import noted


def test_hosts_are_compared_over_the_cells_that_both_measured() -> None:
    cells = [{"one": [100.0, 100.0], "two": [150.0]}, {"one": [10.0], "two": [15.0, 15.0]}, {"one": [7.0]}]
    (found,) = host_ratios(cells)
    assert (found.host, found.other, found.cells) == ("two", "one", 2)
    assert found.ratio
    assert found.ratio.ratio == pytest.approx(1.5)


def test_hosts_that_never_met_have_no_ratio() -> None:
    (found,) = host_ratios([{"one": [100.0]}, {"one": [90.0]}, {"two": [150.0]}])
    assert (found.host, found.ratio, found.cells) == ("two", None, 0)


def test_one_host_has_no_comparison() -> None:
    assert host_ratios([{"one": [1.0]}, {}]) == []
    assert host_ratios([]) == []


def test_trials_of_one_round_on_two_hosts_are_different_blocks() -> None:
    trial = measured("a", 1, None)
    one, two = (replace(trial, **noted({HOST: name})) for name in ("one", "two"))
    assert trial.block == 1
    assert one.block != two.block
    later = replace(one, round=2)
    assert two.block < later.block, "blocks are in the order of rounds"
    assert paired_ratio({one.block: 1.0}, {two.block: 2.0}) is None, "cells that never met on a host are not compared"
