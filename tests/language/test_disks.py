"""Disks as they are declared."""

import math
from itertools import pairwise
from pathlib import Path

import pytest

from matrix_runner.machines.rig_specs import simulated_disk_facts
from matrix_runner.simdisks.disk import Link, links_of
from matrix_runner.space.load import BadMatrix, disk_model, load
from tests.support.matrices import SMALL, space

MODEL = "{kind: volume, iops: 80}"
BARE = "disks: {count: 4, size: 64MiB"
MIXED = """\
disks:
  - {count: 2, size: 64MiB, bus: sata, model: st3320620as}
  - {count: 1, size: 128MiB, model: {kind: ssd, read_latency: 80us, write_latency: 25us, channels: 8, bandwidth: 520MB/s}}
  - {count: 1, size: 64MiB}
bus_limit: {pci: {disks: [0, 2], bandwidth: 133MB/s}}
"""


def mixed() -> str:
    (line,) = [line for line in SMALL.splitlines(keepends=True) if line.startswith("disks:")]
    return SMALL.replace(line, MIXED)


def test_sets_of_disks_are_numbered_in_their_order() -> None:
    disks = space(mixed()).matrix.every_disk()
    assert [(disk.size >> 20, disk.bus, disk.physics.kind if disk.physics else None) for disk in disks] == [
        *((64, "sata", "hdd"), (64, "sata", "hdd"), (128, "virtio", "ssd"), (64, "virtio", None))
    ]
    assert links_of(disks) == (Link("pci", 133e6),)
    assert [bool(disk.link) for disk in disks] == [True, False, True, False]


def test_the_platters_of_two_disks_do_not_turn_in_step_but_the_same_each_time() -> None:
    one, other = (disk.physics for disk in space(mixed()).matrix.every_disk()[:2])
    assert one != other
    assert (one, other) == tuple(disk.physics for disk in space(mixed()).matrix.every_disk()[:2])
    reseeded = space(mixed().replace("name: small", "name: small\nseed: 2")).matrix.every_disk()
    assert reseeded[0].physics != one


def test_a_model_makes_another_cell_and_its_name_does_not() -> None:
    assert BARE in SMALL
    plain, modelled, named = (
        {cell.id for cell in space(SMALL.replace(BARE, f"{BARE}{more}")).cells()}
        for more in ("", f", model: {MODEL}", ", model: cloud-80iops")
    )
    assert not plain & modelled
    assert modelled == named


def test_a_model_of_the_users_own_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("kind: hdd\nouter: 100MB/s\ninner: 50MB/s\nzones: 3\n")
    (tmp_path / "matrix.yaml").write_text(SMALL.replace(BARE, f"{BARE}, model: ./mine.yaml"))
    physics = load(tmp_path / "matrix.yaml").space.matrix.every_disk()[0].physics
    assert physics is not None
    assert physics.zones == ((1 / 3, 100e6), (2 / 3, 75e6), (1.0, 50e6))
    assert physics.rotation == 7200
    (tmp_path / "mine.yaml").write_text("kind: hdd\nouter: fast\n")
    with pytest.raises(BadMatrix) as error:
        load(tmp_path / "matrix.yaml")
    ((place, message),) = error.value.places
    assert (Path(place.file).name, place.line, place.column) == ("mine.yaml", 2, 8)
    assert message == "'fast': not a rate; write it like 50MiB/s"


SSD = "{kind: ssd, read_latency: 80us, write_latency: 25us, channels: 8, bandwidth: 520MB/s"


def of_model(model: str) -> str:
    return SMALL.replace(BARE, f"{BARE}, model: {model}")


def test_a_fitted_model_is_marked_and_keeps_its_cell_ids() -> None:
    plain, fitted = (space(of_model(f"{SSD}{more}}}")) for more in ("", ", fitted_to: mine"))
    (disk, *_) = fitted.matrix.every_disk()
    assert simulated_disk_facts(disk).fitted_to == "mine"
    assert [cell.id for cell in plain.cells()] == [cell.id for cell in fitted.cells()]


def test_an_ssd_without_a_write_cache_needs_the_time_of_a_write() -> None:
    with pytest.raises(BadMatrix, match="`flush` is missing"):
        space(of_model(f"{SSD}, write_cache: false}}"))
    (disk, *_) = space(of_model(f"{SSD}, write_cache: false, flush: 1ms}}")).matrix.every_disk()
    assert disk.physics
    assert dict(disk.physics.numbers)["write_latency"] == 0.001


def test_every_model_that_comes_with_it_names_itself_and_its_source() -> None:
    from matrix_runner.space.includes import models

    assert {"st3320620as", "nas-7200", "sata-ssd", "cloud-80iops"} <= set(models())
    for name in models():
        model = disk_model(name)
        assert model.name == name
        assert model.source


@pytest.mark.parametrize("seed", [1, 7, 20261122, 20261122235959, 2**53 + 1, 2**63 - 1])
def test_no_two_platters_turn_in_step_however_large_the_seed(seed: int) -> None:
    """Of twenty-six numbers in a row, parts of the golden ratio lie at least a sixtieth of a turn apart."""
    of_one_kind = "disks: {count: 26, size: 64MiB, model: st3320620as}\n"
    text = "".join(of_one_kind if line.startswith("disks:") else f"{line}\n" for line in SMALL.splitlines())
    disks = space(text.replace("name: small", f"name: small\nseed: {seed}")).matrix.every_disk()
    phases = sorted(dict(disk.physics.numbers)["phase"] for disk in disks if disk.physics)
    assert len(phases) == 26
    assert min(late - early for early, late in pairwise([*phases, phases[0] + 1])) > 1 / 60
    if seed < 2**26:
        assert phases == sorted(math.fmod((1000 * seed + at) * (math.sqrt(5) - 1) / 2, 1) for at in range(26))


@pytest.mark.parametrize(
    ("disks", "message"),
    [
        ("{count: 4, size: 64MiB, slow: 4}", "add a `model`"),
        ("[{count: 1, size: 64MiB, model: nas-7200, slow: 4}, {count: 3, size: 64MiB, model: nas-7200}]", "4 and auto"),
        ("[{count: 1, size: 64MiB, model: nas-7200, slow: 4}, {count: 3, size: 64MiB}]", "1 and 4"),
        ("{count: 4, size: 64MiB, model: nas-7200, slow: 65}", "'65': neither a whole number from 1 to 64 nor auto"),
        ("{count: 4, size: 64MiB, model: nas-7200, slow: true}", "neither a whole number from 1 to 64 nor auto"),
        (
            "[{count: 1, size: 64MiB, model: nas-7200, slow: auto}, {count: 3, size: 64MiB, model: nas-7200, slow: 1}]",
            "1 and auto",
        ),
    ],
)
def test_disks_of_one_machine_are_slowed_down_alike_and_need_a_model(disks: str, message: str) -> None:
    with pytest.raises(BadMatrix, match=message):
        space(SMALL.replace("{count: 4, size: 64MiB}", disks))


@pytest.mark.parametrize(
    ("disks", "chooses"),
    [
        ("{count: 4, size: 64MiB}", False),
        ("{count: 4, size: 64MiB, model: nas-7200}", True),
        ("{count: 4, size: 64MiB, model: nas-7200, slow: auto}", True),
        ("{count: 4, size: 64MiB, model: nas-7200, slow: 1}", False),
        ("[{count: 1, size: 64MiB, model: nas-7200}, {count: 3, size: 64MiB}]", False),  # these have no clock
    ],
)
def test_simulated_disks_are_in_slow_motion_as_the_host_needs_it(disks: str, chooses: bool) -> None:
    matrix = space(SMALL.replace("{count: 4, size: 64MiB}", disks)).matrix
    assert matrix.chooses_slow == chooses
    assert {disk.slow for disk in matrix.every_disk()} == {1}


def test_only_a_factor_changes_the_ids_of_cells() -> None:
    def ids(disks: str) -> list[str]:
        return [one.id for one in space(SMALL.replace("{count: 4, size: 64MiB}", disks)).cells()]

    usual = ids("{count: 4, size: 64MiB, model: nas-7200}")
    assert ids("{count: 4, size: 64MiB, model: nas-7200, slow: 1}") == usual
    assert set(ids("{count: 4, size: 64MiB, model: nas-7200, slow: 2}")).isdisjoint(usual)


def test_a_small_disk_that_stands_for_a_large_one_has_a_small_cache() -> None:
    def numbers(disk: str, *names: str) -> set[tuple[float, ...]]:
        (found,) = space(SMALL.replace(BARE, f"{disk}, model: nas-7200")).matrix.disks
        every = [dict(one.physics.numbers) for one in found.each(1) if one.physics]
        return {tuple(one[name] for name in names) for one in every}

    cached = ("write_cache", "read_ahead", "segments")
    assert numbers(BARE, *cached) == {(128 * 1024**2, 2 * 1024**2, 32)}
    assert numbers(f"{BARE}, stands_for: 4TB", *cached) == {(2 * 1024**2, 512 * 1024, 4)}


def test_only_simulated_disks_stand_for_others() -> None:
    assert (
        space(SMALL.replace(BARE, f"{BARE}, stands_for: 4TB, model: nas-7200")).matrix.disks[0].stands_for == 4 * 10**12
    )
    with pytest.raises(BadMatrix, match="`stands_for` is of simulated disks"):
        space(SMALL.replace(BARE, f"{BARE}, stands_for: 4TB"))
    with pytest.raises(BadMatrix, match="`stands_for` is smaller than `size`"):
        space(SMALL.replace(BARE, f"{BARE}, stands_for: 1MiB, model: nas-7200"))
