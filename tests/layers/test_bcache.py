"""What may be declared of bcache, and what its scripts do, before anything is built."""

from __future__ import annotations

import pytest

from matrix_runner.layers.bcache import Bcache, BcacheView, readable
from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.scripts.recommended_commands import recommended_script
from matrix_runner.space.load import BadMatrix
from tests.support.matrices import space

PARTED = """\
name: cached
disks: {hdd: {count: 4, size: 1GiB}, ssd: {count: 1, size: 512MiB}}
workloads: {work: {rw: write}}
layouts:
  one: {on: hdd, layers: [md: {level: 5, chunk: 64KiB}, bcache: {cache: ssd, %s}]}
"""


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0.0k"), (512, "0.5k"), (4096, "4.0k"), (512 * 1024, "512.0k"), (4 << 20, "4.0M"), (1000 * 1024, "0.9M"), (5 << 29, "2.5G")],
)  # fmt: skip
def test_numbers_are_written_as_the_kernel_shows_them(number: int, text: str) -> None:
    assert readable(number) == text


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("bucket: 100KiB", "a bucket must be a power of two"),
        ("bucket: 32MiB", "at most 16MiB"),
        ("bucket: 1MiB", "a cache has at least 513 buckets, and ssd has 512MiB"),
        ("writeback_percent: 41", "40"),
        ("cache_mode: writearound, writeback_percent: 20", "cache_mode writearound has no dirty data"),
    ],
)
def test_impossible_caches_are_refused(keys: str, why: str) -> None:
    with pytest.raises(BadMatrix) as bad:
        space(PARTED % keys)
    assert why in str(bad.value.details)


def test_the_cache_is_one_device_and_so_is_what_it_caches() -> None:
    for layers, why in (
        ("{on: hdd, layers: [bcache: {cache: ssd}]}", "it caches one device, but `on` selects 4 disks"),
        ("{on: ssd, layers: [bcache: {cache: hdd}]}", "the cache is on one device, and hdd has 4"),
    ):
        with pytest.raises(BadMatrix) as bad:
            space(PARTED.partition("  one:")[0] + f"  one: {layers}\n")
        assert why in str(bad.value.details)


def test_data_begins_at_a_full_stripe_and_only_a_writeback_cache_loses_data() -> None:
    below = Below((Shape(1 << 30, 65536, 3, losses=1), Shape(1 << 28)), named=1)
    (through,), (back,) = (
        Bcache.model_validate({"cache": "ssd", "cache_mode": mode}).devices_above(below)
        for mode in ("writethrough", "writeback")
    )
    assert (through.size, through.chunk, through.stripes, through.losses) == ((1 << 30) - 3 * 65536, 65536, 3, 1)
    assert back.losses == 0


def test_the_scripts_have_each_setting_and_read_it_back() -> None:
    (cell,) = space(PARTED % "cache_mode: writeback, sequential_cutoff: 0, congested: false, bucket: 64KiB").cells()
    scripts = stack_scripts(cell.stack, [f"/dev/disk/by-id/matrix-{number}" for number in range(5)], zeroed=True)
    view = scripts.stack.layers[-1]
    assert isinstance(view, BcacheView)
    assert view.marks == (view.uuid,)
    assert scripts.stack.bare == ()
    for text in (
        "--data-offset=384",
        f"--cset-uuid={view.uuid}",
        'echo writeback >"$at"/cache_mode',
        f"count={65 * 65536}",
    ):
        assert text in scripts.set_up
    expects = {one.file: one.wanted for one in view.expects}
    assert expects["bcache/sequential_cutoff"] == "0.0k"
    assert expects["bcache/cache/congested_write_threshold_us"] == "0"
    assert expects["bcache/dirty_data"] is None
    phases = cell_scripts(cell, scripts.stack)
    assert "clear_stats" in phases.tune
    assert "took no part" in phases.measure
    assert "cache_bypass_hits" in phases.measure
    assert "make-bcache --bucket=65536" in recommended_script(cell)


def test_a_default_leaves_the_thresholds_of_the_kernel() -> None:
    (cell,) = space(PARTED % "cache_mode: writethrough").cells()
    (_, _, view) = stack_scripts(cell.stack, [f"/dev/sd{letter}" for letter in "abcde"], zeroed=True).stack.layers
    assert isinstance(view, BcacheView)
    assert list(view.settings) == ["cache_mode", "sequential_cutoff"]
