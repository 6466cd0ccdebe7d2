"""The note on the hosts of a cluster."""

from __future__ import annotations

from dataclasses import replace

from matrix_runner.pages.html import page
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.terminal import host_note
from matrix_runner.records.record import HOST, Trial
from tests.pages.samples import RAND, RUN, SEQ, direction, measured
from tests.records.past import manifest
from tests.support.facts import noted
from tests.support.report_files import tree


def trial(cell: str, round_number: int, bw: float, host: str) -> Trial:
    return replace(measured(cell, round_number, direction(bw, 4096)), **noted({HOST: host}))


def note_of(*trials: Trial, synthetic: bool = False) -> str:
    return host_note(RunData("sweep", "qemu", synthetic, (SEQ, RAND), trials))


def test_hosts_are_compared_over_their_common_cells() -> None:
    both = (
        trial("c1", 1, 1e6, "one"),
        trial("c1", 2, 2e6, "two"),
        trial("c2", 1, 1e8, "one"),
        trial("c2", 2, 2e8, "two"),
    )
    assert note_of(*both) == (
        "hosts: two does 2.00 times the work of one (2.00 to 2.00), in 2 cells; "
        "comparisons of cells stay valid, as they pair trials of one host"
    )
    assert note_of(*both, synthetic=True) == "", "invented figures have no host"


def page_of(*trials: Trial) -> str:
    return page(RunData("sweep", "qemu", False, (SEQ, RAND), trials), manifest(), "run").decode()


def test_the_page_doubts_only_hosts_that_differ_for_certain() -> None:
    alike = [
        trial("c1", 1, 1e6, "one"),
        trial("c1", 2, 2e6, "two"),
        trial("c2", 1, 2e8, "one"),
        trial("c2", 2, 1e8, "two"),
    ]
    assert "in 2 cells; comparisons" in note_of(*alike)
    assert "comparisons of cells stay valid" not in page_of(*alike)
    differing = [*alike[:2], trial("c2", 1, 1e8, "one"), trial("c2", 2, 2e8, "two")]
    assert "<li>Hosts: two does 2.00 times" in page_of(*differing)
    assert "as they pair trials of one host.</li>" in page_of(*differing)


def test_the_page_names_the_hosts_that_measured() -> None:
    trials = trial("c1", 1, 1e6, "one"), trial("c1", 2, 2e6, "two"), trial("c2", 1, 2e8, "one")
    text = " ".join(map(str, tree(RunData("sweep", "qemu", False, (SEQ, RAND), trials)).itertext()))
    assert "measured on one (2 trials), two (1 trial)" in " ".join(text.split())
    assert "host of the command" in text
    assert "measured on" not in page(RUN, manifest(), "run").decode()


def test_one_common_cell_has_no_interval() -> None:
    assert note_of(trial("c1", 1, 1e6, "one"), trial("c1", 2, 2e6, "two")).startswith(
        "hosts: two does 2.00 times the work of one, in one cell, too few for an interval; "
    )


def test_hosts_without_a_common_cell_are_named() -> None:
    assert "two and one have no cell in common, so their cells are not compared" in note_of(
        trial("c1", 1, 1e6, "one"), trial("c2", 1, 1e8, "two")
    )


def test_a_run_on_one_host_has_no_note() -> None:
    assert host_note(RUN) == ""
