"""The disks of the studies do by themselves what their sources say of one disk, and nothing in them is from an array."""

import asyncio
from pathlib import Path

import pytest

from matrix_runner.simdisks.clib import build_library, load_library
from matrix_runner.space.load import disk_model
from tests.support.closed_loop import Job, predict_rate

STUDIES = Path(__file__).parents[2] / "matrix" / "studies"
MB, MIB = 10**6, 1 << 20
#: What a single disk read at, at its beginning.
TOLD = {
    "raid-wiki/ultrastar-a7k1000.yaml": 82 * MB,
    "raid-wiki/davidsen/seagate-320.yaml": 54 * MB,
    "raid-wiki/pci/sata-2008.yaml": 80 * MB,
    "raid-wiki/martin/sata-90.yaml": 90 * MB,
    "raid-wiki/tuned/wd20ears.yaml": 110 * MB,
    "raid-wiki/tuned/hd204ui.yaml": 144 * MB,
    "raid-wiki/howto/ultrastar-9es.yaml": 13 * MB,
    "st3320620as": 77 * MIB,
}
#: Of the multi-zone study's disk: after 500 s, after 1000 s, and at the end.
PLACES = {0.13: 75, 0.26: 73, 0.95: 77 / 2}


def rate(model: str, job: Job) -> float:
    """Bytes a second, on a disk of 64 GiB, which is large enough for nothing to be read twice."""
    physics = disk_model(str(STUDIES / model) if model.endswith(".yaml") else model).physics(1)
    return predict_rate(load_library(asyncio.run(build_library())), physics, 64 << 30, job, ramp=0.5, seconds=20).bytes


def reading(place: float = 0.0, share: float = 0.04) -> Job:
    return Job("read", MIB, 8, random=False, first=place, last=place + share)


@pytest.mark.parametrize("model", TOLD)
def test_one_disk_reads_at_its_published_rate(model: str) -> None:
    assert rate(model, reading()) == pytest.approx(TOLD[model], rel=0.02)


@pytest.mark.parametrize("place", PLACES)
def test_zones_match_the_published_disk(place: float) -> None:
    assert rate("st3320620as", reading(place)) == pytest.approx(PLACES[place] * MIB, rel=0.02)


def test_random_requests_of_the_wiki_match_one_disk() -> None:
    """34 MB/s of one disk, of which eight requests are under way in files that are a tenth of it."""
    job = Job("read", 256 << 10, 8, random=True, first=0, last=0.1)
    assert rate("raid-wiki/ultrastar-a7k1000.yaml", job) == pytest.approx(34 * MB, rel=0.1)


def test_every_model_of_these_studies_is_looked_at() -> None:
    found = {path.relative_to(STUDIES) for path in STUDIES.glob("raid-wiki/**/*.yaml")}
    models = {str(path) for path in found if "kind:" in (STUDIES / path).read_text()}
    assert models | {"st3320620as"} == set(TOLD)
