"""The scripts of a replay: where its requests go, what fio replays, and how late they began."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.scripts.cell import cell_scripts, files_of, find_error, job, stack_scripts
from matrix_runner.scripts.jinja import render
from matrix_runner.work.replay.workload import FILE, SECTOR, placed
from tests.support.shell import complaints
from tests.support.traces import STEADY, declared, iolog

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 2**20)), min_size=1, max_size=50)


@given(requests=REQUESTS, region=st.integers(2**20, 2**42))
def test_each_request_is_within_the_region_and_aligned(requests: list[tuple[int, int]], region: int) -> None:
    for at, size in placed(requests, region):
        assert at % SECTOR == size % SECTOR == 0
        assert size > 0
        assert at + size <= region


def test_requests_that_fit_stay_where_they_are() -> None:
    assert list(placed([(8192, 4096), (4608, 512), (100, 8192), (0, 0)], 65536)) == [
        (8192, 4096),
        (4096, 4096),
        (0, 12288),
        (0, 0),
    ]


def test_a_larger_space_shrinks_in_proportion() -> None:
    half = [(0, 4096), (2**30, 4096), (2**31 - 4096, 4096)]
    assert [at for at, _ in placed(half, 2**30)] == [0, 2**29, 2**30 - 4096]


def test_sequential_requests_stay_sequential_and_known_offsets_at_their_place() -> None:
    stream = [(2**30 + at * 65536, 65536) for at in range(4)]
    found = list(placed([*stream, (2**31, 4096), stream[2], (0, 0)], 2**28))
    assert [at - found[0][0] for at, _ in found[:4]] == [0, 65536, 131072, 196608]
    assert found[5] == found[2]
    assert found[6] == (0, 0)


def test_a_stream_that_reaches_the_end_goes_on_at_the_beginning() -> None:
    found = [at for at, _ in placed([(at * 2**20, 2**20) for at in range(8)], 3 * 2**20)]
    assert found == [0, 2**20, 2 * 2**20, 0, 2**20, 2 * 2**20, 0, 2**20]


def rendered(work: str = "replay: web.log", trace: str = STEADY, layouts: str = "raw: [disk]") -> dict[str, str]:
    (cell,) = declared(work, trace, layouts).space.cells()
    scripts = stack_scripts(cell.stack, ("/dev/a", "/dev/b", "/dev/c", "/dev/d"), zeroed=True)
    return files_of(scripts, cell_scripts(cell, scripts.stack)) | {"job.fio": job(cell, scripts.stack, 7)}


def test_times_are_milliseconds_after_the_start_of_fio_and_follow_speed_and_slow_motion() -> None:
    times = [line.split()[0] for line in rendered("replay: web.log, speed: 2")["trace.txt"].splitlines()]
    lead = 1002
    assert times[:3] == [str(lead), str(lead + 5), str(lead + 10)]
    disk = "bus: sata, model: {kind: ideal}, slow: 4"
    (cell,) = declared("replay: web.log, speed: 2", disk=disk).space.cells()
    scripts = stack_scripts(cell.stack, ("/dev/a", "/dev/b", "/dev/c", "/dev/d"), zeroed=True)
    slow = cell_scripts(cell, scripts.stack)
    assert slow.files[FILE].splitlines()[1].split()[0] == str(lead + 20)
    assert "-v most=40" in slow.measure


def test_only_the_target_of_the_layout_is_named() -> None:
    files = rendered()
    assert not [name for name, text in files.items() if "sdz" in text]
    assert "replay_redirect=/dev/a\nallow_file_create=0\n" in files["job.fio"]
    assert files["job.fio"].count("[trial]\nread_iolog=replay.") == 32
    assert find_error(files["job.fio"]) == ""
    in_files = rendered("replay: web.log, size: 64MiB, iodepth: 4", layouts="f: [disk, fs: {type: ext4}]")
    assert re.search(r"replay_redirect=/\S+/trial\.0\.0\n", in_files["job.fio"])
    assert in_files["job.fio"].count("[trial]\n") == 4
    assert "size=67108864" in in_files["2-tune.sh"]


def test_the_first_job_signals_the_start_to_disks_that_fail() -> None:
    layouts = "raw: [disk]}\nfaults: [{disk: 0, at: 100ms, kind: slow, times: 2}]\n#"
    (cell,) = declared(layouts=layouts, disk="model: nas-7200").space.cells()
    made = job(cell, stack_scripts(cell.stack, ("/dev/a", "/dev/b", "/dev/c", "/dev/d"), zeroed=True).stack, 7)
    first, _, others = made.partition("[trial]\nread_iolog=replay.1.log\n")
    assert first.count("exec_prerun=") == 1
    assert "exec_prerun" not in others


def test_scripts_are_clean() -> None:
    assert complaints(text for name, text in rendered().items() if name.endswith(".sh")) == ""


@pytest.fixture
def replayed(tmp_path: Path) -> dict[str, int | float]:
    """Replay a trace on a file, with the commands of the script."""
    files = rendered(
        "replay: web.log, iodepth: 4",
        iolog(
            (at * 2000, ("read", "write", "read", "sync", "write")[at % 5], at * 4096, 0 if at % 5 == 3 else 4096)
            for at in range(100)
        ),
    )
    (tmp_path / "disk").write_bytes(bytes(256 * 2**20))
    (tmp_path / "trace.txt").write_text(files["trace.txt"])
    job_file = files["job.fio"].replace("/dev/a", str(tmp_path / "disk")).replace("direct=1", "direct=0")
    (tmp_path / "job.fio").write_text(job_file)
    script = files["4-measure.sh"]
    begin, end = script.index("# The trace as iologs"), script.index("# Its output must not mix")
    late = script[script.index("# How late the requests began") :]
    late = late[: late.index("}'") + 2]
    body = f'confined() {{ "$@"; }}\noutput=fio.json\nstatus=0\n{script[begin:end]}{late}\n'
    done = subprocess.run(["bash", "-euc", body], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    report: dict[str, int | float] = json.loads(done.stdout.removeprefix("replay\t"))
    return report | {"bytes": _moved(tmp_path)}


def _moved(folder: Path) -> int:
    (group,) = json.loads((folder / "fio.json").read_text())["jobs"]
    assert [group[side]["total_ios"] for side in ("read", "write")] == [40, 40]
    assert group["read"]["lat_ns"]["N"] == 40
    return int(group["read"]["io_bytes"] + group["write"]["io_bytes"])


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_fio_replays_each_request_once_and_the_script_finds_its_time(replayed: dict[str, int | float]) -> None:
    assert replayed["requests"] == 80
    assert replayed["bytes"] == 80 * 4096
    # The trace lasts 198 ms. On a busy host the replay may take longer, never much less.
    assert replayed["seconds"] > 0.19
    assert replayed["late"] <= 80


HEAD = "fio version 2 iolog\ntrace add\ntrace open\n"
FIRST = f"{HEAD}trace wait 1000 0\ntrace read 0 4096\ntrace sync 0 0\ntrace wait 1200 0\ntrace write 0 4096\n"
SECOND = f"{HEAD}trace wait 1050 0\ntrace read 0 4096\n"


@pytest.mark.parametrize(("slow", "late"), [(1, 1), (4, 0)])
def test_a_request_is_late_against_the_first_one_on_time_of_its_job(tmp_path: Path, slow: int, late: int) -> None:
    logs = ("400, 5000000, 0, 4096, 0\n650, 30000000, 1, 4096, 0\n", "430, 1000000, 0, 4096, 0\n")
    for number, (asked, log) in enumerate(zip((FIRST, SECOND), logs, strict=True)):
        (tmp_path / f"replay.{number}.log").write_text(asked)
        (tmp_path / f"replay_lat.{number + 1}.log").write_text(log)
    script = render("replay-late.sh", None, title="", work=SimpleNamespace(iodepth=2), slow=slow)
    done = subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("replay\t")
    # The first job began at 395 ms of its clock what was due at 1000 ms, and at 620 ms what was due at 1200 ms.
    found = json.loads(done.stdout.removeprefix("replay\t"))
    assert found == {"requests": 3, "late": late, "worst": 0.025, "seconds": 0.255}
