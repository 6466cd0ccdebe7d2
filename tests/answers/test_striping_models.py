"""The disks of the studies of striping do by themselves what one disk did there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from matrix_runner.simdisks.clib import build_library, load_library
from matrix_runner.space.load import disk_model
from tests.support.closed_loop import Job, predict_rate

MATRIX = Path(__file__).parents[2] / "matrix"


def rate(model: str, job: Job, size: int = 64 << 30, seconds: float = 4.0) -> float:
    physics = disk_model(str(MATRIX / model)).physics(1)
    return predict_rate(load_library(asyncio.run(build_library())), physics, size, job, ramp=0.0, seconds=seconds).bytes


def test_one_disk_takes_as_long_for_its_first_100_gib_as_it_did() -> None:
    """1364 s for 107.4 of its 320 GB; on a disk that is a hundredth as large, a hundredth of that."""
    job = Job("read", 1 << 20, 8, random=False, first=0.0, last=0.34)
    assert rate("models/st3320620as.yaml", job, 3_200_720_896, 13.64) * 13.64 == pytest.approx(1.0737e9, rel=0.01)
