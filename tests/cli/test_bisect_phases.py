"""`matrix bisect --fetch --git`: Debian's kernels first, then the commits between the two that it found."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.machines import dry
from matrix_runner.records.run_folder import latest, load, runs
from matrix_runner.session import versions
from tests.support.commits import repository
from tests.support.kernels import image

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matrix_runner.machines.base import RigSpec
    from tests.support.command import Call, Said

MATRIX = """\
name: steps
disks: {count: 2, size: 512MiB, bus: sata}
layouts: {one: [disk]}
workloads: {work: {rw: randread, bs: 4KiB, iodepth: 4, runtime: 1s}}
"""
MIRROR = {"6.12.43+deb13": "6.12.43", "6.16.3+deb13": "6.16.3", "6.17.8+deb13": "6.17.8", "6.18.5+deb13": "6.18.5"}
FAST = {"6.12.43+deb13", "6.16.3+deb13"}
TAGS = {"v6.12.43": 0, "v6.16": 1, "v6.17.8": 5, "v6.18.5": 6}
BUILD = "install -D state $OUT/usr/sbin/mdadm"
SEARCH = ("--fetch", "--good", "6.12.43", "--bad", "6.18", "--git", "repo", "--build", BUILD)


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository of Linux with a branch of 6.16, and a mirror. The fourth commit is slower."""
    (tmp_path / "steps.yaml").write_text(MATRIX)
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    repo = repository(tmp_path / "repo", ["fast", "fast", "fast", "slow", "slow", "slow", "slow"])

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", repo, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    for tag, number in TAGS.items():
        git("tag", tag, f"HEAD~{6 - number}")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    stable = git(*identity, "commit-tree", "-p", "v6.16", "-m", "stable", "v6.16^{tree}")
    git("tag", "v6.16.3", stable)
    uris = {name: f"http://m/linux-image-{name}-amd64_{one}-1_amd64.deb SHA256:0" for name, one in MIRROR.items()}
    monkeypatch.setattr(versions, "list_kernels", lambda _: uris)
    monkeypatch.setattr(versions, "_FETCH", f"cp {image(tmp_path)} $OUT")
    plain, kernels = dry._result, [""]

    class Rig(dry.DryRig):
        def __init__(self, spec: RigSpec) -> None:
            super().__init__(spec)
            kernels[0] = spec.kernel or ""

    def result(name: str, options: Mapping[str, str], job: str, slow: int) -> dict[str, Any]:
        is_fast = kernels[0] in FAST or (kernels[0] not in MIRROR and git("show", f"{kernels[0]}:state") == "fast")
        return plain(name, {**options, "iodepth": "4" if is_fast else "3"}, job, slow)

    monkeypatch.setattr(dry, "DryRig", Rig)
    monkeypatch.setattr(dry, "_result", result)
    return tmp_path


def bisect(call: Call, *words: str) -> Said:
    return call("bisect", "steps.yaml", "--on", "dry", *words)


def test_commits_are_searched_after_kernels(call: Call, linux: Path) -> None:
    first = bisect(call, *SEARCH)
    assert first.status == 0, first.err
    assert "searching 4 versions, from 6.12.43 (6.12.43+deb13) to 6.18 (6.18.5+deb13)" in first.out
    assert "found: 6.17.8+deb13 changed it" in first.out
    assert "the same command then searches the commits between both" in first.out
    second = bisect(call, *SEARCH)
    assert second.status == 0, second.err
    notices = second.out + second.err
    assert "the change is between Debian's kernels 6.16.3+deb13 and 6.17.8+deb13: searching commits" in notices
    assert "v6.16.3 is on another branch than v6.17.8: the search begins at v6.16, which both have, as good" in notices
    assert "searching 5 versions, from v6.16 (" in second.out
    assert "is: commit 3 slow" in second.out
    assert "the same command" not in second.out


def test_an_interrupted_phase_continues(call: Call, linux: Path) -> None:
    assert bisect(call, *SEARCH, "--budget", "0.001s").status != 0
    assert "found: 6.17.8+deb13 changed it" in bisect(call, *SEARCH).out
    assert bisect(call, *SEARCH, "--budget", "0.001s").status != 0
    again = bisect(call, *SEARCH)
    assert "is: commit 3 slow" in again.out
    found = [load(one.path).manifest.search for one in runs(Path("results"))]
    assert sorted("fetch" in one for one in found) == [False, True], "two runs, each continued"
    assert bisect(call, *SEARCH, "--fresh", "--budget", "0.001s").status != 0
    assert "found: 6.17.8+deb13" in bisect(call, *SEARCH).out, "a new first phase continues, too"
    last = latest(runs(Path("results")))
    assert last
    assert "fetch" in last.manifest.search


def test_another_build_command_continues_with_the_second_phase(call: Call, linux: Path) -> None:
    """The first phase builds nothing."""
    assert "found: 6.17.8+deb13" in bisect(call, *SEARCH[:-1], "false", "--paths", "no-such-file").out
    assert "is: commit 3 slow" in bisect(call, *SEARCH).out


def test_each_phase_skips_its_own_versions(call: Call, linux: Path) -> None:
    done = subprocess.run(
        ["git", "-C", linux / "repo", "rev-parse", "--short=12", "v6.17.8~1"],
        check=True,
        capture_output=True,
        text=True,
    )
    commit = done.stdout.strip()
    words = (*SEARCH, "--skip", "6.16.3", "--skip", commit)
    first = bisect(call, *words)
    assert "one of 6.16.3+deb13 to 6.17.8+deb13 changed it" in first.out, first.err
    second = bisect(call, *words)
    assert "is: commit 3 slow" in second.out, second.err
    assert "--skip 6.99: " in bisect(call, *SEARCH, "--skip", "6.99").err


def test_what_would_end_the_second_phase_is_refused_before_the_first(call: Call, linux: Path) -> None:
    newer = bisect(call, *SEARCH[:2], "6.18", "--bad", "6.12.43", *SEARCH[5:])
    assert newer.status == 2
    assert "--good 6.18.5+deb13 is newer than --bad 6.12.43+deb13" in newer.err
    subprocess.run(["git", "-C", linux / "repo", "tag", "-d", "v6.18.5"], check=True, capture_output=True)
    lacking = bisect(call, *SEARCH)
    assert lacking.status == 2
    assert "--bad v6.18.5: " in lacking.err
    assert not Path("results").exists()


def test_two_packages_of_one_version_have_no_commits_between_them(
    call: Call, linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uris = {
        f"6.12.43+deb13{end}": f"http://m/linux-image_6.12.43-{at}_amd64.deb SHA256:0"
        for at, end in enumerate(["", ".1"], 1)
    }
    monkeypatch.setattr(versions, "list_kernels", lambda _: uris)
    monkeypatch.setitem(MIRROR, "6.12.43+deb13.1", "6.12.43")
    words = (*SEARCH[:2], "6.12.43+deb13", "--bad", "6.12.43+deb13.1", *SEARCH[5:])
    assert "found: 6.12.43+deb13.1 changed it" in bisect(call, *words).out
    second = bisect(call, *words)
    assert second.status == 2
    assert "are both Linux v6.12.43, so no commit of Linux changed it" in second.err


def test_kernels_of_two_runs_are_found_on_the_mirror(call: Call, linux: Path) -> None:
    """`--between` names them as `uname -r` does."""
    done = bisect(call, "--fetch", "--good", "6.12.43+deb13-amd64", "--bad", "6.18.5+deb13-amd64")
    assert "found: 6.17.8+deb13" in done.out
