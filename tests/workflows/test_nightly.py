"""Nights of a lab from the YAML: who may start one, what it measures, and what the real program makes of it."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.machines import Where, machine
from matrix_runner.machines.base import MachineOptions, RigSpec
from matrix_runner.machines.local import model_refusals
from matrix_runner.machines.rig_specs import specs_of
from matrix_runner.records.run_folder import runs
from matrix_runner.session.disk_lease import match_disks
from matrix_runner.session.selected_matrix import Checks, SelectedMatrix, load_selected
from tests.support.matrices import SMALL
from tests.support.slow_machine import SlowMachine, slow_machine
from tests.support.top import TOP
from tests.workflows.emulator import environment
from tests.workflows.expressions import evaluated, expanded
from tests.workflows.nights import FORM, NIGHTLY, action, contexts, night, obeyed, uploads

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call

__all__ = ["slow_machine"]


def test_a_night_and_the_next_one(checkout: Path, temp: Path) -> None:
    job = night(checkout, temp, {"matrix": "small.yaml"})
    assert job.status == "success", job.log
    (folder,) = runs(checkout / "results")
    assert (folder.manifest.machine, folder.manifest.exit) == ("dry", 0)
    assert "raid5/chunk=64KiB/work/rw=read" in job.page
    assert "There is no good earlier run of the same part on the same machine and host." in job.page
    assert uploads(job) == [
        {"name": "night-0", "path": str(folder.path.relative_to(checkout)), "if-no-files-found": "error"}
    ]
    kept = {path.name for path in folder.path.iterdir()}
    assert {"junit.xml", "trials.csv", "summary.csv", "report.html", "explore.html", "summary.md"} <= kept
    again = night(checkout, temp, {"matrix": "small.yaml"})
    assert "B against A" in again.page
    assert len(again.page.partition("<details>")[0].splitlines()) < 60
    assert len(list(runs(checkout / "results"))) == 2, "each night is a new run"


def test_a_night_is_compared_with_the_baseline_beside_its_matrix(checkout: Path, temp: Path) -> None:
    night(checkout, temp, {"matrix": "small.yaml"})
    (first,) = runs(checkout / "results")
    (checkout / "baselines.yaml").write_text(f"- {{matrix: {first.manifest.matrix}, run: {first.path.name}}}\n")
    assert f"accepted: the level of {first.path.name}" in night(checkout, temp, {"matrix": "small.yaml"}).page
    (checkout / "baselines.yaml").write_text("- {run: gone}\n")
    job = night(checkout, temp, {"matrix": "small.yaml"})
    assert job.status == "failure"
    assert "baselines.yaml:1:9: no run is called 'gone'" in " ".join(job.log.split())


def test_a_night_measures_again_what_is_slower_and_shows_what_was_confirmed(
    checkout: Path, temp: Path, call: Call, slow_machine: SlowMachine
) -> None:
    slow_machine.speed, slow_machine.job = 1.3, "rw=read\n"  # the nights before were faster
    for _ in range(2):
        call("run", "--quiet", "--on", "dry", "--results", str(checkout / "results"), str(checkout / "small.yaml"))
    job = night(checkout, temp, {"matrix": "small.yaml"})
    assert job.status == "failure"
    assert "2 cells are slower than the accepted level: round 3 adds 2 trials" in job.log
    assert "confirmed: slower when measured again, too: raid5/chunk=16KiB/work/rw=read" in job.page
    assert "2 figures slower" in job.page.splitlines()[0]


#: A timeout(1) that ends with the fifth trial instead of at a time.
IMPATIENT = """\
#!/bin/bash
while [ "$1" != -- ]; do shift; done
shift 2
exec {lines}< <(exec "$@" 2>&1)
child=$!
while IFS= read -r line <&"$lines"; do
  printf '%s\\n' "$line"
  case $line in "[5/"*) kill -s TERM "$child"; stopped=124 ;; esac
done
wait "$child"
exit "${stopped:-$?}"
"""


def test_a_run_that_takes_too_long_is_stopped_and_kept(checkout: Path, temp: Path) -> None:
    (checkout / "small.yaml").write_text(SMALL.replace("repeat: 2", "repeat: 10000"))
    (temp / "bin").mkdir()
    (temp / "bin/timeout").write_text(IMPATIENT)
    (temp / "bin/timeout").chmod(0o755)
    job = action(checkout, temp, {}, PATH=f"{temp / 'bin'}:{environment(temp)['PATH']}")
    assert job.status == "failure"
    (stopped,) = [line for line in obeyed(job.log) if line.startswith("::error title=stopped::")]
    assert "longer than `patience`" in stopped
    (folder,) = runs(checkout / "results")
    assert not folder.manifest.finished
    assert "1 run not finished" in job.page
    assert (folder.path / "regression.md").exists()
    assert [given["path"] for given in uploads(job)] == [str(folder.path.relative_to(checkout))]


def test_a_job_that_is_cancelled_ends_its_run(checkout: Path, temp: Path) -> None:
    (checkout / "small.yaml").write_text(SMALL.replace("repeat: 2", "repeat: 10000"))
    env = environment(
        temp, ASKED_MATRIX="small.yaml", ASKED_MACHINE="dry", RUNNER_TEMP=str(temp), GITHUB_OUTPUT=str(temp / "output")
    )
    script = checkout / ".github/scripts/run.sh"
    # A shell starts background jobs with SIGINT ignored, and these tests may be one.
    argv = ["env", "--default-signal=INT", str(script)]
    with subprocess.Popen(argv, cwd=checkout, env=env, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        while "[5/" not in (line := running.stdout.readline()):
            assert line, "the run ended by itself"
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
    """Return whether a process holds the lock of a run."""
    return subprocess.run(["flock", "--nonblock", temp / "matrix-running", "true"]).returncode != 0


def test_permitted_starts_of_a_night() -> None:
    def may(**changes: Any) -> bool:
        known = contexts()
        return bool(evaluated(NIGHTLY["if"], {**known, **{k: {**known[k], **v} for k, v in changes.items()}}))

    assert may()
    assert may(github={"event_name": "schedule"})
    assert not may(github={"repository": "stranger/matrix"})
    assert not may(github={"ref": "refs/heads/some-branch", "ref_name": "some-branch"})
    assert not may(github={"ref": "refs/tags/main"}), "a tag may have the name of the branch"
    assert not may(vars={"HARDWARE_REPOSITORY": None})


def test_the_parts_of_a_night() -> None:
    def parts(shard: str = "", **variables: str) -> Any:
        text = NIGHTLY["strategy"]["matrix"]["shard"]
        return expanded(text, contexts(inputs={"shard": shard}, vars=variables))

    assert parts() == [""]
    assert parts("2/5") == ["2/5"]
    assert parts(NIGHTLY_SHARDS='["1/2", "2/2"]') == ["1/2", "2/2"]
    assert parts('"], "x": ["') == ['"], "x": ["'], "typed text stays one value"


def matrix_of_a_night(typed: str = "", machine: str = "", **variables: str) -> Any:
    (given,) = [one["with"] for one in NIGHTLY["steps"] if one["uses"] == "./"]
    return expanded(given["matrix"], contexts(inputs={"matrix": typed, "machine": machine}, vars=variables))


def test_which_matrix_a_night_measures() -> None:
    assert matrix_of_a_night("typed.yaml", "local", NIGHTLY_MATRIX="set.yaml") == "typed.yaml"
    assert matrix_of_a_night("", "local", NIGHTLY_MATRIX="set.yaml") == "set.yaml"
    assert matrix_of_a_night("", "dry", NIGHTLY_MATRIX="set.yaml") == "set.yaml"
    assert matrix_of_a_night("", "qemu") == matrix_of_a_night(NIGHTLY_MACHINE="dry") == "matrix/chunk-sweep.yaml"
    assert matrix_of_a_night("", "local", NIGHTLY_MACHINE="qemu") == "", "typed text has priority"
    assert matrix_of_a_night() == matrix_of_a_night(NIGHTLY_MACHINE="ssh:shelf") == ""


@pytest.mark.parametrize("place", ["dry", "qemu"])
def test_the_default_matrix_can_run(place: str) -> None:
    selected, specs = selected_cells(matrix_of_a_night("", place), place)
    assert selected.space.matrix.needs is None
    assert {refusal.message for spec in specs for refusal in machine(place, MachineOptions()).refusals(spec)} == set()


@pytest.mark.parametrize(("place", "reach"), [("local", "local"), ("ssh", "ssh:shelf")])
def test_the_example_for_physical_disks_can_run(tmp_path: Path, place: str, reach: str) -> None:
    selected, specs = selected_cells("matrix/nightly.yaml", place)
    assert [one for spec in specs for one in model_refusals(spec)] == []
    size = selected.space.matrix.every_disk()[0].size
    disks = "".join(f"      - {{id: wwn-{n}, serial: S{n}, size: {size}B, kind: hdd}}\n" for n in range(5))
    (tmp_path / "hosts.yaml").write_text(f"hosts:\n  shelf:\n    reach: {reach}\n    disks:\n{disks}")
    found = match_disks(selected.space.matrix, tmp_path / "hosts.yaml", Where(place))
    assert [disk.id for disk in found.disks] == ["wwn-0", "wwn-1", "wwn-2", "wwn-3"]


def selected_cells(matrix: str, place: str) -> tuple[SelectedMatrix, tuple[RigSpec, ...]]:
    selected = load_selected(TOP / matrix, (), None, Checks(place))
    return selected, tuple(specs_of(selected.space.matrix, selected.stacks(), None))


def test_the_place_of_a_night() -> None:
    def place(host: str = "", **variables: str) -> Any:
        return [expanded(one, contexts(inputs={"host": host}, vars=variables)) for one in NIGHTLY["runs-on"]]

    assert place() == ["self-hosted", "linux", "matrix-hardware"]
    assert place("shelf-2", NIGHTLY_HOST="shelf-1") == ["self-hosted", "linux", "shelf-2"]


def test_an_unchanged_form_gives_way_to_the_variables() -> None:
    known = contexts(inputs=FORM, vars={"NIGHTLY_HOST": "shelf", "NIGHTLY_MACHINE": "qemu"})
    (given,) = [one["with"] for one in NIGHTLY["steps"] if one["uses"] == "./"]
    assert expanded(NIGHTLY["runs-on"][-1], known) == "shelf"
    assert expanded(given["machine"], known) == "qemu"
    assert expanded(given["matrix"], known) == "matrix/chunk-sweep.yaml"
