from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.records.files import LAST_COMMIT
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import RunFolder, _held, create, load, run_folders, runs
from tests.support.begun_runs import manifest


def test_a_new_run_has_a_readable_name_its_matrix_and_its_manifest(tmp_path: Path) -> None:
    run = create(tmp_path / "results", manifest())
    assert run.path == tmp_path / "results" / "chunk-sweep-qemu-20260304-050607"
    assert sorted(path.name for path in run.path.iterdir()) == ["manifest.json", "matrix.yaml"]
    assert (run.path / "matrix.yaml").read_text() == manifest().text
    assert load(run.path) == run == RunFolder(run.path, manifest())


def test_a_name_of_its_own(tmp_path: Path) -> None:
    assert create(tmp_path, manifest(), "nightly").path.name == "nightly"


def test_runs_of_one_second_do_not_share_a_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: create(tmp_path, manifest()), range(8)))
    names = sorted(run.path.name for run in runs)
    assert names == [f"chunk-sweep-qemu-20260304-050607{suffix}" for suffix in ("", *(f"-{n}" for n in range(2, 9)))]


def test_a_matrix_name_cannot_lead_out_of_the_results(tmp_path: Path) -> None:
    run = create(tmp_path / "results", manifest(matrix="../../etc", machine="a b/c"))
    assert run.path.parent == tmp_path / "results"
    assert run.path.name == "_.._etc-a_b_c-20260304-050607"


def test_a_long_matrix_name_keeps_the_date(tmp_path: Path) -> None:
    assert create(tmp_path, manifest(matrix="x" * 400)).path.name.endswith("-qemu-20260304-050607")


def test_a_manifest_is_updated_in_place(tmp_path: Path) -> None:
    run = create(tmp_path, manifest())
    assert run.update_manifest(finished=True) == RunFolder(run.path, manifest(finished=True))
    assert load(run.path).manifest.finished


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 3}', '{"format": 2}', '{"format": 1}'])
def test_an_unreadable_manifest_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(BadInput, match="is not a manifest of this version") as caught:
        load(tmp_path)
    assert caught.value.details
    assert LAST_COMMIT in (caught.value.resolution or "")


@pytest.mark.parametrize("id_", ["\0", "a b", "../x", "ä"])
def test_a_run_has_an_id_that_each_store_can_hold(tmp_path: Path, id_: str) -> None:
    run = create(tmp_path, manifest())
    (run.path / "manifest.json").write_text(json.dumps({**manifest().model_dump(mode="json"), "id": id_}))
    with pytest.raises(BadInput, match="is not a manifest of this version"):
        load(run.path)


@pytest.mark.parametrize(
    "started", ["", "x", "2026-02-30T00:00:00+00:00", "20260304T050607", "0001-01-01T00:00:00+14:00", "2026-03-04\0"]
)
def test_a_run_began_at_a_time_that_each_page_can_show(tmp_path: Path, started: str) -> None:
    run = create(tmp_path, manifest())
    (run.path / "manifest.json").write_text(json.dumps({**manifest().model_dump(mode="json"), "started": started}))
    with pytest.raises(BadInput, match="is not a manifest of this version"):
        load(run.path)


@pytest.mark.parametrize("field", ["planned", "least", "most", "exit"])
def test_a_number_is_one_that_each_store_can_hold(tmp_path: Path, field: str) -> None:
    run = create(tmp_path, manifest())
    (run.path / "manifest.json").write_text(json.dumps({**manifest().model_dump(mode="json"), field: 2**63}))
    with pytest.raises(BadInput, match="is not a manifest of this version"):
        load(run.path)


def test_a_foreign_manifest_hides_no_other_run(tmp_path: Path) -> None:
    run = create(tmp_path, manifest())
    for name in ("large", "link"):
        (tmp_path / name).mkdir()
    (tmp_path / "large/manifest.json").touch()
    os.truncate(tmp_path / "large/manifest.json", 1 << 36)
    (tmp_path / "link/manifest.json").symlink_to("manifest.json")
    assert list(runs(tmp_path)) == [run]
    with pytest.raises(BadInput, match="is not a manifest of this version"):
        load(tmp_path / "large")


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not the folder of a run"):
        load(tmp_path)


def test_a_change_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    run = create(tmp_path, manifest())
    with pytest.raises(ValueError, match="planned"):
        run.update_manifest(planned=-1)
    assert load(run.path) == run


def test_a_second_runner_sees_the_process_of_the_first(tmp_path: Path) -> None:
    run = create(tmp_path, manifest())
    with run.locked(), pytest.raises(BadInput, match=f"in use by process {os.getpid()}") as caught, run.locked():
        pass
    assert "--fresh" in caught.value.resolution
    with run.locked():
        pass


_HOLD = """
import sys
from pathlib import Path
from matrix_runner.records.run_folder import load
with load(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_killed_runner_lets_go(tmp_path: Path) -> None:
    run = create(tmp_path, manifest())
    argv = [sys.executable, "-c", _HOLD, str(run.path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BadInput, match=f"in use by process {holder.pid}"), run.locked():
            pass
        holder.send_signal(signal.SIGKILL)
    with run.locked():
        assert (run.path / ".lock").read_text().startswith(f"{os.getpid()} on ")


def test_locking_a_folder_removes_leftovers_of_a_kill(tmp_path: Path) -> None:
    run = create(tmp_path, manifest())
    (run.path / ".junit.xml.1234.new").write_text("<")
    with run.locked():
        assert not (run.path / ".junit.xml.1234.new").exists()


def test_a_manifest_of_somebody_else_is_not_said_to_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create(tmp_path, manifest())

    def denied(path: Path, *_: object) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("matrix_runner.records.run_folder.read_input", denied)
    with pytest.raises(BadInput, match=f"^no access to {run.path}/manifest.json\n"):
        load(run.path)


def test_errors_inside_the_lock_are_passed_on(tmp_path: Path) -> None:
    run = create(tmp_path, manifest())
    with pytest.raises(PermissionError, match="of the caller"), run.locked():
        raise PermissionError(13, "of the caller")


def test_the_journal_lies_in_the_folder(tmp_path: Path) -> None:
    run = create(tmp_path, manifest())
    with Journal.open(run.journal) as journal:
        assert journal.recorded_identities() == set()
    assert run.journal.parent == run.path


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("moment", range(1, 6))
def test_a_run_killed_at_its_creation_leaves_no_folder(tmp_path: Path, moment: int) -> None:
    child = os.fork()
    if child == 0:
        try:
            create_until(tmp_path, moment)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert all((folder / "manifest.json").is_file() for folder in run_folders(tmp_path))
    run = create(tmp_path, manifest(matrix="next"))
    assert run.path in tmp_path.iterdir()
    assert {load(folder).manifest.matrix for folder in tmp_path.iterdir()} <= {"chunk-sweep", "next"}


def create_until(results: Path, moment: int) -> None:
    """Make a run in a process that kills itself the n-th time that something is made durable."""
    left, sync = [moment], os.fsync

    def killing(fd: Any) -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(fd)

    os.fsync = killing
    create(results, manifest())


def test_a_run_under_creation_is_not_listed_and_stays(tmp_path: Path) -> None:
    half = tmp_path / ".0123.half"
    half.mkdir()
    (half / "manifest.json").write_text("{")
    with _held(half) as held:
        assert held
        run = create(tmp_path, manifest())
        assert run_folders(tmp_path) == [run.path]
        assert half.exists()
    create(tmp_path, manifest())
    assert not half.exists()


def test_a_run_without_room_leaves_no_folder(tmp_path: Path) -> None:
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, most))
    try:
        with pytest.raises(HarnessBroken, match="limit of a file's size"):
            create(tmp_path, manifest())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
    assert list(tmp_path.iterdir()) == []
