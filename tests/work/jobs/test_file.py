"""Job files of fio: what is read, what is refused, and what the jobs do at most."""

from __future__ import annotations

import pytest

from matrix_runner.base.findings import Place
from matrix_runner.work.fio.bounds import relative_names
from matrix_runner.work.fio.workload import FioWorkload
from matrix_runner.work.jobs.file import (
    JobFile,
    JobReader,
    effective,
    file_name,
    misnamed,
    on_target,
    why_refused,
    with_values,
)
from matrix_runner.work.jobs.workload import JobWorkload, bounds_of

TOP = Place("m.yaml", 1, 1)


def read(text: str, others: dict[str, str] | None = None, **environment: str) -> tuple[JobFile, JobReader]:
    texts = {"jobs/a.fio": text, **(others or {})}

    def text_of(name: str) -> str:
        if name not in texts:
            raise FileNotFoundError
        return texts[name]

    reader = JobReader(text_of, environment)
    return reader.read("jobs/a.fio", TOP), reader


def messages(text: str, others: dict[str, str] | None = None, **environment: str) -> list[tuple[str, int, str]]:
    _, reader = read(text, others, **environment)
    return [(place.file, place.line, message) for place, message in reader.wrong]


def whole(text: str, *, in_files: bool = False, **values: str) -> JobWorkload:
    sections = with_values(read(text)[0].sections, {key.replace("__", "."): one for key, one in values.items()})
    bounds, wrong = bounds_of(sections)
    assert wrong == []
    return JobWorkload.of(sections, bounds, in_files=in_files)


def test_comments_includes_and_variables_are_read_as_fio_reads_them() -> None:
    text = "; a comment\n[global]\ninclude part.inc ; more\nbs = 4k # small\n\n[a]\nrw=${KIND}\nstonewall\n"
    file, reader = read(text, {"jobs/part.inc": "direct=1\n"}, KIND="randread")
    assert reader.wrong == []
    assert on_target(file.sections, in_files=False) == (
        ("global", ("direct=1", "bs=4k")),
        ("a", ("rw=randread", "stonewall")),
    )
    assert reader.texts["jobs/a.fio"].splitlines()[6] == "rw=randread"


def test_a_tab_in_a_line_is_a_space() -> None:
    file, reader = read("[a\tb]\n\trw\t=\tread\ndescription=x\ty\n")
    assert reader.wrong == []
    assert on_target(file.sections, in_files=False) == (("a b", ("rw=read", "description=x y")),)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("bs=4k\n[a]\n", 1, "before the first section"),
        ("[global]\nbs=4k\n", 1, "needs a section with a name"),
        ("", 1, "needs a section with a name"),
        ("[a]\nrw=${KIND}\n", 2, "no variable KIND"),
        ("[a]\ninclude none.inc\n", 2, "there is no file jobs/none.inc"),
        ("[a]\ninclude a.fio\n", 2, "includes itself"),
        ("[a]\ninclude b.inc\n", 1, "no new sections in included files"),
        ("[a\nrw=read\n", 1, "a name in brackets"),
        ("[a]\nrw=read\nbs=\x014k\n", 3, "control characters"),
        ("[a]\nbs=4k\nname=" + "x" * 5000 + "\n", 3, "fio cuts lines"),
    ],
)
def test_an_error_has_its_line(text: str, line: int, words: str) -> None:
    found = messages(text, {"jobs/b.inc": "[b]\n"})
    assert any(number == line and words in message for _, number, message in found), found


@pytest.mark.parametrize("line", ["include b\n", "# " + "x" * 3000 + "\ninclude b\n"])
def test_files_that_include_each_other_many_times_are_refused(line: str) -> None:
    files = {"a": "[a]\ninclude b\n", **{name: line.replace("b", chr(ord(name) + 1)) * 300 for name in "bcdefgh"}}
    reader = JobReader(lambda path: files.get(path, ""), {})
    reader.read("a", Place("m", 1, 1))
    assert [why for _, why in reader.wrong if "20,000 lines or 1 MiB; each include counts" in why]
    assert reader.lines < 21_000


@pytest.mark.parametrize("value", ["4k\nexec_prerun=x", "4k;", "${OTHER}", "4k#", "\udcff"])
def test_a_variable_cannot_add_an_option(value: str) -> None:
    assert messages("[a]\nbs=${SIZE}\n", SIZE=value)[0][2].startswith("the variable SIZE has a character")


@pytest.mark.parametrize(
    "line",
    [
        *("exec_prerun=touch x", "exec_postrun=x", "ioengine=null", "ioengine=external:x.so", "ioengine=/x.so"),
        *("opendir=/", "read_iolog=x", "write_iolog=x", "allow_mounted_write=1", "mem=mmapshared:/x", "iomem=shm:/x"),
        *("buffer_pattern='/etc/shadow'", "verify_pattern='x'", "cgroup=x", "cgroup_weight=5", "verify_state_load=1"),
        *("unlink=1", "unlink_each_loop", "ioscheduler=none", "profile=act", "filename_format=../x", "donorname=x"),
        *("description=while(1)if(0)1*$ncpus", "description=2^999999999*$ncpus", "size=$pagesize*{1}"),
    ],
)
def test_options_that_reach_other_places_are_refused(line: str) -> None:
    file, _ = read(f"[a]\nrw=read\n{line}\n")
    ((_, options),) = effective(file.sections)
    assert [why for one in options.values() if (why := why_refused(one, in_files=False))]


@pytest.mark.parametrize("value", ["5*$pagesize", "$ncpus", "(2 + $ncpus) * 10k,8KiB", "$mb_memory/2m"])
def test_fio_may_compute_with_facts_of_its_host(value: str) -> None:
    file, _ = read(f"[a]\nthinktime={value}\n")
    ((_, options),) = effective(file.sections)
    assert [why_refused(one, in_files=False) for one in options.values()] == [""]


@pytest.mark.parametrize(
    ("pattern", "job"),
    [
        ("", "../../../etc/passwd"),
        ("$jobname", "../../../etc/passwd"),
        ("$JobName", "a/../../../etc/passwd"),
        (".$clientuid./.$clientuid./etc/passwd", "a"),
        (".$jobname/etc/passwd", "."),
        ("$jobname", ".$clientuid./etc/passwd"),
        ("", "a" * 251 + "/..."),  # fio cuts it to `/..`
        ("$jobname", "$jobname"),
        ("$jobnum" * 100 + "x" * 3000, "a"),
    ],
)
def test_no_name_that_fio_makes_leaves_the_layout(pattern: str, job: str) -> None:
    file, reader = read(f"[global]\nfilename_format={pattern}\n[{job}]\nrw=read\n")
    assert not reader.wrong
    assert [section.name for section, _ in misnamed(file.sections, in_files=True)] == [job]
    assert len([*misnamed(file.sections, in_files=False)]) == (len(job) > 254)


@pytest.mark.parametrize(
    ("pattern", "job"), [("", "a/b"), ("", "..a"), ("$jobname/..$filenum", "x"), ("$x", "$jobnum")]
)
def test_names_within_the_layout_are_possible(pattern: str, job: str) -> None:
    file, _ = read(f"[a]\n[{job}]\nfilename_format={pattern}\n")
    assert [*misnamed(file.sections, in_files=True)] == []


def test_files_have_the_names_of_fio() -> None:
    assert file_name("$JOBNAME-$jobnum.$filenum$clientuid$jobnam", "a$filenum") == "a0-0.0$jobnam"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ioengine=libzbc", "bypasses all layers and needs zoned disks"),
        ("ioengine=spdk_bdev", "bypasses the kernel"),
        ("ioengine=page_fault", "without files and disks"),
        ("ioengine=guasi", "does not run on today's Linux"),
        ("ioengine=rdma", "does not use the disks or files of a layout"),
        ("read_iolog=x", "a trace is a workload of its own; write `replay:` with the path of the trace"),
    ],
)
def test_a_refusal_has_a_true_reason(line: str, why: str) -> None:
    file, _ = read(f"[a]\n{line}\n")
    ((_, options),) = effective(file.sections)
    (found,) = [why_refused(one, in_files=False) for one in options.values()]
    assert why in found
    assert "endangers" not in found


def test_time_alone_ends_no_job_as_in_fio() -> None:
    assert whole("[a]\nrw=read\ntime_based\nsize=4m\n").load(1 << 30).moved == 4 << 20


def test_files_may_be_unlinked_in_a_file_system() -> None:
    file, _ = read("[a]\nunlink=1\n")
    ((_, options),) = effective(file.sections)
    assert [why_refused(one, in_files=True) for one in options.values()] == [""]


def test_targets_and_outputs_are_replaced() -> None:
    file, _ = read("[a]\nfilename=/dev/sdb\ndirectory=/x\nwrite_bw_log\nlog_avg_msec=5\nverify_dump=1\nrw=read\n")
    assert on_target(file.sections, in_files=False) == (("a", ("rw=read",)),)
    assert on_target(file.sections, in_files=True) == (("a", ("filename=dev_sdb", "rw=read")),)
    assert relative_names("a:/tmp/x:../y\\:z") == "a:tmp_x:y\\:z"


def test_a_set_value_replaces_all_spellings() -> None:
    file, _ = read("[global]\nblocksize=4k\niodepth=2\n[a]\nbssplit=4k/50:8k/50\n[b]\nrw=write\n")
    changed = with_values(file.sections, {"bs": "16k", "b.iodepth": "8"})
    assert on_target(changed, in_files=False) == (
        ("global", ("iodepth=2",)),
        ("a", ("bs=16k",)),
        ("b", ("rw=write", "bs=16k", "iodepth=8")),
    )


def test_jobs_one_after_the_other_add_up() -> None:
    text = "[global]\nruntime=10\ntime_based\nramp_time=2s\n[a]\n[b]\nstonewall\n[c]\nwait_for=b\nstartdelay=1-3\n"
    work = whole(text)
    assert (work.runtime, work.ramp) == (33.0, 6.0)
    assert work.load(1 << 30).timed == 39.0
    assert work.phases == {"a": 1, "b": 2, "c": 3}
    assert work.load(1 << 30).moved == 0


def test_bounds_are_those_of_all_jobs() -> None:
    text = "[a]\nrw=randread\nbsrange=1k-64k\niodepth=8\nioengine=libaio\nnumjobs=2\nsize=10%\n[b]\nrw=write\nsize=1m\nloops=3\n"
    work = whole(text)
    assert (work.rw, work.bs, work.write_share, work.under_way, work.direct) == ("randrw", 65536, 1.0, 17, False)
    assert work.runtime is None
    assert work.load(100 << 20).moved == 2 * (10 << 20) + 3 * (1 << 20)
    assert whole("[a]\nrw=rw\nrwmixwrite=30\nbuffered=0\n").write_share == pytest.approx(0.3)
    assert whole("[a]\nrw=read\nsize=4m\nrate=1m\n").load(1 << 30).timed == 4.0
    assert whole("[a]\nrw=write\nverify=md5\nsize=4m\n").load(1 << 30).moved == 8 << 20


def test_files_of_a_name_count_once() -> None:
    text = "[global]\nsize=1m\n[a]\nfilename=x\n[b]\nfilename=x\n[c]\nnumjobs=3\n[d]\nfilesize=2m\nnrfiles=2\n"
    assert whole(text, in_files=True).fileset(1 << 30).total == (1 + 3 + 4) << 20


def test_options_without_a_bound_get_a_hint() -> None:
    _, (numjobs, offset, waits) = bounds_of(read("[a]\nnumjobs=$ncpus\noffset=524z\n[b]\nwait_for=c\n")[0].sections)
    assert "how much numjobs=$ncpus is, only fio knows" in numjobs
    assert "offset=524z counts the zones of a zoned disk, which no layer has; write a size" in offset
    assert "a.numjobs" in numjobs
    assert "waits for 'c'" in waits
    (problem,) = whole("[a]\nrw=read\n", in_files=True).problems()
    assert "set: {a.size: 1g}" in problem.message


@pytest.mark.parametrize("name", ["MATRIX_STORE", "GITHUB_TOKEN", "pgpassword", "AWS_SECRET_ACCESS_KEY"])
def test_a_variable_that_may_hold_a_secret_is_refused(name: str) -> None:
    found = messages(f"[a]\ndescription=${{{name}}}\n", None, **{name: "hidden"})
    assert found[0][2].startswith(f"the variable {name} may hold a secret")
    assert "hidden" not in str(found)


def test_a_copy_with_other_options_has_other_bounds() -> None:
    work = FioWorkload.model_validate({"rw": "write", "bs": "64KiB"})
    assert work.bound.bs == (2**16, 2**16)
    assert work.model_copy(update={"bs": 2**12}).bound.bs == (2**12, 2**12)
