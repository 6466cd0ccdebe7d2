"""`matrix validate`: what it accepts, what it refuses, and its notes."""

from pathlib import Path

import pytest

from tests.support.command import Matrix
from tests.support.matrices import SMALL
from tests.support.shipped import ROOT, schema_named_in


def test_validate(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(SMALL.replace("level: 5", "level: 3").replace("bs: 4KiB", "bs: 4k"))
    result = matrix("validate", "small.yaml", "bad.yaml", "absent.yaml")
    assert result.returncode == 2
    assert "small.yaml: good: 4 cells" in result.stdout
    assert "bad.yaml:4:23: '3' is not one of linear, 0, 1, 4, 5, 6 or 10" in result.stderr
    assert "bad.yaml:6:37: '4k': no size unit 'k' is known; did you mean 4KiB or 4KB?" in result.stderr
    assert "absent.yaml: this file does not exist" in result.stderr


def test_validate_reports_options_that_fio_refuses(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(SMALL.replace("runtime: 1s", "runtime: 1s, fio: {bogus_option: [1, 2]}"))
    result = matrix("validate", "bad.yaml")
    assert result.returncode == 2
    assert "bad.yaml:6:62: fio refuses it: Bad option <bogus_option=1>" in result.stderr
    assert "<bogus_option=2>" in result.stderr


def test_validate_shows_the_notes_of_plan(matrix: Matrix, tmp_path: Path) -> None:
    text = SMALL.replace("rw: [read, randwrite]", "rw: [read, rw], rwmixread: [10, 90]")
    (tmp_path / "noted.yaml").write_text(text)
    assert "note: workload work: rwmixread is not an axis where" in matrix("validate", "noted.yaml").stdout


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_refusals_of_fio_and_the_machine_come_with_language_errors(
    matrix: Matrix, tmp_path: Path, command: str
) -> None:
    text = SMALL.replace("[16KiB", "[17KiB").replace("runtime: 1s", "runtime: 1s, fio: {bogus_option: 1}")
    (tmp_path / "bad.yaml").write_text(text + "machine: {kernel: ./none}\n")
    result = matrix(command, "bad.yaml")
    assert result.returncode == 2
    assert "bad.yaml: 3 errors" in result.stderr
    for place in (
        "4:34: a chunk must be a power of two",
        "6:62: fio refuses it: Bad option <bogus_option=1>",
        "8:19: no such kernel",
    ):
        assert f"bad.yaml:{place}" in result.stderr


@pytest.mark.parametrize(
    ("template", "more", "said"),
    [
        ("job.fio", "bogus_option=1\n", " (in a job of own/job.fio)"),
        ("job.fio", "{{ nobody }}\n", "template job.fio: 'nobody' is undefined"),
        (
            "job.fio",
            "{% if work.rw == 'randwrite' %}{{ nobody }}{% endif %}\n",
            "template job.fio: 'nobody' is undefined",
        ),
        ("tune.sh", "{{ nobody }}\n", "template tune.sh: 'nobody' is undefined"),
        ("md/set-up.sh", "{{ nobody }}\n", "template set-up.sh: 'nobody' is undefined"),
        (
            "measure.sh",
            "if then fi\n",
            "the templates in own render 4-measure.sh with a bash syntax error",
        ),
    ],
)
def test_user_templates_are_checked_before_the_run(
    matrix: Matrix, tmp_path: Path, template: str, more: str, said: str
) -> None:
    mine = tmp_path / "own" / template
    mine.parent.mkdir(parents=True)
    mine.write_text((ROOT / "templates" / template).read_text() + more)
    result = matrix("run", "--on", "dry", "--templates", "own", "small.yaml")
    assert result.returncode == 2
    assert said in result.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("command", ["validate", "render", "run"])
def test_an_unused_template_is_refused(matrix: Matrix, tmp_path: Path, command: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "job.fio").write_text("{% include 'more.fio' %}\n" + (ROOT / "templates/job.fio").read_text())
    (own / "more.fio").write_text("# of one's own\n")
    (own / "README.md").write_text("Why these differ.\n")
    (own / "tune.sh~").write_text("an editor's\n")
    assert (
        matrix(command, "small.yaml", "--templates", "own", *(["--on", "dry"] if command == "run" else [])).returncode
        == 0
    )
    (own / "measrue.sh").write_text("true\n")
    result = matrix(command, "small.yaml", "--templates", "own")
    assert result.returncode == 2
    assert "unused templates: own/measrue.sh\nmeasrue.sh: did you mean bare.sh or measure.sh?" in result.stderr


def test_a_broken_user_template_hides_no_error_of_the_matrix(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "job.fio").write_text("{{ nobody }} {% if")
    text = SMALL.replace("[16KiB", "[17KiB").replace("runtime: 1s", "runtime: 1s, fio: {bogus_option: 1}")
    (tmp_path / "bad.yaml").write_text(text)
    said = matrix("validate", "bad.yaml", "--templates", "own").stderr
    assert "bad.yaml: 2 errors" in said
    assert "template job.fio: " in matrix("validate", "small.yaml", "--templates", "own").stderr


def test_every_shipped_matrix_is_valid(matrix: Matrix) -> None:
    shipped = sorted(
        path
        for path in (ROOT / "matrix").rglob("*.yaml")
        if schema_named_in(path) == "schema.json" and path.parent.name != "layouts"
    )
    result = matrix("validate", *map(str, shipped))
    assert result.returncode == 0, result.stderr


def test_a_library_of_layouts_is_no_matrix(matrix: Matrix) -> None:
    result = matrix("validate", str(ROOT / "matrix" / "layouts" / "seed-studies.yaml"))
    assert result.returncode == 2
    assert "this file has only layouts; matrices include it" in result.stderr
    assert "use: " in result.stderr


def test_a_matrix_with_two_misspelt_sections_is_no_library_of_layouts(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        "disk: {count: 4, size: 1GiB}\nlayouts: {a: [md: {level: 5}]}\nworkload: {w: {rw: read}}\n"
    )
    result = matrix("validate", str(tmp_path / "m.yaml"))
    assert result.returncode == 2
    assert "did you mean disks" in result.stderr
    assert "did you mean workloads" in result.stderr
