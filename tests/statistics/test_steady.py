"""The steady state of SNIA's specification: the rule in Python, and the same rule in the script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matrix_runner.statistics.stopping import Window, last_window

SCRIPT = Path(__file__).parents[2] / "templates" / "pts-steady.sh"


@pytest.mark.parametrize(
    ("values", "steady"),
    [
        ((100, 100, 100, 100, 100), True),
        ((90, 110, 100, 90, 110), True),  # the range is 20 % of the average
        ((89.9, 110, 100, 90, 110), False),
        ((95, 97.5, 100, 102.5, 105), True),  # the line rises by 10 % of it
        ((94.9, 97.5, 100, 102.5, 105.1), False),
        ((105.1, 102.5, 100, 97.5, 94.9), False),  # and falls
        ((0, 0, 0, 0, 0), True),
        ((3000, 2400, 2000, 1900, 1850), False),
    ],
)
def test_the_limits_are_those_of_the_specification(values: tuple[float, ...], steady: bool) -> None:
    assert Window(values).is_steady is steady


def test_the_line_is_that_of_least_squares() -> None:
    window = Window((10.0, 13.0, 11.0, 16.0, 15.0))
    assert window.average == 13.0
    assert window.range == 6.0
    assert window.slope == pytest.approx(1.3)
    assert window.excursion == pytest.approx(5.2)
    assert str(window) == "range 46.2% of the average (at most 20%), slope 40.0% (at most 10%)"


def test_a_window_is_the_last_five_values_at_a_distance() -> None:
    assert last_window([1.0, 2, 3, 4]) is None
    assert last_window([1.0, 2, 3, 4, 5, 6]) == Window((2.0, 3, 4, 5, 6))
    course = [float(number) for number in range(1, 122)]
    assert last_window(course, 30) == Window((1.0, 31, 61, 91, 121))
    assert last_window(course[:120], 30) is None


def _by_script(rounds: list[tuple[int, int]]) -> list[bool]:
    """Return for each round whether the script ends there; values are those of two jobs, in thousandths."""
    lines = [f"values[a,{at}]={one} values[b,{at}]={other}" for at, (one, other) in enumerate(rounds, start=1)]
    asks = [f"if is_steady {at}; then echo 1; else echo 0; fi" for at in range(1, len(rounds) + 1)]
    text = "\n".join(["set -euo pipefail", "tracked=(a b) apart=1", SCRIPT.read_text(), *lines, *asks])
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    return [line == "1" for line in done.stdout.split()]


@given(st.lists(st.tuples(st.integers(85_000, 115_000), st.integers(940_000, 1_060_000)), min_size=5, max_size=12))
@settings(max_examples=40, deadline=None)
def test_the_script_decides_as_python_does(rounds: list[tuple[int, int]]) -> None:
    found = _by_script(rounds)
    for end in range(1, len(rounds) + 1):
        windows = [last_window([float(one[job]) for one in rounds[:end]]) for job in (0, 1)]
        steady = all(one and _exactly_steady(one) for one in windows)
        assert found[end - 1] is steady


def _exactly_steady(window: Window) -> bool:
    """Decide in whole numbers, as limits are met exactly now and then."""
    whole = [int(value) for value in window.values]
    rise = abs(2 * (whole[4] - whole[0]) + whole[3] - whole[1])
    exact = 25 * (max(whole) - min(whole)) <= sum(whole) and 20 * rise <= sum(whole)
    near = abs(20 * rise - sum(whole)) < 5 or abs(25 * (max(whole) - min(whole)) - sum(whole)) < 5
    assert near or window.is_steady is exact
    return exact


JSON = """\
{
  "fio version" : "fio-3.39",
  "jobs" : [
    {
      "jobname" : "a",
      "job options" : {
        "rw" : "randrw",
        "iops" : "9"
      },
      "read" : {
        "io_bytes" : 4096,
        "bw_bytes" : 700,
        "iops" : 12.500000,
        "slat_ns" : {
          "mean" : 5.0
        },
        "lat_ns" : {
          "mean" : 1500.250000,
          "N" : 5
        },
        "iops_min" : 1
      },
      "write" : {
        "io_bytes" : 8192,
        "bw_bytes" : 300,
        "iops" : 7.25,
        "lat_ns" : {
          "mean" : 500
        }
      },
      "trim" : {
        "io_bytes" : 77,
        "iops" : 100.0
      },
      "sync" : {
        "lat_ns" : {
          "mean" : 3.0
        }
      },
      "usr_cpu" : 1.0
    },
    {
      "jobname" : "other",
      "write" : {
        "io_bytes" : 100,
        "iops" : 5.0
      }
    }
  ]
}
"""


@pytest.mark.parametrize(("figure", "expected"), [("iops", 19_750), ("bw", 1_000_000), ("lat", 2_000_250)])
def test_the_script_reads_the_figures_of_tracked_jobs(figure: str, expected: int) -> None:
    text = "\n".join(
        [
            "set -euo pipefail",
            f"tracked=(a) apart=1 figure={figure}",
            SCRIPT.read_text(),
            "add_round 3",
            'echo "${!values[@]} ${values[@]} $written"',
        ]
    )
    done = subprocess.run(["bash", "-c", text], input=JSON, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["a,3", str(expected), "8292"]
