"""How a run begins, is stopped, ends, and is gone on with, as a user meets it."""

import csv
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from matrix_runner.records.observe import Holder
from matrix_runner.records.run_folder import run_folders
from tests.records import past
from tests.support import forked
from tests.support.command import Call, Matrix
from tests.support.forked import Forked
from tests.support.matrices import SMALL

ROOT = Path(__file__).parents[2]

#: The dry machine under which the first trial breaks, as long as there is a file `broken`.
BREAKING = """\
import pathlib, sys
from matrix_runner.machines import dry
from matrix_runner.machines.base import RigLost
answer = dry.plausible
def breaking(step, slow=1):
    if step.name == "measure" and pathlib.Path("broken").exists() and "rw=read\\n" in step.files["job.fio"]:
        raise RigLost("the guest panicked", tail="BUG")
    return answer(step, slow)
dry.plausible = breaking
from matrix_runner.cli import main
main()
"""
#: Sends itself a signal at the moment in which the reports are about to be written.
STOPPED_LATE = """\
import os, signal, sys
from matrix_runner.session import finish as closing
write = closing.write_reports
def late(*arguments):
    os.kill(os.getpid(), {signal})
    return write(*arguments)
closing.write_reports = late
from matrix_runner.cli import main
main()
"""
#: Makes a mistake, or meets trouble, when the reports are to be written.
UNTOLD = """\
from matrix_runner.session import finish as closing
def untold(*arguments):
    raise {error}
closing.write_reports = untold
from matrix_runner.cli import main
main()
"""
#: The dry machine under a kernel that lacks what the matrix asks for.
LACKING = """\
from matrix_runner.machines import dry
made = dry.DryRig.__init__
def lacking(self, *arguments, **options):
    made(self, *arguments, **options)
    self.facts = {**self.facts, "without": "linear"}
dry.DryRig.__init__ = lacking
from matrix_runner.cli import main
main()
"""
#: Sends itself a signal after its third trial. That whoever runs the tests ignores it does not matter.
STOPPED = """\
import os, signal
signal.signal({signal}, signal.{answer})
from matrix_runner.carry.recorder import Recorder
record, recorded = Recorder.record, []
def stopped(self, cell, trial):
    record(self, cell, trial)
    recorded.append(trial)
    if len(recorded) == 3:
        os.kill(os.getpid(), {signal})
Recorder.record = stopped
from matrix_runner.cli import main
main()
"""


@pytest.fixture
def matrix(matrix: Matrix, tmp_path: Path) -> Matrix:
    """In this process, unless a test changes what the program does, or what it writes to."""

    def call(*arguments: str, code: str = "", **how: object) -> subprocess.CompletedProcess[str]:
        if not code and not how:
            return matrix(*arguments)
        return forked.run(arguments, code=code, cwd=tmp_path, **how)

    return call


RUN = ("run", "--on", "dry", "small.yaml")
SYNTHETIC = "note: figures are synthetic, from the dry machine: no figure was measured\n"
#: The commands that print much, each by another way: text, tables, and bytes.
PRINTING = (
    *("--help", "--version", "help language", "schema", "completion bash", "disks models", "plan small.yaml", "runs"),
    *("results latest", "results --format csv", "results --format parquet", "compare latest latest", "summary latest"),
    *("guidelines list", "recommend latest", "report latest"),
)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("small")
    (place / "small.yaml").write_text(SMALL)
    assert start(place, "run --on dry small.yaml --quiet", stdout=subprocess.DEVNULL).wait() == 0
    return place


def start(place: Path, words: str, **how: Any) -> subprocess.Popen[bytes]:
    return Forked(words.split(), cwd=place, **how)


def folder_of(place: Path) -> Path:
    (folder,) = run_folders(place / "results")
    return folder


def finished(folder: Path) -> object:
    return json.loads((folder / "manifest.json").read_text())["finished"]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_a_run_between_trials_with_reports(matrix: Matrix, tmp_path: Path, which: int) -> None:
    answer = "default_int_handler" if which == signal.SIGINT else "SIG_DFL"
    result = matrix(*RUN, code=STOPPED.format(signal=int(which), answer=answer))
    assert result.returncode == 130
    assert "; incomplete: 3 of 8 trials" in result.stdout
    assert "this command continues" in result.stderr
    folder = folder_of(tmp_path)
    assert len(rows(folder / "trials.csv")) == 3
    page = (folder / "report.html").read_text()
    assert "3 of 8 planned: 3 measured" in page
    assert "not finished" in page
    assert "Nothing was measured" in page
    assert finished(folder) is False
    assert not list(folder.glob("*-wal"))
    result = matrix(*RUN)
    assert result.returncode == 0
    assert "continuing the run of " in result.stdout
    assert " (3 of 8 trials done)" in result.stdout
    assert finished(folder) is True
    assert len(rows(folder_of(tmp_path) / "trials.csv")) == 8
    assert "not finished" not in (folder / "report.html").read_text()


def test_a_closed_terminal_does_not_matter_under_nohup(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix(*RUN, code=STOPPED.format(signal=int(signal.SIGHUP), answer="SIG_IGN"))
    assert result.returncode == 0
    assert finished(folder_of(tmp_path)) is True


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_last_trial_waits_for_the_reports(matrix: Matrix, tmp_path: Path, which: int) -> None:
    result = matrix(*RUN, code=STOPPED_LATE.format(signal=int(which)))
    assert result.returncode == 0, result.stderr
    folder = folder_of(tmp_path)
    assert finished(folder) is True
    assert {"trials.csv", "summary.csv", "junit.xml", "report.html"} <= {path.name for path in folder.iterdir()}


def test_a_run_is_not_finished_before_its_reports_are_written(matrix: Matrix, tmp_path: Path) -> None:
    assert matrix(*RUN, code=STOPPED_LATE.format(signal=int(signal.SIGKILL))).returncode == -signal.SIGKILL
    folder = folder_of(tmp_path)
    assert finished(folder) is False
    assert matrix(*RUN).returncode == 0
    assert len(rows(folder_of(tmp_path) / "trials.csv")) == 8


def test_an_internal_error_in_a_report_still_finishes_the_run(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix(*RUN, code=UNTOLD.format(error="ValueError('math domain error')"))
    assert result.returncode == 3
    assert "a mistake in matrix itself: ValueError: math domain error" in result.stderr
    folder = folder_of(tmp_path)
    assert f"`matrix report results/{folder.name}` writes them" in result.stderr
    assert finished(folder) is True
    assert json.loads((folder / "manifest.json").read_text())["exit"] == 3
    assert matrix("report", f"results/{folder.name}").returncode == 0
    assert len(rows(folder / "trials.csv")) == 8
    assert matrix("results", "latest").returncode == 0


def test_a_run_without_space_for_reports_can_be_continued(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix(*RUN, code=UNTOLD.format(error="OSError(28, 'No space left on device', 'report.html')"))
    assert result.returncode == 3
    folder = folder_of(tmp_path)
    assert finished(folder) is False
    assert matrix(*RUN).returncode == 0
    assert finished(folder) is True
    assert len(rows(folder_of(tmp_path) / "trials.csv")) == 8


def test_reports_can_be_written_again(matrix: Matrix, tmp_path: Path) -> None:
    matrix(*RUN)
    folder = folder_of(tmp_path)
    before = {name: (folder / name).read_bytes() for name in ("trials.csv", "summary.csv", "junit.xml", "report.html")}
    for name in before:
        (folder / name).unlink()
    result = matrix("report", f"results/{folder.name}")
    assert (result.returncode, result.stderr) == (0, "")
    assert {name: (folder / name).read_bytes() for name in before} == before
    (folder / "report.html").unlink()
    assert matrix("report", "latest").returncode == 0
    assert (folder / "report.html").read_bytes() == before["report.html"]
    assert matrix("report", "results").returncode == 2
    assert "nowhere: there is no run" in matrix("report", "latest", "--results", "nowhere").stderr


def test_the_latest_report_prefers_measured_runs(matrix: Matrix, tmp_path: Path) -> None:
    matrix(*RUN)
    measured = folder_of(tmp_path)
    manifest = measured / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"synthetic": true', '"synthetic": false'))
    matrix(*RUN, "--fresh")
    (measured / "junit.xml").unlink()
    (later,) = {folder.name for folder in (tmp_path / "results").iterdir() if folder.is_dir()} - {measured.name}
    result = matrix("report", "latest")
    assert result.stderr == f"note: {later} is later, but synthetic; name it to see it\n"
    assert (measured / "junit.xml").exists()


def test_retry_broken_continues_the_same_run(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    assert matrix(*RUN, code=BREAKING).returncode == 3
    folder = folder_of(tmp_path)
    (tmp_path / "broken").unlink()
    result = matrix(*RUN, "--retry-broken", code=BREAKING)
    assert result.returncode == 0, result.stderr
    assert "(4 of 8 trials done)" in result.stdout
    trials = rows(folder_of(tmp_path) / "trials.csv")
    assert [row["outcome"] for row in trials] == ["measured"] * 8
    assert sorted(row["attempts"] for row in trials) == ["1"] * 6 + ["3"] * 2
    assert len(list(folder.rglob("trial-1-attempt-2/lost-2.log"))) == 2
    assert finished(folder) is True


def test_retry_broken_needs_a_run_to_continue(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix(*RUN, "--retry-broken")
    assert result.returncode == 2
    assert "has no run of this matrix with these options to continue" in result.stderr
    assert not (tmp_path / "results").exists()
    assert matrix(*RUN, "--retry-broken", "--fresh").returncode == 2


def test_a_changed_matrix_names_the_unfinished_run_that_is_not_continued(matrix: Matrix, tmp_path: Path) -> None:
    matrix(*RUN, code=STOPPED.format(signal=int(signal.SIGINT), answer="default_int_handler"))
    first = folder_of(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL.replace("bs: 4KiB", "bs: 8KiB"))
    result = matrix(*RUN)
    assert f"not continuing results/{first.name}/, which is not finished: the matrix differs" in result.stdout


def test_json_has_the_folder_first_and_the_outcome_last(matrix: Matrix, tmp_path: Path) -> None:
    events = [json.loads(line) for line in matrix(*RUN, "--json").stdout.splitlines()]
    folder = f"results/{folder_of(tmp_path).name}"
    first, last = events[0], events[-1]
    assert first == {"event": "run", "folder": folder, "planned": 8, "done": 0}
    assert (last["event"], last["folder"], last["exit"], last["finished"]) == ("end", folder, 0, True)
    assert last["outcomes"] == {"measured": 8, "corrupt": 0, "broken": 0, "skipped": 0}
    assert all((tmp_path / name).is_file() for name in last["files"])
    assert sum(event["event"] == "trial" for event in events) == 8


def test_quiet_shows_broken_trials_and_the_folder(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    result = matrix(*RUN, "--quiet", code=BREAKING)
    assert result.returncode == 3
    assert result.stdout.count("\n") == 1
    assert f"results/{folder_of(tmp_path).name}/: report.html, explore.html, answer.txt, trials.csv" in result.stdout
    assert "broken: the guest panicked" in result.stderr


def test_an_unreached_interval_is_reported(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL.replace("repeat: 2", "repeat: {min: 2, max: 3, until: 0.01%}"))
    result = matrix(*RUN)
    assert "4 of 4 cells have wider intervals than wanted (±0.01 %;" in result.stdout
    assert {row["reached"] for row in rows(folder_of(tmp_path) / "summary.csv")} == {"false"}


def test_a_run_continues_after_its_output_is_closed(matrix: Matrix, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = matrix(*RUN, stdout=writing)
    os.close(writing)
    assert result.returncode == 0
    assert "the run continues without it" in result.stderr
    assert "Traceback" not in result.stderr
    assert len(rows(folder_of(tmp_path) / "trials.csv")) == 8


@pytest.mark.parametrize("words", PRINTING)
def test_a_command_whose_reader_goes_away_exits_with_141(small_run: Path, words: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with start(small_run, words, stdout=writing, stderr=subprocess.PIPE) as child:
        os.close(writing)
        errors = child.communicate()[1].decode()
    assert (child.returncode, errors.replace(SYNTHETIC, "")) == (141, "")


@pytest.mark.parametrize("words", ["results latest", "help language"])
def test_a_reader_that_stops_early_does_not_give_exit_code_1(small_run: Path, words: str) -> None:
    reading, writing = os.pipe()
    child = start(small_run, words, stdout=writing)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    assert child.wait() in {0, 141}


@pytest.mark.parametrize("words", ["results latest", "disks models", "validate missing.yaml"])
def test_a_command_without_readers_of_output_and_errors_exits_with_141(small_run: Path, words: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    child = start(small_run, words, stdout=writing, stderr=writing)
    os.close(writing)
    assert child.wait() == 141


@pytest.mark.parametrize(
    "arguments", [RUN, ("plan", "small.yaml"), ("validate", "small.yaml"), ("schema",), ("--help",)]
)
def test_a_full_output_is_one_line_and_exit_code_3(matrix: Matrix, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        result = matrix(*arguments, stdout=full)
    assert result.returncode == 3
    assert result.stderr.count("\n") == 1
    assert "No space left on device" in result.stderr


@pytest.mark.parametrize(("arguments", "status"), [(RUN, 0), (("validate", "missing.yaml"), 2), (("plan",), 2)])
def test_full_errors_leave_the_exit_code(arguments: tuple[str, ...], status: int, matrix: Matrix) -> None:
    with Path("/dev/full").open("w") as full:
        assert matrix(*arguments, stderr=full).returncode == status


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437:strict"])
def test_an_output_that_cannot_have_all_signs_gets_the_others(matrix: Matrix, encoding: str) -> None:
    done = matrix(*RUN, env={**os.environ, "PYTHONIOENCODING": encoding}, encoding=encoding.split(":")[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert "report.html" in done.stdout


def test_a_file_name_that_is_not_utf8_can_be_run(matrix: Matrix, tmp_path: Path) -> None:
    name = os.fsdecode(b"sm\xe4ll.yaml")
    (tmp_path / name).write_text(SMALL)
    result = matrix("run", "--on", "dry", name)
    assert result.returncode == 0, result.stderr
    assert "sm\\xe4ll.yaml" in json.loads((folder_of(tmp_path) / "manifest.json").read_text())["command"][-1]


@pytest.mark.parametrize("kernel", ["foo", "small.yaml"])
def test_a_file_that_is_no_kernel_is_refused_before_the_run(matrix: Matrix, tmp_path: Path, kernel: str) -> None:
    result = matrix("run", "--kernel", kernel, "small.yaml")
    assert result.returncode == 2
    assert "no such kernel: foo" in result.stderr or "small.yaml is no kernel image" in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "results").exists()


def test_a_folder_that_cannot_be_written_is_bad_input(matrix: Matrix) -> None:
    result = matrix("render", "small.yaml", "--to", "/proc/x")
    assert result.returncode == 2
    assert "/proc/x cannot be written" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_machine_too_large_for_the_host_is_refused_before_the_run(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "huge.yaml").write_text(SMALL + "machine: {memory: 900TiB}\n")
    result = matrix("run", "huge.yaml")
    assert result.returncode == 2
    assert "cannot hold a virtual machine" in result.stderr
    assert not (tmp_path / "results").exists()


def test_an_unknown_kernel_is_refused_with_suggestions(matrix: Matrix) -> None:
    result = matrix(*RUN, "--kernel", "debian-11")
    assert result.returncode == 2
    assert "--kernel debian-11: no such kernel; did you mean debian-12 or debian-13?" in result.stderr


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_a_missing_kernel_image_is_reported_with_its_line(matrix: Matrix, tmp_path: Path, command: str) -> None:
    (tmp_path / "no.bin").write_text("no kernel")
    (tmp_path / "own.yaml").write_text(SMALL + "machine: {kernel: [debian-13, ./bzImage, ./no.bin]}\n")
    result = matrix(command, "own.yaml")
    assert result.returncode == 2
    assert f"own.yaml:8:31: no such kernel: ./bzImage; paths begin in {tmp_path}" in result.stderr
    assert f"own.yaml:8:42: {tmp_path}/no.bin is no kernel image" in result.stderr
    if command != "validate":
        assert matrix(command, "--on", "dry", "own.yaml").returncode == 0


def test_a_kill_with_parallel_rigs_loses_no_trial(matrix: Matrix, tmp_path: Path) -> None:
    code = STOPPED.replace("signal.signal({signal}, signal.{answer})\n", "").format(signal=int(signal.SIGKILL))
    killed = matrix(*RUN, "--jobs", "2", code=code)
    assert killed.returncode == -signal.SIGKILL
    result = matrix(*RUN, "--jobs", "auto")
    assert result.returncode == 0, result.stderr
    assert " (3 of 8 trials done)" in result.stdout
    found = rows(folder_of(tmp_path) / "trials.csv")
    assert len({(row["cell"], row["trial"]) for row in found}) == 8
    assert [row["outcome"] for row in found] == ["measured"] * 8


def test_a_signal_takes_all_parallel_rigs_down(matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = STOPPED.format(signal=int(signal.SIGINT), answer="default_int_handler")
    monkeypatch.setenv("MATRIX_COMMAND", "./bootstrap")
    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "the state"))
    result = matrix(*RUN, "--jobs", "2", code=code)
    assert result.returncode == 130
    assert f"this command continues:\n  MATRIX_STATE='{tmp_path}/the state' ./bootstrap run " in result.stderr
    assert finished(folder_of(tmp_path)) is False
    assert 3 <= len(rows(folder_of(tmp_path) / "trials.csv")) < 8
    assert matrix(*RUN).returncode == 0


def test_an_internal_error_looks_the_same_with_parallel_rigs(matrix: Matrix, tmp_path: Path) -> None:
    full = STOPPED.replace("os.kill(os.getpid(), {signal})", 'raise OSError(28, "No space left", "journal")')
    results = [
        matrix(*RUN, *jobs, "--fresh", code=full.format(signal=int(signal.SIGINT), answer="SIG_IGN"))
        for jobs in ((), ("--jobs", "2"))
    ]
    assert [result.returncode for result in results] == [3, 3]
    briefs = [result.stderr.splitlines()[0] for result in results]
    assert briefs[0] == briefs[1]
    assert "Group" not in results[1].stderr


def test_rigs_that_would_slow_each_other_are_refused(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix("run", "--jobs", "2", "small.yaml")
    assert result.returncode == 2
    assert "--jobs 2: disks without a model share the speed of the host" in result.stderr
    assert "leave --jobs out" in result.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("jobs", ["0", "-1", "many", "1.5"])
def test_a_malformed_number_of_rigs_is_bad_input(matrix: Matrix, jobs: str) -> None:
    result = matrix(*RUN, "--jobs", jobs)
    assert result.returncode == 2
    assert f"'{jobs}' is neither a number of rigs nor auto" in result.stderr


@pytest.mark.parametrize("quiet", [False, True])
def test_a_run_without_measured_trials_is_no_success(matrix: Matrix, tmp_path: Path, quiet: bool) -> None:
    (tmp_path / "small.yaml").write_text(SMALL.replace("level: 5, chunk: [16KiB, 64KiB]", "level: linear"))
    result = matrix(*RUN, *["--quiet"] * quiet, code=LACKING)
    assert result.returncode == 3
    told = result.stderr if quiet else result.stdout
    why = (
        "`md: {level: linear}` needs linear, and this kernel (synthetic) has no such module: name another at `kernel:`"
    )
    assert f"no trial was measured: {why}\n" in told
    assert json.loads((folder_of(tmp_path) / "manifest.json").read_text())["exit"] == 3


def test_a_kill_after_the_last_trial_keeps_the_versions(matrix: Matrix, tmp_path: Path) -> None:
    code = STOPPED.replace("signal.signal({signal}, signal.{answer})\n", "").replace("== 3", "== 8")
    assert matrix(*RUN, code=code.format(signal=int(signal.SIGKILL))).returncode == -signal.SIGKILL
    result = matrix(*RUN)
    assert result.returncode == 0, result.stderr
    assert "(8 of 8 trials done)" in result.stdout
    manifest = json.loads((folder_of(tmp_path) / "manifest.json").read_text())
    assert manifest["versions"] == {"synthetic": {"fio": "synthetic"}}


def test_a_journal_marks_synthetic_figures(matrix: Matrix, tmp_path: Path) -> None:
    matrix(*RUN)
    with closing(sqlite3.connect(folder_of(tmp_path) / "journal.sqlite")) as journal:
        assert journal.execute("select value from meta where key = 'synthetic'").fetchall() == [("true",)]


def in_bash(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of bash; `"$0"` in it is Python."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "runner")}
    arguments = ["bash", "-c", command, sys.executable]
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path: Path, closed: str) -> None:
    done = in_bash(f'"$0" -m matrix_runner.cli validate none.yaml {closed}', tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr + done.stdout


#: As Python leaves the streams at its start if they are closed.
CLOSED = """\
import os, sys
for number in {numbers}:
    os.close(number)
    setattr(sys, ("stdin", "stdout", "stderr")[number], None)
from matrix_runner.cli import main
main()
"""


@pytest.mark.parametrize("numbers", [(1,), (2,), (0, 1, 2)])
def test_a_run_and_its_results_do_without_the_streams_that_are_closed(
    matrix: Matrix, tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    code = CLOSED.format(numbers=numbers)
    for words in (RUN, ("results", "latest")):
        done = matrix(*words, code=code)
        assert done.returncode == 0
        assert "Traceback" not in done.stderr + done.stdout
    assert finished(folder_of(tmp_path)) is True


def test_a_working_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = 'cd gone && rmdir ../gone && "$0" -m matrix_runner.cli validate none.yaml'
    done = in_bash(command, tmp_path)
    assert (done.returncode, "does not exist any more" in done.stderr) == (2, True)


def test_only_runs_that_measure_slow_this_one(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: dict[int, dict[str, Any]] = {1: {}, 2: {"synthetic": True, "machine": "dry"}, 3: {"waiting": "a host"}}
    for number, changes in kinds.items():
        past.recorded(tmp_path / "results", [], number, finished=False, **changes)
    (tmp_path / "small.yaml").write_text(SMALL)
    monkeypatch.setattr("matrix_runner.machines.dry.Dry.synthetic", False)
    holder = Holder("4711", "", datetime.now(UTC))
    monkeypatch.setattr("matrix_runner.session.run.find_holder", lambda _: holder)
    said = call("run", "--on", "dry", "small.yaml")
    notes = re.findall(r"process 4711 is measuring (\S+) on this host", said.out + said.err)
    assert notes == ["results/run-1/"], said
