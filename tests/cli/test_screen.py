"""Control characters from files never reach a terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import matrix_runner
from matrix_runner.base.text import printable, printable_json
from matrix_runner.pages.table import Sheet

if TYPE_CHECKING:
    from tests.support.command import Call

RAW = re.compile(
    r"\bclick\.(echo|secho)\(|\bprint\(|sys\.std(out|err)(\.buffer)?\.write\(|console\.print\(|\bConsole\("
)
#: The doors, with what each of them may call.
DOORS = {
    "cli/help.py": 2,  # a console for the pages of the manual
    "cli/progress.py": 2,  # a console for a bar: every text through `printable`
    "cli/screen.py": 6,
    "cli/store_options.py": 2,  # bytes of a file format, and tables of a `Sheet`
    "hosts/agent/agent.py": None,  # a program of its own, whose output another program reads
    "machines/qemu/build.py": 1,  # likewise
    "session/disk_lease.py": 1,
}
HOSTILE = "\x1b]0;title\x07\x1b[31m\x9b2J\u202eevil\ud800"


def test_text_goes_to_a_terminal_through_few_doors() -> None:
    package = Path(matrix_runner.__path__[0])
    found = {}
    for path in sorted(package.rglob("*.py")):
        if count := len(RAW.findall(path.read_text())):
            found[str(path.relative_to(package))] = count
    assert found.keys() <= DOORS.keys()
    for name, count in found.items():
        allowed = DOORS[name]
        assert allowed is None or count <= allowed, f"{name}: {count} direct writes; use `echo` or `echo_whole`"


@given(st.text())
def test_printable_text_has_no_character_that_a_terminal_obeys(text: str) -> None:
    shown = printable(text)
    assert all(char in "\n\t" or not (ord(char) < 32 or 127 <= ord(char) < 160) for char in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    shown.encode()
    assert printable(shown) == shown


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_printable_json_is_the_same_document(text: str) -> None:
    written = printable_json(json.dumps({"a": text}, ensure_ascii=False))
    assert json.loads(written) == {"a": text}
    assert printable(written) == written


def test_cells_of_tables_are_printable() -> None:
    sheet = Sheet((("name"),), [(HOSTILE,)], title=HOSTILE, groups=[HOSTILE])
    assert printable(sheet.rows[0][0]) == sheet.rows[0][0]
    assert printable(sheet.title + sheet.groups[0]) == sheet.title + sheet.groups[0]


HOSTILE_YAML = '"\\e]0;title\\a\\e[31m\\x9b2J\\u202eevil"'


@pytest.mark.parametrize(
    "text",
    [
        f"{HOSTILE_YAML}: 1\n",
        f"only: [{{layout: {HOSTILE_YAML}}}]\n",
        "a: [\u202e\n",
        "# \u202e\nguidelines: [\u202e.yaml]\n",
    ],
)
def test_errors_about_a_matrix_are_printable(matrix: object, call: Call, tmp_path: Path, text: str) -> None:
    small = (tmp_path / "small.yaml").read_text()
    (tmp_path / "small.yaml").write_text(small + text)
    said = call("validate", "small.yaml")
    assert said.status == 2
    assert printable(said.out + said.err) == said.out + said.err


def test_names_of_files_and_words_are_printable(matrix: object, call: Call, tmp_path: Path) -> None:
    for words in (
        ("validate", "\x1b[2Jno.yaml"),
        ("plan", "small.yaml", "--only", "\x1b[2J=1"),
        ("\x1b[2J",),
        ("help", "\x1b[2J"),
    ):
        said = call(*words)
        assert said.status == 2
        assert "\x1b" not in said.out + said.err
        assert "\\x1b[2J" in said.err
