"""Lines of /proc into what devices and processors did."""

from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.records.counters import KINDS, CounterSnapshot, Memory, device_use, processor_use, split_counters
from matrix_runner.records.record import Reading
from tests.support.counters import AFTER, BEFORE, READINGS


def counted(text: str) -> tuple[CounterSnapshot, CounterSnapshot]:
    _, before, after = split_counters(text)
    assert before
    assert after
    return before, after


def test_counters_are_removed_from_the_output_of_fio() -> None:
    rest, before, after = split_counters(f'a note\n{BEFORE}{AFTER}{{\n  "jobs": []\n}}')
    assert rest == 'a note\n{\n  "jobs": []\n}'
    assert before
    assert after
    assert (before.clock, after.clock) == (1000.5, 1004.0)


def test_the_devices_are_those_that_were_read_back_by_the_names_they_have_there() -> None:
    disk, array = device_use(*counted(BEFORE + AFTER), READINGS)
    assert (disk.device, disk.node, array.device, array.node) == ("disk0", "vda", "md", "md127")
    assert (disk.reads, disk.writes, disk.read_bytes, disk.written_bytes) == (100, 4, 200 * 512, 32 * 512)
    assert (disk.waited, disk.busy, disk.queued) == (0.102, 1.0, 2.0)
    assert disk.moved == 232 * 512
    assert (array.reads, array.moved, array.busy) == (0, 0, 0)


def test_the_processors_did_one_thing_or_another_all_the_time() -> None:
    found = processor_use(*counted(BEFORE + AFTER))
    assert found.seconds == 3.5
    assert sum(found.shares.values()) == 1
    assert (found.shares["user"], found.shares["system"], found.shares["iowait"]) == (10 / 90, 30 / 90, 10 / 90)
    assert (found.interrupts, found.switches) == (600, 30)


def test_the_busiest_processor_counts_by_itself() -> None:
    more = AFTER.replace("cpu0 110 0 80 1040 20", "cpu1 20 0 95 5 0 0 0 0 0 0\ncpu0 110 0 80 1040 20")
    before, after = counted(BEFORE.replace("cpu0 100", "cpu1 0 0 0 0 0 0 0 0 0 0\ncpu0 100") + more)
    assert processor_use(before, after).busiest == 115 / 120
    only_together = (BEFORE + AFTER).replace("cpu0", "other")
    assert processor_use(*counted(only_together)).busiest == 0


def test_milliseconds_have_32_bits_and_may_wrap() -> None:
    near = 2**32 - 5
    wrapped = BEFORE.replace("vda 10 0 80 5 20 0 160 7 0 11 12", f"vda 10 0 80 {near} 20 0 160 {near} 0 {near} {near}")
    disk, _ = device_use(*counted(wrapped + AFTER), READINGS)
    assert (disk.reads, disk.waited, disk.busy, disk.queued) == (100, (110 + 14) / 1000, 1.016, 2.017)


def test_the_counters_of_a_disk_with_several_paths_are_on_these() -> None:
    zeros, readings = "259 1 nvme0n1 " + "0 " * 17 + "\n", [Reading("disk0.node", None, "nvme0n1")]
    way = "259 0 nvme0c{}n1 {} 0 {} 5 20 0 160 7 0 11 12\n"
    before = BEFORE.replace("cpu ", zeros + way.format(0, 10, 80) + way.format(1, 10, 80) + "cpu ", 1)
    after = AFTER.replace("cpu ", zeros + way.format(0, 12, 96) + way.format(1, 13, 104) + "cpu ", 1)
    (disk,) = device_use(*counted(before + after), readings)
    assert (disk.node, disk.reads, disk.read_bytes, disk.writes) == ("nvme0n1", 5, 40 * 512, 0)


def test_a_disk_whose_counters_began_again_has_no_figures() -> None:
    before = BEFORE.replace("vda 10 0 80 ", "vda 900 0 7200 ")
    assert (
        len(device_use(*counted(before + AFTER), READINGS)) == len(device_use(*counted(BEFORE + AFTER), READINGS)) - 1
    )


def test_counters_of_64_bits_that_rise_do_not_wrap() -> None:
    large = AFTER.replace("vda 110 0 280 ", f"vda 110 0 {80 + 3 * 2**32} ")
    assert device_use(*counted(BEFORE + large), READINGS)[0].read_bytes == 3 * 2**32 * 512


def test_a_counter_of_processors_that_falls_counts_as_0() -> None:
    fallen = AFTER.replace("110 0 80 1040 20 ", "110 0 80 1040 4 ").replace("intr 5600", "intr 4000")
    found = processor_use(*counted(BEFORE + fallen))
    assert (found.shares["user"], found.shares["iowait"], found.interrupts) == (10 / 80, 0, 0)
    assert sum(found.shares.values()) == 1


def test_memory_counters_are_bytes_and_complete() -> None:
    before, after = counted(BEFORE + AFTER)
    assert before.memory == Memory(1500000 * 1024, 0, 0)
    assert after.memory == Memory(1400000 * 1024, 80 << 20, 1 << 20)
    (without, _) = counted(BEFORE.replace("Dirty", "Clean") + AFTER)
    assert without.memory is None


def test_incomplete_counters_stay_output() -> None:
    assert split_counters(BEFORE)[1:] == (split_counters(BEFORE + AFTER)[1], None)
    for text in (
        "",
        "counted before 1\ncpu 1",
        "counted before x\ncounted\n",
        "counted before 1\n0 vda 1 x\ncounted\n",
    ):
        assert split_counters(text)[1:] == (None, None)
    assert split_counters("counted before 1\nbash: killed\n")[0] == "bash: killed\n"


def test_a_clock_may_have_a_comma() -> None:
    assert counted(BEFORE.replace("1000.5", "1000,5") + AFTER)[0].clock == 1000.5


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))))
def test_no_line_is_lost_but_those_that_are_counters(lines: list[str]) -> None:
    text = "\n".join(lines)
    rest, _, _ = split_counters(text)
    assert rest == "".join(line for line in text.splitlines(keepends=True) if not line.startswith("counted\t"))


@given(st.lists(st.integers(0, 10**9), min_size=8, max_size=10))
def test_shares_are_shares(ticks: list[int]) -> None:
    none = CounterSnapshot(1.0, {}, {"cpu": tuple(0 for _ in ticks)})
    shares = processor_use(none, CounterSnapshot(2.0, {}, {"cpu": tuple(ticks)})).shares
    assert set(shares) == set(KINDS)
    assert all(0 <= share <= 1 for share in shares.values())
    assert any(ticks[:8]) == (abs(sum(shares.values()) - 1) < 1e-9)
