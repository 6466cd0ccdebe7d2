"""Layouts of other files."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.space.load import BadMatrix, load, parse
from matrix_runner.space.select import select
from tests.support.matrices import SMALL, space

RAIDS = """\
# yaml-language-server: $schema=../schema.json
layouts:
  raid5: [md: {level: 5, chunk: [16KiB, 64KiB]}]
  parted: [partition: {count: 2}, use: "raids.yaml#odd"]
  odd: [pick: {number: 2}]
  wrong: [md: {level: 6, chunk: 5000B}]
  loop: [use: raids.yaml#loop]
"""


def matrix(tmp_path: Path, layout: str) -> Path:
    (tmp_path / "layouts").mkdir()
    (tmp_path / "layouts" / "raids.yaml").write_text(RAIDS)
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.replace("[md: {level: 5, chunk: [16KiB, 64KiB]}]", layout))
    return path


def test_a_used_layout_is_the_same_as_one_that_is_written_out(tmp_path: Path) -> None:
    used = load(matrix(tmp_path, "[use: layouts/raids.yaml#raid5]"))
    assert [(cell.id, cell.name) for cell in used.space.cells()] == [
        (cell.id, cell.name) for cell in space(SMALL).cells()
    ]
    assert used.source.used == {f"{tmp_path}/layouts/raids.yaml": RAIDS}


def test_included_layers_mix_with_others_and_may_include(tmp_path: Path) -> None:
    found = load(matrix(tmp_path, "[disks: {count: 2}, use: layouts/raids.yaml#parted, pick: {number: 1}]"))
    (array,) = found.space.stacks
    assert [layer.kind for layer in array.layers.value] == ["disks", "partition", "pick", "pick"]


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("[use: layouts/raids.yaml#raid6]", "small.yaml:4:16: layouts/raids.yaml has no layout 'raid6'; did you mean raid5?"),
        ("[use: layouts/raid.yaml#raid6]", "small.yaml:4:16: there is no file {}/layouts/raid.yaml"),
        ("[use: raids.yaml#raid6]", "small.yaml:4:16: there is no file {}/raids.yaml; paths are relative to the file that has them"),
        ("[use: [layouts/raids.yaml#raid5, layouts/raids.yaml#odd]]", "small.yaml:4:16: `use` takes one layout; for several write several names, "),
        ("[use: {file: layouts/raids.yaml}]", "small.yaml:4:16: `use` takes the file and the layout in it"),
        ("[{use: layouts/raids.yaml#raid5, fs: {type: ext4}}]", "small.yaml:4:17: `use` must be the only key of its list item"),
        ("[use: layouts/raids.yaml]", "small.yaml:4:16: 'layouts/raids.yaml': write the file and the layout in it"),
        ("[use: layouts/raids.yaml#loop]", "layouts/raids.yaml:7:15: these layouts use each other in a loop"),
        ("[use: layouts/raids.yaml#wrong]", "layouts/raids.yaml:6:33: a chunk must be a power of two"),
        ("[use: layouts]", "small.yaml:4:16: 'layouts': write the file and the layout in it"),
        ("[use: layouts#x]", "small.yaml:4:16: {}/layouts cannot be read: "),
    ],
)  # fmt: skip
def test_mistakes_of_includes_are_reported_at_their_place(tmp_path: Path, layout: str, said: str) -> None:
    with pytest.raises(BadMatrix) as caught:
        load(matrix(tmp_path, layout))
    assert f"{tmp_path}/{said.format(tmp_path)}" in str(caught.value.details)


def test_other_unreadable_files_are_reported_with_their_place(tmp_path: Path) -> None:
    path = matrix(tmp_path, "[use: layouts/raids.yaml#raid5]")
    (tmp_path / "layouts" / "raids.yaml").write_text("layouts: {a: [md: {level: 0}\n")
    with pytest.raises(BadMatrix, match="1 error") as caught:
        load(path)
    assert f"{tmp_path}/layouts/raids.yaml:1:14: " in str(caught.value.details)


def test_files_that_include_each_other_many_times_are_refused(tmp_path: Path) -> None:
    levels = [f"  l{n}: [{', '.join([f'use: raids.yaml#l{n + 1}'] * 100)}]\n" for n in range(7)]
    path = matrix(tmp_path, "[use: layouts/raids.yaml#l0]")
    (tmp_path / "layouts/raids.yaml").write_text(f"layouts:\n{''.join(levels)}  l7: [disk]\n")
    with pytest.raises(BadMatrix) as caught:
        load(path)
    assert "the included files have more than 50,000 values" in str(caught.value.details)


def test_many_uses_of_large_files_are_refused(tmp_path: Path) -> None:
    one = "- {{id: g{}, claim: a, best: {{metric: read.bw, along: md.chunk, is: 16KiB}}}}\n"
    (tmp_path / "g.yaml").write_text("".join(one.format(number) for number in range(600)))
    path = matrix(tmp_path, "[disk]")
    path.write_text(f"{path.read_text()}guidelines: [{', '.join(['g.yaml'] * 9000)}]\n")
    with pytest.raises(BadMatrix) as caught:
        load(path)
    assert "the included files have more than 50,000 values" in str(caught.value.details)


def test_every_place_of_a_matrix_has_its_path_in_the_header() -> None:
    header = SHIPPED.read_text().partition("\nlayouts:")[0]
    root = SHIPPED.parents[2]
    told = re.findall(r"use: (\S+)#hierarchical\]\s+# in (a matrix in matrix/|one at the root)\n", header)
    assert [where for _, where in told] == ["a matrix in matrix/", "one at the root"]
    for (file, _), folder in zip(told, (root / "matrix", root), strict=True):
        assert (folder / file).samefile(SHIPPED)


SHIPPED = Path(__file__).parents[2] / "matrix" / "layouts" / "seed-studies.yaml"
NAMES = list(YAML(typ="safe").load(SHIPPED)["layouts"])


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_layout_can_be_used(name: str) -> None:
    text = SMALL.replace("count: 4, size: 64MiB", "count: 6, size: 4GiB")
    text = text.replace("[md: {level: 5, chunk: [16KiB, 64KiB]}]", f"[use: {SHIPPED}#{name}]")
    used = parse("small.yaml", text).space
    for cell in used.cells():
        scripts = stack_scripts(cell.stack, [f"/dev/sd{letter}" for letter in "abcdef"], zeroed=True)
        assert scripts.stack.tops
        assert cell_scripts(cell, scripts.stack).measure


def test_file_systems_of_studies_are_aligned_only_as_published() -> None:
    made = {
        name: str(layer["fs"]["align"])
        for name, layers in YAML(typ="safe").load(SHIPPED)["layouts"].items()
        for layer in layers
        if isinstance(layer, dict) and "fs" in layer
    }
    assert made.pop("wiki-tuned") == "64KiB x 5"
    assert set(made.values()) == {"off"}, made


WIKI_TUNED = SHIPPED.parents[1] / "wiki-tuned.yaml"


def test_the_tuned_array_of_the_wiki_is_measured_as_it_was_and_without_its_tunables() -> None:
    found = load(WIKI_TUNED).space
    cells = list(select(found).cells())
    settings = {tuple(value for axis, value in cell.axes.items() if axis.startswith("tune.")) for cell in cells}
    assert settings == {("default", "default", "default"), ("32MiB", "16384", "8MiB")}
    tuned = next(cell for cell in cells if cell.axes["tune.lvm.readahead"] == "8MiB")
    scripts = stack_scripts(tuned.stack, [f"/dev/disk/by-id/matrix-{number}" for number in range(6)], zeroed=True)
    assert "stride=16,stripe_width=80" in scripts.set_up
    assert "noatime,barrier=1,stripe=80,data=writeback" in scripts.set_up
    tune = cell_scripts(tuned, scripts.stack).tune
    for line in (
        "turn /dev/md/matrix-1 queue/read_ahead_kb 32768",
        "turn /dev/md/matrix-1 md/stripe_cache_size 16384",
        "turn /dev/mapper/matrix--2-volume queue/read_ahead_kb 8192",
    ):
        assert f"\n{line}\n" in tune
