"""A matrix in parts, as several machines of a night run it; and the last run that ended well."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from junitparser import JUnitXml

from matrix_runner.records.environment import Requested
from matrix_runner.records.run_folder import load
from tests.records import past
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from tests.support.command import Said

Call = Callable[..., "Said"]


@pytest.fixture
def matrix(tmp_path: Path) -> str:
    (tmp_path / "small.yaml").write_text(SMALL)
    return "small.yaml"


def ran(call: Call, *arguments: str) -> Path:
    assert call("run", "--on", "dry", "--quiet", "--folder-to", "folder", *arguments).status == 0
    return Path(Path("folder").read_text().rstrip("\n"))


def test_parts_are_runs_of_their_own(call: Call, matrix: str) -> None:
    first, second = ran(call, "--shard", "1/2", matrix), ran(call, "--shard", "2/2", matrix)
    manifests = [load(folder).manifest for folder in (first, second)]
    assert first != second
    assert [(one.part, one.exit, one.finished) for one in manifests] == [("shard 1/2", 0, True), ("shard 2/2", 0, True)]
    assert manifests[0].fingerprint != manifests[1].fingerprint
    whole = ran(call, matrix)
    assert load(whole).manifest.fingerprint not in {one.fingerprint for one in manifests}
    cells = [
        {row["cell"] for row in csv.DictReader(io.StringIO((folder / "trials.csv").read_text()))}
        for folder in (first, second, whole)
    ]
    assert cells[0] | cells[1] == cells[2]
    assert not cells[0] & cells[1]


def test_an_unfinished_part_is_continued_by_the_same_part(call: Call, matrix: str) -> None:
    folder = load(ran(call, "--shard", "1/2", matrix)).update_manifest(finished=False)
    assert ran(call, "--shard", "2/2", matrix) != folder.path
    assert ran(call, "--shard", "1/2", matrix) == folder.path


def test_parts_together_are_compared_with_a_whole(call: Call, matrix: str) -> None:
    parts = ",".join(str(ran(call, "--shard", f"{number}/2", matrix)) for number in (1, 2))
    whole = ran(call, matrix)
    found = json.loads(call("compare", parts, str(whole), "--format", "json").out)
    assert len(found["rows"]) == 4
    assert all(row["a"] == row["b"] for row in found["rows"])
    assert any(note.startswith("one run on each side") for note in found["notes"]), (
        "each cell is in one run of either side"
    )


def test_parts_together_are_one_document(call: Call, matrix: str) -> None:
    parts = [str(ran(call, "--shard", f"{number}/2", matrix)) for number in (1, 2)]
    assert call("report", *parts, "--junit", "night.xml").status == 0
    night, whole = (JUnitXml.fromfile(str(path)) for path in ("night.xml", ran(call, matrix) / "junit.xml"))
    assert {suite.name for suite in night} == {suite.name for suite in whole}
    assert (night.tests, night.failures, night.errors) == (whole.tests, whole.failures, whole.errors) == (8, 0, 0)


def test_malformed_and_empty_parts_are_bad_input(call: Call, matrix: str) -> None:
    assert "is not a shard" in call("plan", "--shard", "3/2", matrix).err
    said = call("run", "--on", "dry", "--shard", "3/3", matrix)
    assert (said.status, "at most 2 shards" in said.err) == (2, True)
    assert not Path("results").exists()


def test_the_plan_of_a_part(call: Call, matrix: str) -> None:
    plan = json.loads(call("plan", "--shard", "1/2", "--format", "json", matrix).out)
    assert (plan["cells"], plan["stacks"], plan["notes"]) == (2, 1, [])


def recorded(results: Path, number: int, **changes: object) -> None:
    both = [past.measured("c1", 1, 2e8), past.measured("c1", 2, 2.1e8)]
    past.recorded(results, both, number, (past.READ,), **changes)


def names(call: Call, word: str) -> set[str]:
    said = call("results", word, "--format", "json")
    assert said.status == 0, said.err
    return {row["run"] for row in json.loads(said.out)["rows"]}


def test_the_last_good_run_has_the_same_part_machine_and_host(call: Call, tmp_path: Path) -> None:
    results = tmp_path / "results"
    recorded(results, 1, exit=0)
    recorded(results, 2, exit=0, requested=Requested(shard="1/2"))
    recorded(results, 3, exit=1)
    recorded(results, 4, exit=0, machine="local")
    recorded(results, 5, exit=0, finished=False)
    recorded(results, 6)
    recorded(results, 7, exit=0, host=past.manifest().host.model_copy(update={"hostname": "lab2"}))
    recorded(results, 8, exit=3)
    assert names(call, "latest~good") == names(call, "run-3~good") == {"run-1"}
    assert names(call, "run-2,results/run-8~good") == {"run-1", "run-2"}
    said = call("compare", "run-1~good", "run-1")
    assert (said.status, "no run before run-1 ended well" in said.err) == (2, True)
