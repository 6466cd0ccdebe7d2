"""Templates of a user reach nothing of the program, and `validate` runs nothing of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.base.errors import BadInput
from runner.scripts.jinja import check_syntax, render

if TYPE_CHECKING:
    from tests.support.command import Call

ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ title.format.__globals__ }}",
    "{{ '{0.__class__.__base__}'.format(title) }}",
    "{{ self.__init__.__globals__ }}",
    "{{ lipsum.__globals__['os'].system('true') }}",
    "{% for _ in range(10 ** 9) %}{% endfor %}",
    "{{ disks.append(1) }}",
]


@pytest.mark.parametrize("text", ESCAPES)
def test_a_template_cannot_leave_its_sandbox(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.sh").write_text(text)
    with pytest.raises(BadInput, match=r"template mine\.sh: "):
        render("mine.sh", tmp_path, title="t", disks=[])


def test_validate_parses_templates_and_runs_nothing(matrix: object, call: Call, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    own = tmp_path / "own" / "job.fio"
    own.write_text("{{ 9 ** 9 ** 9 }}{% for _ in range(99999) %}{% for _ in range(99999) %}{% endfor %}{% endfor %}")
    assert call("validate", "--templates", "own", "small.yaml").status == 0
    own.write_text("\n{% if %}")
    said = call("validate", "--templates", "own", "small.yaml")
    assert said.status == 2
    assert "template job.fio: Expected an expression" in said.err
    assert "line 2 of" in said.err


def test_a_template_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("{{ " + "(" * 50_000 + " }}")
    with pytest.raises(BadInput, match=r"template job\.fio"):
        check_syntax(tmp_path)
