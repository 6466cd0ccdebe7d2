"""The scripts of the action with a recorder instead of the program: arguments, exit codes, annotations and order."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.top import TOP
from tests.workflows.checkouts import make_recipe
from tests.workflows.emulator import environment, loaded
from tests.workflows.nights import action, night, obeyed, uploads

if TYPE_CHECKING:
    from tests.support.command import Call
    from tests.workflows.checkouts import Recorder

HOSTILE = [
    "$(touch x)`touch x`",
    "'; `touch x`; \"; touch x; ",
    "a.yaml\ntouch x",
    "--destroy=wwn-0x5000c5",
    "--fresh; rm -rf x",
    "x\n::set-output name=folder::x\nfolder=x\n::error::x",
]

TINY = """\
name: tiny
disks: {count: 1, size: 64MiB}
layouts: {single: [disk]}
workloads: {work: {rw: read, bs: 4KiB, runtime: 1s}}
"""


@pytest.mark.parametrize("given", HOSTILE)
def test_inputs_stay_single_arguments_which_the_program_refuses(
    recorder: Recorder, given: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["machine", "kernel", "jobs", "shard", "only", "budget", "confirm", "results"]
    before = {path.name for path in recorder.checkout.iterdir()}
    job = action(recorder.checkout, recorder.temp, dict.fromkeys([*names, "matrix", "against"], given))
    (run,) = recorder.calls("run")
    assert run[-2:] == ["--", given]
    words = [f"--{name.replace('machine', 'on')}={given}" for name in names]
    assert [word for word in run[1:-2] if word.endswith(given)] == words
    (summary,) = recorder.calls("summary")
    assert summary[1].startswith("--accepted=")
    assert summary[2:4] == [f"--against={given}", f"--results={given}"]
    assert uploads(job) == [{"name": "matrix", "path": f"{given}/a-run", "if-no-files-found": "error"}]
    assert obeyed(job.log) == []
    assert {path.name for path in recorder.checkout.iterdir()} == before | {Path(given).parts[0]}
    (recorder.checkout / "tiny.yaml").write_text(TINY)
    # The program gets one of them at a time.
    monkeypatch.chdir(recorder.checkout)
    good = {"--on": "dry", "--results": str(recorder.temp / "runs")}
    for word in [word for word in words if not word.startswith("--results")]:
        rest = [f"{name}={value}" for name, value in good.items() if not word.startswith(name)]
        answer = call("run", "--fresh", word, *rest, "--", "small.yaml")
        assert answer.status == 2, (word, answer)
        assert "mistake in matrix" not in answer.err
    assert call("run", "--on=dry", "--", given).status == 2
    assert call("run", "--on=dry", f"--results={given}", "--", "small.yaml").status == 0, (
        "any name will do for a folder"
    )
    answer = call(*summary[:3], "--", "latest")
    assert (answer.status, "mistake in matrix" in answer.err) == (2, False), answer
    assert not list(recorder.temp.rglob("x")) + list(recorder.checkout.rglob("x"))


@pytest.mark.parametrize("given", HOSTILE)
def test_a_matrix_or_part_that_a_user_typed_is_one_argument(recorder: Recorder, given: str) -> None:
    job = night(recorder.checkout, recorder.temp, {"matrix": given}, shard=given, RUN_STATUS="2")
    assert job.status == "failure"
    ((*words, last),) = recorder.calls("run")
    assert (f"--shard={given}" in words, last) == (True, given)
    assert "Nothing was run" in job.page
    assert uploads(job) == []


NO_TIMES = [
    *("", "0", "0.0h", ".", "1.", ".5h", "-5m", "5x", "5 m", "1h30m", "5m ", "1e3", "infinity", "nan", "0x10"),
    *("$(touch x)", "5m; touch x", "--help", "5m\n::error::x", "5m%0A::error::x", "9" * 9999 + "x"),
]


def test_a_patience_that_is_no_time_is_refused_before_anything_runs(recorder: Recorder) -> None:
    job = action(recorder.checkout, recorder.temp, {"patience": "5 m"})
    assert (job.status, recorder.calls(), uploads(job)) == ("failure", [], [])
    assert "Nothing was run" in job.page
    for given in NO_TIMES:
        done, outputs = prepared(recorder, ASKED_PATIENCE=given)
        assert (done.returncode, outputs) == (2, "status=2\n"), given
        (line,) = done.stdout.splitlines()
        assert line.startswith("::error title=bad patience::`patience` is ")
        assert "which is not a time: use a number and s, m, h or d" in line
        assert line.count("::") == 2
        assert "%0A" not in line.replace("%250A", "")
        assert len(line) < 300
    for given in ("5h", "90", "1.5h", "0.5s", "10m", "2d"):
        assert prepared(recorder, ASKED_PATIENCE=given)[0].returncode == 0, given
    assert not list(recorder.temp.rglob("x")) + list(recorder.checkout.rglob("x"))


def test_without_a_matrix_the_error_names_the_setting(recorder: Recorder) -> None:
    job = night(recorder.checkout, recorder.temp, {"machine": "local"})
    assert (job.status, recorder.calls()) == ("failure", [])
    (error,) = obeyed(job.log)
    assert error.startswith("::error title=no matrix::")
    assert "NIGHTLY_MATRIX" in error
    (example,) = re.findall(r"matrix/[\w.-]+yaml", error)
    assert (TOP / example).is_file()


def prepared(recorder: Recorder, **given: str) -> tuple[subprocess.CompletedProcess[str], str]:
    output = recorder.temp / "prepared"
    output.write_text("")
    defaults = {"ASKED_MATRIX": "small.yaml", "ASKED_MACHINE": "dry", "ASKED_PATIENCE": "5h"}
    env = {**environment(recorder.temp), **defaults, **given, "GITHUB_OUTPUT": str(output)}
    argv = [str(recorder.checkout / ".github/scripts/prepare.sh")]
    if os.geteuid() == 0:  # root may write every file, but not without this capability
        argv = ["setpriv", "--bounding-set=-dac_override", *argv]
    done = subprocess.run(argv, cwd=recorder.checkout, env=env, capture_output=True, text=True)
    return done, output.read_text()


HOSTED = {"RUNNER_ENVIRONMENT": "github-hosted", "ASKED_MACHINE": "qemu"}


def test_dev_kvm_is_opened_on_runners_of_github_only(recorder: Recorder) -> None:
    kvm = recorder.temp / "kvm"
    text = (recorder.checkout / ".github/scripts/prepare.sh").read_text()
    (recorder.checkout / ".github/scripts/prepare.sh").write_text(text.replace("/dev/kvm", str(kvm)))
    make_recipe(recorder.checkout)
    sudo = recorder.temp / "bin/sudo"
    sudo.parent.mkdir()
    path = f"{sudo.parent}:{os.environ['PATH']}"
    assert prepared(recorder, PATH=path, **HOSTED)[0].returncode == 0, "there is none"
    kvm.touch(0o444)
    sudo.write_text('#!/bin/sh\n[ "$1" = -n ] && shift && exec "$@"\n')
    sudo.chmod(0o755)
    assert prepared(recorder, PATH=path)[0].returncode == 0
    assert kvm.stat().st_mode & 0o777 == 0o444, "a runner of somebody else keeps its rights"
    done, _ = prepared(recorder, PATH=path, **HOSTED)
    assert (done.returncode, done.stdout, kvm.stat().st_mode & 0o777) == (0, "", 0o666)
    kvm.chmod(0o444)
    sudo.write_text("#!/bin/sh\nexit 1\n")
    done, _ = prepared(recorder, PATH=path, **HOSTED)
    assert done.returncode == 0
    assert "cannot be opened, so QEMU emulates" in done.stdout


def test_caches_have_keys_that_change_with_their_contents(recorder: Recorder) -> None:
    checkout = recorder.checkout
    make_recipe(checkout)

    def keys(**given: str) -> dict[str, str]:
        done, outputs = prepared(recorder, **given)
        assert done.returncode == 0, done.stdout
        return dict(line.split("=", 1) for line in outputs.splitlines())

    assert keys() == {}, "other runners keep their files"
    first = keys(**HOSTED)
    assert first["appliance"] == str(recorder.temp / ".cache/matrix/appliances")
    assert re.fullmatch(r"matrix-appliance-[0-9a-f]{32}", first["appliance-key"])
    assert keys(**HOSTED, MATRIX_CACHE="/c") == {**first, "appliance": "/c/appliances"}
    assert set(keys(RUNNER_ENVIRONMENT="github-hosted")) == {"environment-key"}, "only QEMU has an appliance"
    changed = [keys(**HOSTED, ASKED_KERNEL="debian-12")]
    (checkout / "small.yaml").write_text("# machine: {kernel: debian-12}\n")
    changed.append(keys(**HOSTED))
    (checkout / "runner/matrix_runner/machines/qemu/recipe.py").write_text("two")
    changed.append(keys(**HOSTED))
    assert len({one["appliance-key"] for one in [first, *changed]}) == 4
    assert {one["environment-key"] for one in changed} == {first["environment-key"]}
    (checkout / "requirements.lock").write_text("two")
    assert keys(**HOSTED)["environment-key"] != first["environment-key"]
    (checkout / ".venv").mkdir()
    (checkout / ".venv/.ready-run").touch()
    assert set(keys(**HOSTED)) == {"appliance", "appliance-key"}, "an earlier step made the environment"
    Path(first["appliance"]).mkdir(parents=True)
    assert keys(**HOSTED) == {}, "an earlier step made the appliance"


def test_the_action_restores_and_saves_what_is_not_cached(recorder: Recorder) -> None:
    make_recipe(recorder.checkout)
    for status, saved in (("0", 2), ("1", 2), ("124", 1), ("2", 0)):
        job = action(recorder.checkout, recorder.temp, {"machine": "qemu"}, RUN_STATUS=status, **HOSTED)
        used = [(uses.partition("@")[0].removeprefix("actions/cache/"), given) for uses, given in job.used]
        restored = [given for name, given in used if name == "restore"]
        assert [given["key"].rpartition("-")[0] for given in restored] == ["matrix-environment", "matrix-appliance"]
        assert [given for name, given in used if name == "save"] == restored[:saved], status


def test_settings_of_the_runner_and_inputs_reach_the_run(recorder: Recorder) -> None:
    places = {"MATRIX_HOSTS": "/etc/lab.yaml", "MATRIX_RESULTS": str(recorder.temp / "kept")}
    job = action(recorder.checkout, recorder.temp, {"kernel": "debian-12", "jobs": "auto"}, **places)
    assert job.status == "success"
    action(recorder.checkout, recorder.temp, {}, GITHUB_RUN_ATTEMPT="2")
    first, again = recorder.calls("run")
    kept = {f"--hosts={places['MATRIX_HOSTS']}", f"--results={places['MATRIX_RESULTS']}"}
    assert {"--on=dry", "--kernel=debian-12", "--jobs=auto", "--fresh", *kept} <= set(first)
    folder = f"--folder-to={recorder.temp / 'matrix-folder'}"
    assert again == ["run", "--on=dry", "--results=results", folder, "--", "small.yaml"], (
        "a job that is run again resumes"
    )
    assert f"--results={places['MATRIX_RESULTS']}" in recorder.calls("summary")[0]


def test_output_of_the_program_is_no_command_to_the_runner(recorder: Recorder) -> None:
    line = "::error title=synthetic::x"
    job = night(recorder.checkout, recorder.temp, {"matrix": "small.yaml"}, SAYS=line)
    assert job.log.count(line) == 4, "clean twice, run, summary"
    assert obeyed(job.log) == []
    assert line in obeyed(job.log.replace("::stop-commands::", "")), "or this test sees nothing"


def test_a_run_that_was_killed_is_an_error_and_its_text_for_an_issue_is_on_the_page(recorder: Recorder) -> None:
    job = action(recorder.checkout, recorder.temp, {}, RUN_STATUS="137")
    assert job.status == "failure"
    (error,) = obeyed(job.log)
    assert error.startswith("::error title=stopped::the run was killed")
    assert "all figures" in job.page
    assert "    slower" in job.page
    assert (recorder.checkout / "results/a-run/regression.md").read_text() == "slower\n"


#: A run that stops its arrays until it reads a line.
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


def test_leftovers_of_a_cancelled_job_are_cleaned_after_its_run(recorder: Recorder) -> None:
    """GitHub sends SIGINT, after seconds SIGTERM and SIGKILL, and then starts the step that cleans up."""
    checkout, temp = recorder.checkout, recorder.temp
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
            assert "has not ended yet" in cleaning.stdout.readline()
            go_on.write(b"\n")
            assert cleaning.wait() == 0
        assert "asked to end" not in step.stdout.read(), "a second time it would take nothing more apart"
    assert (temp / "order").read_text() == "ended\ncleaned\n"


def ignored(pid: int) -> set[int]:
    """Return the signals that a process ignores."""
    (mask,) = re.findall(r"(?m)^SigIgn:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text())
    return {number for number in range(1, 65) if int(mask, 16) >> (number - 1) & 1}


def test_a_run_that_does_not_end_is_not_waited_for_for_ever(recorder: Recorder) -> None:
    temp = recorder.temp
    (temp / "matrix-running").touch()
    (temp / "bin").mkdir()
    (temp / "bin/flock").write_text(f'#!/bin/sh\necho "$*" >>{shlex.quote(str(temp))}/waited\nexit 1\n')
    (temp / "bin/flock").chmod(0o755)
    done = cleaned(recorder, PATH=f"{temp / 'bin'}:{os.environ['PATH']}", CLEAN_STATUS="3")
    assert done.returncode == 3, "what is in use was left, and that is told"
    _, *waits = [line.split()[:2] for line in (temp / "waited").read_text().splitlines()]
    assert waits == [["--wait", "30"]] * 8, "four of the five minutes that a cancelled job has"
    assert done.stdout.count("has not ended yet") == 8
    assert [line.split("::")[1] for line in obeyed(done.stdout)] == ["warning title=still running"]
    assert recorder.calls() == [["clean"]]


def test_disks_are_cleaned_before_and_after_each_run(recorder: Recorder) -> None:
    for status, state in (("0", "success"), ("2", "failure"), ("3", "failure")):
        (recorder.temp / "calls").unlink(missing_ok=True)
        job = action(recorder.checkout, recorder.temp, {}, RUN_STATUS=status)
        commands = [call[0] for call in recorder.calls()]
        assert (job.status, commands[:2], commands[-1]) == (state, ["clean", "run"], "clean")
    job = action(recorder.checkout, recorder.temp, {}, CLEAN_STATUS="3")
    assert job.status == "failure", "somebody has to look at disks that could not be cleaned"
    assert uploads(job), "the results are kept all the same"


@pytest.mark.parametrize(
    ("machine", "hosts", "words"),
    [
        ("ssh", "/etc/lab.yaml", ["--every-host", "--hosts=/etc/lab.yaml"]),
        ("ssh:shelf", "/etc/lab.yaml", ["--host=shelf", "--hosts=/etc/lab.yaml"]),
        ("ssh", "", ["--every-host"]),
        *((machine, "/etc/lab.yaml", []) for machine in ("", "local", "qemu", "container")),
    ],
)
def test_hosts_behind_ssh_are_cleaned_if_the_job_runs_there(
    recorder: Recorder, machine: str, hosts: str, words: list[str]
) -> None:
    done = cleaned(recorder, ASKED_MACHINE=machine, MATRIX_HOSTS=hosts)
    assert done.returncode == 0
    assert recorder.calls() == [["clean"], *([["clean", *words]] if words else [])]


def test_another_host_that_could_not_be_cleaned_is_only_a_warning(recorder: Recorder) -> None:
    warning = "::warning title=not cleaned::"
    done = cleaned(recorder, ASKED_MACHINE="ssh", CLEAN_FAR_STATUS="3")
    assert (done.returncode, warning in done.stdout) == (0, True)
    done = cleaned(recorder, ASKED_MACHINE="ssh", CLEAN_STATUS="3")
    assert (done.returncode, warning in done.stdout) == (3, False)
    assert recorder.calls() == [["clean"], ["clean", "--every-host"]] * 2, "the others are cleaned all the same"


def cleaned(recorder: Recorder, **given: str) -> subprocess.CompletedProcess[str]:
    script = recorder.checkout / ".github/scripts/clean.sh"
    env = {"PATH": os.environ["PATH"], "HOME": str(recorder.temp), "RUNNER_TEMP": str(recorder.temp), **given}
    return subprocess.run([script], env=env, capture_output=True, text=True)


def test_the_action_gives_its_clean_up_the_machine() -> None:
    steps = [one for one in loaded(TOP / "action.yml")["runs"]["steps"] if "clean.sh" in one.get("run", "")]
    assert [one["env"] for one in steps] == [{"ASKED_MACHINE": "${{ inputs.machine }}"}] * 2
