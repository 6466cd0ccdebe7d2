"""`matrix bisect`: the search along an axis, its end, its continuation after a kill, and wrong input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.machines import dry
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import load
from tests.support.commits import repository

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matrix_runner.machines.base import RigSpec
    from tests.support.command import Call, Said

MATRIX = """\
name: steps
disks: {count: 2, size: 512MiB, bus: sata}
layouts: {one: [disk], two: [md: {level: 0, chunk: 64KiB}]}
workloads: {work: {rw: randread, bs: 4KiB, iodepth: [1, 2, 3, 4, 5, 6, 7, 8], runtime: 1s}}
"""
ALONG = ("--only", "layout=one", "--along", "iodepth", "--good", "1", "--bad", "8")


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    (tmp_path / "steps.yaml").write_text(MATRIX)
    return tmp_path


@pytest.fixture
def slower_from_6(monkeypatch: pytest.MonkeyPatch, steps: Path) -> Path:
    """Figures fall by 13 % from a queue depth of 6 on."""
    return stepped(monkeypatch, steps, {depth: 4 if depth < 6 else 3 for depth in range(1, 9)})


def stepped(monkeypatch: pytest.MonkeyPatch, folder: Path, levels: Mapping[int, int]) -> Path:
    plain = dry._result

    def result(name: str, options: Mapping[str, str], job: str, slow: int) -> dict[str, Any]:
        return plain(name, {**options, "iodepth": str(levels[int(options["iodepth"])])}, job, slow)

    monkeypatch.setattr(dry, "_result", result)
    return folder


def bisect(call: Call, *words: str) -> Said:
    return call("bisect", "steps.yaml", "--on", "dry", *words)


def run_of(folder: Path) -> Path:
    (found,) = (one for one in (folder / "results").iterdir() if one.is_dir())
    return found


def test_the_change_is_found(call: Call, slower_from_6: Path) -> None:
    done = bisect(call, *ALONG)
    assert done.status == 0, done.err
    assert "found: 6 changed it" in done.out
    assert "; 5 is good" in done.out
    assert "comparing 1 with 8: round 1 adds 2 trials" in done.out
    run = run_of(slower_from_6)
    assert load(run).manifest.search["along"] == "workload.iodepth"
    assert load(run).manifest.excluded == "a search, a race or a design chose its cells"
    assert "excluded: a search" in call("runs").out
    page, text = (run / "bisect.html").read_text(), (run / "bisect.md").read_text()
    assert "SYNTHETIC" in page
    assert "found: 6 changed it" in page
    assert "<svg" in page
    assert "SYNTHETIC" in text
    assert MATRIX.rstrip() in text


def test_a_report_writes_the_answer_again(call: Call, slower_from_6: Path) -> None:
    words = ("--metric", "read.lat_mean", "--smallest", "2%", "--confidence", "90%")
    bisect(call, *ALONG[:4], "--good", "8", "--bad", "1", *words)
    files = [run_of(slower_from_6) / name for name in ("bisect.html", "bisect.md")]
    before = [one.read_bytes() for one in files]
    for one in files:
        one.write_text("")
    assert call("report", "latest").status == 0
    assert [one.read_bytes() for one in files] == before


def test_json(call: Call, slower_from_6: Path) -> None:
    done = bisect(call, *ALONG, "--json")
    end = json.loads(done.out.splitlines()[-1])["search"]
    assert (end["state"], end["first"], end["last"]) == ("found", "6", "6")
    assert end["odds"] >= 0.95
    assert end["change"][1] < end["change"][0] < end["change"][2] < 1
    assert sum(end["odds_by_version"].values()) == pytest.approx(1)


def test_the_mean_of_several_cells(call: Call, slower_from_6: Path) -> None:
    done = bisect(call, *ALONG[2:])
    assert done.status == 0, done.err
    assert "found: 6 changed it" in done.out


def test_the_other_way(call: Call, slower_from_6: Path) -> None:
    done = bisect(call, *ALONG[:4], "--good", "8", "--bad", "1")
    assert done.status == 1
    assert "not found: 1 is better than 8" in done.out


def test_more_is_worse_for_latencies(call: Call, slower_from_6: Path) -> None:
    # In the model, a latency is the depth divided by the rate.
    done = bisect(call, *ALONG[:4], "--good", "8", "--bad", "1", "--metric", "read.lat_mean")
    assert "read.lat_mean there is" in done.out, done.err


def test_equal_anchors(call: Call, monkeypatch: pytest.MonkeyPatch, steps: Path) -> None:
    stepped(monkeypatch, steps, dict.fromkeys(range(1, 9), 4))
    done = bisect(call, *ALONG, "--smallest", "5%")
    assert done.status == 1
    assert "not found: 1 and 8 are equal" in done.out


def test_two_changes(call: Call, monkeypatch: pytest.MonkeyPatch, steps: Path) -> None:
    stepped(monkeypatch, steps, {depth: 16 if depth < 3 else 9 if depth < 6 else 4 for depth in range(1, 9)})
    done = bisect(call, *ALONG)
    assert done.status == 4
    assert "more than one change between 1 and 8" in done.out


def test_a_search_continues_after_each_kill(call: Call, slower_from_6: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, left = Journal.record, [9]

    def killed(journal: Journal, trial: Any) -> None:
        record(journal, trial)
        left[0] -= 1
        if not left[0]:
            raise MemoryError  # no end that the program foresees

    monkeypatch.setattr(Journal, "record", killed)
    assert bisect(call, *ALONG).status == 3
    left[0] = 10
    assert bisect(call, *ALONG).status == 3
    monkeypatch.setattr(Journal, "record", record)
    done = bisect(call, *ALONG)
    assert done.status == 0, done.err
    assert "(19 trials done)" in done.out
    run = run_of(slower_from_6)
    with Journal.open(run / "journal.sqlite", synthetic=True) as journal:
        trials = list(journal.trials())
    whole = bisect(call, *ALONG)
    assert f"{len(trials)} trials in" in done.out
    assert f"{len(trials)} trials in" in whole.out, "the kills added no trial"


def test_a_search_that_was_edited_is_named(call: Call, slower_from_6: Path) -> None:
    assert bisect(call, *ALONG).status == 0
    manifest = run_of(slower_from_6) / "manifest.json"
    known = json.loads(manifest.read_text())
    searches = [{"x": "y"}] + [
        known["search"] | {name: text}
        for name, texts in {
            "along": ("", "nothing"),
            "good": ("", "99", "8"),
            "bad": ("", "1"),
            "metric": ("", "nothing"),
            "confidence": ("", "nan", "inf", "-1", "0", "1", "2", "1e-320"),
            "smallest": ("", "nan", "inf", "-2", "-1", "1e308"),
        }.items()
        for text in texts
    ]
    for search in searches:
        manifest.write_text(json.dumps(known | {"search": search}))
        said = call("report", str(manifest.parent))
        assert (said.status in {0, 2}, "a mistake in matrix itself" in said.err) == (True, False), (search, said)
    manifest.write_text(json.dumps(known | {"search": {"x": "y"}}))
    assert "manifest.json has no search" in call("report", str(manifest.parent)).err


def test_a_budget_that_is_too_small(call: Call, slower_from_6: Path) -> None:
    done = bisect(call, *ALONG, "--bytes-budget", "1KiB", "--budget", "0.001s")
    assert done.status == 4
    assert "no round is complete yet" in done.out
    assert "with a larger --budget" in done.out
    done = bisect(call, *ALONG)
    assert done.status == 0
    assert "continuing the run" in done.out


def test_a_candidate_without_figures_is_skipped(
    call: Call, slower_from_6: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = dry._result

    def broken(name: str, options: Mapping[str, str], job: str, slow: int) -> dict[str, Any]:
        found = plain(name, options, job, slow)
        return found | {"error": 5} if options["iodepth"] == "5" else found

    monkeypatch.setattr(dry, "_result", broken)
    done = bisect(call, *ALONG)
    assert done.status == 0, done.out
    assert "found: one of 5 to 6 changed it" in done.out
    assert "skipped: no figures" in done.out
    assert slower_from_6.is_dir()


def test_an_anchor_without_figures(call: Call, steps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = dry._result

    def broken(name: str, options: Mapping[str, str], job: str, slow: int) -> dict[str, Any]:
        return plain(name, options, job, slow) | ({"error": 5} if options["iodepth"] == "8" else {})

    monkeypatch.setattr(dry, "_result", broken)
    done = bisect(call, *ALONG)
    assert done.status == 3
    assert "\n8 has no figures: fio failed: " in done.out
    assert "\n1 has no figures" not in done.out
    assert steps.is_dir()


def test_kernels_are_versions(call: Call, steps: Path) -> None:
    kernels = "machine: {kernel: [debian-12, ./a/bzImage, ./b/bzImage, debian-13]}\n"
    (steps / "steps.yaml").write_text(kernels + MATRIX)
    words = ("--only", "layout=one,workload.iodepth=4", "--good", "debian-12", "--bad", "./b/bzImage")
    done = bisect(call, *words, "--smallest", "5%")
    assert done.status == 1, done.err
    assert "not found: debian-12 and ./b/bzImage are equal" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--along", "md.chunk", "--good", "1", "--bad", "8"), "no selected cell has this value"),
        (("--good", "debian-12", "--bad", "debian-13"), "the matrix has no kernels to search"),
        (("--along", "nothing", "--good", "1", "--bad", "8"), "--along: unknown axis 'nothing'"),
        (("--along", "layout", "--good", "one", "--bad", "two"), "has no order"),
        (("--along", "workload.iodepth", "--good", "1", "--bad", "9"), "--bad 9: no selected cell"),
        (("--along", "workload.iodepth", "--good", "1", "--bad", "1"), "are both 1"),
        ((*ALONG, "--cluster", "tcp://there:8786"), "--insecure"),
        ((*ALONG, "--metric", "write.iops"), "has no such figure"),
        ((*ALONG, "--metric", "speed"), "is not a figure"),
        ((*ALONG, "--confidence", "100%"), "--confidence 1"),
        ((*ALONG, "--smallest", "0%"), "--smallest 0"),
    ],
)
def test_wrong_input(call: Call, steps: Path, words: tuple[str, ...], message: str) -> None:
    done = bisect(call, *words)
    assert done.status == 2
    assert message in done.err
    assert "→" in done.err
    assert not (steps / "results").exists()


@pytest.fixture
def nights(call: Call, steps: Path) -> Path:
    """Two runs of four cells on one kernel each. In the second, requests at a depth of 6 and more are slower."""
    text = MATRIX.replace("[1, 2, 3, 4, 5, 6, 7, 8]", "[2, 6]") + "repeat: 4\n"
    (steps / "steps.yaml").write_text(text)
    for kernel, levels in (("debian-12", {2: 4, 6: 4}), ("debian-13", {2: 4, 6: 2})):
        with pytest.MonkeyPatch.context() as patch:
            stepped(patch, steps, levels)
            assert call("run", "steps.yaml", "--on", "dry", "--kernel", kernel).status == 0
    kernels = "machine: {kernel: [debian-12, ./a/bzImage, debian-13]}\n"
    (steps / "steps.yaml").write_text(kernels + text)
    return steps


def test_a_search_can_begin_from_two_stored_runs(call: Call, nights: Path) -> None:
    done = bisect(call, "--between", "latest~1", "latest", "--smallest", "5%")
    assert "guest.kernel: debian-12 → debian-13" in done.err
    assert "workload.iodepth=6" in done.err.partition("which became slower the most: --only ")[2].partition("\n")[0]
    assert "not found: debian-12 and debian-13 are equal" in done.out
    assert nights.is_dir()


def test_two_runs_that_name_no_versions(call: Call, nights: Path) -> None:
    same = bisect(call, "--between", "latest", "latest")
    assert same.status == 2
    assert "have the same kernel" in same.err
    back = bisect(call, "--between", "latest", "latest~1")
    assert back.status == 2
    assert "no cell of latest~1 is known to be slower than in latest" in back.err
    assert "--only chooses the cells" in back.err
    none = bisect(call)
    assert none.status == 2
    assert "two stored runs by --between" in none.err
    assert nights.is_dir()


GIT = """\
name: steps
disks: {count: 1, size: 512MiB, bus: sata}
layouts: {one: [disk]}
workloads: {work: {rw: randread, bs: 4KiB, iodepth: 4, runtime: 1s}}
"""
BUILD = "[ $(cat state) != fails ] && install -D state $OUT/usr/sbin/mdadm"


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository of seven commits; from the fifth on, figures are a quarter lower."""
    (tmp_path / "steps.yaml").write_text(GIT)
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    states = ["fast", "fast", "fails", "fast", "slow", "slow", "slow"]
    found = repository(tmp_path / "repo", states)
    plain = dry._result
    kernels: list[str | None] = []

    class Rig(dry.DryRig):
        def __init__(self, spec: RigSpec, *words: Any, **named: Any) -> None:
            super().__init__(spec, *words, **named)
            kernels[:] = [spec.kernel]

    def result(name: str, options: Mapping[str, str], job: str, slow: int) -> dict[str, Any]:
        built = (one for one in (tmp_path / "cache/builds").iterdir() if (one / "usr").is_dir())
        assert any(built)
        shown = subprocess.run(
            ["git", "-C", found, "show", f"{kernels[0]}:state"], check=True, capture_output=True, text=True
        )
        return plain(name, {**options, "iodepth": "4" if shown.stdout.strip() == "fast" else "3"}, job, slow)

    monkeypatch.setattr(dry, "DryRig", Rig)
    monkeypatch.setattr(dry, "_result", result)
    return tmp_path


def test_a_commit_is_found_and_one_that_does_not_build_is_skipped(call: Call, commits: Path) -> None:
    words = ("--git", "repo", "--build", BUILD, "--good", "HEAD~6", "--bad", "HEAD", "--paths", "other")
    done = bisect(call, *words)
    assert done.status == 0, done.err + done.out
    run = run_of(commits)
    names = {title: name for name, title in load(run).manifest.titles.items()}
    assert len(names) == 7
    culprit = names["commit 4 slow"]
    assert f"found: {culprit} changed it" in done.out, done.out
    assert f"{culprit} is: commit 4 slow" in done.out
    before = (run / "bisect.md").read_text()
    assert "skipped: no figures" in before
    assert call("report", "latest").status == 0
    assert (run / "bisect.md").read_text() == before


def test_a_command_that_fails_always_fails_before_the_run(call: Call, commits: Path) -> None:
    done = bisect(call, "--git", "repo", "--build", "echo broken; false", "--good", "HEAD~6", "--bad", "HEAD")
    assert done.status == 3
    assert "--good: " in done.err
    assert "does not build: the command ended with status 1" in done.err
    assert "broken" in done.err
    assert "→ try it in" in done.err
    assert not (commits / "results").exists()


def test_a_matrix_with_kernels_of_its_own_is_refused(call: Call, commits: Path) -> None:
    (commits / "steps.yaml").write_text("machine: {kernel: debian-12}\n" + GIT)
    done = bisect(call, "--git", "repo", "--build", BUILD, "--good", "HEAD~6", "--bad", "HEAD")
    assert done.status == 2
    assert "names kernels" in done.err


def test_a_machine_that_keeps_its_kernel_is_refused(call: Call, commits: Path) -> None:
    words = ("--git", "repo", "--build", BUILD, "--good", "HEAD~6", "--bad", "HEAD")
    done = call("bisect", "steps.yaml", "--on", "container", *words)
    assert done.status == 2
    assert "cannot change to other kernels" in done.err
    assert commits.is_dir()
