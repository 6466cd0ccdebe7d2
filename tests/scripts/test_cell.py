"""What is rendered: pinned as files, clean by shellcheck, taken by fio, and safe against whatever a value holds."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from matrix_runner.base.errors import BadInput
from matrix_runner.base.model import Variant
from matrix_runner.scripts.cell import (
    Place,
    cell_scripts,
    find_rejected,
    stack_scripts,
    trial_seed,
    workload_job,
)
from matrix_runner.scripts.jinja import SHIPPED, fio_value, render, shell_words
from matrix_runner.space.space import Cell
from matrix_runner.work.fio.output import parse
from matrix_runner.work.fio.workload import FioWorkload
from tests.support.amounts import TIMES
from tests.support.matrices import SWEEP, space
from tests.support.scripts import DISKS, EVERYTHING, _Text, rendered
from tests.support.shell import complaints

#: One of every kind of thing that templates branch on.
PINNED = {
    "disk": "single/readahead=default,ncq_depth=1/seqread/bs=64KiB",
    "raid0": "striped/chunk=64KiB/readahead=32MiB,ncq_depth=31/oltp/bs=4KiB",
    "raid6": "parity/level=6,chunk=256KiB/readahead=32MiB,stripe_cache_size=16384,ncq_depth=31/oltp/bs=16KiB",
    "raid10": "far/layout=o2/readahead=default,ncq_depth=31/seqread/bs=1MiB",
}


def cell_called(name: str, text: str = SWEEP) -> Cell:
    return next(cell for cell in space(text).cells() if cell.name == name)


@pytest.mark.parametrize("kind", PINNED)
def test_pinned(kind: str, snapshot: SnapshotAssertion) -> None:
    files = rendered(cell_called(PINNED[kind]))
    whole = "".join(f"==> {file} <==\n{text}" for file, text in files.items())
    assert whole == snapshot(extension_class=_Text)


def test_all_tunables_together_are_pinned(snapshot: SnapshotAssertion) -> None:
    """Tuning and read-back of an array with one of everything."""
    cell = next(
        cell
        for cell in space(EVERYTHING).cells()
        if cell.axes.get("md.level") == "5" and cell.axes["tune.scheduler"] == "mq-deadline"
    )
    files = rendered(cell)
    scripts = [
        files[name][files[name].index("# Sets the file" if "tune" in name else "readings=") :]
        for name in ("2-tune.sh", "3-verify.sh")
    ]
    scripts.append(files["aftermath.sh"][files["aftermath.sh"].index("note()") :])
    assert "\n".join(scripts) == snapshot(extension_class=_Text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scripts of a spread of cells of a matrix that uses everything."""
    folder = tmp_path_factory.mktemp("rendered")
    for number, cell in enumerate(space(EVERYTHING).cells()):
        if number % (7507 // TIMES) == 0:
            for name, text in rendered(cell, zeroed=number % 2 == 0, disks=(*DISKS, "/dev/it's odd")).items():
                path = folder / str(number) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    return folder


def test_every_script_is_clean(folder: Path) -> None:
    scripts = sorted(folder.rglob("*.sh"))
    assert len(scripts) >= 25
    assert complaints(path.read_text() for path in scripts) == ""


def test_every_script_starts_strictly_and_never_waits_for_an_answer(folder: Path) -> None:
    for script in folder.rglob("*.sh"):
        text = script.read_text()
        assert text.startswith("#!/usr/bin/env bash\n")
        assert text.index("set -euo pipefail\nexec </dev/null\n") < text.index("\n\n")
        for command in re.findall(r"^mdadm --create.*$", text, re.MULTILINE):
            assert "--run" in command


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_every_job_is_taken_by_fio(folder: Path) -> None:
    jobs = sorted(folder.rglob("job.fio"))
    together = "".join(path.read_text().replace("[trial]", f"[{number}]") for number, path in enumerate(jobs))
    (folder / "all.fio").write_text(together)
    result = subprocess.run(["fio", "--parse-only", str(folder / "all.fio")], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_a_job_works_on_every_one_of_several_hundred_devices(tmp_path: Path) -> None:
    """fio reads a line of 8192 characters, of which the rest is another option to it."""
    devices = tuple(tmp_path / f"a-name-as-long-as-those-of-disks:{number}" for number in range(300))
    for device in devices:
        device.write_bytes(bytes(4096))
    workload = FioWorkload(rw="read", size="100%", ioengine="psync", direct=False)
    text = workload_job(Variant(workload, (), "all", b""), Place(tuple(map(str, devices))), 1)
    assert max(map(len, text.splitlines())) < 8192
    (tmp_path / "job.fio").write_text(text)
    told = subprocess.run(["fio", "--output-format=json", str(tmp_path / "job.fio")], capture_output=True, text=True)
    figures = parse(told.stdout)
    assert figures.read
    assert figures.read.ios == len(devices)


def test_no_template_quotes_by_hand() -> None:
    """A value that stands between quotes already would be quoted twice, or not at all."""
    for template in SHIPPED.rglob("*.sh"):
        for line in template.read_text().splitlines():
            before, put_in, _ = re.sub(r"\{[{%].*?[}%]\}", "\0", line).partition("\0")
            inside = put_in and (before.count('"') % 2 or before.count("'") % 2) and not line.lstrip().startswith("#")
            assert not inside, (template, line)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=10, max_size=40))
def test_any_text_arrives_in_a_script_as_one_word(texts: list[str]) -> None:
    script = f"printf '%s\\0' {shell_words(texts)}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert result.stdout.decode().split("\0")[:-1] == texts


@pytest.mark.skipif(not Path("/usr/sbin/wipefs").exists(), reason="wipefs is elsewhere on this host")
def test_programs_of_root_are_found_with_each_path(tmp_path: Path) -> None:
    """By cron's and plain su's none of them was: nothing was taken apart, and nobody heard why."""

    def found() -> str:
        whole = f"set -euo pipefail\n{render('prelude.sh', None, title='its beginning')}\ncommand -v wipefs"
        done = subprocess.run(["/usr/bin/bash", "-c", whole], env={"PATH": f"{tmp_path}:/bin"}, capture_output=True)
        return done.stdout.decode()

    assert found() == "/usr/sbin/wipefs\n"
    (tmp_path / "wipefs").touch(0o755)
    assert found() == f"{tmp_path}/wipefs\n"


def test_values_without_a_form_in_a_script_are_rejected() -> None:
    for value in (None, True):
        with pytest.raises(TypeError):
            shell_words(value)
    with pytest.raises(ValueError, match="control character"):
        fio_value("a\nb=c")
    assert shell_words(("a b", 3)) == "'a b' 3"
    assert fio_value(True) == "1"


def test_a_users_template_replaces_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "measure.sh").write_text("#!/bin/sh\n# mine: {{ title }}\n")
    cell = cell_called(PINNED["disk"])
    stack = stack_scripts(cell.stack, DISKS, zeroed=True).stack
    scripts = cell_scripts(cell, stack, tmp_path)
    assert scripts.measure == f"#!/bin/sh\n# mine: {shell_words(cell.name)}\n"
    assert scripts.tune == cell_scripts(cell, stack).tune


def test_a_title_never_leaves_its_comment(tmp_path: Path) -> None:
    (tmp_path / "measure.sh").write_text("#!/bin/sh\n# {{ title }}\ntrue\n")
    (tmp_path / "job.fio").write_text("# {{ title }}\n[trial]\n")
    for template in ("measure.sh", "job.fio"):
        for between in "\n\r\x85\u2028\x00":
            lines = render(template, tmp_path, title=f"x{between}touch PWNED #").splitlines()
            assert not [line for line in lines if line.strip().startswith("touch")]


@pytest.mark.parametrize(
    "text", ["{{ nobody_defined_this }}", "{% if %}", "{{ 1 / 0 }}", "{{ none }}", "{{ [][0].x }}"]
)
def test_a_template_with_a_mistake_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "measure.sh").write_text(f"\n{text}\n")
    with pytest.raises(BadInput, match=r"template measure\.sh"):
        render("measure.sh", tmp_path, title="x")


def test_a_depth_is_set_only_of_disks_that_have_a_queue() -> None:
    text = SWEEP.replace(
        "{count: 4, size: 1GiB, bus: sata}", "[{count: 2, size: 1GiB, bus: sata}, {count: 2, size: 1GiB, bus: nvme}]"
    )
    tune = rendered(cell_called(PINNED["raid0"], text))["2-tune.sh"]
    turned = [line for line in tune.splitlines() if line.startswith("turn ") and "device/queue_depth" in line]
    assert [line.split()[1] for line in turned] == [*DISKS[:2]]


def test_a_value_that_no_used_disk_refuses_may_be_declared() -> None:
    """A sata disk takes 32 requests without a scheduler, but this layout stands on the other disk."""
    text = SWEEP.replace(
        "{count: 4, size: 1GiB, bus: sata}", "[{count: 1, size: 1GiB, bus: sata}, {count: 1, size: 1GiB, bus: nvme}]"
    )
    head, _, tail = text.partition("layouts:\n")
    _, _, rest = tail.partition("tune:\n")
    one = f"{head}layouts: {{one: [disk: {{number: NUMBER}}]}}\ntune: {{scheduler: none, nr_requests: 256}}\n{rest[rest.index('workloads') :]}"
    assert space(one.replace("NUMBER", "1")).count() == 4
    with pytest.raises(BadInput, match="takes at most 32"):
        space(one.replace("NUMBER", "0"))


def test_set_up_rules_the_resync_out_only_on_zeroed_disks() -> None:
    cell = cell_called(PINNED["raid6"])
    assert "--assume-clean" in rendered(cell, zeroed=True)["1-set-up.sh"]
    waiting = rendered(cell, zeroed=False)["1-set-up.sh"]
    assert "--assume-clean" not in waiting
    assert "sync_action" in waiting
    striped = rendered(cell_called(PINNED["raid0"]), zeroed=True)["1-set-up.sh"]
    assert "--assume-clean" not in striped


def test_every_trial_has_different_repeatable_offsets() -> None:
    seeds = {trial_seed(1, cell.id, round_number) for cell in space().cells() for round_number in (1, 2, 3)}
    assert len(seeds) == space().count() * 3
    assert trial_seed(1, "a", 1) == trial_seed(1, "a", 1) != trial_seed(2, "a", 1)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_read_back_has_wanted_and_actual_values(tmp_path: Path) -> None:
    """The very script, over a sysfs made of plain files."""
    cell = cell_called(PINNED["raid6"])
    script = rendered(cell)["3-verify.sh"]
    fake = _fake_sysfs(tmp_path, script)
    result = subprocess.run(["bash", "-c", fake], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "reading\tmd.bitmap\tnone\tnone\n" in result.stdout
    (tmp_path / "_dev_md_matrix-0" / "md/bitmap/location").unlink()  # as Linux 6.18 does without a bitmap
    assert subprocess.run(["bash", "-c", fake], capture_output=True, text=True).stdout == result.stdout
    (tmp_path / "_dev_md_matrix-0" / "md/stripe_cache_size").write_text("256\n")
    result = subprocess.run(["bash", "-c", fake], capture_output=True, text=True)
    assert result.returncode == 4
    assert result.stderr == "matrix: not as declared: stripe_cache_size wanted 16384, kernel says 256\n"
    assert "reading\tstripe_cache_size\t16384\t256\n" in result.stdout
    (tmp_path / "_dev_md_matrix-0" / "md/dev-_dev_disk_by-id_matrix-2/state").write_text("in_sync,write_mostly\n")
    result = subprocess.run(["bash", "-c", fake], capture_output=True, text=True)
    assert "md.member3 wanted in_sync/2, kernel says in_sync,write_mostly/2\n" in result.stderr
    (tmp_path / "_dev_md_matrix-0" / "md/bitmap/location").write_text("+8\n")
    result = subprocess.run(["bash", "-c", fake], capture_output=True, text=True)
    assert "md.bitmap wanted none, kernel says internal\n" in result.stderr


def test_only_buffered_work_empties_caches() -> None:
    """Direct I/O is not answered from memory, and emptying costs more than many a trial."""
    buffered = next(iter(space(SWEEP.replace("rw: read,", "rw: read, direct: false,")).cells()))
    assert "direct=0" in rendered(buffered)["trial-1/job.fio"]
    assert "blockdev --flushbufs" in rendered(buffered)["4-measure.sh"]
    assert "blockdev" not in rendered(cell_called(PINNED["raid0"]))["4-measure.sh"]


def _fake_sysfs(root: Path, script: str) -> str:
    """The script with /sys replaced by files that hold what is wanted."""
    device = ""
    for line in script.splitlines():
        if line.startswith("kernel_name /"):
            device = line.split()[1].replace("/", "_")
        if line.startswith("told_role "):
            _, _, wanted, member = line.split()
            role = root / "_dev_md_matrix-0" / "md" / f"dev-{member.replace('/', '_')}"
            role.mkdir(parents=True, exist_ok=True)
            for name, text in zip(("state", "slot"), wanted.split("/"), strict=True):
                (role / name).write_text(f"{text}\n")
        if line.startswith("told md.stripe_width"):
            path = root / "_dev_md_matrix-0" / "queue" / "optimal_io_size"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(line.split()[2])
        if line.startswith("look "):
            _, _, wanted, file = line.split()
            if file.startswith("/"):
                continue
            path = root / device / file.removeprefix('"$at"/')
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("none [mq-deadline]\n" if wanted == "-" else f"{wanted}\n")
    body = re.sub(r"kernel_name\(\) \{.*?\n\}\n", "kernel_name() { REPLY=${1//\\\\//_}; }\n", script, flags=re.DOTALL)
    return body.replace("/sys/class/block", str(root))


HOLES = "name: holes\ndisks: {count: 1, size: 64MiB}\nlayouts: {one: [disk]}\nworkloads: {work: {rw: [read, write, rw], bs: 64KiB, skip: [0, 192KiB]}}\n"  # fmt: skip


def test_holes_between_requests_are_in_the_job() -> None:
    jobs = [rendered(cell)["trial-1/job.fio"] for cell in space(HOLES).cells()]
    kinds = [re.findall(r"^rw=(.*)$", job, re.MULTILINE)[0] for job in jobs]
    assert kinds == ["read", "read:196608", "write", "write:196608", "rw", "rw:196608"]
    assert shutil.which("fio") is None or find_rejected({str(at): job for at, job in enumerate(jobs)}) == {}


def test_no_holes_are_the_same_cell_as_no_word_of_them() -> None:
    plain = {cell.id for cell in space(HOLES.replace(", skip: [0, 192KiB]", "")).cells()}
    assert plain < {cell.id for cell in space(HOLES).cells()}
