"""Notes on tunables that change nothing for what is measured."""

from __future__ import annotations

import pytest

from matrix_runner.space.select import Shard, select, sharded
from tests.support.matrices import space

TEXT = """\
name: m
disks: {{count: 4, size: 1GiB, bus: {bus}}}
layouts: {{a: [{layout}]}}
tune: {{{tune}}}
workloads:
  one: {{rw: randread, {one}}}
  two: {{rw: write, {two}}}
"""


def notes(
    tune: str, one: str = "bs: 4KiB", two: str = "bs: 4KiB", layout: str = "md: {level: 5}", bus: str = "sata"
) -> list[str]:
    found = space(TEXT.format(tune=tune, one=one, two=two, layout=layout, bus=bus)).notes
    return [note for note in found if "has no effect" in note or "are the same" in note]


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        ("readahead: [default, 4MiB]", "readahead has no effect on any workload: it acts on buffered reads only"),
        ("md: {readahead: 4MiB}", "md.readahead has no effect on any workload: it acts on buffered reads only"),
        ("vm: {dirty_ratio: 5}", "vm.dirty_ratio has no effect on any workload: it acts on buffered writes only"),
        ("vm: {swappiness: 5}", "vm.swappiness has no effect on any workload: it acts on buffered I/O only"),
        (
            "vm: {vfs_cache_pressure: 5}",
            "vm.vfs_cache_pressure has no effect on any workload: it acts on file systems",
        ),
        ("wbt_lat_usec: 5", "wbt_lat_usec has no effect on any workload: it acts on buffered writes only"),
    ],
)
def test_tunables_of_the_page_cache_do_not_affect_direct_work(tune: str, said: str) -> None:
    (note,) = notes(tune)
    assert note.startswith(said)
    assert not [note for note in notes(tune, "direct: false", "direct: false") if "any workload" in note]


def test_values_that_measure_the_same_are_counted() -> None:
    (note,) = notes("readahead: [default, 1MiB, 4MiB]", "direct: false", "direct: false")
    assert note.startswith("readahead has no effect on workload two: ")
    assert note.endswith("; its 3 values give the same result")
    assert not notes("readahead: 4MiB", "direct: false"), "one value costs nothing"


@pytest.mark.parametrize(
    ("tune", "two", "layout"),
    [
        ("readahead: default", "bs: 4KiB", "md: {level: 5}"),
        ("readahead: [default, 4MiB]", "direct: false, ioengine: mmap", "md: {level: 5}"),
        ("vm: {vfs_cache_pressure: 5}", "bs: 4KiB", "md: {level: 5}, fs: {type: ext4}"),
        ("vm: {dirty_ratio: 5}", "new: true, size: 64MiB", "md: {level: 5}, fs: {type: ext4}"),
        ("nr_requests: 64", "bs: 4KiB", "md: {level: 5}"),
    ],
)
def test_tunables_with_effect_have_no_note(tune: str, two: str, layout: str) -> None:
    assert not [note for note in notes(tune, "bs: 4KiB", two, layout) if "any workload" in note]


@pytest.mark.parametrize(
    ("values", "bus", "told"),
    [
        ("[default, none]", "nvme", True),
        ("[default, none, bfq]", "virtio", True),
        ("[default, none]", "sata", False),
        ("[default, mq-deadline]", "nvme", False),
        ("none", "nvme", False),
    ],
)
def test_a_scheduler_that_is_the_default_is_mentioned(values: str, bus: str, told: bool) -> None:
    found = notes(f"scheduler: {values}", bus=bus)
    assert found == (
        [f"scheduler: default and none are the same for disks on {bus}: none is the kernel's default"] if told else []
    )


def test_the_declared_bus_does_not_describe_physical_disks() -> None:
    text = TEXT.format(
        tune="scheduler: [default, none]", one="bs: 4KiB", two="bs: 4KiB", layout="md: {level: 5}", bus="nvme"
    )
    chosen = select(space(text))
    for one in (chosen, sharded(chosen, Shard(1, 1))):
        assert any("are the same" in note for note in one.notes())
        assert not any("are the same" in note for note in one.notes(simulated=False))
    assert not any("are the same" in note for note in space(f"{text}needs: {{disks: {{count: 4}}}}\n").notes)


@pytest.mark.parametrize(
    ("one", "count", "names"),
    [
        ("bs: 4KiB, size: 64MiB", 4, "one"),
        ("bs: 4KiB, size: 64MiB, numjobs: 2", 4, "one"),
        ("bs: 4KiB, size: 64MiB, numjobs: 16", 4, ""),
        ("bs: 4KiB, size: [64MiB, 2GiB]", 4, ""),
        ("bs: 4KiB, size: 64MiB", 1, ""),
        ("bs: 4KiB", 4, ""),
    ],
)
def test_work_that_the_caches_of_the_disks_hold_is_mentioned(one: str, count: int, names: str) -> None:
    text = TEXT.format(
        tune="", one=one, two="bs: 1MiB, size: 2GiB", layout="md: {level: 0}, fs: {type: ext4}", bus="sata"
    )
    text = text.replace("count: 4, size: 1GiB", f"count: {count}, size: 4GiB").replace(
        "bus: sata", "bus: sata, model: {kind: hdd, rpm: 7200, outer: 200MB/s, cache: 32MiB}"
    )
    if count == 1:
        text = text.replace("md: {level: 0}", "disk")
    found = space(text.replace("tune: {}\n", "")).remarks
    held = [note.text for note in found if "caches" in note.text]
    assert [f"workload {names};" in note for note in held] == [True] * bool(names)
    assert all("hold up to 128MiB" in note for note in held)
    assert all(note.simulated for note in found if "caches" in note.text)
