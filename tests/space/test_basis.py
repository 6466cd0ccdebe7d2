"""The digests that decide whether the figures of a study are still those of today."""

from pathlib import Path

import pytest

from matrix_runner.simdisks import clib
from matrix_runner.space import basis
from matrix_runner.space.basis import Basis, MeasuredPage, MeasuredRun, basis_of
from tests.support.matrices import space

MATRIX = """\
name: one
disks: {count: 1, size: 1GiB, model: sata-ssd}
layouts: {raw: [disk]}
workloads: {work: {rw: read, runtime: 1s}}
"""


def of(text: str) -> Basis:
    return basis_of(space(text).matrix)


def test_comments_texts_and_the_number_of_trials_change_no_figure() -> None:
    other = "# measured in May\n" + MATRIX.replace("name: one", "name: two\ndescription: a test") + "repeat: 9\n"
    assert of(other) == of(MATRIX)


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("rw: read", "rw: randread", ("matrix",)),
        ("sata-ssd", "nvme-ssd", ("disk models",)),
        ("count: 1", "count: 2", ("disk models", "matrix")),
        ("size: 1GiB", "size: 2GiB, slow: 2", ("matrix",)),
    ],
)
def test_it_names_what_differs(old: str, new: str, changes: tuple[str, ...]) -> None:
    assert of(MATRIX.replace(old, new)).changes(of(MATRIX)) == changes


def test_the_seed_of_platters_is_part_of_the_matrix_only() -> None:
    hdd = MATRIX.replace("sata-ssd", "nas-7200")
    assert of(hdd + "seed: 2\n").changes(of(hdd)) == ("matrix",)


def test_each_change_of_the_sources_changes_the_physics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = of(MATRIX)
    for source in clib.sources():
        (tmp_path / source.name).write_text(source.read_text())
    monkeypatch.setattr(clib, "SOURCES", tmp_path)
    basis._physics.cache_clear()
    assert of(MATRIX) == before
    sharing = MATRIX + "bus_limit: {pci: {disks: [0], bandwidth: 1MB/s}}\n"
    shared = of(sharing)
    for file, texts in (("bus.c", [sharing]), ("ftl.h", [MATRIX, sharing])):
        with (tmp_path / file).open("a") as stream:
            stream.write("\n")
        basis._physics.cache_clear()
        changed = [text for text, old in ((MATRIX, before), (sharing, shared)) if of(text).changes(old) == ("physics",)]
        assert changed == texts
        before, shared = of(MATRIX), of(sharing)
    basis._physics.cache_clear()


def test_a_page_of_several_runs_is_as_old_as_the_oldest() -> None:
    now = of(MATRIX)
    old = MeasuredRun(name="a", started="2026-01-02", basis=now.model_copy(update={"models": ""}))
    new = MeasuredRun(name="b", started="2026-02-02", basis=now)
    assert MeasuredPage(runs=(new,)).changes(now) == ()
    assert MeasuredPage(runs=(new, old)).changes(now) == ("disk models",)
    assert MeasuredPage(runs=(new, old)).age == ("2026-01-02", "2026-02-02")
