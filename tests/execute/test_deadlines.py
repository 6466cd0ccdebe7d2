from runner.execute.deadlines import GRACE, deadline, expected
from runner.model.workload import Workload


def test_a_timed_workload_is_quiet_for_its_time_and_hung_well_after_it() -> None:
    work = Workload.model_construct(rw="read", runtime=10.0, ramp=2.0)
    assert expected(work) == 12
    assert deadline(work, 1 << 40) == 12 + GRACE


def test_a_workload_that_ends_with_its_size_may_be_slow() -> None:
    work = Workload.model_construct(rw="write", size=10**9, numjobs=2)
    assert expected(work) == 0
    assert deadline(work, work.span(1 << 40)) == 2000 + GRACE
    share = Workload.model_construct(rw="write", size="50%")
    assert deadline(share, share.span(2 * 10**9)) == 1000 + GRACE


def test_laying_files_out_takes_its_time() -> None:
    """It is not part of what is measured, but the machine is busy all the same."""
    work = Workload.model_construct(rw="read", runtime=10.0)
    assert deadline(work, 10**9, laid_out=10**9) == 10 + 1000 + GRACE
