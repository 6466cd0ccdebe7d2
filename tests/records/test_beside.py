"""What was seen beside a trial, as its files and notes."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.carry.trial import busy_host, host_limited, loss_notes, overload_words
from matrix_runner.records.counters import (
    Bus,
    Processors,
    TrialUse,
    buses,
    cost_of_a_request,
    count_cache_flushes,
    find_bottleneck,
    observe_use,
    processor_use,
    shares_of,
    split_counters,
    transit_share,
)
from matrix_runner.records.record import HOST_LIMITED, TrialFacts
from matrix_runner.simdisks.clib import Report
from matrix_runner.simdisks.disk import Disk, Link
from matrix_runner.work.fio.output import Figures
from matrix_runner.work.fio.workload import FioWorkload
from tests.records import past
from tests.support.counters import AFTER, BEFORE, READINGS
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call

WORK = FioWorkload.model_validate({"rw": "read", "bs": "4KiB", "iodepth": 8, "numjobs": 2, "ramp": "1s"})
FIGURES = Figures(None, None, runtime=1.0, cpu_usr=10.0, cpu_sys=20.0, errors=0)
_, EARLY, LATE = split_counters(BEFORE + AFTER)
NOTHING = Report(**dict.fromkeys(Report.__annotations__, 0))


def test_files_are_tables_of_the_time_in_which_fio_was_at_work() -> None:
    found = observe_use(EARLY, LATE, READINGS, FIGURES, WORK)
    assert found
    files = {name: list(csv.DictReader(text.splitlines())) for name, text in found.files().items()}
    assert set(files) == {"devices.csv", "processors.csv", "memory.csv"}
    disk, array = files["devices.csv"]
    assert (disk["device"], disk["node"], disk["read_bytes"]) == ("disk0", "vda", "102400")
    assert (disk["queue"], disk["utilisation"]) == ("1", "0.5")  # of two seconds: one of ramp, one that counts
    assert (array["device"], array["await"]) == ("md", "0")
    (row,) = files["processors.csv"]
    assert (row["seconds"], row["context_switches"], row["iowait"]) == ("3.500", "30", "0.1111")
    idle, busy = files["memory.csv"]
    assert idle == {"when": "before", "available": "1536000000", "dirty": "0", "writeback": "0"}
    assert busy == {"when": "after", "available": "1433600000", "dirty": "83886080", "writeback": "1048576"}


def test_counters_without_memory_write_no_memory_file() -> None:
    told = "".join(line for line in (BEFORE + AFTER).splitlines(keepends=True) if not line.endswith("kB\n"))
    _, early, late = split_counters(told)
    found = observe_use(early, late, READINGS, FIGURES, WORK)
    assert found
    assert set(found.files()) == {"devices.csv", "processors.csv"}


def test_a_trial_without_figures_was_at_work_all_the_time() -> None:
    found = observe_use(EARLY, LATE, READINGS, None, WORK)
    assert found
    assert found.seconds == 3.5


def test_without_counters_there_is_no_use() -> None:
    assert observe_use(None, LATE, READINGS, FIGURES, WORK) is None
    assert observe_use(EARLY, None, READINGS, FIGURES, WORK) is None


def test_notes_tell_what_limits_and_how_evenly_disks_were_used() -> None:
    found = observe_use(EARLY, LATE, READINGS, FIGURES, WORK)
    assert found
    assert shares_of(found, 0) == {"iowait": 0.1111}
    assert shares_of(found, 0, slow=2) == {}, "in slow motion processors wait longer for each request"
    assert find_bottleneck(found, FIGURES, WORK, (), "") == (
        "queue depth: at most 16 under way, and the busiest disk was so for 50% of the time"
    )
    flushed = count_cache_flushes(found, [replace(NOTHING, busy=1.9)])
    assert find_bottleneck(flushed, FIGURES, WORK, (), "") == "disks: each busy for at least 95% of the time"
    (disk,) = found.disks
    two = replace(found, devices=(disk, replace(disk, device="disk1", read_bytes=0, written_bytes=disk.moved // 2)))
    assert shares_of(two, 0) == {"evenness": 0.5, "iowait": 0.1111}
    assert find_bottleneck(two, FIGURES, WORK, (Bus("pci", 1e6, 1e6),), "") == "bus pci: 1 of 1 MB/s"


def test_the_way_to_the_disks_is_what_the_kernel_waited_beyond_the_answers_of_the_disks() -> None:
    found = observe_use(EARLY, LATE, READINGS, FIGURES, WORK)
    assert found
    found = replace(found, devices=(replace(found.devices[0], waited=10.0, busy=2.0),))  # in two seconds
    assert transit_share(found, [], direct=True) == 0  # a disk without a model
    assert transit_share(found, [replace(NOTHING, owed=6.0, late=1.0)], direct=True) == pytest.approx(0.3)
    assert (
        transit_share(found, [replace(NOTHING, owed=11.0)], direct=True) == 0
    )  # flushes, which the kernel counts elsewhere
    assert (
        transit_share(found, [replace(NOTHING, owed=6.0, occupied=1.9)], direct=True) == 0
    )  # requests wait in queues, too
    burst = replace(found, devices=(replace(found.devices[0], waited=20.0),))  # ten at a time while it is busy
    assert transit_share(burst, [replace(NOTHING, owed=6.0)], direct=True) == 0


def test_buffered_writes_wait_in_the_queue_of_the_kernel_by_themselves() -> None:
    found = observe_use(EARLY, LATE, READINGS, FIGURES, WORK)
    assert found
    found = replace(found, devices=(replace(found.devices[0], waited=10.0, busy=1.5),))  # in two seconds
    done = [replace(NOTHING, owed=2.0, occupied=1.2)]
    assert transit_share(found, done, direct=False) == pytest.approx(0.2)  # the disk had nothing for 0.3 of 1.5 s
    assert transit_share(found, done, direct=True) == pytest.approx(0.8)
    alone = replace(found, devices=(replace(found.devices[0], waited=1.25),))  # the kernel counts `busy` in whole ticks
    assert transit_share(alone, done, direct=False) == pytest.approx(0.04)
    assert transit_share(replace(found, devices=()), done, direct=False) == 0


def test_work_with_pauses_loses_the_time_on_the_way_and_other_work_that_of_idle_disks() -> None:
    found = observe_use(EARLY, LATE, READINGS, FIGURES, WORK)
    assert found
    found = replace(found, devices=(replace(found.devices[0], waited=10.0, busy=2.0),))
    done = [replace(NOTHING, owed=8.0, occupied=1.0, starved=1.0)]
    paced = WORK.model_copy(update={"fio": {"rate_iops": 10}})
    assert host_limited(done, WORK, 0.05, found)["lost"] == 0.5
    facts = TrialFacts(**host_limited(done, paced, 0.05, found))
    assert facts == TrialFacts(host_limited_share=0.2, lost=0.2, lost_late=0.0, lost_transit=0.2)
    assert loss_notes(facts, None, 0.0) == {
        "host_limited_share": "0.2000",
        HOST_LIMITED: "20.0% (answers late 0.0%, on the way to the disks and back 20.0%)",
    }
    assert host_limited(done, paced, 0.25, found) == {"host_limited_share": 0.2}
    assert host_limited(done, paced, 0.05) == {"host_limited_share": 0.0}  # without counters


def test_disks_that_wait_for_a_busy_processor_make_a_trial_processor_limited() -> None:
    found = observe_use(EARLY, LATE, READINGS, FIGURES, WORK)
    assert found
    done = [replace(NOTHING, owed=8.0, occupied=1.0, starved=1.0)]

    def facts(busiest: float) -> TrialFacts:
        beside = replace(found, processors=replace(found.processors, busiest=busiest))
        return TrialFacts(**host_limited(done, WORK, 0.05, beside))

    busy, mixed, idle = facts(0.9), facts(0.2), facts(0.0)
    assert (busy.lost, busy.lost_idle, busy.lost_processor, busy.is_processor_limited) == (0.5, 0.0, 0.5, True)
    assert (mixed.lost, mixed.lost_idle, mixed.lost_processor, mixed.is_processor_limited) == (0.5, 0.3, 0.2, False)
    assert (idle.lost, idle.lost_idle, idle.lost_processor, idle.is_processor_limited) == (0.5, 0.5, None, False)
    notes = loss_notes(busy, None, 0.0)
    assert overload_words(busy, notes).startswith("processor of the machine: too slow or too busy, 50.0% (")
    assert overload_words(mixed, loss_notes(mixed, None, 0.0)).startswith("host: too slow or too busy, 50.0% (")


def used(**shares: float) -> TrialUse:
    """Two seconds of work on two processors."""
    return TrialUse((), Processors(2.0, shares, 0, 0, ticks=400), 2.0)


def test_a_host_that_is_busy_with_other_programs_marks_work_on_disks_without_a_model() -> None:
    # fio: two jobs, each 10 % of a processor in user mode, so a tenth of both processors.
    busy = used(user=0.4, nice=0.1, system=0.47, idle=0.02, iowait=0.01)
    found = busy_host(FIGURES, WORK, 0.05, busy)
    assert found == {"host_limited_share": 0.4, "lost": 0.4, "lost_programs": 0.4, "lost_machines": 0.0}
    assert loss_notes(TrialFacts(**found), None, 0.0) == {
        "host_limited_share": "0.4000",
        HOST_LIMITED: "40.0% (other programs 40.0%, other machines 0.0%)",
    }
    stolen = used(user=0.1, system=0.6, steal=0.3, idle=0.0)
    assert busy_host(FIGURES, WORK, 0.05, stolen)["lost_machines"] == 0.3


def test_a_run_beside_other_programs_shows_their_mark(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    busy = used(user=0.4, nice=0.1, system=0.47, idle=0.02, iowait=0.01)
    monkeypatch.setattr("matrix_runner.carry.trial.counters.observe_use", lambda *_: busy)
    said = call("run", "--on", "dry", "small.yaml")
    assert ", host-limited: " in said.out
    assert "measured (!) 2 host-limited" in said.out


@pytest.mark.parametrize(
    "seen",
    [
        used(user=0.5, system=0.4, idle=0.1),  # a processor is left for fio
        used(user=0.5, system=0.4, iowait=0.1),
        used(user=0.1, system=0.9, idle=0.0),  # the kernel works for the stack
        used(user=0.14, system=0.86, idle=0.0),  # below the bound
        used(),  # a user's template does not print them
        None,
    ],
)
def test_a_busy_host_without_a_loss_leaves_no_mark(seen: TrialUse | None) -> None:
    assert busy_host(FIGURES, WORK, 0.05, seen) == {}
    assert busy_host(None, WORK, 0.05, used(user=1.0)) == {}


def test_the_cache_decides_what_is_under_way_of_buffered_work() -> None:
    assert WORK.in_flight == 16
    assert WORK.model_copy(update={"direct": False}).in_flight is None


def test_the_traffic_of_a_link_is_that_of_its_disks() -> None:
    pci, sas = Link("pci", 133e6), Link("sas", 1e9)
    disks = [Disk(1, link=pci), Disk(1), Disk(1, link=sas), Disk(1, link=pci)]
    done = [replace(NOTHING, read_bytes=10**6 * (at + 1), written_bytes=10**6) for at in range(4)]
    assert buses(disks, done, 2.0) == (Bus("pci", 3.5e6, 133e6), Bus("sas", 2e6, 1e9))
    assert buses(disks, (), 2.0) == ()


def test_a_request_costs_the_time_of_the_kernel_and_of_fio() -> None:
    """Of 10 processor-seconds the kernel used 3, and each of two jobs 10 % of two seconds: 3.4 s for 2,000 requests."""
    figures = replace(FIGURES, read=past.direction(4096 * 1000, 1000))
    shares = {"user": 0.4, "system": 0.2, "irq": 0.0, "softirq": 0.1, "idle": 0.3}
    beside = TrialUse((), Processors(2.0, shares, 0, 0, ticks=1000), 2.0)
    assert cost_of_a_request(beside, figures, WORK, 1)["cpu_per_io"] == 1_700_000
    assert cost_of_a_request(beside, figures, WORK, 4)["cpu_per_io"] == 2_300_000, "fio worked four times as long"
    assert cost_of_a_request(beside, FIGURES, WORK, 1) == {}


def test_a_request_costs_the_time_of_the_host() -> None:
    """Half a processor for 1,000 requests a second; with disks four times slower, for 250 of them."""
    figures = replace(FIGURES, read=past.direction(4096 * 1000, 1000))
    beside = TrialUse((), Processors(2.0, {"idle": 1.0}, 0, 0, ticks=1000), 2.0)
    assert cost_of_a_request(beside, figures, WORK, 1, 0.5)["host_cpu_per_io"] == 500_000
    assert cost_of_a_request(beside, figures, WORK, 4, 0.5)["host_cpu_per_io"] == 2_000_000
    assert "host_cpu_per_io" not in cost_of_a_request(beside, figures, WORK, 1)


def test_context_switches_and_interrupts_of_a_request_are_counted() -> None:
    lines = "cpu 1 0 0 0 0 0 0 0\nctxt {}\n{}MemAvailable: 1 kB\n"
    texts = [
        f"counted {when} 1.0\n{lines.format(switches, ipis)}counted\n"
        for when, switches, ipis in (("before", 100, "ipis 7\n"), ("after", 5100, "ipis 8\n"))
    ]
    _, before, after = split_counters("".join(texts))
    assert before
    assert after
    figures = replace(FIGURES, read=past.direction(4096 * 1000, 1000))
    beside = TrialUse((), processor_use(before, after), 2.0)
    found = cost_of_a_request(beside, figures, WORK, 1)
    assert (found["switches_per_io"], found["ipis_per_io"]) == (2.5, 0.0005)
    without = replace(before, stat={name: row for name, row in before.stat.items() if name != "ipis"})
    beside = TrialUse((), processor_use(without, after), 2.0)
    assert "ipis_per_io" not in cost_of_a_request(beside, figures, WORK, 1), "a script of a user that does not print it"
