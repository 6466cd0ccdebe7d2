"""The nights of a lab, from the very YAML: what a job runs, keeps and says; and what nobody can make it do."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.engine.rigs import specs_of
from runner.machines import Where, machine
from runner.machines.base import MachineOptions, RigSpec
from runner.machines.local import model_refusals
from runner.results.run_folder import load, runs
from runner.session.disk_lease import match_disks
from runner.session.selected_matrix import Checks, SelectedMatrix, load_selected
from tests.support.matrices import SMALL
from tests.support.top import TOP
from tests.workflows.emulator import Job, environment, loaded
from tests.workflows.expressions import evaluated, expanded

NIGHTLY = loaded(TOP / ".github/workflows/nightly.yml")["jobs"]["night"]
GITHUB = {
    "repository": "lab/matrix",
    "ref": "refs/heads/main",
    "ref_name": "main",
    "event": {"repository": {"default_branch": "main"}},
}


def contexts(event: str = "workflow_dispatch", **more: Any) -> dict[str, Any]:
    return {
        "github": {**GITHUB, "event_name": event},
        "vars": {"HARDWARE_REPOSITORY": "lab/matrix"},
        "matrix": {"shard": ""},
        "strategy": {"job-index": 0},
        "job": {"status": "success"},
        "inputs": {},
        **more,
    }


def night(checkout: Path, temp: Path, inputs: dict[str, str], shard: str = "", **env: str) -> Job:
    """A night, as somebody who started it by hand asked for it."""
    known = contexts(matrix={"shard": shard})
    job = Job(checkout, temp, {"machine": "dry", **inputs}, environment(temp, **env), known)
    (temp / "summary").unlink(missing_ok=True)
    job.run(NIGHTLY["steps"])
    return job


@pytest.fixture
def small(checkout: Path) -> str:
    (checkout / "small.yaml").write_text(SMALL)
    return "small.yaml"


def test_a_night(checkout: Path, temp: Path, small: str) -> None:
    job = night(checkout, temp, {"matrix": small})
    assert job.status == "success", job.log
    (folder,) = runs(checkout / "results")
    assert (folder.manifest.machine, folder.manifest.exit) == ("dry", 0)
    assert "raid5/chunk=64KiB/work/rw=read" in job.page
    assert "There is no good earlier run of the same part on the same machine and host." in job.page
    uploaded = [given for uses, given in job.used if uses.startswith("actions/upload-artifact@")]
    assert uploaded == [
        {"name": "night-0", "path": str(folder.path.relative_to(checkout)), "if-no-files-found": "error"}
    ]
    kept = {path.name for path in folder.path.iterdir()}
    assert {"junit.xml", "trials.csv", "summary.csv", "report.html", "summary.md"} <= kept
    again = night(checkout, temp, {"matrix": small})
    assert "B against A" in again.page
    assert len(list(runs(checkout / "results"))) == 2, "a night begins anew"


def test_a_job_that_is_run_again_goes_on(checkout: Path, temp: Path, small: str) -> None:
    night(checkout, temp, {"matrix": small})
    (folder,) = runs(checkout / "results")
    folder.update_manifest(finished=False)
    assert night(checkout, temp, {"matrix": small}, GITHUB_RUN_ATTEMPT="2").status == "success"
    assert [run.path for run in runs(checkout / "results")] == [folder.path]


def test_what_the_runner_says_of_its_machine(checkout: Path, temp: Path, small: str) -> None:
    job = night(checkout, temp, {"matrix": small}, MATRIX_RESULTS=str(temp / "kept"), MATRIX_STORE=str(temp / "s.db"))
    assert job.status == "success", job.log
    assert len(list(runs(temp / "kept"))) == 1
    assert (temp / "s.db").exists()
    assert not (checkout / "results").exists()


def test_parts_of_a_night(checkout: Path, temp: Path, small: str) -> None:
    parts = [night(checkout, temp, {"matrix": small}, shard=shard) for shard in ("1/2", "2/2", "3/3")]
    assert [part.status for part in parts] == ["success", "success", "failure"]
    assert sorted(run.manifest.part for run in runs(checkout / "results")) == ["shard 1/2", "shard 2/2"]
    assert "at most 2 shards" in parts[2].log
    assert "Nothing was run" in parts[2].page
    assert not [uses for uses, _ in parts[2].used if "upload" in uses]


HOSTILE = [
    "$(touch x)",
    "a.yaml\ntouch x",
    "'; `touch x`; \"; touch x; ",
    "--destroy=wwn-0x5000c5",
    "--fresh",
    "x\n::set-output name=folder::x\n",
]


@pytest.mark.parametrize("given", HOSTILE)
@pytest.mark.parametrize("name", ["matrix", "shard", "machine"])
def test_what_somebody_types_is_a_word_and_nothing_else(
    checkout: Path, temp: Path, small: str, name: str, given: str
) -> None:
    before = {path.name for path in checkout.iterdir()}
    inputs = {"matrix": small, "machine": "dry", "shard": "", name: given}
    shard = inputs.pop("shard")
    job = night(checkout, temp, inputs, shard)
    assert job.status == "failure"
    assert {path.name for path in checkout.iterdir()} == before
    assert not list(temp.rglob("x"))
    assert "Traceback" not in job.log
    assert "Nothing was run" in job.page
    assert not [uses for uses, _ in job.used if "upload" in uses]


@pytest.mark.parametrize("given", ["$(touch x)`touch x`", "--fresh; touch x", "a\nfolder=x\n::error::x"])
@pytest.mark.parametrize("name", ["only", "budget", "patience", "results", "against"])
def test_nor_what_another_project_gives_the_action(
    checkout: Path, temp: Path, small: str, name: str, given: str
) -> None:
    job = Job(checkout, temp, {}, environment(temp), contexts())
    job.run([{"uses": "./", "with": {"matrix": small, "machine": "dry", name: given}}])
    assert not [path for place in (checkout, temp) for path in place.rglob("x")]
    assert "Traceback" not in job.log
    for uses, uploaded in job.used:
        assert load(checkout / uploaded["path"]).manifest.matrix == "small", uses


def test_what_is_said_is_no_command_to_the_runner(checkout: Path, temp: Path, small: str) -> None:
    said = "::error title=made up::x"
    job = night(checkout, temp, {"matrix": small}, SAYS=said)
    assert job.log.count(said) == 4, "cleaning up twice, running, summing up"
    assert heeded(job.log) == []
    assert said in heeded(job.log.replace("::stop-commands::", "")), "or this test sees nothing"
    assert any("results go to" in line for line in job.log.splitlines())


def heeded(log: str) -> list[str]:
    """The commands of a log that GitHub's runner would carry out."""
    commands, until = [], ""
    for line in log.splitlines():
        if until:
            until = until * (line != f"::{until}::")
        elif line.startswith("::stop-commands::"):
            until = line.removeprefix("::stop-commands::")
        elif line.startswith("::"):
            commands.append(line)
    assert not until, "it was told to stop for good"
    return commands


#: timeout(1), but for that its patience ends with the fifth trial instead of at a time.
IMPATIENT = """\
#!/bin/bash
while [ "$1" != -- ]; do shift; done
shift 2
exec {told}< <(exec "$@" 2>&1)
child=$!
while IFS= read -r line <&"$told"; do
  printf '%s\\n' "$line"
  case $line in "[5/"*) kill -s TERM "$child"; stopped=124 ;; esac
done
wait "$child"
exit "${stopped:-$?}"
"""


@pytest.mark.parametrize(("ended", "told"), [("124", "longer than it may"), ("137", "was killed")])
def test_a_run_that_takes_too_long_is_stopped_kept_and_can_be_gone_on_with(
    checkout: Path, temp: Path, small: str, ended: str, told: str
) -> None:
    (checkout / small).write_text(SMALL.replace("repeat: 2", "repeat: 10000"))
    (temp / "bin").mkdir()
    (temp / "bin/timeout").write_text(IMPATIENT.replace("124", ended))
    (temp / "bin/timeout").chmod(0o755)
    env = environment(temp)
    job = Job(checkout, temp, {}, {**env, "PATH": f"{temp / 'bin'}:{env['PATH']}"}, contexts())
    job.run([{"uses": "./", "with": {"matrix": small, "machine": "dry"}}])
    assert job.status == "failure"
    (stopped,) = [line for line in heeded(job.log) if line.startswith("::error title=stopped::")]
    assert told in stopped
    (folder,) = runs(checkout / "results")
    assert not folder.manifest.finished
    assert "1 run not finished" in job.page
    assert (folder.path / "regression.md").exists()
    assert [given["path"] for _, given in job.used] == [str(folder.path.relative_to(checkout))]


def test_a_job_that_is_cancelled_ends_its_run(checkout: Path, temp: Path, small: str) -> None:
    (checkout / small).write_text(SMALL.replace("repeat: 2", "repeat: 10000"))
    env = environment(
        temp, ASKED_MATRIX=small, ASKED_MACHINE="dry", RUNNER_TEMP=str(temp), GITHUB_OUTPUT=str(temp / "output")
    )
    script = checkout / ".github/scripts/run.sh"
    # Whoever runs these tests in the background has them ignore it, and so would all that they start.
    argv = ["env", "--default-signal=INT", str(script)]
    with subprocess.Popen(argv, cwd=checkout, env=env, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        while "[5/" not in (line := running.stdout.readline()):
            assert line, "it ended by itself"
        assert at_work(temp)
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        assert running.wait() == 130
    assert not at_work(temp)
    (folder,) = runs(checkout / "results")
    assert not folder.manifest.finished
    with folder.locked():
        assert (folder.path / "junit.xml").exists()
        assert "not finished" in (folder.path / "report.html").read_text()


def at_work(temp: Path) -> bool:
    """Whether anything holds the lock that a run has for as long as it lives."""
    return subprocess.run(["flock", "--nonblock", temp / "matrix-running", "true"]).returncode != 0


#: A run that takes its time for taking apart what it built: until it is told.
SLOW = """\
#!{python}
import os, signal, sys
def note(word):
    with open(os.environ["HOME"] + "/order", "a") as file:
        print(word, file=file)
if sys.argv[1] == "clean":
    sys.exit(note("cleaned"))
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"asked to end\\n"))
with open(os.environ["HOME"] + "/go on") as told:
    os.write(1, b"begun in group %d\\n" % os.getpgrp())
    told.readline()
note("ended")
"""


def test_what_a_cancelled_job_left_is_cleaned_up_once_its_run_has_ended(checkout: Path, temp: Path) -> None:
    """GitHub interrupts the step, ends it a few seconds later, kills it a few seconds after that, and cleans up."""
    (checkout / "bootstrap").write_text(SLOW.format(python=sys.executable))
    os.mkfifo(temp / "go on")
    words = environment(temp, ASKED_MATRIX="m", RUNNER_TEMP=str(temp), GITHUB_OUTPUT=str(temp / "output"))
    argv = ["env", "--default-signal=INT", str(checkout / ".github/scripts/run.sh")]
    with (
        subprocess.Popen(argv, env=words, stdout=subprocess.PIPE, text=True) as step,
        (temp / "go on").open("r+b", buffering=0) as go_on,
    ):
        assert step.stdout
        begun = next(line for line in iter(step.stdout.readline, "") if line.startswith("begun"))
        assert begun == f"begun in group {os.getpgid(step.pid)}\n", "in one of its own timeout(1) signals it twice"
        step.send_signal(signal.SIGINT)
        assert "asked to end\n" in iter(step.stdout.readline, "")
        assert {signal.SIGINT, signal.SIGTERM} <= ignored(step.pid), "the next one is not handed on"
        step.kill()
        with subprocess.Popen(
            [checkout / ".github/scripts/clean.sh"], env=words, stdout=subprocess.PIPE, text=True
        ) as cleaning:
            assert cleaning.stdout
            assert "still at work" in cleaning.stdout.readline()
            go_on.write(b"\n")
            assert cleaning.wait() == 0
        assert "asked to end" not in step.stdout.read(), "a second time it would take nothing more apart"
    assert (temp / "order").read_text() == "ended\ncleaned\n"


def ignored(pid: int) -> set[int]:
    """The signals that a process ignores."""
    (mask,) = re.findall(r"(?m)^SigIgn:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text())
    return {number for number in range(1, 65) if int(mask, 16) >> (number - 1) & 1}


def test_a_run_that_does_not_end_is_not_waited_for_for_ever(checkout: Path, temp: Path) -> None:
    (temp / "matrix-running").touch()
    (temp / "bin").mkdir()
    (temp / "bin/flock").write_text(f'#!/bin/sh\necho "$*" >>{shlex.quote(str(temp))}/waited\nexit 1\n')
    (temp / "bin/flock").chmod(0o755)
    done = cleaned(checkout, temp, PATH=f"{temp / 'bin'}:{os.environ['PATH']}", CLEAN_STATUS="3")
    assert done.returncode == 3, "what is in use was left, and that is told"
    _, *waits = [line.split()[:2] for line in (temp / "waited").read_text().splitlines()]
    assert waits == [["--wait", "30"]] * 8, "four of the five minutes that a cancelled job has"
    assert done.stdout.count("still at work, ") == 8
    assert [line.split("::")[1] for line in heeded(done.stdout)] == ["warning title=still at work"]
    assert (temp / "cleaned").exists()


def test_cleaning_up_is_done_before_and_after_whatever_happens(checkout: Path, temp: Path, small: str) -> None:
    assert night(checkout, temp, {"matrix": small}).status == "success"
    assert night(checkout, temp, {"matrix": "nothing.yaml"}).status == "failure"
    assert (temp / "cleaned").read_text() == "cleaned\n" * 4
    left = night(checkout, temp, {"matrix": small}, CLEAN_STATUS="3")
    assert left.status == "failure", "something that had to be left is for somebody to look at"
    assert [uses for uses, _ in left.used if "upload" in uses], "what was measured is kept all the same"


@pytest.mark.parametrize(
    ("machine", "words"),
    [("ssh", "--every-host --hosts=/etc/lab.yaml"), ("ssh:shelf", "--host=shelf --hosts=/etc/lab.yaml")],
)
def test_hosts_behind_ssh_are_cleaned_where_the_job_runs_there(
    checkout: Path, temp: Path, small: str, machine: str, words: str
) -> None:
    given = {"MATRIX_HOSTS": "/etc/lab.yaml", "HOME": str(temp)}
    done = cleaned(checkout, temp, ASKED_MACHINE=machine, **given)
    assert done.returncode == 0
    assert (temp / "cleaned").read_text() == "cleaned\n"
    assert (temp / "cleaned-far").read_text() == f"{words}\n"


def test_a_host_that_cannot_be_cleaned_is_told_and_fails_nothing_but_this_machine_does(
    checkout: Path, temp: Path
) -> None:
    told = "::warning title=not cleaned::"
    done = cleaned(checkout, temp, ASKED_MACHINE="ssh", CLEAN_FAR_STATUS="3")
    assert (done.returncode, told in done.stdout) == (0, True)
    assert (temp / "cleaned-far").read_text() == "--every-host\n"
    done = cleaned(checkout, temp, ASKED_MACHINE="ssh", CLEAN_STATUS="3")
    assert (done.returncode, told in done.stdout) == (3, False)
    assert (temp / "cleaned-far").read_text() == "--every-host\n" * 2, "the others are cleaned all the same"


@pytest.mark.parametrize("machine", ["", "local", "qemu", "container"])
def test_a_job_that_runs_here_cleans_only_here(checkout: Path, temp: Path, machine: str) -> None:
    assert cleaned(checkout, temp, ASKED_MACHINE=machine, MATRIX_HOSTS="/etc/lab.yaml").returncode == 0
    assert not (temp / "cleaned-far").exists()


def cleaned(checkout: Path, temp: Path, **given: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(temp), "RUNNER_TEMP": str(temp), **given}
    return subprocess.run([checkout / ".github/scripts/clean.sh"], env=env, capture_output=True, text=True)


def test_the_action_tells_its_clean_up_where_the_job_runs() -> None:
    steps = [one for one in loaded(TOP / "action.yml")["runs"]["steps"] if "clean.sh" in one.get("run", "")]
    assert [one["env"] for one in steps] == [{"ASKED_MACHINE": "${{ inputs.machine }}"}] * 2


def test_who_may() -> None:
    def may(**changes: Any) -> bool:
        known = contexts()
        return bool(evaluated(NIGHTLY["if"], {**known, **{k: {**known[k], **v} for k, v in changes.items()}}))

    assert may()
    assert may(github={"event_name": "schedule"})
    assert not may(github={"repository": "stranger/matrix"})
    assert not may(github={"ref": "refs/heads/some-branch", "ref_name": "some-branch"})
    assert not may(github={"ref": "refs/tags/main"}), "a tag may be called like the branch"
    assert not may(vars={"HARDWARE_REPOSITORY": None})


def test_which_parts_a_night_has() -> None:
    def parts(shard: str = "", **variables: str) -> Any:
        text = NIGHTLY["strategy"]["matrix"]["shard"]
        return expanded(text, contexts(inputs={"shard": shard}, vars=variables))

    assert parts() == [""]
    assert parts("2/5") == ["2/5"]
    assert parts(NIGHTLY_SHARDS='["1/2", "2/2"]') == ["1/2", "2/2"]
    assert parts('"], "x": ["') == ['"], "x": ["'], "what is typed stays one word"


def matrix_of_a_night(typed: str = "", machine: str = "", **variables: str) -> Any:
    (given,) = [one["with"] for one in NIGHTLY["steps"] if one["uses"] == "./"]
    return expanded(given["matrix"], contexts(inputs={"matrix": typed, "machine": machine}, vars=variables))


def test_which_matrix_a_night_measures() -> None:
    assert matrix_of_a_night("typed.yaml", "local", NIGHTLY_MATRIX="set.yaml") == "typed.yaml"
    assert matrix_of_a_night("", "local", NIGHTLY_MATRIX="set.yaml") == "set.yaml"
    assert matrix_of_a_night("", "dry", NIGHTLY_MATRIX="set.yaml") == "set.yaml"
    assert matrix_of_a_night("", "qemu") == matrix_of_a_night(NIGHTLY_MACHINE="dry") == "matrix/chunk-sweep.yaml"
    assert matrix_of_a_night("", "local", NIGHTLY_MACHINE="qemu") == "", "what is typed goes before"
    assert matrix_of_a_night() == matrix_of_a_night(NIGHTLY_MACHINE="ssh:shelf") == ""


def test_without_a_matrix_the_first_error_says_what_to_set(checkout: Path, temp: Path) -> None:
    job = night(checkout, temp, {"matrix": matrix_of_a_night("", "local"), "machine": "local"})
    assert job.status == "failure"
    (error,) = heeded(job.log)
    assert error.startswith("::error title=no matrix::")
    named = re.findall(r"matrix/[\w.-]+", error)
    assert named == ["matrix/nightly.yaml"]
    assert "NIGHTLY_MATRIX" in error
    assert not (checkout / "results").exists()


@pytest.mark.parametrize("place", ["dry", "qemu"])
def test_what_a_night_measures_if_nothing_is_said_can_run_there(place: str) -> None:
    selected, specs = what_runs(matrix_of_a_night("", place), place)
    assert selected.space.matrix.needs is None
    assert {refusal.message for spec in specs for refusal in machine(place, MachineOptions()).refusals(spec)} == set()


@pytest.mark.parametrize(("place", "reach"), [("local", "local"), ("ssh", "ssh:shelf")])
def test_what_is_there_to_begin_with_runs_on_disks_that_exist(tmp_path: Path, place: str, reach: str) -> None:
    """As far as that can be told without the host: what its disks cannot do, and which of them it gets."""
    selected, specs = what_runs("matrix/nightly.yaml", place)
    assert [one for spec in specs for one in model_refusals(spec)] == []
    size = selected.space.matrix.every_disk()[0].size
    disks = "".join(f"      - {{id: wwn-{n}, serial: S{n}, size: {size}B, kind: hdd}}\n" for n in range(5))
    (tmp_path / "hosts.yaml").write_text(f"hosts:\n  shelf:\n    reach: {reach}\n    disks:\n{disks}")
    found = match_disks(selected.space.matrix, tmp_path / "hosts.yaml", Where(place))
    assert [disk.id for disk in found.disks] == ["wwn-0", "wwn-1", "wwn-2", "wwn-3"]


def what_runs(matrix: str, place: str) -> tuple[SelectedMatrix, tuple[RigSpec, ...]]:
    selected = load_selected(TOP / matrix, (), None, Checks(place))
    return selected, tuple(specs_of(selected.space.matrix, selected.stacks(), None))


def test_where_a_night_runs() -> None:
    def place(host: str = "", **variables: str) -> Any:
        return [expanded(one, contexts(inputs={"host": host}, vars=variables)) for one in NIGHTLY["runs-on"]]

    assert place() == ["self-hosted", "linux", "matrix-hardware"]
    assert place("shelf-2", NIGHTLY_HOST="shelf-1") == ["self-hosted", "linux", "shelf-2"]
