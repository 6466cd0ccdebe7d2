"""The workflows as a whole by act, a runner of workflows: nights, a push, and the action with hostile inputs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from matrix_runner.records.run_folder import load
from tests.support.matrices import SMALL
from tests.workflows.checkouts import make_recipe
from tests.workflows.go_tools import build_tool

pytestmark = pytest.mark.exhaustive

_STAND_INS = Path(__file__).parent / "stand_ins"
_LABELS = ("self-hosted", "linux", "shelf", "ubuntu-24.04")


@dataclass(frozen=True)
class Outcome:
    status: int
    records: list[dict[str, Any]]
    artifacts: dict[str, Path]

    @property
    def log(self) -> str:
        return "".join(record["msg"] for record in self.records if record.get("raw_output"))

    @property
    def annotations(self) -> list[tuple[str, str]]:
        """Return the titles and texts of what the runner took for errors and warnings."""
        taken = [record for record in self.records if record.get("command") in {"error", "warning", "notice"}]
        return [(record["kvPairs"].get("title", ""), record["arg"]) for record in taken]

    @property
    def commands(self) -> set[str]:
        """Return the commands in the log that the runner obeyed, without the tokens that allow them again."""
        names = {record["command"] for record in self.records if "raw" in record}
        return {name for name in names if not re.fullmatch(r"[0-9a-f]{32}", name)} - {"ignored", "stop-commands"}

    @property
    def jobs(self) -> list[tuple[dict[str, Any], str]]:
        """Return the matrix values of each job, and how the action ended there: act has one result for all jobs."""
        ended = [record for record in self.records if record.get("step") == "./" and record.get("stage") == "Main"]
        return [(one["matrix"], one["stepResult"]) for one in ended if "stepResult" in one and len(one["stepID"]) == 1]

    @property
    def page(self) -> str:
        return "".join(record["content"] for record in self.records if record.get("command") == "summary")


Act = Callable[..., Outcome]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tool("act", "github.com/nektos/act", tmp_path_factory.mktemp("act"))


@pytest.fixture
def act(program: Path, checkout: Path, temp: Path) -> Act:
    """Return a function that runs one workflow of the checkout, with the inputs and variables of the repository."""
    _add_to_git(checkout)
    for name in ("artifacts", "caches"):
        (temp / name).mkdir()

    def run(event: str, workflow: str, inputs: dict[str, str] | None = None, **more: Any) -> Outcome:
        payload = {"inputs": inputs or {}, "repository": {"default_branch": "main"}}
        (temp / "event.json").write_text(json.dumps(payload))
        variables = {"HARDWARE_REPOSITORY": "lab/matrix", **more.get("variables", {})}
        argv = [
            *(str(program), event, "-W", f".github/workflows/{workflow}", "-e", str(temp / "event.json"), "--json"),
            *("--no-cache-server", "--action-offline-mode"),
            *("--env", f"GITHUB_REF={more.get('ref', 'refs/heads/main')}"),
            *(word for label in _LABELS for word in ("-P", f"{label}=-self-hosted")),
            *(word for name, value in variables.items() for word in ("--var", f"{name}={value}")),
            *(word for replaced in _replaced(checkout) for word in ("--local-repository", replaced)),
        ]
        places = {"ARTIFACTS": str(temp / "artifacts"), "CACHES": str(temp / "caches")}
        env = {"PATH": os.environ["PATH"], "HOME": str(temp), "LANG": "C.UTF-8", **places, **more.get("env", {})}
        done = subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        records = [json.loads(line) for line in done.stdout.splitlines()]
        return Outcome(done.returncode, records, {path.name: path for path in (temp / "artifacts").iterdir()})

    return run


def _add_to_git(checkout: Path) -> None:
    """Make the checkout a repository, from which act takes the names of the repository and of the branch."""
    user = ("-c", "user.name=x", "-c", "user.email=x")
    for words in (
        ("init", "-q", "-b", "main"),
        ("remote", "add", "origin", "https://github.com/lab/matrix"),
        ("add", "-A"),
        (*user, "commit", "-q", "-m", "x"),
    ):
        subprocess.run(["git", *words], cwd=checkout, check=True)


def _replaced(checkout: Path) -> set[str]:
    """Return the actions of other repositories that the workflows use, each with the folder of its stand-in."""
    files = [checkout / "action.yml", *(checkout / ".github/workflows").glob("*.yml")]
    used = re.findall(r"uses: actions/([\w-]+)(?:/\w+)?@(\w{40})", "".join(file.read_text() for file in files))
    return {f"actions/{name}@{commit}={_STAND_INS / name}" for name, commit in used if (_STAND_INS / name).is_dir()}


PARTS = {"NIGHTLY_MACHINE": "dry", "NIGHTLY_MATRIX": "small.yaml", "NIGHTLY_SHARDS": '["1/2", "2/2"]'}


def test_a_dry_night_in_two_parts(act: Act, temp: Path) -> None:
    env = {"MATRIX_RESULTS": str(temp / "kept"), "MATRIX_STORE": str(temp / "store.db")}
    night = act("schedule", "nightly.yml", variables={"NIGHTLY_HOST": "shelf", **PARTS}, env=env)
    assert (night.status, night.annotations, night.commands) == (0, [], set()), night.log
    assert sorted(shard["shard"] for shard, _ in night.jobs) == ["1/2", "2/2"]
    runs = [load(folder) for folder in sorted((temp / "kept").glob("*/"))]
    assert sorted(str(run.manifest.part) for run in runs) == ["shard 1/2", "shard 2/2"]
    assert (temp / "store.db").exists()
    (folder,) = night.artifacts.values()  # act knows no index of a job, so both have the same name
    assert {"junit.xml", "trials.csv", "report.html", "explore.html", "summary.md"} <= {
        path.name for path in folder.iterdir()
    }
    assert "There is no good earlier run of the same part on the same machine and host." in night.page


def test_a_night_of_another_repository_or_branch_starts_no_job(act: Act) -> None:
    inputs = {"matrix": "small.yaml", "machine": "dry", "host": "shelf"}
    fork = act("workflow_dispatch", "nightly.yml", inputs, variables={"HARDWARE_REPOSITORY": "someone/else"})
    branch = act("workflow_dispatch", "nightly.yml", inputs, ref="refs/heads/other")
    for night in (fork, branch):
        assert (night.status, night.jobs, night.artifacts) == (0, [], {})


def test_a_night_without_a_matrix_names_the_variable(act: Act) -> None:
    night = act("workflow_dispatch", "nightly.yml", {"machine": "local", "host": "shelf"})
    assert night.status == 1
    ((title, text),) = night.annotations
    assert (title, "NIGHTLY_MATRIX" in text) == ("no matrix", True)
    assert night.artifacts == {}


SMALLEST = """\
name: smallest
disks: {count: 2, size: 64MiB}
layouts: {mirror: [md: {level: 1}], stripe: [md: {level: 0, chunk: 64KiB}]}
workloads: {work: {rw: randwrite, bs: 4KiB, runtime: 300ms}}
repeat: 3
"""
REFUTED = """\
guidelines:
  - id: impossible
    claim: A mirror writes a thousand times as fast as a stripe
    source: this test
    ratio: {metric: write.iops, of: {md.level: 1}, to: {md.level: 0}, at_least: 1000x}
"""


@pytest.mark.vm
def test_a_night_and_a_push_on_qemu(act: Act, checkout: Path, temp: Path) -> None:
    """The push is that of a runner of GitHub, twice: the second finds the appliance of the first, and fails a guideline."""
    (checkout / "matrix").mkdir()
    (checkout / "matrix/chunk-sweep.yaml").write_text(SMALLEST)
    make_recipe(checkout)
    night = act("workflow_dispatch", "nightly.yml", {"machine": "qemu", "host": "shelf"})
    assert (night.status, night.annotations) == (0, []), night.log
    assert "mirror/work" in night.page
    assert "🟩" in night.page
    hosted = {"RUNNER_ENVIRONMENT": "github-hosted"}
    push = act("push", "push.yml", env=hosted)
    assert (push.status, push.annotations, push.commands) == (0, [], set()), push.log
    assert "tested: test\n" in push.log
    # act runs each job in another folder, so each has another environment.
    assert used_caches(temp) == ["restore environment", "restore appliance", "save environment", "save appliance"]
    (checkout / "matrix/chunk-sweep.yaml").write_text(SMALLEST + REFUTED)
    push = act("push", "push.yml", env=hosted)
    assert (push.status, [title for title, _ in push.annotations]) == (1, ["guideline impossible fails"]), push.log
    assert "A mirror writes a thousand times as fast" in push.page
    assert used_caches(temp)[4:] == ["restore environment", "restore appliance", "save environment"]
    run = load(push.artifacts["results"])
    assert (run.manifest.machine, run.manifest.exit) == ("qemu", 1)


def used_caches(temp: Path) -> list[str]:
    lines = (temp / "caches/log").read_text().splitlines()
    return [re.sub(r"(\w+) matrix-(\w+)-.*", r"\1 \2", line) for line in lines]


#: A workflow of another project, with each input of the action.
USER = """\
on: {workflow_dispatch: {inputs: {inputs: {type: string}, given: {type: string}}}}
jobs:
  all:
    runs-on: shelf
    strategy:
      fail-fast: false
      matrix:
        input: ${{ fromJSON(inputs.inputs) }}
        given: ${{ fromJSON(inputs.given) }}
    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
      - id: action
        uses: ./
        with:
          WITH
      - if: always()
        env: {STATUS: "${{ steps.action.outputs.status }}"}
        run: echo "status=$STATUS"
"""
DEFAULTS = {"matrix": "small.yaml", "machine": "dry", "patience": "1m", "artifact": "matrix"}


def write_user_workflow(checkout: Path) -> list[str]:
    """Write the workflow, in which each job gives one input another value. Return the names of the inputs."""
    action = (checkout / "action.yml").read_text()
    names = re.findall(r"(?m)^  (\w+):$", action[: action.index("outputs:")])
    values = {
        name: f"${{{{ matrix.input == '{name}' && matrix.given || '{DEFAULTS.get(name, '')}' }}}}" for name in names
    }
    given = "\n          ".join(f"{name}: {value}" for name, value in values.items())
    (checkout / ".github/workflows/user.yml").write_text(USER.replace("WITH", given))
    return names


@pytest.mark.parametrize(
    ("name", "value", "status", "title"),
    [
        ("patience", "2s", "124", "stopped"),
        ("patience", "soon", "2", "bad patience"),
        ("kernel", "debian-99", "2", ""),
    ],
)
def test_a_failed_job_gives_the_reason(
    act: Act, checkout: Path, name: str, value: str, status: str, title: str
) -> None:
    write_user_workflow(checkout)
    (checkout / "small.yaml").write_text(SMALL.replace("repeat: 2", "repeat: 10000"))
    job = act("workflow_dispatch", "user.yml", {"inputs": json.dumps([name]), "given": json.dumps([value])})
    assert (job.status, f"status={status}\n" in job.log) == (1, True), job.log
    assert [found for found, _ in job.annotations] == ([title] if title else [])
    assert (job.artifacts != {}) == (status == "124"), "recorded trials are kept"
    if status == "124":
        assert "1 run not finished" in (job.artifacts["matrix"] / "summary.md").read_text()


HOSTILE = [
    "'\"; rm -rf small.yaml; touch x; $(touch x)`touch x` #",
    "--fresh\n::set-output name=status::0\n::error title=x::x\nstatus=0\nfolder=etc",
]


def test_hostile_inputs_are_words(act: Act, checkout: Path, temp: Path) -> None:
    names = write_user_workflow(checkout)
    job = act("workflow_dispatch", "user.yml", {"inputs": json.dumps(names), "given": json.dumps(HOSTILE)})
    results = {(values["input"], values["given"]): result for values, result in job.jobs}
    assert set(results) == {(name, given) for name in names for given in HOSTILE}
    named_freely = {"results", "artifact"}
    assert {name for (name, _), result in results.items() if result == "success"} == named_freely
    assert {title for title, _ in job.annotations} == {"bad patience"}
    assert job.commands == {"error"}
    assert "mistake in matrix" not in job.log
    assert "Traceback" not in job.log
    assert list(checkout.rglob("x")) + list(temp.rglob("x")) == []
