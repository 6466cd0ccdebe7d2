"""Work that ends once it is steady, and what becomes of trials that never are."""

from __future__ import annotations

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.scripts.cell import job, stack_scripts
from matrix_runner.space.load import parse
from tests.support.matrices import space

MATRIX = """\
name: m
disks: {count: 2, size: 1GiB}
layouts: {one: [disk]}
workloads: {work: {rw: randwrite, WORK}}
"""


def rendered(work: str) -> list[str]:
    (cell,) = space(MATRIX.replace("WORK", work)).cells()
    return job(cell, stack_scripts(cell.stack, ("/dev/a", "/dev/b"), zeroed=True).stack, 1).splitlines()


@pytest.mark.parametrize(
    ("steady", "option", "milliseconds"),
    [
        ("within: 5%", "iops_slope:5%", 10_000),
        ("within: 0.3%, of: bw, over: 1m", "bw_slope:0.3%", 60_000),
        ("within: 20%, slope: false, over: 2.5s", "iops:20%", 2_500),
        ("within: 20%, slope: false, of: bw", "bw:20%", 10_000),
    ],
)
def test_it_is_fios_own_steadystate(steady: str, option: str, milliseconds: int) -> None:
    lines = rendered(f"runtime: 2m, steady: {{{steady}}}")
    at = lines.index(f"steadystate={option}")
    assert lines[at + 1] == f"steadystate_duration={milliseconds}ms"
    assert "runtime=120000ms" in lines


def test_without_steady_no_trial_ends_early() -> None:
    assert not any("steady" in line for line in rendered("runtime: 2m"))


def test_its_parts_are_axes() -> None:
    cells = list(
        space(MATRIX.replace("WORK", "runtime: 2m, steady: {within: [5%, 10%], slope: [true, false]}")).cells()
    )
    assert [cell.axes["workload.steady.slope"] for cell in cells].count("true") == 2
    assert len({cell.id for cell in cells}) == len({cell.name for cell in cells}) == 4


def test_default_values_equal_missing_keys() -> None:
    (short,), (long,) = (
        list(space(MATRIX.replace("WORK", f"runtime: 2m, steady: {{{steady}}}")).cells())
        for steady in ("within: 5%", "within: 5%, of: iops, over: 10s, slope: true")
    )
    assert short.id == long.id


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ("steady: {within: 5%}", "10s do not fit into a runtime of 10s"),
        ("runtime: 5s, steady: {within: 5%, over: 6s}", "6s do not fit into a runtime of 5s"),
        ("runtime: 60s, steady: {within: 5%}, fio: {ss: 'iops:1%'}", "`ss` and `steady:` set the same"),
        ("runtime: 60s, steady: {within: 0%}", "must be more than 0%"),
        ("runtime: 60s, steady: {over: 5s}", "within"),
        ("profile: position, rw: write, steady: {within: 5%}", "ends after one pass over the device"),
    ],
)
def test_impossible_steady_states_are_refused(work: str, said: str) -> None:
    text = MATRIX.replace("rw: randwrite, WORK" if "rw:" in work else "WORK", work)
    with pytest.raises(BadInput) as caught:
        parse("m.yaml", text)
    assert said in f"{caught.value.brief} {caught.value.details}"


def test_a_size_is_a_limit_too() -> None:
    assert "steadystate=iops_slope:5%" in rendered("size: 1GiB, steady: {within: 5%}")
