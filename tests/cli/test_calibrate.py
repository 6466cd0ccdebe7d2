"""`matrix disks calibrate`: from results of fio to a model file that a matrix can use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson
import pytest

from matrix_runner.simdisks.clib import build_library, load_library
from matrix_runner.simdisks.loop import PERCENTILES, Host, Pattern, simulate
from matrix_runner.space.load import disk_model

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Random reads of a shipped model, as fio's JSON."""
    library, folder = load_library(asyncio.run(build_library())), tmp_path / "fio"
    folder.mkdir()
    for depth in (1, 2, 4, 8, 16, 32):
        physics = disk_model("sata-ssd").physics(1)
        found = simulate(library, physics, Host(10**11, 1e-5), Pattern(depth, 1.0), 1e9, 5000)["read"]
        latencies = {
            "N": 5000,
            "mean": found.mean * 1e9,
            "min": 1,
            "max": found.longest * 1e9,
            "percentile": {f"{at:.6f}": value * 1e9 for at, value in zip(PERCENTILES, found.percentiles, strict=True)},
        }
        rate = int(found.iops * 4096)
        moved = {"io_bytes": 5000 * 4096, "total_ios": 5000, "lat_ns": latencies}
        side = {"iops": found.iops, "bw": rate // 1024, "bw_bytes": rate, "runtime": 15000, **moved}
        options = {"rw": "randread", "bs": "4k", "iodepth": str(depth), "ioengine": "libaio", "direct": "1"}
        times = {"usr_cpu": 1.0, "sys_cpu": 1.0, "job_runtime": 15000}
        job = {"jobname": "read", "groupid": 0, "error": 0, "job options": options, "read": side, **times}
        (folder / f"read-{depth}.json").write_bytes(orjson.dumps({"fio version": "fio-3.33", "jobs": [job]}))
    (folder / "other.json").write_text("{}")
    return folder


def test_a_folder_becomes_a_model_that_states_what_it_is(call: Call, results: Path, tmp_path: Path) -> None:
    end = call("disks", "calibrate", "--from", str(results), "--to", "mine.yaml")
    assert end.status == 0, end.err
    assert "1 left out: files that are no JSON of fio" in end.err
    assert "read_latency" in end.out
    assert "random reads of 4KiB, depth 16" in end.out
    assert "Writes were not measured" in " ".join(end.out.split())
    model = disk_model(str(tmp_path / "mine.yaml"))
    assert (model.name, model.kind) == ("mine", "ssd")
    assert model.fitted_to is not None
    assert model.fitted_to.startswith("fio on 20")
    assert "Not identified: " in (model.source or "")


def test_a_file_is_replaced_only_by_force(call: Call, results: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("kept")
    end = call("disks", "calibrate", "--from", str(results), "--to", str(mine))
    assert (end.status, mine.read_text()) == (2, "kept")
    assert "mine.yaml exists" in end.err
    assert call("disks", "calibrate", "--from", str(results), "--to", str(mine), "--force").status == 0
    assert mine.read_text() != "kept"


def test_a_folder_without_a_useful_job_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none/one.json").write_text("{}")
    end = call("disks", "calibrate", "--from", str(tmp_path / "none"), "--to", str(tmp_path / "mine.yaml"))
    assert end.status == 2
    assert "has no job that shows a disk" in end.err
    assert not (tmp_path / "mine.yaml").exists()


def test_a_synthetic_run_is_refused(call: Call, tmp_path: Path) -> None:
    text = (
        "name: one\ndisks: {count: 1, size: 1GiB}\nlayouts: {one: [disk]}\nworkloads: {any: {rw: read, runtime: 1s}}\n"
    )
    (tmp_path / "one.yaml").write_text(text)
    assert call("run", "--on", "dry", "one.yaml").status == 0
    (run,) = (one.parent for one in (tmp_path / "results").glob("*/manifest.json"))
    end = call("disks", "calibrate", "--from", str(run), "--to", "mine.yaml")
    assert end.status == 2
    assert "is synthetic, so it shows no disk" in end.err
