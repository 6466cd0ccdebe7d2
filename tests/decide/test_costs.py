from matrix_runner.decide.costs import GRACE, deadline, expected, flush_seconds, set_up, slowest_request
from matrix_runner.language.disks import Volume
from matrix_runner.simdisks.disk import Disk
from matrix_runner.space.load import disk_model
from matrix_runner.work.fio.workload import FioWorkload
from tests.support.matrices import space


def test_a_timed_workload_is_quiet_for_its_time_and_hung_well_after_it() -> None:
    work = FioWorkload.model_construct(rw="read", runtime=10.0, ramp=2.0)
    assert expected(work) == 12
    assert deadline(work, 1 << 40) == 12 + 0.05 + GRACE  # with the last request


def test_a_workload_that_ends_with_its_size_may_be_slow() -> None:
    work = FioWorkload.model_construct(rw="write", bs=10**6, size=10**9, numjobs=2)
    assert expected(work) == 0
    assert deadline(work, work.span(1 << 40)) == 2000 + 2000 * 0.05 + GRACE
    share = FioWorkload.model_construct(rw="write", bs=10**6, size="50%")
    assert deadline(share, share.span(2 * 10**9)) == 1000 + 1000 * 0.05 + GRACE


def test_a_disk_that_turns_is_not_hung_because_its_requests_are_small() -> None:
    """Eighty requests a second are all that many a disk does, and a third of a megabyte a second what comes of it."""
    work = FioWorkload.model_construct(rw="randread", bs=4096, size=1 << 30)
    assert deadline(work, work.span(1 << 40)) > (1 << 30) / 4096 / 80


def test_building_is_given_up_within_the_hour_unless_it_has_much_to_write() -> None:
    small = space(
        "name: s\ndisks: {count: 4, size: 1GiB}\nlayouts: {r: [md: {level: 5}]}\nworkloads: {w: {rw: read}}\n"
    )
    large = space(
        "name: l\ndisks: {count: 4, size: 4TiB}\nlayouts: {r: [md: {level: 5, sync: wait}]}\nworkloads: {w: {rw: read}}\n"
    )
    within = [set_up(found.stacks[0].layers.value, found.stacks[0].disks) for found in (small, large)]
    assert within[0] < 2 * 3600
    assert within[1] > 4 * 2**40 / (100 * 10**6)


def test_laying_files_out_takes_its_time() -> None:
    """It is not part of what is measured, but the machine is busy all the same."""
    work = FioWorkload.model_construct(rw="read", runtime=10.0)
    assert deadline(work, 10**9, laid_out=10**9) == 10 + 0.05 + 1000 + GRACE


def test_a_disk_that_is_declared_to_be_slow_is_not_hung_because_it_is() -> None:
    crawling = Volume.model_validate({"kind": "volume", "iops": 4})
    disks = [Disk(1 << 30, physics=disk_model("nas-7200").physics(1)), Disk(1 << 30, physics=crawling.physics(1))]
    work = FioWorkload.model_construct(rw="randwrite", bs=4096, size=1 << 20, iodepth=8)
    assert slowest_request(work, disks) >= 0.25
    assert deadline(work, 1 << 20, slowest=slowest_request(work, disks)) > (1 << 20) / 4096 / 4
    timed = work.model_copy(update={"runtime": 10.0})
    assert deadline(timed, 1 << 20, slowest=1.0) == 10 + 8 + GRACE


def test_without_a_model_requests_have_the_default_limit() -> None:
    work = FioWorkload.model_construct(rw="read", bs=4096)
    assert slowest_request(work, [Disk(1 << 30)]) == slowest_request(work, []) == 0.05


def test_flushing_memory_may_take_longer_than_the_work() -> None:
    """Scattered pages of 80 MB, at 80 requests a second, are four minutes; fio was through after ten seconds."""
    work = FioWorkload.model_construct(rw="randwrite", bs=4096, runtime=10.0, direct=False)
    disks = [Disk(1 << 30, physics=disk_model("cloud-80iops").physics(1))]
    assert flush_seconds(work, 512 << 20, slowest_request(work, disks)) > 80e6 / 4096 / 80
    in_order = work.model_copy(update={"rw": "write"})
    assert 80 < flush_seconds(in_order, 512 << 20, 1.0) < 300
    for quick in ({"direct": True}, {"rw": "randread"}):
        assert flush_seconds(work.model_copy(update=quick), 512 << 20) == 0
