"""`find`: which cells a search has, and which searches are refused."""

from __future__ import annotations

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.language.find import DEPTHS, Find, Limit
from matrix_runner.space.load import parse
from tests.support.matrices import space

MATRIX = """\
name: m
disks: {count: 2, size: 1GiB}
layouts: {one: [disk]}
workloads: {oltp: {WORK}}
"""
FIND = 'find: {max: iops, while: "read.p99 < 5ms"}'
PLAIN = "rw: randread, bs: 4KiB, runtime: 5s"


def axes(work: str, axis: str) -> list[str]:
    return [cell.axes[axis] for cell in space(MATRIX.replace("WORK", work)).cells()]


def test_without_an_axis_it_searches_over_the_depth() -> None:
    assert axes(f"{PLAIN}, {FIND}", "workload.iodepth") == [str(depth) for depth in DEPTHS]
    assert axes(f"{PLAIN}, {FIND}, iodepth: [4, 9]", "workload.iodepth") == ["4", "9"]


@pytest.mark.parametrize(
    ("work", "axis"),
    [
        (f"{PLAIN}, {FIND}, fio: {{rate_iops: [100, 200]}}", "workload.fio.rate_iops"),
        (f"{PLAIN}, {FIND}, numjobs: [1, 2]", "workload.numjobs"),
        (f"{PLAIN}, {FIND}, iodepth: [1, 2]", "workload.iodepth"),
        (f"{PLAIN}, numjobs: [1, 2], iodepth: [1, 2], {FIND[:-1]}, over: numjobs}}", "workload.numjobs"),
    ],
)
def test_the_axis_is_the_one_with_a_list_or_the_one_that_is_named(work: str, axis: str) -> None:
    found = space(MATRIX.replace("WORK", work))
    assert found.matrix.finds["oltp"].axis == axis
    assert all(axis in cell.axes for cell in found.cells())


def test_a_cell_of_a_search_is_the_cell_without_it() -> None:
    with_it, without = (
        {cell.id for cell in space(MATRIX.replace("WORK", work)).cells()}
        for work in (
            f"{PLAIN}, iodepth: [1, 2], {FIND}",
            f"{PLAIN}, iodepth: [1, 2]",
        )
    )
    assert with_it == without


def test_metrics_have_short_names() -> None:
    find = Find.model_validate({"max": "bw", "while": "write.lat_p99 <= 500us"})
    assert find.metric.name == "total.bw"
    assert find.within == Limit(find.within.metric, 500_000.0, "write.lat_p99 <= 500us")
    assert Limit.parsed("read.p999<2s").metric.name == "read.lat_p999"
    assert Find.model_validate(find.as_written()) == find


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (f"{PLAIN}, find: {{max: iops, while: 'read.p99 < 5'}}", "the limit 5 has no unit; did you mean 5ms?"),
        (f"{PLAIN}, find: {{max: iops, while: 'read.p99 < 0s'}}", "no request takes 0s"),
        (f"{PLAIN}, find: {{max: iops, while: 'read.p99 > 5ms'}}", "not a limit; write it like `read.p99 < 5ms`"),
        (f"{PLAIN}, find: {{max: iops, while: ''}}", "not a limit; write it like `read.p99 < 5ms`"),
        (f"{PLAIN}, find: {{max: iops, while: 'read.p98 < 5ms'}}", "there is no metric read.p98; did you mean"),
        (f"{PLAIN}, find: {{max: iops, while: 'read.bw < 5ms'}}", "read.bw is no latency; known are read.mean"),
        (f"{PLAIN}, find: {{max: read.p99, while: 'read.p99 < 5ms'}}", "read.p99 is no rate of work; known are"),
        (f"{PLAIN}, find: {{max: iops, while: 'write.p99 < 5ms'}}", "rw=randread has no write.lat_p99"),
        (
            f"{PLAIN}, {FIND[:-1]}, over: tune.nr_requests}}",
            "goes over rate_iops, iodepth, numjobs; leave out `while` for",
        ),
        (f"{PLAIN}, iodepth: 4, {FIND}", "there is no axis to search over; write several values of `iodepth`"),
        (f"{PLAIN}, {FIND[:-1]}, over: rate_iops}}", "write several values of `rate_iops` below `fio:`"),
        (f"{PLAIN}, ioengine: psync, {FIND}", "sends one request at a time, so `iodepth` is no axis"),
        (f"{PLAIN}, fio: {{rate_iops: ['1k', '2k']}}, {FIND}", "'1k': a search needs whole numbers from 1 on"),
        (f"{PLAIN}, iodepth: [1, 2], numjobs: [1, 2], {FIND}", "have several values; add `over: iodepth` to `find`"),
        (f"preset: dd-read, {FIND}", "a preset is one program; write `find` in a workload with `rw`"),
        (f"jobs: {{a: {{{PLAIN}}}, b: {{{PLAIN}}}}}, {FIND}", "a search needs one job, and these may be several"),
        (f"{PLAIN}, iodepth: [1, 2], {FIND}}}, other: {{{PLAIN}, iodepth: 2", "other has cells of this search"),
    ],
)
def test_it_is_refused_in_words(work: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse("m.yaml", MATRIX.replace("WORK", work))
    assert message in f"{refused.value.brief}\n{refused.value.details}"


@pytest.mark.parametrize(
    ("over", "axis"),
    [
        ("tune.stripe_cache_size", "tune.stripe_cache_size"),
        ("md.chunk", "md.chunk"),
        ("bs", "workload.bs"),
        ("fio.rate_process", "workload.fio.rate_process"),
        ("numjobs", "workload.numjobs"),
    ],
)
def test_without_a_limit_it_searches_over_any_axis(over: str, axis: str) -> None:
    find = Find.model_validate({"max": "bw", "over": over})
    assert find.is_for_best
    assert find.axis == axis
    assert Find.model_validate(find.as_written()) == find
