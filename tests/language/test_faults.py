"""What is to go wrong, as it is declared."""

import pytest

from matrix_runner.decide.estimate import Pace, estimate
from matrix_runner.decide.plan import Plan
from matrix_runner.simdisks.disk import Fault
from matrix_runner.space.load import BadMatrix
from matrix_runner.space.select import select
from tests.support.matrices import SMALL, space

MODELLED = SMALL.replace("size: 64MiB", "size: 64MiB, model: st3320620as")
ALL = """\
faults:
  - {disk: 2, at: 500ms, kind: dies}
  - {disk: 3, kind: dies, lasts: 2s}
  - {disk: 0, at: 100ms, kind: slow, times: 10, lasts: 3s}
  - {disk: 1, kind: stalls, lasts: 1s}
  - {disk: 1, kind: medium, start: 25%, length: 64KiB}
"""
NAMED = "faults: {none: [], dies: [{disk: 2, kind: dies}]}\n"


def test_a_list_is_what_every_trial_has() -> None:
    found = space(MODELLED + ALL)
    assert found.count() == space(MODELLED).count()
    assert {array.faults for array in found.stacks} == {
        (
            Fault(2, "dies", 0.5),
            Fault(3, "dies", 0.0, 2.0),
            Fault(0, "slow", 0.1, 3.0, 10.0),
            Fault(1, "stalls", 0.0, 1.0),
            Fault(1, "medium", 0.0, where=(16 << 20, (16 << 20) + 65536)),
        )
    }
    assert [str(fault) for fault in found.stacks[0].faults] == [
        "disk 2 dies at 0.5 s",
        "disk 3 dies at 0 s for 2 s",
        "disk 0 is 10 times slower at 0.1 s for 3 s",
        "disk 1 stalls at 0 s for 1 s",
        "disk 1 cannot be read from 16777216 to 16842752 at 0 s",
    ]
    assert "faults" not in next(found.cells()).axes


def test_lists_by_name_are_an_axis_and_without_any_fault_a_cell_is_what_it_was() -> None:
    found = space(MODELLED + NAMED)
    cells = {cell.name: cell for cell in found.cells()}
    assert len(cells) == 2 * space(MODELLED).count()
    assert cells["raid5/chunk=64KiB/faults=dies/work/rw=read"].axes["faults"] == "dies"
    healthy = {cell.id for cell in cells.values() if cell.axes["faults"] == "none"}
    assert healthy == {cell.id for cell in space(MODELLED).cells()}
    assert not healthy & {cell.id for cell in space(MODELLED + ALL).cells()}
    rules = "only: [{faults: none}]\n"
    assert len(list(select(space(MODELLED + NAMED + rules)).cells())) == len(healthy)


def test_rules_find_every_spelling_of_layouts_and_of_faults() -> None:
    twice = MODELLED.replace("workloads:", "  same: [md: {level: 5, chunk: [16KiB, 64KiB]}]\nworkloads:")
    twice += "faults: {none: [], dies: [{disk: 2, kind: dies}], gone: [{disk: 2, kind: dies}]}\n"
    every = space(twice).count()
    assert every == 2 * space(MODELLED).count()
    for rule in ("layout: same, faults: gone", "layout: raid5, faults: dies", "layout: same, faults: none"):
        assert select(space(f"{twice}only: [{{{rule}}}]\n")).count() == every // 2
    assert select(space(f"{twice}exclude: [{{faults: [dies, gone]}}]\n")).count() == every // 2


def test_equal_sets_are_measured_once_with_a_note() -> None:
    dies = "[{disk: 2, kind: dies}]"
    found = space(f"{MODELLED}faults: {{none: [], dies: {dies}, gone: {dies}, lost: {dies}, nothing: []}}\n")
    assert [note for note in found.notes if note.startswith("faults")] == [
        "faults: nothing is the same as none, and counts once",
        "faults: gone and lost are the same as dies, and count once",
    ]
    assert not any("faults" in note for note in space(MODELLED + NAMED).notes)
    assert not any("faults" in note for note in space(MODELLED + ALL).notes)


def test_an_array_whose_disks_fail_is_built_for_each_trial() -> None:
    found = space(MODELLED + NAMED)
    told = estimate(Plan(select(found), found.matrix.repeat, 1), Pace())
    assert (told.stacks, told.builds) == (4, 6)


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ("[{disk: 4, kind: dies}]", "there is no disk 4; they are numbered from 0 to 3"),
        ("{one: [{disk: 0, kind: medium, start: 100%, length: 4KiB}]}", "the region ends beyond the end of the disk"),
        ("[{disk: 0, kind: stalls}]", "'lasts' is missing"),
        ("[{disk: 0, at: 100ms}]", "'kind' is missing"),
        ("[dies]", "'dies' is not a map"),
        ("[{disk: 0, kind: slow, times: 1}]", "more than 1"),
        ("[{disk: 0, kind: dyes}]", "'dyes' is not one of dies, slow, stalls, medium, corrupt; did you mean dies?"),
        ("[{disk: 0, kind: dies, last: 3s}]", "unknown key 'last'; did you mean at or lasts?"),
        ("[{disk: 0, at: 1s, kind: dies}]", "every workload has ended by then: ramp and runtime are 1s at most"),
        ("{'': [], dies: []}", "each of several sets of faults needs a name"),
        (f"[{', '.join(['{disk: 0, kind: dies}'] * 65)}]", "64"),
        ("{'a b': []}", "begins with a letter"),
    ],
)
def test_impossible_faults_are_refused_with_their_place(faults: str, said: str) -> None:
    with pytest.raises(BadMatrix) as told:
        space(f"{MODELLED}faults: {faults}\n")
    assert said in told.value.details
    assert f"sweep.yaml:{len(MODELLED.splitlines()) + 1}:" in told.value.details


def test_plain_files_cannot_have_faults() -> None:
    with pytest.raises(BadMatrix, match="1 error") as told:
        space(SMALL + "faults: [{disk: 0, kind: dies}]\n")
    assert "disk 0 has no model, so it cannot have faults" in told.value.details
