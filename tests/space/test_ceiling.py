"""The number of cells is known before any is made, and too many are refused."""

from __future__ import annotations

import pytest

from runner.space import workloads
from runner.space.ceiling import factors
from runner.space.load import BadMatrix, parse
from runner.space.select import select
from tests.support.matrices import SMALL, SWEEP

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
SIX_TENS = SMALL.replace(
    "bs: 4KiB,",
    f"bs: 4KiB, iodepth: {TEN}, numjobs: {TEN}, fio: {{nice: {TEN}, prio: {TEN}, thinktime: {TEN}, thinktime_blocks: {TEN}}},",
)


def refusal(text: str) -> str:
    with pytest.raises(BadMatrix) as caught:
        parse("m.yaml", text)
    ((_, message),) = caught.value.places
    return message


def test_the_count_is_the_product_of_the_axes() -> None:
    matrix = parse("m.yaml", SWEEP).space.matrix
    assert [factor.variants for factor in factors(matrix)] == [1 + 3 + 4 + 3, 8, 2 + 2]


def test_six_axes_of_ten_are_refused_without_making_one_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "choices", None)
    message = refusal(SIX_TENS)
    assert message.startswith(
        "workloads are 2,000,000 variants; at most 10,000. The axes multiply: workload.iodepth 10 × "
    )
    assert message.endswith("; remove values")


def test_too_many_cells_name_the_axes_that_multiply() -> None:
    tune = "tune: {nr_requests: [8, 16, 32], max_sectors_kb: [64, 128, 256]}\n"
    text = f"{SMALL}{tune}max_cells: 35\nexclude: [{{workload.rw: read}}]\n"
    assert refusal(text) == (
        "2 stacks × 9 sets of tunables × 2 workloads are 36 cells; at most 35 (max_cells). The axes multiply: "
        "tune.max_sectors_kb 3 × tune.nr_requests 3 × md.chunk 2 × workload.rw 2; remove values, or raise max_cells; "
        "`exclude` and `only` do not change this count"
    )
    assert parse("m.yaml", text.replace("35", "36")).space.count() == 36


def test_values_that_are_listed_twice_count_once() -> None:
    depths = ", ".join(["1", "2"] * 20_000)
    declared = parse("m.yaml", SMALL.replace("bs:", f"iodepth: [{depths}], bs:") + "max_cells: 8\n")
    assert declared.space.count() == 8


def test_rules_multiply_the_checks() -> None:
    rules = "{layout: raid5}, " * 1000
    sizes = ", ".join(f"{size}KiB" for size in range(4, 2000, 4))
    text = SMALL.replace("bs: 4KiB", f"bs: [{sizes}]") + f"only: [{rules}]\n"
    assert "2 stacks × 998 workloads × 1,001 (rules and 1) are 1,997,996 checks of sizes" in refusal(text)


def test_the_count_with_rules_is_that_of_the_cells() -> None:
    rules = "exclude: [{layout: parity, workload.bs: 4KiB}, {md.chunk: 64KiB, tune.ncq_depth: 1}]\nonly: [{layout: far}, {layout: parity}]\n"
    selection = select(parse("m.yaml", SWEEP + rules).space, only=["workload=oltp"])
    assert selection.count() == sum(1 for _ in selection.cells()) > 0
