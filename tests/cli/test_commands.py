"""The command as a user types it, on the dry machine."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from matrix_runner.cli.schema import schema_text
from matrix_runner.decide.costs import SYNTHETIC
from matrix_runner.pages.terminal_text import duration, volume
from matrix_runner.records.run_folder import run_folders
from tests.support import forked
from tests.support.command import Call, Matrix
from tests.support.forked import Forked
from tests.support.matrices import SMALL, SWEEP

ROOT = Path(__file__).parents[2]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_help_names_every_command_and_every_exit_code(matrix: Matrix) -> None:
    said = matrix("--help").stdout
    for word in ("validate", "plan", "render", "run", "schema", "doctor", "Examples", "130 interrupted"):
        assert word in said
    for command in ("validate", "plan", "render", "run", "schema", "doctor"):
        assert "Example" in matrix(command, "--help").stdout


def test_help_needs_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys; sys.argv = ['matrix', '--help']\n"
        "from matrix_runner.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'pydantic', 'sqlalchemy', 'scipy', 'numpy', 'jinja2', 'rich', 'asyncio', 'ruamel'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_an_unknown_command_is_bad_input(matrix: Matrix) -> None:
    result = matrix("rnu", "small.yaml")
    assert result.returncode == 2
    assert "did you mean run?" in result.stderr


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


LARGE = """\
name: large
disks: {count: 4, size: SIZE, model: st3320620as}
layouts: {six: [md: {level: 10}, fs: {type: ext4}]}
workloads: {any: {rw: read, bs: 4KiB, runtime: 10s}}
"""


def test_a_plan_explains_a_time_that_the_size_of_the_disks_makes(call: Call, tmp_path: Path) -> None:
    for size, explained in (("4TB", True), ("1GiB", False)):
        (tmp_path / "large.yaml").write_text(LARGE.replace("SIZE", size))
        said = " ".join(call("plan", "large.yaml").out.split())
        why = "to fill stacks on disks of 4 TB; simulated disks have the same rates with `size: 1GiB`"
        assert (why in said) == explained == ("of it" in said), said


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


def test_filters_that_leave_no_cell_are_named(matrix: Matrix, tmp_path: Path) -> None:
    text = (tmp_path / "small.yaml").read_text()
    (tmp_path / "none.yaml").write_text(text + "exclude: [{layout: raid5}]\n")
    assert "none.yaml: no cell is left after `exclude:`\n" in matrix("plan", "none.yaml").stderr
    both = matrix("plan", "none.yaml", "--only", "layout=raid5").stderr
    assert "none.yaml: no cell is left after --only and `exclude:`\n" in both


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


def test_the_dry_machine_accepts_repeated_job_options(matrix: Matrix, tmp_path: Path) -> None:
    """More partitions than stand in one line of it; and an option that it has as well where there are many files."""
    (tmp_path / "many.yaml").write_text("""\
name: many
disks: {count: 1, size: 1GiB}
layouts:
  parts: [partition: {count: 33}]
  files: [fs: {type: ext4}]
workloads:
  work: {rw: read, runtime: 1s, size: 16MiB, files: 600, fio: {openfiles: 100}}
repeat: 1
""")
    result = matrix("run", "--on", "dry", "many.yaml")
    assert result.returncode == 0, result.stderr


def test_plan(matrix: Matrix) -> None:
    result = matrix("plan", "small.yaml", "--cells", "--only", "chunk=16KiB")
    assert result.returncode == 0
    assert "raid5/chunk=16KiB/work/rw=randwrite" in result.stdout
    assert "2 (2 left out)" in result.stdout
    assert "a first estimate: no similar run is recorded yet" in result.stdout


def test_an_unknown_axis_lists_the_known_ones(matrix: Matrix) -> None:
    refused = matrix("plan", "small.yaml", "--only", "chnk=16KiB")
    assert refused.returncode == 2
    axes = refused.stderr.partition("the axes of this matrix are ")[2]
    assert {"layout", "md.level", "md.chunk", "workload", "workload.rw"} <= set(axes.strip().split(", "))


def test_the_plan_names_layouts_that_are_left_out(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(SMALL.replace("layouts:\n", "layouts:\n  mirror: [md: {level: 1}]\n"))
    for command in (("plan", "two.yaml", "--only", "layout=raid5"), ("plan", "two.yaml", "--only", "chunk=64KiB")):
        assert "note: the rules (`only`, `exclude`, --only) exclude all cells of mirror" in matrix(*command).stdout
    assert "no cell is left" not in matrix("plan", "two.yaml").stdout


def test_the_plan_gets_better_with_recorded_runs(matrix: Matrix) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    planned = matrix("plan", "--on", "dry", "small.yaml").stdout
    assert "from 1 recorded run on dry" in planned
    assert "at an assumed 200 MB/s; faster disks get more" in planned, "what a dry run says it wrote is synthetic"
    assert "a first estimate" in matrix("plan", "--on", "qemu", "small.yaml").stdout


def test_the_plan_explains_writes_beyond_the_work(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "ext4.yaml").write_text(SMALL.replace("64KiB]}", "64KiB]}, fs: {type: ext4}"))
    why = r" % to build stacks and lay out files; the rest at an assumed 200 MB/s"
    assert re.search(rf"written  .* \(\d+{why}", matrix("plan", "--on", "dry", "ext4.yaml").stdout)
    assert why not in matrix("plan", "--on", "dry", "small.yaml").stdout


def test_the_plan_names_refusals_of_the_machine(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "modelled.yaml").write_text(SMALL.replace("count: 4,", "count: 4, model: nas-7200,"))
    told = "note: `matrix run --on local` would be refused here: physical disks have no model"
    for jobs in ("1", "auto"):
        planned = matrix("plan", "--on", "local", "--jobs", jobs, "modelled.yaml")
        assert (planned.returncode, planned.stdout.count(told)) == (0, 1)
    assert "refused" not in matrix("plan", "--on", "dry", "modelled.yaml").stdout


def test_the_plan_as_json(matrix: Matrix) -> None:
    plan = json.loads(matrix("plan", "small.yaml", "--format", "json").stdout)
    assert plan["cells"] == 4 == sum(len(batch["cells"]) for batch in plan["batches"])
    assert plan["batches"][0]["cells"][0]["axes"]["md.level"] == "5"


def test_binary_files_and_empty_folder_names_are_refused(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"name: \xff")
    result = matrix("validate", "binary.yaml")
    assert result.returncode == 2
    assert "binary.yaml: this is not a UTF-8 text" in result.stderr
    result = matrix("run", "--on", "dry", "--results", "", "small.yaml")
    assert result.returncode == 2
    assert "the name of the folder is empty" in result.stderr


def test_a_study_is_named_by_its_folder(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study/matrix.yaml").write_text(SMALL)
    for command in ("plan", "validate"):
        named, whole = matrix(command, "study"), matrix(command, "study/matrix.yaml")
        assert (named.returncode, named.stdout) == (0, whole.stdout)


def test_validate_shows_the_notes_of_plan(matrix: Matrix, tmp_path: Path) -> None:
    text = SMALL.replace("rw: [read, randwrite]", "rw: [read, rw], rwmixread: [10, 90]")
    (tmp_path / "noted.yaml").write_text(text)
    assert "note: workload work: rwmixread is not an axis where" in matrix("validate", "noted.yaml").stdout


def test_only_accepts_any_spelling_of_a_size(matrix: Matrix) -> None:
    for size in ("4096", "4KiB", "4096B"):
        assert "cells  4" in matrix("plan", "small.yaml", "--only", f"bs={size}").stdout
    assert matrix("plan", "small.yaml", "--only", "bs=4097").returncode == 2
    told = matrix("plan", "small.yaml", "--only", "bs=4097,layuot=raid5").stderr
    assert "no cell has workload.bs=4097; " in told
    assert "and unknown axis 'layuot'; did you mean layout?" in told
    assert "any of them" in " ".join(matrix("plan", "--help").stdout.split())


def test_an_empty_selection_is_bad_input(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text(SMALL + "exclude: [{layout: raid5}]\n")
    result = matrix("run", "--on", "dry", "none.yaml")
    assert result.returncode == 2
    assert "no cell is left" in result.stderr
    assert "none.yaml:8:1: exclude:" in result.stderr
    assert not (tmp_path / "results").exists()


def test_render(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix(
        "render", "small.yaml", "raid5/chunk=16KiB/*", "--to", "out", "--disks", "/dev/a,/dev/b,/dev/c,/dev/d"
    )
    assert result.stdout == "2 cells written to out/\n"
    folder = tmp_path / "out/raid5/chunk=16KiB/work/rw=read"
    assert sorted(path.name for path in folder.iterdir()) == [
        "1-set-up.sh", "2-tune.sh", "3-verify.sh", "4-measure.sh", "5-tear-down.sh", "activate.sh", "trial-1",
    ]  # fmt: skip
    assert "members=(/dev/a /dev/b /dev/c /dev/d)" in (folder / "1-set-up.sh").read_text()
    assert matrix("render", "small.yaml", "nonsense").returncode == 2
    assert matrix("render", "small.yaml", "--disks", "/dev/a").returncode == 2


def test_rendered_scripts_equal_those_of_a_run(matrix: Matrix, tmp_path: Path) -> None:
    """On a fresh machine's disks; those that somebody names are not taken to be zeroed."""
    assert matrix("render", "small.yaml", "--on", "dry").returncode == 0
    matrix("run", "--on", "dry", "small.yaml")
    (folder,) = run_folders(tmp_path / "results")
    rendered = [path for path in (tmp_path / "rendered" / "small").rglob("*") if path.is_file()]
    assert len(rendered) == 4 * 7
    for path in rendered:
        assert path.read_text() == (folder / "cells" / path.relative_to(tmp_path / "rendered" / "small")).read_text()
    assert all("--assume-clean" in path.read_text() for path in rendered if path.name == "1-set-up.sh")
    matrix("render", "small.yaml", "--to", "own", "--disks", "/dev/a,/dev/b,/dev/c,/dev/d")
    assert not any("--assume-clean" in path.read_text() for path in (tmp_path / "own").rglob("1-set-up.sh"))


def test_run_writes_the_files_that_it_lists(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix("run", "--on", "dry", "small.yaml")
    assert result.returncode == 0, result.stderr
    (folder,) = run_folders(tmp_path / "results")
    assert f"results/{folder.name}/" in result.stdout
    trials = rows(folder / "trials.csv")
    assert len(trials) == 8
    assert {row["synthetic"] for row in trials} == {"true"}
    assert {row["outcome"] for row in trials} == {"measured"}
    assert len(rows(folder / "summary.csv")) == 4
    assert "synthetic, from the dry machine" in (folder / "junit.xml").read_text()
    assert "synthetic" in result.stdout
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["synthetic"] is True
    assert manifest["finished"] is True
    assert manifest["text"] == SMALL


def test_reports_have_versions_by_kernel_and_the_declared_confidence(matrix: Matrix, tmp_path: Path) -> None:
    text = SMALL.replace("repeat: 2", "repeat: {min: 2, max: 3, until: 1%, confidence: 80%}")
    (tmp_path / "two.yaml").write_text(text + "machine: {kernel: [debian-12, debian-13]}\n")
    result = matrix("run", "--on", "dry", "two.yaml")
    assert result.returncode == 0, result.stderr
    assert "80 % confidence" in result.stdout
    (folder,) = run_folders(tmp_path / "results")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["versions"] == {"debian-12": {"fio": "synthetic"}, "debian-13": {"fio": "synthetic"}}
    assert {row["confidence"] for row in rows(folder / "summary.csv")} == {"0.8"}
    assert "[[PROPERTY|kernel=debian-13]]" in (folder / "junit.xml").read_text()


def test_a_kernel_that_contradicts_the_matrix_is_refused(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(SMALL + "machine: {kernel: [debian-12, debian-13]}\n")
    result = matrix("run", "--on", "dry", "--kernel", "debian-13", "two.yaml")
    assert result.returncode == 2
    assert "--only 'kernel=debian-13'" in result.stderr
    assert not (tmp_path / "results").exists()


def test_cells_of_kernels_with_odd_paths_are_rendered_below_the_folder(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(SMALL + "machine: {kernel: [.., ~/bz, x/a/b, x/a_b]}\n")
    assert matrix("render", "odd.yaml", "--to", "inside/out").stdout == "16 cells written to inside/out/\n"
    assert {path.name for path in tmp_path.iterdir()} == {"small.yaml", "odd.yaml", "inside"}
    assert [path.name for path in (tmp_path / "inside").iterdir()] == ["out"]
    assert len(list((tmp_path / "inside").rglob("1-set-up.sh"))) == 16


def test_a_finished_run_stays_and_a_new_one_starts(matrix: Matrix, tmp_path: Path) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    matrix("run", "--on", "dry", "small.yaml")
    assert len(run_folders(tmp_path / "results")) == 2


def test_a_run_killed_at_many_moments_ends_with_exactly_the_planned_trials(tmp_path: Path) -> None:
    """The very process, killed for real, each time a little further on."""
    (tmp_path / "small.yaml").write_text(SMALL.replace("repeat: 2", "repeat: 5"))
    arguments = ["run", "--on", "dry", "small.yaml"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    for trials in range(0, 20, 4):
        with Forked(arguments, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _, line in zip(range(trials // 4 + 2), process.stdout, strict=False):
                assert line
            process.send_signal(signal.SIGKILL)
    result = forked.run(arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (folder,) = run_folders(tmp_path / "results")
    trials_found = rows(folder / "trials.csv")
    assert len(trials_found) == len({(row["cell"], row["trial"]) for row in trials_found}) == 20


def test_a_second_process_on_a_run_is_refused_with_the_first(matrix: Matrix, tmp_path: Path) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    (folder,) = run_folders(tmp_path / "results")
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"finished": true', '"finished": false'))
    holder = (
        "import pathlib, sys\n"
        "from matrix_runner.records.run_folder import load\n"
        "with load(pathlib.Path(sys.argv[1])).locked():\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with Forked([str(folder)], code=holder, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        result = matrix("run", "--on", "dry", "small.yaml")
        process.communicate()
    assert result.returncode == 2
    assert f"is in use by process {process.pid}" in result.stderr


def test_the_shipped_schema_is_the_one_that_is_printed_and_accepts_what_is_shipped(matrix: Matrix) -> None:
    assert (ROOT / "matrix/schema.json").read_text() == schema_text() == matrix("schema").stdout
    validator = jsonschema.Draft202012Validator(json.loads(schema_text()))
    shipped = [path for path in (ROOT / "matrix").rglob("*.yaml") if schema_named_in(path) == "schema.json"]
    assert shipped
    for path in shipped:
        validator.validate(YAML(typ="safe").load(path.read_text()))
    validator.validate(YAML(typ="safe").load(SWEEP))


def schema_named_in(path: Path) -> str:
    """The schema that a shipped file says it is of, for editors; one that is there."""
    mark, _, named = path.read_text().partition("\n")[0].partition("=")
    assert mark == "# yaml-language-server: $schema", path
    assert (path.parent / named).resolve().parent == ROOT / "matrix", path
    return (path.parent / named).resolve(strict=True).name


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


def test_doctor(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix("doctor", "--on", "dry")
    assert result.returncode == 0
    assert "dry       ready" in result.stdout
    assert "kvm       " in result.stdout
    assert f"GB free for {tmp_path}/results/" in result.stdout


def test_format_of_times_and_volumes() -> None:
    assert [duration(seconds) for seconds in (0.4, 12, 200, 3720)] == ["0 s", "12 s", "3 min 20 s", "1 h 02 min"]
    assert [volume(count) for count in (0, 999, 1500, 2 * 10**9, 3 * 10**12)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "2 GB",
        "3 TB",
    ]


def test_disk_models_are_listed_and_an_unknown_one_is_bad_input(matrix: Matrix) -> None:
    listed = matrix("disks", "models")
    assert listed.returncode == 0
    assert "st3320620as" in listed.stdout
    unknown = matrix("disks", "check", "st33206")
    assert unknown.returncode == 2
    assert "did you mean st3320620as?" in unknown.stderr
    assert matrix("disks", "check", "sata-ssd", "--size", "much").returncode == 2


@pytest.mark.parametrize(("size", "enough"), [("1MiB", "4MiB"), ("0B", "4MiB")])
def test_a_disk_with_zones_too_small_for_a_request_is_not_checked(matrix: Matrix, size: str, enough: str) -> None:
    small = matrix("disks", "check", "st3320620as", "--size", size)
    assert small.returncode == 2
    assert "sequential read in zone 1 cannot be measured: a request of 256 KiB does not fit there" in small.stderr
    assert f"--size {enough} is enough" in small.stderr
    assert not small.stdout


def test_a_plan_with_parallel_rigs_is_shorter_or_explains_why_not(matrix: Matrix) -> None:
    def seconds(*jobs: str) -> float:
        found: float = json.loads(matrix("plan", "--on", "dry", *jobs, "--format", "json", "small.yaml").stdout)[
            "seconds_most"
        ]
        return found - SYNTHETIC.program

    assert seconds("--jobs", "2") == pytest.approx(seconds() / 2)
    said = matrix("plan", "--on", "dry", "--jobs", "2", "small.yaml").stdout
    assert "2 rigs in parallel" in said
    alone = matrix("plan", "--jobs", "auto", "small.yaml").stdout
    assert "note: one rig at a time: disks without a model" in alone
    assert "side by side)" not in alone
    assert matrix("plan", "--jobs", "2", "small.yaml").returncode == 2


def test_the_plan_judges_the_bus_only_of_disks_that_the_machine_makes(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "bus.yaml").write_text(f"{SMALL}tune: {{scheduler: [default, none]}}\n")
    assert "default and none are the same" in matrix("plan", "bus.yaml").stdout
    assert "default and none are the same" not in matrix("plan", "--on", "local", "bus.yaml").stdout
    assert "default and none are the same" in matrix("run", "--on", "dry", "bus.yaml").stdout


def test_a_path_without_sbin_hides_no_program(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    call("--help")
    assert shutil.which("ldconfig")


def test_the_doctor_names_one_command_for_a_machine(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/gcc" if name == "gcc" else None)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    done = call("doctor", "--on", "qemu")
    assert done.status == 3
    (command,) = [line.strip() for line in done.out.splitlines() if "→" in line]
    assert command.startswith("→ apt install qemu-system-x86 ")
    assert command.endswith(" zstd nbdkit nbdkit-plugin-dev fio")


def test_a_matrix_with_many_notes_shows_fifty_and_a_count(matrix: Matrix, tmp_path: Path) -> None:
    same = ", ".join(f"l{number}: [md: {{level: 5}}]" for number in range(60))
    text = f"name: s\ndisks: {{count: 4, size: 64MiB}}\nlayouts: {{{same}}}\nworkloads: {{r: {{rw: read}}}}\n"
    (tmp_path / "many.yaml").write_text(text)
    for command in ("validate", "plan"):
        lines = [line for line in matrix(command, "many.yaml").stdout.splitlines() if "note: " in line]
        assert len(lines) == 51
        assert lines[-1].endswith(" more notes")


def test_commands_that_write_each_cell_refuse_a_large_matrix_and_plan_counts_it(matrix: Matrix, tmp_path: Path) -> None:
    depths, sizes = (", ".join(f"{4 * number}{unit}" for number in range(1, 501)) for unit in ("", "KiB"))
    large = SMALL.replace("bs: 4KiB", f"bs: 4KiB, iodepth: [{depths}]") + f"tune: {{readahead: [{sizes}]}}\n"
    (tmp_path / "large.yaml").write_text(large)
    assert "1,000,000" in matrix("plan", "--on", "dry", "large.yaml").stdout
    for command in (("plan", "--cells"), ("plan", "--format", "json"), ("run",), ("render",)):
        result = matrix(*command, "--on", "dry", "large.yaml")
        assert result.returncode == 2
        assert "1,000,000 cells are too many to " in result.stderr
        assert "select some with --only or --shard" in result.stderr
    few = matrix("render", "--only", "readahead=4KiB", "large.yaml", "no such cell")
    assert "no cell is called no such cell" in few.stderr
    many = matrix("render", "--only", "readahead=4KiB", "large.yaml", "*")
    assert "2,000 cells are called so: at most 500" in many.stderr
