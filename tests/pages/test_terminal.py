from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bench.guidelines import correlated
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.table import fit
from matrix_runner.pages.terminal import caption, correlation_note, table
from matrix_runner.pages.terminal_text import doubt_of_share, figure, percent, rate
from matrix_runner.records.record import UNSETTLED, CellRow
from matrix_runner.statistics.percentile import Histogram
from tests.pages import samples
from tests.pages.samples import RUN, SYNTHETIC, direction, measured
from tests.support.facts import noted


def shown(recorded: RunData, width: int = 200, rows: int = 50) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None)
    for part in fit(table(recorded, rows=rows), width):
        console.print(part)
    return file.getvalue() + caption(recorded, rows=rows)


def line(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if name in line)


def test_one_line_per_cell_with_its_doubt() -> None:
    text = line(shown(RUN), "seqread")
    for part in ("parity/level=5,chunk=64KiB/seqread/bs=1MiB", "210 MB/s", "61 %", "2", "measured"):
        assert part in text


def test_the_longer_tail_is_shown() -> None:
    slow = Histogram.of({1_000_000: 970, 30_000_000: 30})
    trials = [measured("c2", 1, direction(4e5, 4096), direction(3e5, 4096, latencies=slow))]
    assert "30.0 ms" in line(shown(RunData("m", "qemu", False, [samples.RAND], trials)), "oltp")
    text = line(shown(RUN), "seqread")
    assert "9.00 ms" in text
    assert "p99: latency of all trials' requests" in " ".join(shown(RUN).split())


def test_small_requests_are_counted_in_iops() -> None:
    text = line(shown(RUN), "oltp")
    assert "97.7 IOPS" in text
    assert "92.8 IOPS" in text


def test_the_interval_belongs_to_the_rate_shown() -> None:
    steady, wild = direction(200e6, 1 << 20), replace(direction(200e6, 1 << 20), iops=300.0)
    trials = [measured("c1", round_number, one) for round_number, one in enumerate((steady, wild, steady), start=1)]
    text = line(shown(RunData("m", "qemu", False, [samples.SEQ], trials)), "seqread")
    assert "│ 200 MB/s │       │ 0 % │" in text


def test_mixed_work_shows_its_total_with_its_doubt_and_both_directions() -> None:
    trials = [*samples.mixed(), measured("c1", 1, direction(2e8, 1 << 20))]
    text = shown(RunData("m", "qemu", False, [samples.SEQ, samples.RAND], trials))
    headings = [word.strip() for word in line(text, "cell").split("┃")[1:-1]]
    assert headings == ["cell", "total", "read", "write", "±", "p99", "trials", "outcome"]
    mix, reads = (
        dict(zip(headings, [word.strip() for word in line(text, name).split("│")[1:-1]], strict=True))
        for name in ("oltp", "seqread")
    )
    assert (mix["total"], mix["read"], mix["write"], mix["±"]) == ("2,444 IOPS", "1,222 IOPS", "1,222 IOPS", "0.18 %")
    assert (reads["total"], reads["read"]) == ("", "200 MB/s")
    assert "of the total of mixed work" in " ".join(text.split())


def test_without_mixed_work_there_is_no_total() -> None:
    text = shown(RunData("m", "qemu", False, [samples.SEQ], [measured("c1", 1, direction(2e8, 1 << 20))]))
    assert "total" not in text


def test_a_broken_cell_comes_first_with_its_reason() -> None:
    text = shown(RUN)
    assert "1 measured, 1 broken, 1 skipped: the guest panicked" in line(text, "oltp")
    assert text.index("oltp") < text.index("seqread")


@pytest.mark.parametrize(
    ("ios", "mark"), [(1, "measured (!) on 1 request only"), (9, "measured (!) on 9 requests only"), (10, "")]
)
def test_figures_of_few_requests_are_marked(ios: int, mark: str) -> None:
    trials = [measured("c1", 1, direction(220e6, 1 << 20)), measured("c1", 2, direction(ios * 2.0**20, 1 << 20))]
    text = line(shown(RunData("m", "qemu", False, [samples.SEQ], trials)), "seqread")
    assert mark in text
    assert ("(!)" in text) is bool(mark)


@pytest.mark.parametrize(("count", "mark"), [(0, ""), (1, "(!) 1 unsettled"), (2, "(!) none settled")])
def test_unsettled_trials_are_marked(count: int, mark: str) -> None:
    trials = [measured("c1", round_number, direction(2e8, 1 << 20)) for round_number in range(2)]
    missed = [replace(one, **noted({UNSETTLED: "missed"})) for one in trials[:count]]
    text = line(shown(RunData("m", "qemu", False, [samples.SEQ], [*missed, *trials[count:]])), "seqread")
    assert mark in text
    assert ("(!)" in text) is bool(mark)
    assert ("200 MB/s" in text) is (count < 2)


def test_a_cell_without_trials_is_marked() -> None:
    assert "not yet run" in line(shown(RUN), "never")


def test_a_long_table_points_to_the_file() -> None:
    cells = [CellRow(f"c{number}", f"cell{number}", {}) for number in range(60)]
    text = shown(RunData("m", "qemu", False, cells, ()), rows=50)
    assert "10 more cells in summary.csv" in text
    assert "cell49" in text
    assert "cell50" not in text


def test_the_caption_explains_mb_and_iops() -> None:
    text = " ".join(shown(RUN).split())
    assert "MB/s where requests have 64 KiB and more, IOPS where they are smaller" in text
    assert "requests have" not in shown(RunData("m", "qemu", False, RUN.cells, ()))


def test_the_caption_notes_that_broken_cells_come_first() -> None:
    assert "Broken cells come first" in " ".join(shown(RUN).split())
    assert "first" not in shown(RunData("m", "qemu", False, RUN.cells, RUN.trials[:2]))


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_table_names_a_stack_once(width: int) -> None:
    lines = shown(RUN, width).splitlines()
    at = lines.index("parity/level=5,chunk=64KiB")
    assert lines[at + 1].startswith("  seqread/bs=1MiB ")
    assert "210 MB/s" in lines[at + 1]
    assert max(map(len, lines[: at + 2])) <= width


def test_a_narrow_table_has_outcomes_below_the_rows() -> None:
    lines = shown(RUN, 60).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  oltp"))
    assert lines[at + 1] == "    1 measured, 1 broken, 1 skipped: the guest panicked;"
    assert lines[at + 2] == "    quarantined: the guest panicked"
    assert "measured" not in line("\n".join(lines), "seqread/")


def test_the_caption_explains_units() -> None:
    assert "10⁶ bytes per second" in shown(RUN)


def test_the_caption_has_the_wanted_confidence() -> None:
    text = shown(replace(RUN, confidence=0.8))
    assert "±: 80 % confidence" in text
    assert "15 %" in line(text, "seqread"), "of the very two trials that give 61 % at 95 %"


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "0 %"),
        (0.00001, "<0.01 %"),
        (0.000123, "0.012 %"),
        (0.046, "4.6 %"),
        (0.0999, "10 %"),
        (0.304, "30 %"),
        (1.2345, "123 %"),
        (45.6, "4,560 %"),
    ],
)
def test_shares_are_formatted_for_people(share: float, said: str) -> None:
    assert percent(share) == said


def test_an_interval_wider_than_its_mean_has_no_number() -> None:
    assert [doubt_of_share(share) for share in (None, 0.046, 1.0, 1.54)] == ["", "4.6 %", "100 %", ">100 %"]


def test_the_figures_of_a_row_have_one_unit() -> None:
    row = (980_000.0, 1_200_000.0)
    assert [figure(one, "ns", min(row)) for one in row] == ["980 µs", "1,200 µs"]
    assert [figure(one, "ns") for one in row] == ["980 µs", "1.20 ms"]


def test_synthetic_numbers_say_so() -> None:
    assert "synthetic, from the dry machine" in shown(SYNTHETIC)


def test_square_brackets_are_text() -> None:
    """rich takes [bold] for markup unless told otherwise."""
    cells = [CellRow("c", "a[bold]b", {})]
    assert "a[bold]b" in shown(RunData("[red]", "qemu", False, cells, ()))


@pytest.mark.parametrize(
    ("bw", "iops", "said"),
    [
        (210e6, 200.0, "210 MB/s"),
        (78.25e6, 1194.0, "78.2 MB/s"),
        (6.4e6, 97.0, "6.40 MB/s"),
        (4096 * 81.4, 81.4, "81.4 IOPS"),
        (4096 * 123456.0, 123456.0, "123,456 IOPS"),
        (0.0, 0.0, "0.00 MB/s"),
        (952122684.0, 14528.239203, "952 MB/s"),
        (65024 * 81.4, 81.4, "81.4 IOPS"),
        (None, None, ""),
    ],
)
def test_rates_are_formatted_for_people(bw: float | None, iops: float | None, said: str) -> None:
    assert rate(bw, iops) == said


@given(samples.runs())
def test_any_run_can_be_shown(run: RunData) -> None:
    assert shown(run, width=80)


@given(st.integers(1, 10**7), st.integers(1, 10**7))
def test_requests_of_64_kib_are_large_despite_rounding_by_fio(ios: int, milliseconds: int) -> None:
    bw, iops = ios * 65536 * 1000 // milliseconds, round(ios * 1000 / milliseconds, 6)
    if iops >= 0.1:
        assert rate(float(bw), iops).endswith("MB/s")


def test_a_cell_that_jumps_between_two_states_is_marked() -> None:
    jumps, steady = (
        [measured("c1", round_number, direction(rate, 1 << 20)) for round_number, rate in enumerate(rates)]
        for rates in ((1e8, 2e8) * 4, (1e8, 1.01e8) * 4)
    )
    assert "(!) two states" in shown(RunData("m", "qemu", False, [samples.SEQ], jumps))
    assert "two states" not in shown(RunData("m", "qemu", False, [samples.SEQ], steady))
    assert "(!) two states" not in shown(RUN)


def with_rounds(*factors: float, synthetic: bool = False) -> RunData:
    trials = [measured("c1", at, direction(1e8 * one, 4096)) for at, one in enumerate(factors)]
    return RunData("sweep", "qemu", synthetic, (samples.SEQ,), trials[::-1], until=0.05)


WAVES = (1.0, 1.02, 1.03, 1.03, 1.02, 1.0, 0.98, 0.97, 0.97, 0.98)


def test_correlated_trials_are_named() -> None:
    note = correlation_note(with_rounds(*WAVES))
    assert note.startswith("trials are correlated (about 0.9 from one round to the next): intervals of 8 or more")
    assert "those of fewer too narrow, though `until:` asks for more trials; more rounds" in note
    assert "until" not in correlation_note(replace(with_rounds(*WAVES), until=None))


def test_a_run_of_one_cell_is_too_short_to_show_correlation() -> None:
    note = correlation_note(with_rounds(1.0, 0.97, 1.03, 0.98))
    assert note.startswith("the 4 trials followed each other; fewer than 8 do not show whether they are correlated")
    assert "`min: 8`" in note
    assert correlation_note(with_rounds(1.0)) == ""


@pytest.mark.parametrize(
    "run",
    [
        with_rounds(1.0, 0.97, 1.03, 0.98, 1.02, 1.01, 0.99, 1.0, 0.97, 1.02),
        with_rounds(*[1.0] * 10),
        with_rounds(*WAVES, synthetic=True),
        with_rounds(*WAVES[:4], synthetic=True),
    ],
    ids=["independent", "equal", "synthetic", "few synthetic"],
)
def test_other_trials_are_not_called_correlated(run: RunData) -> None:
    assert correlation_note(run) == ""


def test_several_cells_show_correlation_after_five_rounds() -> None:
    chance = np.random.default_rng(1)

    def note(correlation: float, cells: int) -> str:
        several = [replace(samples.SEQ, id=f"c{at}") for at in range(cells)]
        trials = [
            measured(cell.id, at, direction(1e8 * (1 + 0.02 * one), 4096))
            for cell in several
            for at, one in enumerate(correlated(chance, 5, correlation))
        ]
        return correlation_note(RunData("sweep", "qemu", False, several, trials))

    assert note(0.8, 40).startswith("trials are correlated")
    assert sum(note(0.0, 3) != "" for _ in range(100)) <= 6, "2 % of runs by chance"
