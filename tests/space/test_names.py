"""Names of cells: folders, classes of test cases, what people type. Whatever is declared, they stay fit for all of it."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.errors import BadInput
from matrix_runner.records.files import parts_of
from matrix_runner.space.load import parse
from matrix_runner.space.select import select
from tests.support.matrices import SMALL, space

if TYPE_CHECKING:
    from matrix_runner.space.space import Space

words = st.text(max_size=12)
kernels = st.lists(words | st.sampled_from(["..", ".", "~/bz", "a/b", "a_b", "debian-12"]), min_size=1, max_size=4)
options = st.lists(words | st.integers() | st.booleans(), min_size=1, max_size=3)


def declared(space_of: dict[str, Any]) -> Space | None:
    """The space of a matrix, or None if it is refused; JSON is YAML."""
    try:
        return parse("m.yaml", json.dumps(space_of, ensure_ascii=False)).space
    except BadInput:
        return None


def matrix(**parts: Any) -> dict[str, Any]:
    return {
        "name": "m",
        "disks": {"count": 4, "size": "64MiB"},
        "layouts": {"raid5": [{"md": {"level": [0, 1, 5], "chunk": ["16KiB", "64KiB"]}}]},
        "workloads": {"work": {"rw": ["read", "randrw"], "rwmixread": [10, 90]}},
        **parts,
    }


@given(kernels, options, options)
def test_every_name_is_a_unique_path(one: list[Any], two: list[Any], three: list[Any]) -> None:
    work = {"rw": ["read", "write"], "fio": {"description": two, "zonemode": three}}
    found = declared(matrix(machine={"kernel": one}, workloads={"work": work}))
    if found is None:
        return
    names = [cell.name for cell in found.cells()]
    assert Counter("/".join(parts_of(name)) for name in names) == Counter(set(names))
    assert len({cell.id for cell in found.cells()}) == len(names)


@pytest.mark.parametrize("value", ["é", "ü", "²", "中", "٣"])
def test_letters_of_other_scripts_stay_out_of_folders(value: str) -> None:
    found = declared(matrix(workloads={"work": {"rw": "read", "fio": {"description": [value, "plain"]}}}))
    assert found is not None
    names = [cell.name for cell in found.cells()]
    assert len(set(names)) == len(names)
    assert all(parts_of(name) for name in names)
    assert value in {cell.axes["workload.fio.description"] for cell in found.cells()}, "the axis keeps what was written"


def kernel_labels(*names: str) -> list[str]:
    found = space(SMALL + f"machine: {{kernel: {json.dumps(names)}}}\n")
    return list(dict.fromkeys(array.label.partition("/")[0] for array in found.stacks))


def test_kernels_have_a_safe_unique_part_of_the_name() -> None:
    assert kernel_labels("debian-12", "debian-13") == ["debian-12", "debian-13"]
    assert kernel_labels("..", "~/bz") == ["_", "__bz"]
    assert kernel_labels("./bz", "debian-12")[0] == "_bz"
    one, other = kernel_labels("x/a/b", "x/a_b")
    assert one == "x_a_b"
    assert other.startswith("x_a_b+")


def test_parameters_of_the_kernel_are_an_axis_and_default_keeps_the_ids_of_cells() -> None:
    plain = [cell.id for cell in space(SMALL).cells()]
    found = space(SMALL + "machine: {cmdline: [default, mitigations=off nosmt]}\n")
    labels = dict.fromkeys(array.label.partition("/")[0] for array in found.stacks)
    assert [*labels] == ["cmdline=default", "cmdline=mitigations_off_nosmt"]
    assert [cell.id for cell in found.cells() if cell.axes["cmdline"] == "default"] == plain
    assert len({cell.id for cell in found.cells()}) == 2 * len(plain)
    assert [cell.id for cell in space(SMALL + "machine: {cmdline: default}\n").cells()] == plain


def test_one_kernel_named_twice_is_one_kernel() -> None:
    once, twice = (
        space(SMALL + f"machine: {{kernel: {names}}}\n") for names in ("debian-12", "[debian-12, debian-12]")
    )
    assert [(cell.id, cell.name) for cell in once.cells()] == [(cell.id, cell.name) for cell in twice.cells()]


sizes = st.lists(st.sampled_from(["4KiB", "16KiB", "64KiB", "65536B"]), min_size=1, max_size=3)
matrices = st.builds(
    matrix,
    layouts=st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.one_of(
            st.just(["disk"]),
            st.builds(
                lambda levels, chunks: [{"md": {"level": levels, "chunk": chunks}}],
                st.lists(st.sampled_from([0, 1, 5, 6, 10]), min_size=1, max_size=3),
                sizes,
            ),
        ),
        min_size=1,
    ),
    tune=st.fixed_dictionaries({}, optional={"readahead": sizes, "stripe_cache_size": st.just([256, "default"])}),
    workloads=st.dictionaries(
        st.sampled_from(["v", "w"]),
        st.fixed_dictionaries(
            {"rw": st.lists(st.sampled_from(["read", "write", "randrw"]), min_size=1, max_size=2)},
            optional={"bs": sizes, "rwmixread": st.just([30, 70]), "ioengine": st.just(["libaio", "psync"])},
        ),
        min_size=1,
    ),
)


@given(matrices, st.randoms(use_true_random=False))
def test_the_order_in_which_keys_are_written_changes_no_cell(written: dict[str, Any], chance: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            chance.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(one) for one in value] if isinstance(value, list) else value

    one, other = declared(written), declared(shuffled(written))
    assert (one is None) == (other is None)
    if one and other:
        assert {cell.id for cell in one.cells()} == {cell.id for cell in other.cells()}


@given(matrices, st.data())
def test_the_axes_of_a_cell_find_only_it(written: dict[str, Any], data: st.DataObject) -> None:
    found = declared(written)
    if found is None:
        return
    cell = data.draw(st.sampled_from(list(found.cells())))
    only = ",".join(f"{axis}={value}" for axis, value in cell.axes.items())
    chosen = list(select(found, [only]).cells())
    assert cell.id in {one.id for one in chosen}
    names = {axis for one in chosen for axis in one.axes} & set(cell.axes)
    assert all(
        one.axes.get(axis, cell.axes[axis]) == cell.axes[axis] for one in chosen for axis in names if not _other(one)
    )


def _other(cell: Any) -> bool:
    """It goes by several spellings, and was found by another one."""
    return bool(cell.stack.layers.also or cell.tune.also or cell.workload.also)


@given(matrices)
def test_counting_and_walking_agree_and_no_cell_comes_twice(written: dict[str, Any]) -> None:
    found = declared(written)
    if found is None:
        return
    cells = list(found.cells())
    assert found.count() == len(cells) == len({cell.id for cell in cells}) == len({cell.name for cell in cells})
    for cell in cells:
        assert "md.chunk" not in cell.axes or cell.axes["md.level"] != "1", "RAID 1 has no chunks"
        assert "workload.rwmixread" not in cell.axes or cell.axes["workload.rw"] == "randrw"
