"""`matrix init`, `completion`, `help` and `--version`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.version import matrix_version
from matrix_runner.cli import cli
from matrix_runner.cli.init import KINDS
from matrix_runner.space.load import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.command import Said

    Call = Callable[..., Said]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_writes_a_valid_matrix(kind: str, call: Call, tmp_path: Path) -> None:
    assert call("init", "mine", "--kind", kind).status == 0
    assert load(tmp_path / "mine.yaml").space.matrix.name == "mine"
    assert (tmp_path / "mine.yaml").read_text().startswith("# yaml-language-server: $schema=matrix.schema.json\n")
    assert (tmp_path / "matrix.schema.json").read_text().startswith("{")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_alone_is_name_and_kind(kind: str, call: Call, tmp_path: Path) -> None:
    assert call("init", kind).status == call("init", "mine", "--kind", kind).status == 0
    named, mine = ((tmp_path / f"{name}.yaml").read_text() for name in (kind, "mine"))
    assert named.replace(f'name: "{kind}"', 'name: "mine"') == mine


def test_a_nas_has_the_wanted_disks_and_arrays(call: Call, tmp_path: Path) -> None:
    assert call("init", "--disks", "6", "--levels", "5,6,10").status == 0
    matrix = load(tmp_path / "nas.yaml").space.matrix
    assert len(matrix.every_disk()) == 6
    assert list(matrix.layouts) == ["raid5", "raid6", "raid10"]
    assert "A NAS with 6 disks" in (tmp_path / "nas.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--disks", "3", "--levels", "6"), "RAID 6 needs at least 4 disks"),
        (("--levels", "7"), "there is no RAID level '7'"),
        (("raid", "--levels", "5"), "--disks and --levels are of a NAS"),
    ],
)
def test_a_nas_that_cannot_be_is_refused(words: tuple[str, ...], why: str, call: Call, tmp_path: Path) -> None:
    said = call("init", *words)
    assert (said.status, why in said.err) == (2, True)
    assert not (tmp_path / "nas.yaml").exists()


def test_two_names_are_refused_with_the_command_that_was_meant(call: Call, tmp_path: Path) -> None:
    said = call("init", "compare", "mine")
    assert (said.status, list(tmp_path.iterdir())) == (2, [])
    assert "matrix init mine --kind compare" in said.err


def test_a_file_that_exists_stays_as_it_is(call: Call, tmp_path: Path) -> None:
    (tmp_path / "raid.yaml").write_text("mine")
    said = call("init")
    assert (said.status, (tmp_path / "raid.yaml").read_text()) == (2, "mine")
    assert "raid.yaml exists already" in said.err


@pytest.mark.parametrize("name", ["null", "yes.no", "a.yml", "off"])
def test_a_word_that_yaml_takes_for_something_else_is_a_name(name: str, call: Call, tmp_path: Path) -> None:
    assert call("init", name).status == 0
    (file,) = tmp_path.glob("*.yaml")
    assert load(file).space.matrix.name == name.removesuffix(".yml")


def test_an_existing_schema_stays(call: Call, tmp_path: Path) -> None:
    (tmp_path / "matrix.schema.json").write_text("mine")
    assert call("init").status == 0
    assert (tmp_path / "matrix.schema.json").read_text() == "mine"


@pytest.mark.parametrize("name", ["../x", "a b", "ä", "-x"])
def test_a_malformed_name_is_refused(name: str, call: Call, tmp_path: Path) -> None:
    assert call("init", "--", name).status == 2
    assert not list(tmp_path.iterdir())


JOB = "[global]\nioengine=libaio\nruntime=1\ntime_based\n[log]\nrw=write\n[my reader]\nrw=randread\nsize=4g\n"


def test_a_matrix_of_a_job_file_runs(call: Call, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "db.fio").write_text(JOB)
    said = call("init", "--from", "jobs/db.fio")
    assert said.status == 0
    assert "wrote db.yaml" in said.out
    text = (tmp_path / "db.yaml").read_text()
    assert '"my reader.size": 256m    # instead of 4GiB: a disk has 512MiB' in text
    assert [cell.name for cell in load(tmp_path / "db.yaml").space.cells()] == ["raw/db", "raid5/db"]
    assert call("run", "--on", "dry", "db.yaml").status == 0
    # The other example of the comment is one, too.
    (tmp_path / "more.yaml").write_text(text.replace("# log.iodepth", "log.iodepth"))
    assert len(list(load(tmp_path / "more.yaml").space.cells())) == 4
    assert call("init", "other", "--from", "jobs/db.fio").status == 0
    assert load(tmp_path / "other.yaml").space.matrix.name == "other"


def test_set_of_a_job_file_that_fits_is_an_example_only(call: Call, tmp_path: Path) -> None:
    (tmp_path / "1 db.fio").write_text(JOB.replace("size=4g\n", ""))
    assert call("init", "--from", "1 db.fio").status == 0
    text = (tmp_path / "job.yaml").read_text()
    assert len(list(load(tmp_path / "job.yaml").space.cells())) == 2
    (tmp_path / "job.yaml").write_text(text.replace("# set:", "set:").replace("#   log.iodepth", "  log.iodepth"))
    assert len(list(load(tmp_path / "job.yaml").space.cells())) == 4


@pytest.mark.parametrize(
    ("words", "job", "why"),
    [
        (("--from", "db.fio"), JOB + "exec_prerun=x\n", "db.fio:10:1: `exec_prerun` is not allowed"),
        (("--from", "db.fio"), "rw=read\n", "stands before the first section"),
        (("--from", "db.fio"), JOB + "exec_prerun=x\n", "db.fio: no matrix can run this job file as it is"),
        (("--from", "none.fio"), JOB, "none.fio: there is no such file"),
        (("--from", "/dev/zero"), JOB, "/dev/zero: this is not a regular file"),
        (("--from", "db.fio", "--kind", "nas"), JOB, "--kind and --from"),
        (("a/b", "--from", "db.fio"), JOB, "cannot be the name of a matrix"),
    ],
)
def test_no_matrix_of_a_job_file_that_cannot_run(
    words: tuple[str, ...], job: str, why: str, call: Call, tmp_path: Path
) -> None:
    (tmp_path / "db.fio").write_text(job)
    said = call("init", *words)
    assert said.status == 2
    assert why in said.err
    assert [file.name for file in tmp_path.iterdir()] == ["db.fio"]


@pytest.mark.parametrize(
    ("options", "disk"),
    [
        ("rw=randtrim\nsize=1m\n", "size: 512MiB, bus: sata, model: ageing-ssd"),
        ("rw=read\noffset=1g\nsize=4g\n", "size: 2GiB, bus: sata, model: nas-7200"),
        ("rw=read\nblocksize=4k-512k\nsize=100%%\n", "size: 512MiB, bus: sata, model: nas-7200"),
        ("rw=read\nioengine=mmap\ndirect=1\nsize=1m\n", "size: 512MiB, bus: sata, model: nas-7200"),
        ("rw=read\nioengine=io_uring\nhipri\nsize=1m\n", "size: 512MiB, bus: sata, model: nas-7200"),
    ],
)
def test_disks_fit_the_jobs_of_a_file(options: str, disk: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "db.fio").write_text(f"[a]\n{options}")
    said = call("init", "--from", "db.fio")
    assert said.status == 0, said.err
    assert disk in (tmp_path / "db.yaml").read_text()
    assert call("validate", "db.yaml").status == 0


def test_copies_that_verify_their_own_files_get_file_systems(call: Call, tmp_path: Path) -> None:
    (tmp_path / "db.fio").write_text("[a]\nrw=randrw\nverify=crc32c\nnumjobs=4\nsize=400m\n")
    said = call("init", "--from", "db.fio")
    assert said.status == 0, said.err
    text = (tmp_path / "db.yaml").read_text()
    assert "size: 4GiB" in text
    assert "raw: [disk, fs: {type: ext4}]" in text
    assert call("validate", "db.yaml").status == 0


def test_a_matrix_has_a_disk_for_each_device_of_the_file(call: Call, tmp_path: Path) -> None:
    (tmp_path / "db.fio").write_text("".join(f"[{one}]\nfilename=/dev/sd{one}\nsize=1m\n" for one in "abcde"))
    assert call("init", "--from", "db.fio").status == 0
    text = (tmp_path / "db.yaml").read_text()
    assert "disks: {count: 5, size" in text
    assert "raw: [disks: {count: 5}]" in text
    assert "replace /dev/sda, /dev/sdb, /dev/sdc, /dev/sdd, /dev/sde" in call("validate", "db.yaml").out
    assert call("run", "--on", "dry", "db.yaml").status == 0


def test_a_refusal_has_no_reasons_of_devices_that_files_lack(call: Call, tmp_path: Path) -> None:
    (tmp_path / "db.fio").write_text("[a]\nioengine=falloc\nrw=write\nsize=1m\nunlink=1\n")
    said = call("init", "--from", "db.fio")
    assert "db.fio:2:1: ioengine=falloc" in said.err
    assert "unlink" not in said.err


def test_copies_of_a_job_with_many_files_run_on_a_device(call: Call, tmp_path: Path) -> None:
    (tmp_path / "db.fio").write_text("[global]\nnrfiles=16\ndirectory=/x\nnumjobs=2\n[a]\nrw=randrw\n")
    said = call("init", "--from", "db.fio")
    assert said.status == 0, said.err
    assert "raw: [disk]" in (tmp_path / "db.yaml").read_text()


def test_fio_checks_a_job_file_before_its_matrix_is_written(call: Call, tmp_path: Path) -> None:
    (tmp_path / "db.fio").write_text("[a]\nrw=read\nsize=1m\nnonsense=1\n")
    said = call("init", "--from", "db.fio")
    assert said.status == 2
    assert "db.fio: fio refuses it: Bad option <nonsense=1>" in said.err
    assert "db.yaml" not in said.err
    assert [file.name for file in tmp_path.iterdir()] == ["db.fio"]


def test_a_shipped_layout_is_found_without_the_checkout(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\ndisks: {count: 4, size: 128MiB}\nlayouts: {far: [use: layouts/seed-studies.yaml#raid10f2]}\n"
        "workloads: {one: {rw: read}}\n"
    )
    assert [cell.name.split("/")[0] for cell in load(file).space.cells()] == ["far"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell: str, call: Call) -> None:
    assert "_MATRIX_COMPLETE" in call("completion", shell).out


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("matrix r", {"render", "report", "results", "recommend", "run", "runs"}),
        ("matrix runs ta", {"tag"}),
        ("matrix run --on q", {"qemu"}),
    ],
)
def test_a_shell_completes_words(words: str, found: set[str]) -> None:
    from click.shell_completion import ShellComplete

    *before, last = words.split()[1:]
    items = ShellComplete(cli, {}, "matrix", "_MATRIX_COMPLETE").get_completions(before, last)
    assert {item.value for item in items} == found


def test_help_shows_topics_pages_and_commands(call: Call) -> None:
    shown = call("help").out
    assert all(f"\n  {kind} " in shown for kind in ("tutorial", "how-to", "explanation", "reference"))
    assert call("help", "language").out.startswith("# ")
    assert "Usage: matrix run" in call("help", "run").out
    assert "no topic or command is called 'nonsense'" in call("help", "nonsense").err


def test_help_searches_pages_and_guidelines(call: Call) -> None:
    said = call("help", "readahead")
    assert said.status == 0
    assert "\nguideline readahead-helps " in said.out
    assert "matrix help language " in said.out
    said = call("help", "backup")
    assert said.out.startswith("matrix help back-up "), "the page with it in its title comes first"
    assert call("help", "Back-Up").out == said.out
    assert len(call("help", "disk").out.splitlines()) > 1
    assert call("help", "[").status == 2


def test_help_explains_a_word_of_the_glossary(call: Call) -> None:
    said = call("help", "sync")
    assert said.status == 0
    assert said.out.startswith("- in a layout, `sync:` of md: ")
    assert "- As an option of fio, `sync:`: each write waits" in said.out, "each meaning on a line"
    assert "`matrix help language`" in said.out
    assert "divided by" in call("help", "ratio").out
    assert call("help", "fio").out.startswith("- `fio:` adds options of fio")
    assert "`set:` replaces" in call("help", "set").out


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("langauge", "did you mean language?"),
        ("zzz", "`matrix help` lists the topics"),
    ],
)
def test_help_on_an_unknown_word_names_a_similar_topic(word: str, shown: str, call: Call) -> None:
    said = call("help", word)
    assert said.status == 2
    assert shown in said.err
    assert len(said.err) < 200


def test_the_version_names_what_measures(call: Call) -> None:
    lines = call("--version").out.splitlines()
    assert {line.split()[0] for line in lines} >= {"matrix", "kernel", "fio"}
    assert lines[0] == f"matrix {matrix_version()}"
