"""The number of cells is known before any is made, and too many are refused."""

from __future__ import annotations

import pytest

from matrix_runner.space.ceiling import factors
from matrix_runner.space.load import BadMatrix, parse
from matrix_runner.space.select import select
from matrix_runner.work.fio import variants
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
    monkeypatch.setattr(variants, "choices", None)
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
    depths = ", ".join(["1", "2"] * 2_000)
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


LONG_JOB = "[a]\nrw=read\nsize=1m\n" + "nice=0\n" * 1000


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ("{job: j.fio, set: {iodepth: [%s]}}", "all variants of the jobs have 1,203,600 lines"),
        ("{jobs: {%s}, rw: read}", "all variants of the jobs have 1,794,000 lines"),
    ],
)
def test_variants_of_long_jobs_are_counted_by_their_lines(work: str, said: str) -> None:
    depths = ", ".join(map(str, range(1, 601)))
    jobs = ", ".join(f"j{number}: {{bs: 4KiB, iodepth: 1}}" for number in range(99))
    given = depths if "job:" in work else f"{jobs}, last: {{iodepth: [{depths}]}}"
    text = SMALL[: SMALL.index("workloads:")] + f"workloads: {{w: {work % given}}}\n"
    with pytest.raises(BadMatrix) as caught:
        parse("m.yaml", text, lambda _: LONG_JOB)
    assert said in caught.value.details


def test_each_job_of_a_workload_is_a_check_of_its_size() -> None:
    sections = "".join(f"[a{number}]\nrw=read\nsize=1m\n" for number in range(300))
    chunks = ", ".join(f"{2**power}KiB" for power in range(2, 12))
    stacks = ", ".join(f"l{number}: [md: {{level: 0, chunk: [{chunks}]}}]" for number in range(400))
    text = f"name: m\ndisks: {{count: 2, size: 1GiB}}\nlayouts: {{{stacks}}}\nworkloads: {{w: {{job: j.fio}}}}\n"
    with pytest.raises(BadMatrix) as caught:
        parse("m.yaml", text, lambda _: sections)
    assert "checks of sizes" in caught.value.details
