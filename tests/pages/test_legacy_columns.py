"""`matrix results --as`: figures in the columns and units of dd, IOzone and bonnie++."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from typing import TYPE_CHECKING

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.cli.results import command
from matrix_runner.pages.legacy_columns import FAMILIAR, dd_summary
from matrix_runner.records.record import CellRow, Outcome, Trial
from tests.records import past
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.command import Said

    Call = Callable[..., Said]
    #: Cells, and how many bytes a second they do.
    Rates = list[tuple[CellRow, float]]
    Record = Callable[[Rates], None]

MIB = 1 << 20


def cell(name: str, layout: str, **work: str) -> CellRow:
    axes = {"layout": layout, "workload": name, **{f"workload.{axis}": value for axis, value in work.items()}}
    return CellRow(f"{layout}-{name}-{'-'.join(work.values())}", f"{layout}/{name}/{'-'.join(work.values())}", axes)


def iozone(layout: str, phase: str, bs: str) -> CellRow:
    rw = {"rewrite": "write", "reread": "read"}.get(phase, phase)
    return cell("zone", layout, preset="iozone", phase=phase, rw=rw, bs=bs, size="3GiB")


def bonnie(phase: str) -> CellRow:
    rw = {"rewrite": "write", "seeks": "randrw"}.get(phase, phase)
    return cell("bon", "raid5", preset="bonnie", phase=phase, rw=rw, bs="8KiB", size="7GiB")


def measured(of: CellRow, rate: float) -> list[Trial]:
    """Twice the same, in the direction that it works in."""
    rw = of.axes["workload.rw"]
    read, write = ("write" not in rw) or None, (rw != "read" and rw != "randread") or None
    return [past.measured(of.id, round_number, read and rate, write and rate) for round_number in (1, 2)]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    def recorded(rates: Rates) -> None:
        trials = [trial for of, rate in rates for trial in measured(of, rate)]
        past.recorded(tmp_path / "results", trials, 1, [of for of, _ in rates])

    return recorded


#: The columns that are rates of phases.
MEASURED = {
    *("write", "rewrite", "read", "reread", "random read", "random write"),
    *("put_block", "get_block", "seeks"),
}


def table(call: Call, *words: str) -> list[dict[str, str]]:
    said = call("results", *words, "--format", "csv")
    assert said.status == 0, said.err
    return list(csv.DictReader(io.StringIO(said.out)))


def test_iozone_has_a_line_for_every_size_of_records(call: Call, record: Record) -> None:
    speeds = {"write": 100, "read": 90, "randread": 2, "randwrite": 3}
    cells = [
        (iozone(layout, phase, bs), speed * 1024.0 * times)
        for layout, times in (("lvm", 1000), ("raid0", 2000))
        for bs in ("16MiB", "1KiB")
        for phase, speed in speeds.items()
    ]
    record(cells)
    found = table(call, "--as", "iozone")
    assert [(row["layout"], row["KB"], row["reclen"]) for row in found] == [
        ("lvm", "3145728", "1"),
        ("lvm", "3145728", "16384"),
        ("raid0", "3145728", "1"),
        ("raid0", "3145728", "16384"),
    ]
    columns = ["write", "rewrite", "read", "reread", "random read", "random write"]
    assert [found[0][name] for name in columns] == ["100000.0", "", "90000.0", "", "2000.0", "3000.0"]
    assert float(found[3]["write"]) == 200000
    shown = call("results", "--as", "iozone").out
    assert re.search(r"lvm +│ 3145728 │ +1 │ +100000 │ +│ +90000 │ +│ +2000 │ +3000 │ +0 % │", shown)


def test_every_familiar_format_is_an_option() -> None:
    (choice,) = [one.type for one in command.params if one.name == "familiar"]
    assert isinstance(choice, click.Choice)
    assert set(choice.choices) == set(FAMILIAR)


def test_a_table_has_a_limit_of_rows(call: Call, record: Record) -> None:
    record([(iozone("lvm", "read", f"{size}KiB"), 1e8) for size in range(1, 8)])
    said = call("results", "--as", "iozone", "--rows", "3").out
    assert said.count("│ 3145728 │") == 3
    assert "4 more lines; `--rows` shows more, `--format csv` all" in said
    assert "1 more line; " in call("results", "--as", "iozone", "--rows", "6").out
    assert len(table(call, "--as", "iozone", "--rows", "3")) == 7


def test_iozone_in_operations(call: Call, record: Record) -> None:
    record([(iozone("lvm", "write", "4KiB"), 4096.0 * 250)])
    (row,) = table(call, "--as", "iozone-ops")
    assert float(row["write"]) == 250


def test_bonnie_has_one_line(call: Call, record: Record) -> None:
    rates = {"write": 184704.0, "rewrite": 123822.0, "read": 375295.0}
    cells = [(bonnie(phase), rate * 1024) for phase, rate in rates.items()]
    record([*cells, (bonnie("seeks"), 463 * 4096.0)])
    (row,) = table(call, "--as", "bonnie")
    # 3 % in user mode and 4 % in the kernel, of one of five seekers.
    assert row == {
        "Size": "7GiB",
        "put_block": "184704.0",
        "put_block_cpu": "7.0",
        "rewrite": "123822.0",
        "rewrite_cpu": "7.0",
        "get_block": "375295.0",
        "get_block_cpu": "7.0",
        "seeks": "463.0",
        "seeks_cpu": "35.0",
        "rel": "0.0",
    }
    shown = call("results", "--as", "bonnie").out
    assert re.search(r"7GiB │ +184704 │ +7 │ +123822 │ +7 │ +375295 │ +7 │ +463 │ +35 │", shown)


def test_dd_has_its_line(call: Call, record: Record) -> None:
    of = cell("dd", "raw", preset="dd-read", rw="read", bs="1MiB")
    record([(of, 100.0 * MIB)])
    shown = call("results", "--as", "dd").out
    assert "25600+0" in shown
    assert "104857600 bytes (105 MB, 100 MiB) copied, 1 s, 105 MB/s" in shown
    (row,) = table(call, "--as", "dd")
    assert (float(row["bytes"]), float(row["seconds"]), row["trials"]) == (104857600, 1, "2")


def test_cells_without_the_preset_are_shown_with_a_note(call: Call, record: Record) -> None:
    """The studies have IOzone's work in so many words."""
    cells = [cell("work", "raid0", rw=rw, bs="8KiB") for rw in ("write", "read", "randwrite", "rw")]
    record([(of, 1e8) for of in cells])
    said = call("results", "--as", "iozone", "--format", "json")
    found = json.loads(said.out)
    assert len(found["rows"]) == 1
    assert found["notes"] == [
        "no workload is a preset of iozone: these are similar, but not the same",
        "1 of 4 cells are not workloads of iozone",
    ]


FIRST = """\
name: first
disks: {count: 2, size: 2GiB}
layouts: {one: [md: {level: 0}, fs: {type: ext4}]}
workloads: {it: {%s, new: true, size: 256MiB}}
"""


@pytest.mark.parametrize(
    ("program", "work"),
    [
        ("iozone", "rw: [write, read, randwrite, randread], bs: [4KiB, 64KiB]"),
        ("iozone", "preset: iozone, phase: [write, rewrite, read, reread], bs: [4KiB, 64KiB]"),
        ("bonnie", "preset: bonnie, bs: [4KiB, 64KiB]"),
    ],
)
def test_an_axis_of_some_phases_only_adds_no_lines(call: Call, record: Record, program: str, work: str) -> None:
    cells = [CellRow(one.id, one.name, one.axes) for one in space(FIRST % work).cells()]
    assert {one.axes.get("workload.new") for one in cells} == {"true", None}
    record([(of, 1e8) for of in cells])
    found = table(call, "--as", program)
    assert len(found) == 2
    assert "new" not in found[0]
    columns = FAMILIAR[program].tabulate((), False).columns
    assert [sum(bool(row[name]) for name in columns if name in MEASURED) for row in found] == [4, 4]


def test_phases_with_different_values_of_an_axis_have_separate_lines(call: Call, record: Record) -> None:
    """What was written to one array was not read from the other."""
    record([(iozone("lvm", "write", "4KiB"), 1e8), (iozone("raid0", "read", "4KiB"), 1e8)])
    assert [row["layout"] for row in table(call, "--as", "iozone")] == ["lvm", "raid0"]


def test_indistinguishable_cells_have_a_line_each(call: Call, record: Record) -> None:
    one, other = (cell("work", "raid0", rw="read", bs="8KiB") for _ in range(2))
    record([(one, 1e8), (CellRow("other", "raid0/other", other.axes), 2e8)])
    assert len(table(call, "--as", "iozone")) == 2


def test_a_cell_without_figures_has_a_line_without_figures(call: Call, tmp_path: Path) -> None:
    of = cell("dd", "raw", preset="dd-read", rw="read", bs="1MiB")
    past.recorded(tmp_path / "results", [Trial(of.id, 1, Outcome.BROKEN, "a reason")], 1, (of,))
    (row,) = table(call, "--as", "dd")
    assert (row["bytes"], row["trials"]) == ("", "0")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--as", "bonnie"), "no selected cell has the workload of bonnie"),
        (("--as", "dd", "--pivot", "bs"), "--as shows its own figures and columns"),
        (("--as", "dd", "--metric", "read_bw"), "--as shows its own figures and columns"),
        (("--as", "tar"), "'tar' is not one of 'dd', 'iozone', 'iozone-ops', 'bonnie'"),
    ],
)
def test_options_that_contradict_as(
    call: Call,
    record: Record,
    words: tuple[str, ...],
    said: str,
) -> None:
    record([(cell("work", "raid0", rw="randread", bs="8KiB"), 1e8)])
    answer = call("results", *words)
    assert answer.status == 2
    assert said in answer.err


@pytest.mark.parametrize("size", [1, 999, 1000, 1023, 1024, 9949, 9999, 10240, 65536, 999_500, 1_048_576, 20_000_000])
def test_the_line_is_dds_own(size: int) -> None:
    words = ["dd", "if=/dev/zero", "of=/dev/null", f"bs={size}", "count=1"]
    said = subprocess.run(words, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/bin:/usr/bin"})
    *_, line = said.stderr.splitlines()
    seconds = re.search(r"copied, (\S+) s", line)
    assert seconds
    theirs, _, rate = line.rpartition(", ")
    ours, _, our_rate = dd_summary(size, float(seconds[1])).rpartition(", ")
    assert ours == theirs
    # dd divides by more digits of its seconds than it shows.
    assert float(our_rate.split()[0]) == pytest.approx(float(rate.split()[0]), rel=0.1)
    assert our_rate.split()[1] == rate.split()[1]


@given(size=st.integers(1, 10**15), seconds=st.floats(1e-6, 1e6))
def test_no_size_is_too_odd_for_it(size: int, seconds: float) -> None:
    assert re.fullmatch(
        rf"{size} bytes?( \(\d+(\.\d)? [kMGTP]?B(, \d+(\.\d)? [KMGTP]iB)?\))? copied, \S+ s, \d+(\.\d)? [kMGTP]?B/s",
        dd_summary(size, seconds),
    )
