"""The generated parts of the reference are up to date, and their examples are valid."""

from __future__ import annotations

import json
import re

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from docs import generate
from matrix_runner.cli.schema import schema_text
from matrix_runner.layers import LAYERS
from tests.support.pages import DOCS, ROOT

MESSAGES = DOCS / "reference/messages.md"
PAGES = [page for page in DOCS.rglob("*.md") if "<!-- begin " in page.read_text()]
#: `tests/messages` checks the page of messages, which it has read from the source anyway.
OTHERS = [page for page in PAGES if page != MESSAGES]


@pytest.mark.parametrize("page", OTHERS, ids=[page.stem for page in OTHERS])
def test_generated_parts_are_up_to_date(page: object) -> None:
    text = DOCS.joinpath(str(page)).read_text()
    assert generate.generated(text) == text, "run `python -m docs.generate`"


def test_each_example_of_the_language_is_valid() -> None:
    definitions = json.loads(schema_text())["$defs"]
    wrong = []
    for path, part in generate.parts_of_the_language():
        for key, value in part["properties"].items():
            text = generate.example(key, value, generate.parent_of(path))
            checker = Draft202012Validator({**value, "$defs": definitions})
            errors = [error.message[:100] for error in checker.iter_errors(YAML(typ="safe").load(text)[key])]
            wrong += [f"{path}: {text}: {errors[0]}"] if errors else []
    assert not wrong


def test_each_key_has_a_meaning() -> None:
    page = (DOCS / "reference" / "language.md").read_text()
    rows = page.partition("<!-- begin language -->")[2].splitlines()
    assert not [row for row in rows if re.match(r"\| `", row) and row.split(" | ")[3].strip() == ""]


def test_there_are_pages_of_the_reference() -> None:
    assert {page.relative_to(ROOT).as_posix() for page in PAGES} >= {
        "docs/reference/language.md",
        "docs/reference/command-line.md",
    }


def test_each_layer_has_a_page_and_the_language_links_to_it() -> None:
    pages = {page: page.read_text() for page in (DOCS / "reference/layers").glob("*.md")}
    assert pages == generate.layer_pages(), "run `python -m docs.generate`"
    language = (DOCS / "reference/language.md").read_text()
    assert {page.stem for page in pages if f"(layers/{page.name})" in language} == set(LAYERS)
