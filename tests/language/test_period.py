"""The key `period`: which tunables an earlier kernel brings, and which it leaves to the matrix."""

from typing import Any

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.base.model import written
from matrix_runner.language.period import RULES, of_period, rules_of, version_of
from matrix_runner.space.load import parse
from tests.support.matrices import space

OLD = """\
name: old
period: linux-2.6.12
disks: {count: 2, size: 1GiB, model: nas-7200}
layouts: {md: [md: {level: 0}]}
workloads: {work: {rw: read, runtime: 1s}}
"""


def tuned(text: str) -> dict[str, Any]:
    return {name: value[0] for name, value in written(space(text).matrix.tune).items()}


def test_a_period_is_expanded_into_tunables() -> None:
    assert tuned(OLD) == {
        "scheduler": "bfq",
        "nr_requests": 128,
        "ncq_depth": 1,
        "wbt_lat_usec": 0,
        "disk.max_sectors_kb": 512,
        "disk.sysfs.queue/write_cache": "write through",
        "vm.dirty_ratio": 40,
        "vm.dirty_background_ratio": 10,
    }
    assert {disk.bus for disk in space(OLD).matrix.every_disk()} == {"sata"}


def test_it_is_the_same_as_these_tunables_written_out() -> None:
    by_hand = OLD.replace("period: linux-2.6.12", "").replace("size: 1GiB", "size: 1GiB, bus: sata") + (
        "tune: {scheduler: bfq, nr_requests: 128, ncq_depth: 1, wbt_lat_usec: 0, vm: {dirty_ratio: 40, "
        "dirty_background_ratio: 10}, disk: {max_sectors_kb: 512, sysfs: {queue/write_cache: write through}}}\n"
    )
    assert [cell.id for cell in space(OLD).cells()] == [cell.id for cell in space(by_hand).cells()]


@pytest.mark.parametrize(
    ("own", "name", "value"),
    [
        ("scheduler: [none, bfq]", "nr_requests", None),
        ("disk: {scheduler: [bfq, none]}", "nr_requests", None),
        ("disk: {scheduler: kyber}", "scheduler", None),
        ("disk: {scheduler: kyber}", "disk.scheduler", "kyber"),
        ("ncq_depth: [4, 8]", "ncq_depth", 4),
        ("wbt_lat_usec: default", "wbt_lat_usec", "default"),
        ("max_sectors_kb: 256", "disk.max_sectors_kb", None),
        ("vm: {dirty_bytes: 8MiB}", "vm.dirty_ratio", None),
        ("vm: {dirty_bytes: 8MiB}", "vm.dirty_background_ratio", 10),
        ("disk: {write_cache: write through}", "disk.sysfs.queue/write_cache", None),
        ("disk: {sysfs: {queue/write_cache: write back}}", "disk.sysfs.queue/write_cache", "write back"),
        ("disk: {readahead: 1MiB}", "disk.max_sectors_kb", 512),
    ],
)
def test_an_own_value_wins(own: str, name: str, value: object) -> None:
    assert tuned(f"{OLD}tune: {{{own}}}\n").get(name) == value


def test_settings_of_parts_that_are_not_there_are_left_out() -> None:
    assert "ncq_depth" not in tuned(OLD.replace("size: 1GiB", "size: 1GiB, bus: scsi"))
    assert tuned(OLD.replace("[md: {level: 0}]", "[lvm: {stripes: 2}]"))["lvm.max_sectors_kb"] == 128


def test_groups_of_disks_and_parts_of_a_layout_have_a_period_too() -> None:
    grouped = OLD.replace(
        "{count: 2, size: 1GiB, model: nas-7200}", "{hdd: {count: 2, size: 1GiB}, ssd: {count: 1, size: 1GiB}}"
    )
    text = grouped.replace(
        "[md: {level: 0}]", "{on: array, layers: [lvm], parts: {array: {on: hdd, layers: [md: {level: 0}]}}}"
    )
    assert {(disk.group, disk.bus) for disk in space(text).matrix.every_disk()} == {("hdd", "sata"), ("ssd", "sata")}
    assert (tuned(text)["lvm.max_sectors_kb"], tuned(text)["ncq_depth"]) == (128, 1)
    below = text.replace("layers: [lvm]", "layers: [crypt]").replace("[md: {level: 0}]", "[lvm]")
    assert tuned(below)["lvm.max_sectors_kb"] == 128
    assert "ncq_depth" not in tuned(text.replace("count: 1,", "count: 1, bus: scsi,"))


def test_missing_disks_are_missed_as_without_a_period() -> None:
    with pytest.raises(BadInput) as error:
        parse("old", "".join(line for line in OLD.splitlines(keepends=True) if not line.startswith("disks:")))
    assert "'disks' is missing" in str(error.value.details)


@pytest.mark.parametrize(
    ("period", "settings"),
    [
        ("linux-2.2", {"scheduler": "mq-deadline", "disk.max_sectors_kb": 128}),
        ("linux-2.6.17", {"ncq_depth": 1}),
        ("linux-2.6.21", {"vm.dirty_ratio": 40}),
        ("linux-2.6.22", {"vm.dirty_ratio": 10, "vm.dirty_background_ratio": 5}),
        ("linux-2.6.30", {"lvm.max_sectors_kb": 128, "disk.sysfs.queue/write_cache": "write through"}),
        ("linux-2.6.37", {"scheduler": "bfq", "disk.max_sectors_kb": 512, "wbt_lat_usec": 0}),
    ],
)
def test_each_kernel_has_its_own(period: str, settings: dict[str, object]) -> None:
    found = of_period(period)
    assert found | settings == found


@pytest.mark.parametrize(
    ("period", "names"),
    [
        ("linux-2.6.18", {"ncq_depth"}),
        ("linux-2.6.30", {"vm.dirty_ratio", "vm.dirty_background_ratio"}),
        ("linux-2.6.31", {"lvm.max_sectors_kb"}),
        ("linux-2.6.33", {"disk.sysfs.queue/write_cache"}),
        ("linux-4.3", {"disk.max_sectors_kb"}),
        ("linux-4.10", {"wbt_lat_usec"}),
        ("linux-5.0", {"scheduler", "nr_requests"}),
    ],
)
def test_a_setting_ends_with_the_kernel_that_changed_it(period: str, names: set[str]) -> None:
    assert names.isdisjoint(of_period(period))


def test_no_kernel_has_two_values_of_one_tunable() -> None:
    for edge in {one for rule in RULES for one in (rule.since, rule.before)}:
        names = [rule.name for rule in rules_of(edge)]
        assert len(names) == len(set(names)), edge


@pytest.mark.parametrize("period", ["linux-7.0", "linux-2.0", "2.6.12", "linux-2", "centos-5"])
def test_an_unknown_kernel_is_refused(period: str) -> None:
    with pytest.raises(ValueError, match="linux"):
        version_of(period)
    with pytest.raises(BadInput) as error:
        parse("old", OLD.replace("linux-2.6.12", period))
    assert "old:2:9" in str(error.value.details)


@pytest.mark.parametrize("part", ["tune: 3", "tune: {disk: 4}", "tune: {vm: [1]}", "disks: 3", "layouts: [1]"])
def test_a_malformed_matrix_is_refused_as_without_a_period(part: str) -> None:
    key = part.partition(":")[0]
    lines = [line for line in OLD.splitlines() if not line.startswith(f"{key}:")]
    with pytest.raises(BadInput) as error:
        parse("old", "\n".join([*lines, part, ""]))
    assert key in str(error.value.details)


def test_the_notes_on_idle_tunables_leave_the_period_out() -> None:
    assert not [note for note in space(OLD).notes if "has no effect" in note]
    assert [note for note in space(f"{OLD}tune: {{wbt_lat_usec: 5}}\n").notes if "wbt_lat_usec has no effect" in note]
