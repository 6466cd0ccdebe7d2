"""What a study published is held against its matrix before anything starts."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.schema import schema_text
from matrix_runner.space.declared_files import parse_published, study_beside
from matrix_runner.space.load import BadMatrix, load
from tests.support.matrices import SMALL, space

ROOT = Path(__file__).parents[2]
STUDIES = sorted((ROOT / "matrix/studies").rglob("published.yaml"))
SOUND = """\
source: somebody
tables:
  - id: read
    metric: read.bw
    unit: MB/s
    where: {rw: read}
    base: {chunk: 16KiB}
    rows:
      - {where: {chunk: 16KiB}, value: 100}
      - {where: {chunk: 64KiB}, value: 150, why: it was another kernel}
      - {value: 300, unmeasured: it was a hardware RAID}
    whys:
      - {where: {chunk: 64KiB}, why: it was long ago}
"""


def told(text: str) -> list[str]:
    with pytest.raises(BadMatrix) as caught:
        parse_published("published.yaml", text, space(SMALL))
    return [f"{place.line}:{place.column}: {message}" for place, message in caught.value.places]


def test_a_correct_study_is_read_and_its_text_kept() -> None:
    study = parse_published("published.yaml", SOUND, space(SMALL))
    assert study.text == SOUND
    assert [len(one.rows) for one in study.published.tables] == [3]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("where: {rw: read}", "where: {rw: raed}", "6:17: no cell has workload.rw=raed; did you mean read?"),
        ("where: {rw: read}", "where: {rww: read}", "6:13: unknown axis 'rww'"),
        ("base: {chunk: 16KiB}", "base: {chunk: 8KiB}", "7:19: no cell has md.chunk=8KiB"),
        ("base: {chunk: 16KiB}", "base: {chunk: 8KiB}", "the base of this row is missing in the table: {chunk: 8KiB}"),
        ("{where: {chunk: 64KiB}, value: 150", "{where: {chnk: 64KiB}, value: 150", "10:18: unknown axis 'chnk'; did you mean md.chunk?"),
        ("{where: {chunk: 64KiB}, value: 150", "{where: {chunk: 64KiB, rw: randwrite}, value: 150", "10:10: no cell matches all of these values"),
        ("{where: {chunk: 64KiB}, value: 150", "{where: {chunk: 16KiB}, value: 150", "another row of this table has the same `where` and `to`"),
        ("value: 150", "valeu: 150", "10:33: unknown key 'valeu'; did you mean value?"),
        ("value: 150", "value: none", "10:40: 'none' is not a number"),
        ("metric: read.bw", "metric: raed.bw", "there is no such metric; did you mean read.bw"),
        ("unit: MB/s", "units: MB/s", "unknown key 'units'; did you mean unit?"),
        ("source: somebody", "sauce: somebody", "unknown key 'sauce'; did you mean source?"),
        ("whys:\n      - {where: {chunk: 64KiB}", "whys:\n      - {where: {chunk: 32KiB}", "no row of this table has all of these values"),
        ("{value: 300, unmeasured: it was a hardware RAID}", "{value: 300}", "write the cells"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_study_is_reported_with_its_place(old: str, new: str, said: str) -> None:
    assert old in SOUND
    found = told(SOUND.replace(old, new, 1))
    assert any(said in one for one in found), found


def test_rows_that_cannot_be_measured_need_no_cells() -> None:
    parse_published(
        "published.yaml", SOUND.replace("{value: 300,", "{where: {card: adaptec}, value: 300,"), space(SMALL)
    )


def test_text_that_is_not_yaml_is_refused() -> None:
    with pytest.raises(BadInput, match="not valid YAML"):
        parse_published("published.yaml", "tables: [", space(SMALL))


@pytest.mark.parametrize("nothing", ["", "[]", "3"])
def test_an_empty_study_is_refused(nothing: str) -> None:
    assert told(nothing)


def test_only_a_studys_matrix_has_something_published_beside_it(tmp_path: Path) -> None:
    (tmp_path / "published.yaml").write_text(SOUND)
    assert study_beside(tmp_path / "matrix.yaml", space(SMALL)) is not None
    assert study_beside(tmp_path / "small.yaml", space(SMALL)) is None
    (tmp_path / "published.yaml").unlink()
    assert study_beside(tmp_path / "matrix.yaml", space(SMALL)) is None


def test_the_schema_is_shipped_and_takes_what_is_right() -> None:
    assert (ROOT / "matrix/published.schema.json").read_text() == schema_text("published")
    validator = jsonschema.Draft202012Validator(json.loads(schema_text("published")))
    yaml = YAML(typ="safe")
    validator.validate(yaml.load(SOUND))
    assert not validator.is_valid(yaml.load(SOUND.replace("value: 150", "valeu: 150")))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_every_study_that_is_shipped_fits_its_matrix(path: Path) -> None:
    matrix = path.with_name("matrix.yaml")
    declared = load(matrix)
    study = study_beside(matrix, declared.space)
    assert study is not None
    assert not [note for note in declared.space.notes if "is not tested" in note]
    jsonschema.Draft202012Validator(json.loads(schema_text("published"))).validate(YAML(typ="safe").load(study.text))


def test_studies_are_shipped() -> None:
    assert {path.parent.name for path in STUDIES} >= {"lvm-striping", "throttled-volumes", "mdadm-lvm"}
