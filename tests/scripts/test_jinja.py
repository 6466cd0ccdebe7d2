"""Templates of a user reach nothing of the program, and `validate` runs nothing of them."""

from __future__ import annotations

import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.scripts.jinja import check_syntax, render

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


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{ 9 ** (9 ** 9) }}", "a power above 64 is not allowed"),
        ("{{ 'x' * 10 ** 10 }}", "takes more than 256 MiB of memory"),
        ("{{ 'x' * 10000000000 }}", "takes more than 256 MiB of memory"),
        ("{{ '%09999999999d' % 1 }}", "takes more than 256 MiB of memory"),
        ("{% for _ in range(99999) %}{% for _ in range(99999) %}{% endfor %}{% endfor %}", "takes more than 0.1 s"),
    ],
)
def test_a_template_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str) -> None:
    monkeypatch.setattr("matrix_runner.scripts.jinja.MOST_SECONDS", 0.1)
    before = resource.getrlimit(resource.RLIMIT_DATA), signal.getsignal(signal.SIGVTALRM)
    (tmp_path / "mine.sh").write_text(text)
    with pytest.raises(BadInput, match=problem):
        render("mine.sh", tmp_path, title="t")
    assert (resource.getrlimit(resource.RLIMIT_DATA), signal.getsignal(signal.SIGVTALRM)) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_validate_parses_templates_without_running_them(matrix: object, call: Call, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    own = tmp_path / "own" / "job.fio"
    own.write_text("{{ 9 ** (9 ** 9) }}{% for _ in range(99999) %}{% for _ in range(99999) %}{% endfor %}{% endfor %}")
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
