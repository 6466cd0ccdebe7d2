from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as StandardTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from junitparser import JUnitXml
from lxml import etree

from matrix_runner.base.text import strip_illegal
from matrix_runner.pages.junit import junit
from tests.pages import samples
from tests.pages.samples import RUN, SYNTHETIC
from tests.support.junit import parsed, properties, tree

if TYPE_CHECKING:
    from matrix_runner.pages.run_data import RunData


__all__ = ["tree"]  # with lxml and without


def test_the_document_is_valid_and_counts_all_cases() -> None:
    root = parsed(junit(RUN))
    assert (root.get("name"), root.get("tests"), root.get("errors"), root.get("failures")) == (
        "sweep on qemu",
        "5",
        "1",
        "0",
    )
    assert [suite.get("tests") for suite in root] == ["2", "3"], "a cell without trials is no suite"
    assert [suite.get("skipped") for suite in root] == ["0", "1"]
    assert [suite.get("time") for suite in root] == ["2.469", "8.235"]


def test_a_case_is_named_by_its_stack_and_its_work() -> None:
    root = parsed(junit(RUN))
    cases = [(case.get("classname"), case.get("name"), case.get("time")) for case in root.iter("testcase")]
    assert cases[:3] == [
        ("sweep.parity.level=5,chunk=64KiB", "seqread/bs=1MiB trial 1", "1.235"),
        ("sweep.parity.level=5,chunk=64KiB", "seqread/bs=1MiB trial 2", "1.235"),
        ("sweep.single", "oltp trial 1", "1.235"),
    ]
    assert len(set(cases)) == 5


def test_properties_of_a_cell_are_its_id_its_axes_and_its_means() -> None:
    shown = properties(parsed(junit(RUN))[0])
    assert shown | {"cell": "c1", "machine": "qemu", "synthetic": "false", "md.chunk": "64KiB"} == shown
    assert float(shown["read_bw"]) == 210e6
    assert float(shown["read_bw_rel"]) == pytest.approx(0.605, abs=1e-3)


def test_a_cell_states_whether_until_is_reached() -> None:
    assert "until_reached" not in properties(parsed(junit(RUN))[0])
    shown = properties(parsed(junit(replace(RUN, until=0.1)))[0])
    assert (shown["until"], shown["until_reached"], shown["stopped"]) == ("0.1", "false", "unfinished")


def test_values_of_a_trial_are_in_its_output() -> None:
    case = next(parsed(junit(RUN)).iter("testcase"))
    lines = str(case.findtext("system-out")).splitlines()
    assert "[[PROPERTY|read_bw=200000000 bytes/s]]" in lines
    assert "[[PROPERTY|read_lat_p99=9000000 ns]]" in lines
    assert "[[PROPERTY|md0/chunk_size=65536 (wanted 65536)]]" in lines
    assert "[[PROPERTY|sda/rotational=1]]" in lines
    assert "[[PROPERTY|sync=assume-clean]]" in lines
    assert not any("write_bw" in line for line in lines)


def test_figures_of_each_job_are_properties() -> None:
    (suite,) = parsed(junit(samples.JOBS))
    shown = properties(suite)
    assert float(shown["reader.read_iops"]) == pytest.approx(97.66, abs=0.01)
    assert shown["writer.write_bw_rel"] == "0"
    assert "writer.read_bw" not in shown
    lines = str(next(suite.iter("testcase")).findtext("system-out")).splitlines()
    assert "[[PROPERTY|reader.read_bw=400000 bytes/s]]" in lines
    assert "[[PROPERTY|writer.write_lat_p99=9000000 ns]]" in lines


def test_broken_is_an_error_with_the_last_words_of_the_console() -> None:
    (error,) = parsed(junit(RUN)).iter("error")
    assert (error.get("type"), error.get("message")) == ("broken", "the guest panicked")
    assert error.text == "Kernel panic"


def test_skipped_is_a_skip_with_its_reason() -> None:
    (skipped,) = parsed(junit(RUN)).iter("skipped")
    assert skipped.get("message") == "quarantined: the guest panicked"


def test_synthetic_suites_are_marked() -> None:
    root = parsed(junit(SYNTHETIC))
    assert str(root.get("name")).endswith("(synthetic, from the dry machine)")
    for suite in root:
        assert str(suite.get("name")).endswith("(synthetic, from the dry machine)")
        assert properties(suite)["synthetic"] == "true"


def test_a_run_without_trials_is_valid_too() -> None:
    empty = type(RUN)("sweep", "qemu", False, RUN.cells, ())
    assert len(parsed(junit(empty))) == 0


def test_the_library_that_wrote_it_can_read_it() -> None:
    cases = [case for suite in JUnitXml.fromstring(junit(RUN).decode().partition("?>")[2]) for case in suite]
    assert sum(case.is_error for case in cases) == 1
    assert sum(case.is_skipped for case in cases) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(samples.runs())
def test_any_run_is_valid_and_loses_no_trial(run: RunData) -> None:
    root = parsed(junit(run))
    assert len(list(root.iter("testcase"))) == len(run.trials)
    assert len(list(root.iter("error"))) == sum(trial.outcome.is_error for trial in run.trials)
    assert len(list(root.iter("skipped"))) == sum(trial.outcome.is_skipped for trial in run.trials)


@given(st.text())
def test_a_parser_returns_the_same_legal_text(text: str) -> None:
    element = StandardTree.Element("a")
    element.text = clean = strip_illegal(text)
    back = etree.fromstring(StandardTree.tostring(element, encoding="unicode")).text or ""
    assert back == clean.replace("\r\n", "\n").replace("\r", "\n")


def test_text_without_anything_illegal_stays_as_it_is() -> None:
    assert strip_illegal("grüß\tgott\n<&>]]>") == "grüß\tgott\n<&>]]>"
    assert strip_illegal("a\x00\x1b[1;31mred\x1b[0m\ufffe") == "ared"
