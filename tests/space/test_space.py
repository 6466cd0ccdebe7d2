import itertools
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.errors import BadInput
from matrix_runner.space.load import BadMatrix
from matrix_runner.space.select import select, values_of
from matrix_runner.space.space import Space
from tests.support.matrices import SMALL, SWEEP, space

#: On one disk, and on two side by side.
BEHIND = """\
name: behind
disks: {count: 2, size: 1GiB}
layouts: {one: [disk], both: [disks]}
workloads:
  work: {rw: [read], %s}
"""


def test_an_axis_belongs_to_its_parent() -> None:
    sweep = space()
    per_layout = {"single": 1, "striped": 3, "parity": 4, "far": 3}
    tunes = {"single": 4, "striped": 4, "parity": 8, "far": 4}
    assert sweep.count() == sum(per_layout[name] * tunes[name] * 4 for name in per_layout)
    assert sweep.count() == sum(1 for _ in sweep.cells())


def test_names_and_ids_are_unique_and_fit_for_folders() -> None:
    cells = list(space().cells())
    assert len({cell.id for cell in cells}) == len({cell.name for cell in cells}) == len(cells)
    assert all(re.fullmatch(r"[A-Za-z0-9._=,+@%/-]+", cell.name) for cell in cells)
    assert cells[-1].name == "far/layout=o2/readahead=32MiB,ncq_depth=31/oltp/bs=16KiB"
    assert cells[-1].axes["md.chunk"] == "512KiB"


def test_the_id_of_a_cell_is_that_of_its_content() -> None:
    """Pinned: a change here makes every recorded history a stranger to its cells."""
    assert [cell.id for cell in itertools.islice(space(SMALL).cells(), 2)] == ["813ab1c662506be8", "3192129675996900"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("chunk: [16KiB, 64KiB]", "chunk: [64KiB, 16384B]"),
        ("raid5: [md: {level: 5, chunk", "other: [md: {devices: 4, metadata: 1.2, level: raid5, bitmap: none, chunk"),
        ("bs: 4KiB, runtime: 1s", "runtime: 1000ms, iodepth: 1, direct: true, bs: 4096B"),
        ("name: small", "name: renamed\ndescription: words\nseed: 7"),
        ("repeat: 2", "repeat: 2\ntune: {readahead: default}"),
    ],
)
def test_spelling_does_not_change_what_a_cell_is(old: str, new: str) -> None:
    assert old in SMALL
    assert {cell.id for cell in space(SMALL.replace(old, new)).cells()} == {cell.id for cell in space(SMALL).cells()}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("level: 5", "level: 4"),
        ("count: 4", "count: 5"),
        ("size: 64MiB", "size: 65MiB"),
        ("disks: {", "disks: {bus: scsi, "),
        ("bs: 4KiB", "bs: 8KiB"),
        ("repeat: 2", "repeat: 2\ntune: {readahead: 64KiB}"),
        ("repeat: 2", "repeat: 2\nmachine: {kernel: debian-12}"),
    ],
)
def test_a_changed_workload_changes_every_id(old: str, new: str) -> None:
    assert old in SMALL
    before = {cell.id for cell in space(SMALL).cells()}
    assert not before & {cell.id for cell in space(SMALL.replace(old, new)).cells()}


def test_equal_names_are_reported() -> None:
    """512 KiB is the chunk that md takes by itself."""
    text = SMALL.replace(
        "raid5: [md: {level: 5, chunk: [16KiB, 64KiB]}]",
        "vendor: [md: {level: 5}]\n  ours: [md: {level: 5, chunk: 512KiB}]",
    )
    text = text.replace("bs: 4KiB, runtime: 1s}", "bs: 4KiB, runtime: 1s}\n  again: {rw: read, bs: 4KiB, runtime: 1s}")
    found = space(text)
    assert found.count() == 2
    assert found.notes == (
        "layout ours is the same as vendor: it is measured once, as vendor",
        "workload again is the same as work: it is measured once, as work",
    )


def test_two_spellings_of_one_cell_are_run_once_and_found_under_both() -> None:
    doubled = space(
        SMALL.replace(
            "[16KiB, 64KiB]}]", "[16KiB, 64KiB, 65536B]}]\n  again: [md: {level: raid5, chunk: 64KiB, devices: 4}]"
        )
    )
    assert doubled.count() == space(SMALL).count()
    assert select(doubled, ["layout=again"]).count() == 2
    assert select(doubled, ["layout=raid5"]).count() == 4


def test_a_chunk_size_never_multiplies_what_has_no_chunks() -> None:
    mixed = space(SMALL.replace("level: 5", "level: [1, 5]"))
    assert [array.label for array in mixed.stacks] == [
        "raid5/level=1",
        "raid5/level=5,chunk=16KiB",
        "raid5/level=5,chunk=64KiB",
    ]
    assert mixed.notes == ("layout raid5: chunk is not an axis where RAID 1 has no chunks",)


@pytest.mark.parametrize(
    ("only", "count"),
    [
        ([], 240),
        (["layout=single"], 16),
        (["layout=parity,bs=64KiB"], 32),
        (["bs=65536B|1MiB"], 120),
        (["layout=single", "layout=far"], 64),
        (["stripe_cache_size=256"], 64),
        (["md.level=6,tune.readahead=default"], 32),
    ],
)
def test_only(only: list[str], count: int) -> None:
    assert select(space(), only).count() == count


def test_exclude_and_only_in_the_matrix() -> None:
    text = (
        SWEEP
        + "only: [{layout: [single, far]}, {layout: parity, level: 6}]\n"
        + "exclude: [{layout: far, workload: oltp, ncq_depth: 1}]\n"
    )
    names = [cell.name for cell in select(space(text)).cells()]
    assert len(names) == 16 + (48 - 12) + 64
    assert not [name for name in names if name.startswith("far") and "oltp" in name and "ncq_depth=1/" in name]


def test_an_axis_twice_in_one_only_is_reported_with_a_remedy() -> None:
    """The last one would win, and nobody would know."""
    with pytest.raises(BadInput, match="'bs' occurs twice, and a cell has one value on each axis") as caught:
        select(space(), ["bs=4KiB,layout=single,bs = 16KiB|4KiB"])
    assert caught.value.resolution == "for cells with either value, write  bs=4KiB|16KiB"
    with pytest.raises(
        BadInput, match=r"'workload\.bs' and 'bs' are the same axis; to match either value write a list"
    ):
        select(space(), ["workload.bs=4KiB,bs=16KiB"])
    with pytest.raises(BadMatrix) as told:
        space(SWEEP + "only: [{workload.bs: 4KiB, bs: 16KiB}]\n")
    assert "'workload.bs' and 'bs' are the same axis" in told.value.details
    assert select(space(), ["bs=4KiB|16KiB"]).count() == select(space(), ["bs=4KiB", "bs=16KiB"]).count() > 0


@pytest.mark.parametrize(
    "rule",
    [
        "{level: raid5}",
        "{level: RAID-5}",
        "{level: [raid5, 5]}",
        "{metadata: 0.90}",
        "{rw: readwrite}",
        "{within: 5%}",
        "{within: 5.0 %}",
        "{sync_speed_max: 1024KiB/s}",
    ],
)
def test_a_rule_may_spell_a_value_as_it_may_be_declared(rule: str) -> None:
    text = """\
name: spelled
disks: {count: 4, size: 1GiB}
layouts: {one: [md: {level: [raid5, raid6], metadata: [0.90, 1.2]}]}
tune: {sync_speed_max: [1MiB/s, default]}
workloads: {work: {rw: [readwrite, read], steady: {within: [5%, 10%], over: 2s}}}
"""
    assert select(space(text + f"only: [{rule}]\n")).count() == 16
    key, _, value = rule.strip("{}").partition(": ")
    if not value.startswith("["):
        assert select(space(text), [f"{key}={value}"]).count() == 16


@pytest.mark.parametrize("only", ["chunk", "=3", "chunk=", "chunk=7KiB", "nonsense=1"])
def test_a_wrong_only_is_bad_input(only: str) -> None:
    with pytest.raises(BadInput, match="--only"):
        select(space(), [only])


def _brute_force(sweep: Space, rules: list[dict[str, str]]) -> set[str]:
    return {
        cell.id
        for cell in sweep.cells()
        if any(all(cell.axes.get(axis) == value for axis, value in rule.items()) for rule in rules)
    }


@given(st.data())
def test_rules_mean_the_same_as_looking_at_every_cell(data: st.DataObject) -> None:
    sweep = space()
    values = [{"layout": "far"}, {"layout": "parity", "md.level": "6"}, {"tune.ncq_depth": "1"}, {"workload": "oltp"}]
    values += [{"md.chunk": "64KiB", "workload.bs": "4KiB"}, {"tune.stripe_cache_size": "256"}, {"md.layout": "f2"}]
    only = data.draw(st.lists(st.sampled_from(values), max_size=3, unique_by=str))
    exclude = data.draw(st.lists(st.sampled_from(values), max_size=3, unique_by=str))
    lines = "".join(f"{key}: {rules}\n" for key, rules in (("only", only), ("exclude", exclude)) if rules)
    selection = select(space(SWEEP + lines))
    found = {cell.id for cell in selection.cells()}
    wanted = _brute_force(sweep, only) if only else {cell.id for cell in sweep.cells()}
    assert found == wanted - _brute_force(sweep, exclude)
    assert selection.count() == len(found)
    for stack in selection.space.stacks:
        listed = Counter(cell.workload.digest for cell in selection.cells_of(stack))
        assert {cell.workload.digest: count for cell, count in selection.groups_of(stack)} == listed


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ("offset: 99%, size: 20MiB", "5:41: does not fit on one: 20MiB after an offset of 99% end at 1034MiB"),
        (
            "offset: 512MiB, size: 51%",
            "5:44: does not fit on one, both: 51% after an offset of 512MiB end at 1035MiB",
        ),
        (
            "offset: 1GiB",
            "5:30: does not fit on one, both: 4KiB after an offset of 1GiB end at 1025MiB, and there are at most 1024MiB",
        ),
        ("offset: 50%, size: 1.5GiB", "5:41: does not fit on one, both: "),
        (
            "offset: 33.3%",
            "5:30: does not fit on one, both: fio rounds 33.3% of a device down to whole percent",
        ),
        (
            "size: 66.7%",
            "5:28: does not fit on one, both: fio rounds 66.7% of a device down to whole percent",
        ),
        ("offset: 50%, size: 600MiB, numjobs: 4, fio: {offset_increment: 1m}", "5:41: does not fit on one: "),
    ],
)
def test_an_offset_is_held_against_the_room_with_the_size(work: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        space(BEHIND % work)
    assert f"sweep.yaml:{said}" in error.value.details


@pytest.mark.parametrize(
    "work", ["offset: 33%, size: 67%", "offset: 512MiB, size: 50%", "offset: 0.5GiB, numjobs: 64", "size: 100%"]
)
def test_jobs_that_end_with_the_device_stay_on_it(work: str) -> None:
    assert space(BEHIND % work).count() == 2


def test_excluded_layouts_are_reported_once() -> None:
    felt = SWEEP.replace("rw: read,", "rw: read, direct: false,")  # or readahead would have a note, too
    felt = felt.replace("rw: randrw,", "rw: randrw, direct: false,")
    chosen = select(space(felt + "exclude: [{layout: [single, far]}]\n"))
    assert chosen.layouts() == ["striped", "parity"]
    assert chosen.notes() == [
        "the rules (`only`, `exclude`, --only) exclude all cells of single, far",
        "stripe_cache_size is not an axis for striped: it has no RAID 4, 5 or 6",
    ]
    assert select(space(felt), ["layout=parity"]).notes()[1:] == []
    assert select(space(felt)).notes() == list(space(felt).notes)


def test_a_rule_without_cells_is_reported() -> None:
    exclude = "exclude:\n  - {layout: parity, md.chunk: 64KiB}\n  - {layout: single, md.chunk: 64KiB}\n"
    only = "only:\n  - {layout: [single, parity]}\n  - {layout: single, stripe_cache_size: [256, 16384]}\n"
    assert select(space(SWEEP + exclude + only)).notes()[1:3] == [
        "`exclude: {layout: single, md.chunk: 64KiB}` excludes no cell: no cell has all of these values",
        "`only: {layout: single, stripe_cache_size: [256, 16384]}` selects no cell: no cell has all of these values",
    ]


def test_a_rule_with_one_of_two_layout_names_is_reported() -> None:
    text = SMALL.replace("layouts:\n", "layouts:\n  same: [md: {level: 5, chunk: [16KiB, 64KiB]}]\n")
    assert select(space(f"{text}exclude: [{{layout: same}}]\n")).notes()[:1] == [
        "`exclude: {layout: same}` excludes no cell: the cells have other names as well, and the rule does not match those"
    ]


def test_a_rule_that_only_what_is_impossible_answers_to_does_its_work() -> None:
    text = SMALL.replace("level: 5", "level: 5, devices: [2, 4]") + "exclude: [{devices: 2, rw: read}, {devices: 2}]\n"
    assert select(space(text)).notes() == []


@given(st.data())
def test_a_rule_is_idle_exactly_if_it_excludes_no_cell(data: st.DataObject) -> None:
    everything = space(SWEEP)
    values = {axis: sorted(texts) for axis, texts in values_of(everything).items()}
    axes = data.draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=3, unique=True))
    rule = ", ".join(f"{axis}: {data.draw(st.sampled_from(values[axis]))}" for axis in axes)
    ruled = select(space(f"{SWEEP}exclude: [{{{rule}}}]\n"))
    assert any("excludes no cell" in note for note in ruled.notes()) == (ruled.count() == everything.count())


def test_a_layout_that_is_another_one_as_well_is_left_with_it() -> None:
    text = SMALL.replace("layouts:\n", "layouts:\n  same: [md: {level: 5, chunk: 16KiB}]\n")
    assert select(space(text), ["layout=raid5"]).layouts() == ["same", "raid5"]
