"""The page of a comparison: a chart of all ratios, the slowest first, on one scale."""

from __future__ import annotations

import math
import re
from math import inf
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from matrix_runner.answers.comparison import Comparison, Line, Speed
from matrix_runner.answers.pairs import Pair, Side
from matrix_runner.answers.stored_samples import USUAL_RATES, Samples, samples_of
from matrix_runner.pages import compare_table
from matrix_runner.pages.compare_table import display_table, page
from matrix_runner.records.record import CellRow
from matrix_runner.records.store import RunRow
from matrix_runner.statistics.ratios import Ratio, t_factor
from tests.support.page_faults import FAULTS, HIDDEN, find_faults

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.chromium import Browser

NAMES = ("raid0/seq", "raid5/seq", "raid6/seq", "raid10-far-over-four-disks-with-a-bitmap/a-reader-beside-a-writer")


RUN = RunRow("id", "run", "m", "qemu", False, "", "", "", True, 3, 0.95, None, 3, 3, {})


def samples(name: str, metric: str, *, host_limited: bool) -> Samples:
    values = dict.fromkeys(range(1, 4), 1e8)
    return samples_of(RUN, CellRow(name, name, {}), (*USUAL_RATES, metric), metric, values, host_limited=host_limited)


def line(name: str, ratio: float, speed: Speed, metric: str = "read_bw", *, reach: float = 1.1) -> Line:
    found = Ratio(ratio, ratio / reach if reach < inf else 0.0, ratio * reach, 3, 3, 0.95, 0.01)
    pair = Pair(name, [samples(name, metric, host_limited=False)], [samples(name, metric, host_limited=True)])
    return Line(pair, metric, (1e8, 1e8 * ratio), found, None, speed)


def comparison(*lines: Line) -> Comparison:
    return Comparison(Side("6.1", []), Side("6.12", []), 0.05, 0.95, lines, (), ())


FOUR = (
    line(NAMES[0], 1.02, Speed.SAME, reach=1.01),
    line(NAMES[1], 0.5, Speed.SLOWER),
    line(NAMES[2], 1.4, Speed.FASTER),
    line(NAMES[3], 0.9, Speed.UNKNOWN, reach=inf),
)


def dots(made: bytes) -> list[tuple[str, float, str]]:
    """Return verdict, place and name of each dot, from the top."""
    found = re.findall(r'<g class="([\w ]+)"><title>(.*?): .*?<circle cx="([\d.]+)%', made.decode(), re.DOTALL)
    return [(side, float(x), name) for side, name, x in found]


def test_the_slowest_is_first_and_equal_is_in_the_shaded_part() -> None:
    made = page(comparison(*FOUR))
    found = dots(made)
    assert [name for *_, name in found] == [NAMES[1], NAMES[3], NAMES[0], NAMES[2]]
    assert [side for side, *_ in found] == ["slower", "cannot tell", "same", "faster"]
    places = [x for _, x, _ in found]
    assert places == sorted(places)
    ((start, width),) = re.findall(r'class="band" x="([\d.]+)%" width="([\d.]+)%"', made.decode())
    assert float(start) < places[2] < float(start) + float(width) < places[3]
    assert [float(start) + float(width) / 2] == pytest.approx([48], abs=0.1)
    assert 'class="beyond"' in made.decode()


def test_a_table_describes_only_the_lines_that_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    described = Mock(return_value=((3, 0), (3, 0)))
    monkeypatch.setattr(Line, "host_limited", property(described))
    lines = tuple(line(f"layout-{n}", 1 + n / 50, Speed.UNKNOWN) for n in range(20))
    assert len(display_table(comparison(*lines), most=4).rows) == 4
    assert described.call_count == 4


@pytest.mark.parametrize(
    ("measured", "scatter", "foreseen", "note"),
    [
        (0.93, 0.03, 0, "cannot tell yet: a (read_bw) takes about 6 trials on each side"),
        (0.93, 0.06, 0, "cannot tell yet: a (read_bw) takes about 17 trials on each side"),
        (1.0, 0.06, 0, "cannot tell yet: a (read_bw) takes about 34 trials on each side"),
        (0.93, 0.03, 5, "cannot tell yet: a (read_bw) takes about 6 runs on each side"),
        (0.953, 0.03, 0, ""),
    ],
)
def test_the_table_says_how_many_trials_would_tell(measured: float, scatter: float, foreseen: int, note: str) -> None:
    """Of seven per cent, of none, and of nearly the limit, where no number would do."""
    sizes = 2 if foreseen else 2 / 3
    reach = math.exp(t_factor(4, 0.95) * scatter * math.sqrt(sizes))
    found = Ratio(measured, measured / reach, measured * reach, 3, 3, 0.95, 0.3, foreseen=foreseen)
    notes = display_table(comparison(line("a", 1, Speed.UNKNOWN)._replace(ratio=found)), most=None).notes
    assert [one for one in notes if "cannot tell yet" in one] == [note] * bool(note)


def test_a_higher_latency_is_slower() -> None:
    made = page(comparison(line("a", 2, Speed.SLOWER, "read_lat_mean"), line("b", 0.5, Speed.FASTER, "read_lat_mean")))
    assert [(side, x < 48) for side, x, _ in dots(made)] == [("slower", True), ("faster", False)]
    assert "a: 2.00×, slower (!)" in made.decode()
    assert "Of latencies, the dot shows A / B" in made.decode()


def test_names_have_their_figure_only_where_a_cell_has_several() -> None:
    made = page(comparison(FOUR[0], FOUR[1], FOUR[1]._replace(metric="write_bw"))).decode()
    assert "raid5/seq, write_bw: 0.50×, slower" in made
    assert "raid0/seq: 1.020×, same" in made


def test_too_many_lines_are_cut_to_the_extremes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_table, "MOST_DOTS", 2)
    made = page(comparison(*FOUR))
    assert [name for *_, name in dots(made)] == [NAMES[1], NAMES[2]]
    assert "(the 1 slowest and the 1 fastest; 2 more are in the table)" in made.decode()


def test_without_ratios_there_is_the_table_alone() -> None:
    made = page(comparison(FOUR[0]._replace(ratio=None))).decode()
    assert "No cell has a ratio." in made
    assert "raid0/seq" in made


def test_it_fits_is_accessible_and_prints(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "compare.html"
    path.write_bytes(page(comparison(*FOUR, *(line(f"layout-{n}/work", 1 + n / 50, Speed.UNKNOWN) for n in range(20)))))
    chromium.ask("Emulation.setEmulatedMedia", media="")
    chromium.show_as(1400, "light")
    chromium.open(path.as_uri())
    faults = find_faults(chromium)
    chromium.ask("Emulation.setDeviceMetricsOverride", width=718, height=900, deviceScaleFactor=1, mobile=False)
    chromium.ask("Emulation.setEmulatedMedia", media="print")
    faults += [*chromium.run(FAULTS), *chromium.run(HIDDEN)]
    assert not faults
    assert not chromium.problems
