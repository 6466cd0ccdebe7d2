"""The first estimate of a matrix: what work costs where, and how fast disks are."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.decide import estimate as estimates
from matrix_runner.decide.costs import COSTS, EMULATED, Costs, rate, sequential
from matrix_runner.decide.estimate import (
    Load,
    Pace,
    building_of,
    bytes_of,
    count_down,
    estimate,
    machine_pace,
    most_bytes_of,
    remaining_seconds,
    seconds_of,
)
from matrix_runner.decide.plan import Plan
from matrix_runner.language.matrix import Repeat
from matrix_runner.machines.base import Preparation, RigSpec
from matrix_runner.pages.terminal_text import about
from matrix_runner.session.selected_matrix import Checks, load_selected
from matrix_runner.simdisks.disk import Physics
from matrix_runner.space.select import Selection, select
from tests.support.dry import Dry
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import Collection

    from matrix_runner.machines.base import Processor
    from matrix_runner.space.space import Cell

MIB = 2**20
ROOT = Path(__file__).parents[2]
HDD = Physics(
    "hdd",
    tuple(
        {
            "overhead": 2e-5,
            "interface": 3e8,
            "revolution": 1 / 120,
            "seek_track": 0.0008,
            "seek_full": 0.018,
            "window": 16.0,
        }.items()
    ),
    ((0.5, 80e6), (1.0, 40e6)),
)


def matrix(layouts: str, work: str = "{rw: read, bs: 4KiB, iodepth: 16, runtime: 1s}", more: str = "") -> str:
    return (
        f"name: m\ndisks: {{count: 4, size: 512MiB}}\nlayouts: {{{layouts}}}\nworkloads: {{work: {work}}}\n"
        f"repeat: 1\n{more}"
    )


def only(text: str) -> tuple[float, float]:
    """Building and one trial of the first cell."""
    cell = next(iter(space(text).cells()))
    pace = Pace(physics=HDD, disks=4)
    return building_of(cell.stack, pace).least, seconds_of(cell, pace)


@pytest.mark.parametrize(
    ("layout", "count"),
    [
        ("disk", 1),
        ("disks", 4),
        ("md: {level: 0}", 4),
        ("md: {level: 1}", 1),
        ("md: {level: 5}", 3),
        ("md: {level: 6}", 2),
        ("lvm: {stripes: 3}", 3),
        ("md: {level: 5}, lvm: {}, fs: {type: ext4}", 3),
    ],
)
def test_a_large_write_keeps_the_disks_of_a_stripe_busy(layout: str, count: int) -> None:
    (array,) = space(matrix(f"one: [{layout}]")).stacks
    assert array.width == count
    most = EMULATED.computed["parity"] if "level: 5" in layout or "level: 6" in layout else EMULATED.bandwidth
    assert sequential(array, HDD, EMULATED) == pytest.approx(min(most, count * 53.3e6), rel=0.01)
    assert sequential(array, None, EMULATED) == most


def test_each_layer_costs_its_programs_and_its_writes_to_the_platter() -> None:
    plain, _ = only(matrix("one: [disk]"))
    striped, _ = only(matrix("one: [md: {level: 0}]"))
    deep, _ = only(matrix("one: [md: {level: 0}, lvm: {}, fs: {type: ext4}]"))
    assert plain == pytest.approx(EMULATED.rig + 4 * EMULATED.disk + EMULATED.set_up + EMULATED.first)
    assert striped - plain == pytest.approx(0.8 + 4 * 13 * 0.0142, rel=0.02)
    assert deep - striped > EMULATED.layers["lvm"].seconds + EMULATED.layers["fs"].seconds
    wiped, _ = only(matrix("one: [pick: {number: 1}, integrity: {}]"))
    assert wiped - plain > 512 * MIB / 60e6, "all of it is written"


def test_a_trial_costs_its_run_time_and_its_draining() -> None:
    _, short = only(matrix("one: [disk]"))
    _, long = only(matrix("one: [disk]", "{rw: read, bs: 4KiB, iodepth: 16, ramp: 2s, runtime: 10s}"))
    assert long - short == pytest.approx(11)
    _, queued = only(matrix("one: [disk]", "{rw: randread, bs: 4KiB, iodepth: 512, runtime: 1s}"))
    assert 2 < queued - short < 6, "512 requests at some 160 a second"
    _, sized = only(matrix("one: [disk]", "{rw: read, bs: 1MiB, iodepth: 4, size: 256MiB}"))
    assert sized == pytest.approx(256 * MIB / 53.2e6 + EMULATED.trial, rel=0.02)


def test_mixed_work_has_the_mean_of_reading_and_writing() -> None:
    (array,) = space(matrix("one: [disk]")).stacks
    both, read, write = (
        rate(
            next(iter(space(matrix("one: [disk]", f"{{rw: {rw}, bs: 4KiB, runtime: 1s}}")).cells())).workload.value,
            array,
            HDD,
            EMULATED,
        )
        for rw in ("randrw", "randread", "randwrite")
    )
    assert both == pytest.approx(2 / (1 / read + 1 / write))
    assert read < both < write


def test_a_recorded_rate_counts_writes_beside_reads() -> None:
    pace = Pace(physics=HDD, write_rate=1e6)
    for work in ("{rw: randwrite, bs: 4KiB, runtime: 3s}", "{rw: randrw, rwmixread: 70, bs: 4KiB, runtime: 3s}"):
        cell = next(iter(space(matrix("one: [disk]", work)).cells()))
        assert (bytes_of(cell, pace), most_bytes_of(cell, pace)) == (3_000_000, 3_000_000)
    sized = next(iter(space(matrix("one: [disk]", "{rw: randrw, rwmixread: 75, bs: 4KiB, size: 64MiB}")).cells()))
    assert seconds_of(sized, pace) - EMULATED.trial == pytest.approx(16 * MIB / 1e6, rel=0.01)
    read = next(iter(space(matrix("one: [disk]")).cells()))
    assert bytes_of(read, pace) == most_bytes_of(read, pace) == 0


@pytest.mark.parametrize("kind", ["hdd", "ssd", "volume", "ideal"])
def test_rates_grow_with_requests_and_queues(kind: str) -> None:
    numbers = {
        "hdd": HDD.numbers,
        "ssd": (
            ("read_latency", 1e-4),
            ("write_latency", 5e-5),
            ("channels", 4.0),
            ("read_rate", 5e8),
            ("write_rate", 4e8),
            ("overhead", 2e-5),
        ),
        "volume": (("iops", 80.0), ("burst_iops", 0.0), ("io_size", 262144.0), ("bandwidth", 0.0), ("latency", 5e-4)),
        "ideal": (),
    }[kind]
    disk = Physics(kind, numbers, HDD.zones)  # type: ignore[arg-type]
    for write in (False, True):
        rates = [disk.rate(length, random=True, write=write, depth=4) for length in (4096, 65536, MIB)]
        assert rates == sorted(rates)
        assert all(rates)
        deep = [disk.rate(4096, random=True, write=write, depth=depth) for depth in (1, 4, 16, 64)]
        assert deep == sorted(deep)
    assert (disk.rate(4096, random=False, write=True) == inf) == (kind == "ideal")


class Slow(Dry):
    """A machine with costs of its own."""

    def processor(self) -> Processor:
        return "emulated"

    def preparation(self, specs: Collection[RigSpec]) -> Preparation:
        return Preparation(once=40.0 * len(specs), each=8.0)


def test_the_machine_defines_processor_and_preparation() -> None:
    found = space(matrix("one: [disk]"))
    specs = {RigSpec(found.matrix.every_disk())}
    pace = machine_pace(Slow(), found.matrix, specs)
    assert (pace.costs, pace.once, pace.each, pace.disks) == (EMULATED, 40.0, 8.0, 4)
    plan = Plan(select(found), found.matrix.repeat, 1)
    without = estimate(plan, replace(pace, once=0.0, each=0.0))
    assert estimate(plan, pace).seconds_least - without.seconds_least == pytest.approx(48)
    assert estimate(plan, machine_pace(Dry(), found.matrix, specs)).seconds_least < 2, "time does not pass in it"


def test_a_busy_host_makes_programs_slower_and_fio_no_longer() -> None:
    quiet, busy = Load(2.0, 2), Load(16.0, 2)
    assert (quiet.slowness, quiet.note) == (1.0, "")
    assert busy.slowness == 4
    assert busy.note.startswith("this host is busy (a load of 16.0 on 2 processors)")
    found = space(matrix("one: [disk]", "{rw: read, bs: 4KiB, runtime: 100s}"))
    plan = Plan(select(found), found.matrix.repeat, 1)
    first, second = (
        estimate(plan, machine_pace(Slow(), found.matrix, (), load)).seconds_least for load in (quiet, busy)
    )
    programs = first - 100 - 8
    assert second == pytest.approx(100 + 4 * (programs + 8), rel=0.01)


def test_recorded_times_of_cells_and_stacks_are_used() -> None:
    found = space(matrix("one: [disk]"))
    plan = Plan(select(found), found.matrix.repeat, 1)
    (cell,) = found.cells()
    known = Pace(program_free(), cells={cell.id: 7.0}, stacks={cell.stack.key: 3.0}, overhead=99.0, set_up=99.0)
    assert estimate(plan, known).seconds_least == 10
    assert estimate(plan, replace(known, cells={}, stacks={})).seconds_least == 99 + 99 + 1


def program_free() -> Costs:
    return replace(EMULATED, program=0.0)


@given(st.floats(1, 1e6), st.floats(0, 1), st.floats(0, 1e6))
def test_the_remaining_time_is_between_estimate_and_measurement(expected: float, done: float, elapsed: float) -> None:
    left = remaining_seconds(expected, done, elapsed)
    assert left >= 0
    if elapsed >= expected * done:
        assert left >= expected * (1 - done) * 0.999
    assert remaining_seconds(expected, done, expected * done) == pytest.approx(expected * (1 - done))
    assert remaining_seconds(expected, 1.0, elapsed) == 0


@given(st.floats(1, 1e6), st.integers(1, 1000), st.floats(0, 1e6), st.floats(0, 1e6))
def test_the_rest_only_falls_between_trials(seconds: float, trials: int, elapsed: float, later: float) -> None:
    now, then = (count_down(seconds, age, trials) for age in (elapsed, elapsed + later))
    assert seconds >= now >= then >= 1.0
    assert then >= seconds * (trials - 1) / trials / 2 * 0.999
    assert now == pytest.approx(seconds - elapsed) or elapsed > seconds / trials, "an even trial takes its share"


def test_no_rest_without_trials() -> None:
    assert count_down(100.0, 3.0, 0) == 0.0


def test_without_an_estimate_the_measured_pace_counts() -> None:
    assert remaining_seconds(0.0, 0.25, 10.0) == 30
    assert remaining_seconds(0.0, 0.0, 10.0) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "about 5 s"),
        (42, "about 40 s"),
        (62, "about 1 min"),
        (265, "about 4 min 30 s"),
        (601, "about 10 min"),
        (1000, "about 17 min"),
        (3700, "about 1 h 02 min"),
    ],
)
def test_an_estimate_is_rounded(seconds: float, text: str) -> None:
    assert about(seconds) == text


def test_every_kind_of_processor_has_costs() -> None:
    assert set(COSTS) == {"emulated", "virtual", "native", "none"}
    assert all(one.slowed(1.0) == one for one in COSTS.values())


#: Seconds that runs of shipped matrices took on two processors of an AMD EPYC host without KVM, without the first boot.
MEASURED = {"chunk-sweep": 216, "striping": 320, "wiki-tuned": 156, "throttled-volumes": 145, "failing-disks": 142}


@pytest.mark.parametrize(("name", "took"), MEASURED.items())
def test_first_estimates_are_within_a_factor_of_one_and_a_half(name: str, took: float) -> None:
    selected = load_selected(ROOT / "matrix" / f"{name}.yaml", (), None, Checks("qemu"))
    found = estimate(selected.plan, machine_pace(Ready(), selected.space.matrix, ()))
    assert took / 1.5 < found.seconds_least < took * 1.5


class Ready(Slow):
    """Everything is prepared."""

    def preparation(self, specs: Collection[RigSpec]) -> Preparation:  # noqa: ARG002
        return Preparation()


def test_cells_of_a_large_plan_are_counted_and_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Selection, "cells_of", None)
    depths, sizes = (", ".join(f"{4 * number}{unit}" for number in range(1, 1001)) for unit in ("", "KiB"))
    text = matrix("one: [md: {level: [0, 5]}]", f"{{rw: read, bs: 4KiB, runtime: 1s, iodepth: [{depths}]}}")
    found = estimate(Plan(select(space(f"{text}tune: {{readahead: [{sizes}]}}\n")), Repeat(min=1, max=1), 1), Pace())
    assert (found.cells, found.stacks) == (2_000_000, 2)
    assert found.seconds_least > 2_000_000


def test_rules_leave_their_cells_out_of_the_estimate() -> None:
    rules = "exclude: [{layout: a, workload.iodepth: 1}, {tune.readahead: 4KiB, workload.iodepth: 2}]\n"
    text = matrix("a: [disk], b: [md: {level: 0}]", "{rw: read, bs: 4KiB, runtime: 1s, iodepth: [1, 2, 3]}")
    selection = select(space(f"{text}tune: {{readahead: [4KiB, 8KiB]}}\n{rules}"), ["iodepth=1|2"])
    found = estimate(Plan(selection, Repeat(min=1, max=1), 1), Pace())
    assert found.cells == sum(1 for _ in selection.cells()) == 4
    each = sum(seconds_of(cell, Pace()) for cell in selection.cells())
    built = sum(building_of(stack, Pace()).least for stack in selection.space.stacks)
    assert found.seconds_least == pytest.approx(Pace().costs.program + each + built)


def test_workloads_are_estimated_once_for_stacks_of_equal_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    several = space(matrix("p: [md: {level: [0, 5], chunk: [16KiB, 64KiB, 256KiB]}]"))
    plan = Plan(select(several), Repeat(), 1)
    apart = sum(seconds_of(cell, Pace()) for cell in plan.selection.cells())
    seen: list[str] = []

    def counted(cell: Cell, pace: Pace) -> float:
        seen.append(cell.stack.label)
        return seconds_of(cell, pace)

    monkeypatch.setattr(estimates, "seconds_of", counted)
    found = estimate(plan, Pace())
    assert len(seen) == 2
    built = sum(building_of(stack, Pace()).least for stack in several.stacks)
    assert found.seconds_least == pytest.approx(EMULATED.program + plan.repeat.min * (apart + built))
