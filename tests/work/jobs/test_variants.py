"""Workloads of several jobs in a matrix: job files with `set`, and maps of jobs."""

from __future__ import annotations

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.scripts.cell import Files, Place, find_error, workload_job
from matrix_runner.space.load import Declared, parse
from matrix_runner.work.jobs.workload import JobWorkload

START = (
    "name: m\ndisks: {count: 4, size: 256MiB}\nlayouts: {raw: [disk], fs: [md: {level: 5}, fs: {type: ext4}]}\n"
    "workloads:\n"
)
JOB = (
    "[global]\nioengine=libaio\ndirect=1\nruntime=2\ntime_based\nfilename=/dev/sdz\n"
    "[reader]\nrw=randread\nbs=4k\niodepth=8\n[writer]\nrw=write\nbs=64k\nwrite_bw_log\n"
)


def load(workloads: str, job: str = JOB, start: str = START) -> Declared:
    def text_of(name: str) -> str:
        if name != "dir/jobs/db.fio":
            raise FileNotFoundError
        return job

    return parse("dir/m.yaml", start + workloads, text_of)


def rendered(declared: Declared) -> list[str]:
    files = Files("/mnt", "/mnt.whole", 1 << 20, 1, 1 << 20, single_use=True)
    places = {True: Place(files=files), False: Place(("/dev/null",))}
    return [workload_job(work, places[in_files], 7) for work, in_files in declared.space.workloads]


def test_set_values_are_axes() -> None:
    declared = load("  db: {job: jobs/db.fio, set: {bs: [4k, 16k], reader.iodepth: [1, 32], size: 10m}}\n")
    cells = list(declared.space.cells())
    assert len(cells) == 8
    assert len({cell.id for cell in cells}) == 8
    assert [cell.name for cell in cells][:2] == ["raw/db/bs=4k,iodepth=1", "raw/db/bs=4k,iodepth=32"]
    assert cells[0].axes["workload.set.reader.iodepth"] == "1"
    assert declared.space.notes == (
        "workload db: the top of the layout replaces filename=/dev/sdz of dir/jobs/db.fio",
        "workload db: matrix replaces or leaves out write_bw_log of dir/jobs/db.fio",
    )
    assert declared.source.used == {"dir/jobs/db.fio": JOB}


SEVERAL = (
    "[global]\nioengine=libaio\ndirect=1\nrw=randread\nsize=1m\nfilename=/dev/sdc\n"
    "[a]\nfilename=/dev/sda:/dev/sdc\n[b]\n[c]\nfilename=/dev/nvme0n1\n"
)


def test_each_device_of_a_file_is_the_next_one_on_top() -> None:
    declared = load("  db: {job: jobs/db.fio}\n", SEVERAL, START.replace("[disk]", "[disks: {count: 4}]"))
    ((work, _),) = [one for one in declared.space.workloads if not one[1]]
    text = workload_job(work, Place(("/dev/x", "/dev/y", "/dev/z", "/dev/w")), 7)
    first, _, rest = text.partition("randseed=7\n")
    assert "filename" not in first, "fio adds the targets of [global] to those of each job"
    assert [line for line in rest.splitlines() if line.startswith(("[", "filename"))] == [
        *("[global]", "filename=/dev/x", "[a]", "filename=/dev/y:/dev/x", "[b]", "[c]", "filename=/dev/z")
    ]
    (note,) = [one for one in declared.space.notes if "devices on top" in one]
    assert "the first 3 devices on top of the layout, in this order, replace /dev/sdc, /dev/sda, /dev/nvme0n1" in note
    few = workload_job(work, Place(("/dev/x", "/dev/y")), 7)
    assert few.count("filename=") == 1, "each job uses all devices of a layout that has too few"
    assert "filename=/dev/x:/dev/y\n" in few


def test_a_job_without_a_device_uses_all_of_them() -> None:
    job = "[a]\nfilename=/dev/sda\nsize=1m\n[b]\nfilename=/dev/sdb\nsize=1m\n[c]\nsize=1m\n"
    declared = load("  db: {job: jobs/db.fio}\n", job)
    ((work, _), *_) = [one for one in declared.space.workloads if not one[1]]
    text = workload_job(work, Place(("/dev/x", "/dev/y")), 7)
    assert text.partition("[c]\n")[2].startswith("filename=/dev/x:/dev/y\n")


@pytest.mark.parametrize(("size", "why"), [("200m", ""), ("300m", "[a] needs 300MiB, and there are at most 256MiB")])
def test_a_job_has_the_room_of_its_own_device(size: str, why: str) -> None:
    job = f"[global]\nsize={size}\nrw=write\n[a]\nfilename=/dev/sda\nverify=md5\n[b]\nfilename=/dev/sdb\n"
    start = START.replace("[disk]", "[disks: {count: 2}]").replace(", fs: [md: {level: 5}, fs: {type: ext4}]", "")
    if not why:
        assert load("  db: {job: jobs/db.fio}\n", job, start).space.count() == 1, "the jobs are apart"
        return
    with pytest.raises(BadInput) as caught:
        load("  db: {job: jobs/db.fio}\n", job, start)
    assert why in caught.value.details


def test_the_job_keeps_its_text_except_targets_and_outputs() -> None:
    raw, in_files = rendered(load("  db: {job: jobs/db.fio, set: {size: 10m}}\n"))
    theirs = (
        "[global]\nioengine=libaio\ndirect=1\nruntime=2\ntime_based\n[reader]\nrw=randread\nbs=4k\niodepth=8\nsize=10m\n"
        "[writer]\nrw=write\nbs=64k\nsize=10m\n"
    )
    assert raw.partition("randseed=7\n")[2] == theirs
    assert "filename=/dev/null\nallow_file_create=0\n" in raw
    assert "directory=/mnt\n" in in_files
    assert in_files.partition("randseed=7\n")[2] == theirs.replace("time_based\n", "time_based\nfilename=dev_sdz\n", 1)
    assert find_error(raw) == ""


def test_jobs_of_a_map_are_sections_with_common_keys() -> None:
    declared = load(
        "  mixed: {jobs: {reader: {rw: randread, bs: [4KiB, 8KiB]}, writer: {rw: write, bs: 64KiB}}, "
        "runtime: 1s, ramp: 1s, size: 32MiB}\n"
    )
    work = declared.space.workloads[0][0]
    assert work.label == "mixed/bs=4KiB"
    assert dict(work.coords)["workload.jobs.reader.bs"] == "4KiB"
    assert dict(work.coords)["workload.runtime"] == "1s"
    assert (work.value.runtime, work.value.ramp, work.value.bs, work.value.write_share) == (1.0, 1.0, 65536, 1.0)
    assert all(find_error(job) == "" for job in rendered(declared))


@pytest.mark.parametrize(
    ("job", "names", "phases"),
    [
        (JOB, ("reader", "writer"), {"reader": 1, "writer": 1}),
        ("[a]\nsize=1m\n", (), {"a": 1}),
        ("[a]\nsize=1m\n[b]\nsize=1m\nstonewall\nname=c\n", ("a", "c"), {"a": 1, "c": 2}),
        ("[global]\nname=x\nsize=1m\n[a]\n[a]\n[b]\n", ("a", "b"), {"a": 1, "b": 1}),
        ("[global]\ngroup_reporting\nsize=1m\n[a]\n[b]\n", (), {"a": 1, "b": 1}),
        ("[global]\ngroup_reporting\nsize=1m\n[a]\n[b]\n[c]\nnew_group\n[d]\n", ("a", "c"), None),
        ("[global]\nsize=1m\n[a]\n[b]\ngroup_reporting\n[c]\ngroup_reporting=0\n", ("a", "c"), None),
        ("[global]\nsize=1m\n[a]\nstats=0\n[b]\n[c]\n", ("b", "c"), None),
    ],
)
def test_jobs_have_the_names_of_fio(job: str, names: tuple[str, ...], phases: dict[str, int] | None) -> None:
    work = load("  db: {job: jobs/db.fio, set: {size: 1m}}\n", job).space.workloads[0][0].value
    assert work.job_names == names
    assert phases is None or (isinstance(work, JobWorkload) and work.phases == phases)


def test_cells_of_other_workloads_keep_their_ids() -> None:
    declared = parse("m", START + "  one: {rw: randread, bs: 8KiB, runtime: 2s}\n")
    assert [cell.id for cell in declared.space.cells()] == IDS


IDS = ["7e8bbce0e70f7ad6", "e30737bc50863fb5"]


@pytest.mark.parametrize(
    ("workloads", "words"),
    [
        ("  db: {job: jobs/none.fio}\n", "m.yaml:5:13: there is no file dir/jobs/none.fio"),
        (
            "  db: {job: jobs/db.fio, set: {size: 1m, other.bs: 4k}}\n",
            "has no job 'other'; its jobs are reader, writer",
        ),
        ("  db: {job: jobs/db.fio, set: {size: 1m, bs: '4k#'}}\n", "takes ; and # for a comment"),
        ("  db: {job: jobs/db.fio, set: {size: 1m, exec_prerun: x}}\n", ": `exec_prerun` is not allowed"),
        ("  db: {job: jobs/db.fio, bs: 4KiB}\n", "'bs' has no effect on a job file"),
        (
            "  db: {job: jobs/db.fio, fio: {bs: 4KiB}}\n",
            "'fio' has no effect on a job file; write fio's option below `set:`",
        ),
        ("  db: {rw: read, set: {bs: 4k}}\n", "'set' has no effect"),
        ("  db: {job: jobs/db.fio}\n", "[reader] has no size"),
        ("  db: {job: jobs/db.fio, set: {size: 1g}}\n", "[reader] needs 1GiB, and there are at most 256MiB"),
        ("  db: {job: jobs/db.fio, set: {size: 4m, bs: 1000}}\n", "whole sectors of 512B"),
        ("  db: {jobs: {a: {rw: read, jobs: 3}}}\n", "unknown key 'jobs'; did you mean numjobs?"),
        ("  db: {jobs: {a: {rw: read, quz: 3}}}\n", "unknown key 'quz'; known are rw, "),
        ("  db: {jobs: {a: {bs: 4KiB}}}\n", "required key 'rw' is missing"),
        ("  db: {jobs: {globally: {rw: read}}}\n", "common options"),
        ("  db: {jobs: {a: {rw: read, profile: time}}, runtime: 1s}\n", "a profile is that of a workload with one job"),
        ("  db: {preset: dd-read, jobs: {a: {rw: read}}}\n", "keep one of them"),
        ("  db: {job: 5}\n", "write the path of a job file"),
    ],
)
def test_mistakes_of_jobs_are_reported_with_their_place(workloads: str, words: str) -> None:
    with pytest.raises(BadInput) as error:
        load(workloads)
    assert words in (error.value.details or "")


@pytest.mark.parametrize("line", ["mem=mmapshared:/x\nmem=malloc", "[global]\nexec_prerun=x"])
def test_an_option_is_refused_even_if_a_later_one_replaces_it(line: str) -> None:
    with pytest.raises(BadInput) as error:
        load("  db: {job: jobs/db.fio}\n", f"[a]\nrw=read\nsize=1m\n{line}\n")
    assert "dir/jobs/db.fio:" in (error.value.details or "")


def test_a_refused_option_shows_its_line_of_the_job_file() -> None:
    with pytest.raises(BadInput) as error:
        load("  db: {job: jobs/db.fio, set: {size: 1m}}\n", JOB + "exec_postrun=x\n")
    assert "dir/jobs/db.fio:15:1: `exec_postrun` is not allowed" in (error.value.details or "")
    assert "\n    exec_postrun=x\n" in (error.value.details or "")


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("{rw: write}", "[a] verifies data that [b] overwrites at the same time"),
        ("{rw: write, offset: 32MiB}", "[a] verifies data that [b] overwrites at the same time"),
        ("{rw: write, offset: 64MiB}", ""),
        ("{rw: randtrim, size: 1MiB}", "that makes the figures meaningless"),
        ("{rw: read}", ""),
    ],
)
def test_a_job_verifies_only_its_data(second: str, said: str) -> None:
    first = "{rw: write, fio: {verify: crc32c}}"
    text = f"  m: {{jobs: {{a: {first}, b: {second}}}, size: 64MiB}}\n"
    start = START.replace(", fs: [md: {level: 5}, fs: {type: ext4}]", "")
    if said:
        with pytest.raises(BadInput) as error:
            load(text.replace(", size: 64MiB}", "}") if "size" in second else text, start=start)
        assert said in error.value.details
    else:
        assert load(text, start=start).space.count() == 1


def test_the_files_of_a_job_stay_in_the_file_system() -> None:
    with pytest.raises(BadInput) as refused:
        load(
            "  db: {job: jobs/db.fio}\n",
            "[../../../etc/passwd]\nfilename_format=$jobname\nsize=1m\n",
            START.replace("raw: [disk], ", ""),
        )
    assert "its file would be ../../../etc/passwd, outside of the layout; write another name" in str(
        refused.value.details
    )


@pytest.mark.parametrize("option", ["randseed", "filename", "directory", "hipri"])
def test_a_set_value_without_effect_is_noted(option: str) -> None:
    declared = load(f"  db: {{job: jobs/db.fio, set: {{{option}: /dev/sdy}}}}\n", "[a]\nrw=read\nsize=1m\n")
    (note,) = declared.space.notes
    assert option in note
    assert " of dir/jobs/db.fio" in note


def test_a_file_may_have_braces_in_its_name() -> None:
    text = f"{START}  db: {{job: 'd{{b}}.fio', set: {{size: 10m}}}}\n"
    notes = parse("m.yaml", text, lambda _: JOB).space.notes
    assert notes[0] == "workload db: the top of the layout replaces filename=/dev/sdz of d{b}.fio"
