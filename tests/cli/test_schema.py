"""`matrix schema`: the schemas accept what is shipped, and refuse mistakes."""

import json

import jsonschema
import pytest
from ruamel.yaml import YAML

from matrix_runner.cli.schema import schema_text
from tests.support.command import Matrix
from tests.support.matrices import SMALL, SWEEP
from tests.support.shipped import ROOT, schema_named_in


def test_the_shipped_schema_is_the_one_that_is_printed_and_accepts_what_is_shipped(matrix: Matrix) -> None:
    assert (ROOT / "matrix/schema.json").read_text() == schema_text() == matrix("schema").stdout
    validator = jsonschema.Draft202012Validator(json.loads(schema_text()))
    shipped = [path for path in (ROOT / "matrix").rglob("*.yaml") if schema_named_in(path) == "schema.json"]
    assert shipped
    for path in shipped:
        validator.validate(YAML(typ="safe").load(path.read_text()))
    validator.validate(YAML(typ="safe").load(SWEEP))


@pytest.mark.parametrize("kind", ["model", "guidelines", "published"])
def test_the_schema_of_other_files_accepts_those_that_are_shipped(kind: str, matrix: Matrix) -> None:
    text = matrix("schema", "--of", kind).stdout
    assert (ROOT / f"matrix/{kind}.schema.json").read_text() == text
    files = [path for path in (ROOT / "matrix").rglob("*.yaml") if schema_named_in(path) == f"{kind}.schema.json"]
    assert files
    for path in files:
        jsonschema.Draft202012Validator(json.loads(text)).validate(YAML(typ="safe").load(path.read_text()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("level: 5", "levl: 5"),
        ("64MiB", "64M"),
        ("level: 5", "level: 7"),
        ("[16KiB, 64KiB]", "[]"),
        ("repeat: 2", "repeat: often"),
    ],
)
def test_the_schema_refuses_what_an_editor_should_underline(old: str, new: str) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(schema_text()))
    assert not validator.is_valid(YAML(typ="safe").load(SMALL.replace(old, new)))
