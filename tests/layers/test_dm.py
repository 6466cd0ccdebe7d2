"""What may be declared of dm-crypt, dm-integrity and preconditioning, and what it comes to before anything is built."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.decide.costs import SET_UP, set_up
from matrix_runner.decide.estimate import Pace, building_of
from matrix_runner.layers import Layer
from matrix_runner.layers.bare import Precondition
from matrix_runner.layers.dm import Crypt, Integrity
from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.space.load import BadMatrix
from matrix_runner.work.workload import notes_of
from tests.support.costs import free
from tests.support.matrices import space

GIB = 1 << 30
MIB = 1 << 20
WORK = "workloads: {work: {rw: read}}\n"


def matrix(*layouts: str, size: str = "64MiB") -> str:
    listed = "".join(f"  l{number}: {layout}\n" for number, layout in enumerate(layouts))
    return f"name: dm\ndisks: {{count: 4, size: {size}}}\nlayouts:\n{listed}{WORK}"


def said(*layouts: str) -> str:
    with pytest.raises(BadMatrix) as bad:
        space(matrix(*layouts))
    return str(bad.value.details)


def problems(layer: Layer, size: int = GIB) -> list[str]:
    return [f"{one.field}: {one.message}" for one in layer.problems(Below((Shape(size),) * 2))]


@pytest.mark.parametrize(
    ("kind", "fields", "size", "wanted"),
    [
        (Crypt, {"key_size": 128}, GIB, "key_size: xts halves the key"),
        (Crypt, {"cipher": "aes-cbc-essiv:sha256", "key_size": 512}, GIB, "key_size: only xts"),
        (Crypt, {}, 16 * MIB, "format: the header of luks2 takes 16MiB, but the smallest device has 16MiB"),
        (Integrity, {"interleave": "24KiB"}, GIB, "interleave: interleave must be a power of two"),
        (Integrity, {"interleave": "2GiB"}, GIB * 4, "interleave: the kernel interleaves at most 1GiB"),
        (Integrity, {"tag_size": 8}, GIB, "tag_size: more than crc32c has, which is 4 bytes"),
        (Integrity, {"journal_size": "1GiB"}, GIB, "journal_size: needs more space"),
        (
            Precondition,
            {"how": "fill", "block_size": "2GiB"},
            GIB,
            "block_size: larger than the smallest device (1GiB)",
        ),
        (Precondition, {"how": "fill", "block_size": "1KB"}, GIB, "block_size: direct I/O needs whole sectors"),
        (Precondition, {"how": "until-steady", "window": "1h"}, GIB, "window: longer than `limit`"),
    ],
)
def test_impossible_layers_are_refused(kind: type[Layer], fields: dict[str, object], size: int, wanted: str) -> None:
    (found,) = problems(kind.model_validate(fields), size)
    assert found.startswith(wanted)


@pytest.mark.parametrize("layer", [Crypt(), Integrity(), Precondition(how="until-steady"), Precondition()])
def test_missing_keys_get_possible_defaults(layer: Layer) -> None:
    below = Below((Shape(GIB),))
    settled = layer.resolve(below)
    assert problems(layer) == problems(settled) == []
    assert settled.resolve(below) == settled


def test_two_spellings_are_one_cell() -> None:
    same = "[disk, crypt: {format: plain, key_size: 512}]", "[disk, crypt: {format: plain}]"
    assert len(space(matrix(*same)).stacks) == 1
    same = "[disk, integrity: {tag_size: 4}]", "[disk, integrity]"
    assert len(space(matrix(*same)).stacks) == 1


def test_values_of_the_wrong_kind_are_reported_with_their_place() -> None:
    told = said("[disk, crypt: {sector_size: 3KiB}]", "[disk, crypt: {cipher: 'aes; reboot'}]")
    assert "write 512B, 1KiB, 2KiB or 4KiB" in told
    assert "aes; reboot" in told
    assert "luks1 has only sectors of 512B" in said("[disk, crypt: {format: luks1, sector_size: 4KiB}]")
    assert "mode direct keeps no journal" in said("[disk, integrity: {mode: direct, journal_size: 1MiB}]")
    assert "how: fill does not wait for a steady state" in said("[disk, precondition: {how: fill, window: 10s}]")


def test_file_systems_exclude_precondition_and_noise_excludes_assume_clean() -> None:
    for below in ("crypt", "precondition: {how: fill}"):
        told = said(f"[disks, {below}, md: {{level: 1, sync: assume-clean}}]")
        assert f"assume-clean needs members that read as zeros, not {below.partition(':')[0]}" in told
    assert len(space(matrix("[disks, integrity, md: {level: 1, sync: assume-clean}]")).stacks) == 1
    assert len(space(matrix("[disks, precondition, md: {level: 1, sync: assume-clean}]")).stacks) == 1


def test_a_layer_none_is_the_same_cell_as_a_missing_layer() -> None:
    found = space(matrix("[disks, md: {level: 1}]", "[disks, precondition: {how: [none, fill]}, md: {level: 1}]"))
    assert [array.label for array in found.stacks] == ["l0", "l1/how=fill"]
    assert len(space(matrix("[precondition: {how: [none, fill]}]")).stacks) == 2


def test_stripes_show_through_encryption_and_not_through_checksums() -> None:
    striped = Below((Shape(GIB, 64 * 1024, 3),))
    (top,) = Crypt().devices_above(striped)
    assert (top.chunk, top.stripes) == (64 * 1024, 3)
    (top,) = Integrity().devices_above(striped)
    assert top.chunk is None
    assert Precondition(how="fill").devices_above(striped) == striped.devices


@given(
    st.integers(64 * MIB, 1 << 44),
    st.sampled_from(["crc32c", "sha256", "sha512"]),
    st.sampled_from([512, 4096]),
    st.integers(12, 30),
)
def test_tags_take_what_they_take_and_little_more(size: int, algorithm: Any, sector: int, interleave: int) -> None:
    layer = Integrity.model_construct(algorithm=algorithm, sector_size=sector, interleave=1 << interleave)
    (top,) = layer.devices_above(Below((Shape(size),)))
    tags = size // sector * layer.tag_bytes
    assert top.size <= size - tags * size // (size + tags) * 0.8
    # Beside the tags: the journal, a page for every area at most, and one area that is begun for its tags alone.
    spare = size // 128 + (size >> interleave) * 4096 + (tags * (1 << interleave)) // size + MIB
    assert top.size >= size - tags - spare


def test_writes_of_layers_are_in_estimate_and_deadline() -> None:
    found = space(
        matrix(
            "[disks, md: {level: 0}]",
            "[disks, integrity]",
            "[disk, precondition: {how: until-steady, limit: 20s, window: 5s}]",
        )
    )
    pace = Pace(free(MIB))
    plain, wiped, steady = (building_of(array, pace) for array in found.stacks)
    assert (plain.written, plain.least, plain.most) == (0, 0, 0)
    assert (wiped.written, wiped.least, wiped.most) == (256 * MIB, 256, 256)
    assert (steady.written, steady.least, steady.most) == (64 * MIB, 64, 84)
    first, second, third = (set_up(array.layers.value, array.disks) - SET_UP for array in found.stacks)
    assert first == 0
    assert second > 256
    assert third > 64 + 20


def test_notes_of_a_set_up() -> None:
    log = "building\nnote\tprecondition\tdiscarded\nnote\tother\tx\ty\nnote\tprecondition\tfill: 3.000 s\nnote\n"
    assert notes_of(log) == {"precondition": "discarded; fill: 3.000 s", "other": "x\ty"}
