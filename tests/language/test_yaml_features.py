"""Directives, tags and anchors of YAML are understood, or refused with a place."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.space.load import load, parse

if TYPE_CHECKING:
    from pathlib import Path

MATRIX = """\
name: m
disks: {count: 3, size: 1GiB}
layouts: {a: [md: {level: 5}]}
workloads: {w: {rw: read, runtime: 1s}}
"""
DIRECTIVES = ("%YAML 1.1", "%YAML 1.2", "%YAML 1.3", "%YAML 1.0", "%YAML 2.0", "%YAML 1", "%YAML x", "%YAML", "%YAML 1.2\n%YAML 1.2",
    "%TAG ! tag:example.com,2026:", "%TAG !e! tag:example.com,2026:", "%TAG", "%TAG ! !", "%TAG x y", "%OTHER 1", "%")  # fmt: skip
VALUES = (
    *(f"!!{tag} {value}" for tag in ("binary", "bool", "float", "int", "map", "merge", "null", "omap", "pairs", "seq", "set", "str",
        "timestamp", "value", "yaml", "python/object:os.system", "none-such")
      for value in ("", "x", "1", "1.5", "true", "2026-13-45", "aGk=", "[1]", "[{a: 1}]", "{a: 1}", "{? a}")),
    "!x 1", "!x", "!<tag:yaml.org,2002:int> x", "!<> 1", "!e!x 1", "!", "! 1", "&a *a", "&a [*a]", "&a {b: *a}", "{<<: *b}", "{<<: 1}",
    "{<<: [1]}", "{<<: {level: 5}}", "{<<: [{level: 5}, {level: 6}]}", "&", "*", "&a", "[&a 5, *a]", "[&a 5, &a 6, *a]",
    "? a", "{? [1]: 2}", "{? {a: 1}: 2}", "{? }", "|", "|9\n x", ">-", "0o17", "0x1F", "1_000", ".inf", "-.inf", ".nan", "12:30:45",
    "2026-11-28", "=", "~", "---", "...", "'\\x'", '"\\x"', '"\\ud800"', '"\\U00110000"', "- - - 1", "@", "`", "%", "\t",
)  # fmt: skip


def understand(text: str) -> None:
    """Parse the text; its only error is one of the user."""
    with contextlib.suppress(BadInput):
        parse("m.yaml", text)


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_directives(directive: str) -> None:
    understand(f"{directive}\n---\n{MATRIX}")
    understand(f"{MATRIX}...\n{directive}\n---\n{MATRIX}")


@pytest.mark.parametrize("value", VALUES)
def test_tags_and_anchors(value: str) -> None:
    for known in ("m\n", "{count: 3, size: 1GiB}", "3", "1GiB", "[md: {level: 5}]", "{level: 5}", "5", "read", "1s"):
        understand(MATRIX.replace(known, f"{value}\n" if known == "m\n" else value, 1))
    understand(value)
    understand(f"{value}: 1")


def test_an_unknown_version_is_named() -> None:
    with pytest.raises(BadInput) as caught:
        parse("m.yaml", f"%YAML 1.3\n---\n{MATRIX}")
    assert "`%YAML` names an unknown version; remove this line" in str(caught.value.details)


@pytest.mark.parametrize(
    ("value", "kind"),
    [('!!bool "x"', "bool"), ("!!int x", "int"), ("!!int 1:99", "int"), ("!!float .", "float"), ("!!null 5", "null")],
)
def test_a_value_that_does_not_fit_its_tag_is_named_at_its_place(value: str, kind: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse("m.yaml", MATRIX.replace("count: 3", f"count: {value}"))
    text = value.split()[1].strip('"')
    assert f"m.yaml:2:16: '{text}' is no value for the tag `!!{kind}`" in str(caught.value.details)


ENCODED = {
    **{name: MATRIX.encode(name) for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "utf-7")},
    "latin-1": f"# ä\n{MATRIX}".encode("latin-1"),
    "surrogate": MATRIX.encode() + b'note: "\xed\xa0\x80"\n',
    "escaped surrogate": MATRIX.encode() + b'tags: ["\\ud800"]\n',
    "NUL": MATRIX.encode().replace(b"\n", b"\0\n", 1),
    "a mark within": MATRIX.encode() + b"\xef\xbb\xbfseed: 1\n",
    "a mark alone": b"\xff\xfe",
    "zeros": bytes(1000),
    "overlong": b"name: \xc0\x80\n",
    "carriage returns": MATRIX.encode().replace(b"\n", b"\r"),
}


@pytest.mark.parametrize("name", ENCODED)
def test_encodings(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_bytes(ENCODED[name])
    if name in {"utf-8-sig", "utf-7", "carriage returns"}:
        assert load(tmp_path / "m.yaml").space.count()
        return
    with pytest.raises(BadInput, match=r"not a UTF-8 text|not valid YAML|unknown key"):
        load(tmp_path / "m.yaml")


DEEP = 20_000
LARGE = {
    "lists": "x: " + "[" * DEEP + "]" * DEEP,
    "maps": "x: " + "{a: " * DEEP + "}" * DEEP,
    "open lists": "x: " + "[" * DEEP,
    "dashes": "x:\n " + "- " * DEEP,
    "keys": "? " * DEEP,
    "tags": "x: " + "!!str " * DEEP + "a",
    "documents": "---\n" * DEEP,
    "integer": "seed: " + "9" * 900_000,
    "exponent": "seed: 1e" + "9" * 900_000,
    "sexagesimal": "seed: " + "1:" * 200_000 + "1",
    "scalar": "name: " + "a" * 900_000,
    "key": "a" * 900_000 + ": 1",
    "too large": "name: " + "a" * 10_000_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_deep_and_large_texts_get_a_short_refusal(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(LARGE[name])
    with pytest.raises(BadInput) as caught:
        load(tmp_path / "m.yaml")
    assert len(f"{caught.value.brief}{caught.value.details}{caught.value.resolution}") < 2000
