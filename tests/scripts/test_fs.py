"""What is rendered for file systems and for work on files."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from matrix_runner.layers.fs import FsView
from matrix_runner.scripts.cell import stack_scripts
from matrix_runner.scripts.stack import bay_of
from tests.support.matrices import space
from tests.support.scripts import DISKS, _Text, rendered
from tests.support.shell import complaints

TEXT = """\
name: fs
disks: {count: 4, size: 1GiB}
layouts:
  raw: [md: {level: 5}]
  nas: [md: {level: 5, chunk: 64KiB}, fs: {type: [ext2, ext3, ext4, xfs, f2fs, btrfs], options: "noatime,commit=30"}]
  own: [fs: {type: btrfs, data: raid10}]
workloads:
  many: {rw: [read, write], bs: 64KiB, files: 600, file_size: 1MiB, direct: [true, false]}
repeat: 1
"""
MOUNT = f"/run/matrix/mnt-{bay_of(DISKS)}-1"


def _files(name: str) -> dict[str, str]:
    return rendered(next(cell for cell in space(TEXT).cells() if cell.name == name))


def test_pinned(snapshot: SnapshotAssertion) -> None:
    files = _files("own/many/rw=write,direct=false")
    assert "".join(f"==> {file} <==\n{text}" for file, text in files.items()) == snapshot(extension_class=_Text)


def test_every_script_is_clean() -> None:
    cells = [cell for cell in space(TEXT).cells() if ("write" in cell.name) == ("direct=false" in cell.name)]
    scripts = [text for cell in cells for name, text in rendered(cell).items() if name.endswith(".sh")]
    assert complaints(scripts) == ""


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_every_job_is_taken_by_fio(tmp_path: Path) -> None:
    jobs = {rendered(cell)["trial-1/job.fio"] for cell in space(TEXT).cells()}
    together = "".join(text.replace("[trial]", f"[{number}]") for number, text in enumerate(sorted(jobs)))
    (tmp_path / "all.fio").write_text(together)
    result = subprocess.run(["fio", "--parse-only", "all.fio"], cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_fio_makes_files_in_a_file_system_and_never_where_devices_are() -> None:
    raw, nas = _files("raw/many/rw=read,direct=true"), _files("nas/type=xfs/many/rw=read,direct=true")
    assert "allow_file_create=0\n" in raw["trial-1/job.fio"]
    assert "filename=/dev/md/matrix-0\n" in raw["trial-1/job.fio"]
    assert "allow_file_create" not in nas["trial-1/job.fio"]
    assert "filename" not in nas["trial-1/job.fio"]
    for line in (
        f"directory={MOUNT}",
        "nrfiles=600",
        "filesize=1048576",
        "openfiles=512",
    ):
        assert f"{line}\n" in nas["trial-1/job.fio"]
    assert "fio" not in raw["2-tune.sh"]
    assert "create_only=1" in nas["2-tune.sh"]


@pytest.mark.parametrize(
    ("rw", "fio", "line"),
    [
        ("read", "", "file_service_type=sequential"),
        ("rw", "", "file_service_type=sequential"),
        ("write", ", fio: {file_service_type: random}", "file_service_type=random"),
        ("randread", "", None),
    ],
)
def test_sequential_work_takes_one_file_after_the_other(rw: str, fio: str, line: str | None) -> None:
    text = TEXT.replace("rw: [read, write]", f"rw: {rw}").replace("file_size: 1MiB", f"file_size: 1MiB{fio}")
    jobs = {cell.stack.label: rendered(cell)["trial-1/job.fio"].splitlines() for cell in space(text).cells()}
    assert not [one for one in jobs["raw"] if one.startswith("file_service_type") and not fio]
    assert [one for one in jobs["nas/type=ext4"] if one.startswith("file_service_type")] == ([line] if line else [])


def test_caches_are_emptied_by_mounting_anew_and_only_for_buffered_work() -> None:
    direct, buffered = (_files(f"nas/type=ext4/many/rw=read,direct={one}") for one in ("true", "false"))
    assert direct["2-tune.sh"].rstrip().endswith(f"sync -f {MOUNT}")
    assert "umount" not in direct["2-tune.sh"]
    assert buffered["2-tune.sh"].index("umount") < buffered["2-tune.sh"].index(
        "\nmount -o no_prefetch_block_bitmaps -t ext4"
    )
    assert "blockdev --flushbufs" not in buffered["4-measure.sh"]
    assert f"  sync -f {MOUNT}\n" in buffered["4-measure.sh"]
    assert "drop_caches" not in "".join(buffered.values())


@pytest.mark.parametrize("fs", ["type: btrfs", "type: f2fs", "type: ext3, options: 'noatime,data=journal'"])
def test_file_systems_that_buffer_direct_work_are_remounted(fs: str) -> None:
    text = TEXT.replace('type: [ext2, ext3, ext4, xfs, f2fs, btrfs], options: "noatime,commit=30"', fs)
    cell = next(cell for cell in space(text).cells() if cell.name == "nas/many/rw=read,direct=true")
    assert "umount" in rendered(cell)["2-tune.sh"]


def test_files_that_a_trial_moves_about_are_no_other_trials_files() -> None:
    note = f"\n  : >{MOUNT}/1x600x1048576.whole\n"
    for kind, left in (("ext4", True), ("btrfs", False)):
        writes, reads = (_files(f"nas/type={kind}/many/rw={rw},direct=true")["2-tune.sh"] for rw in ("write", "read"))
        assert (note in writes) is left
        assert note in reads
        # Whoever moves them about takes the note of a trial before it away, and has them laid out anew.
        gone, looks = (
            f"\nrm -f -- {MOUNT}/1x600x1048576.whole\n",
            f"if [[ ! -e {MOUNT}/1x600x1048576.whole ]]; then\n",
        )
        assert (gone in writes.partition(looks)[0]) is not left
        assert gone not in reads


def test_files_made_by_writing_are_removed_and_not_laid_out() -> None:
    text = TEXT.replace("files: 600", "new: true, files: 600")
    cells = {cell.name: cell for cell in space(text).cells()}
    made, over = (
        rendered(cells[f"nas/type=ext4/many/rw={rw},direct=true"])["2-tune.sh"].splitlines() for rw in ("write", "read")
    )
    whole = f"{MOUNT}/1x600x1048576.whole"
    gone = f"rm -f -- {whole}"
    deleted = [f"  rm -f -- {MOUNT}/*.whole", f"  find {MOUNT} -maxdepth 1 -type f -delete"]
    # Whatever an earlier trial noted of such files, they go.
    start = made.index(gone)
    assert made[start : start + 5] == [gone, f"if [[ ! -e {whole} ]]; then", *deleted, "fi"]
    assert not [line for line in made if "fio -" in line or ">" + whole in line]
    # What is read is laid out, once.
    start = over.index(deleted[0])
    assert over[start : start + 2] == deleted
    assert gone not in over
    assert [line for line in over if "| confined fio - " in line]
    assert f"  : >{whole}" in over


def _view(text: str) -> FsView:
    found = space(TEXT.replace("type: btrfs, data: raid10", text))
    array = next(array for array in found.stacks if array.label.startswith("own"))
    *_, view = stack_scripts(array, [f"/dev/vd{letter}" for letter in "abcd"], zeroed=True).stack.layers
    assert isinstance(view, FsView)
    return view


@pytest.mark.parametrize(
    ("declared", "kernel"),
    [
        ("logbsize=262144", "logbsize=256k"),
        ("allocsize=64m", "allocsize=65536k"),
        ("barrier=0", "nobarrier"),
        ("compress=zstd", "compress=zstd:3"),
        ("noatime", "noatime"),
    ],
)
def test_an_option_is_known_in_the_kernels_own_spelling(declared: str, kernel: str) -> None:
    (option,) = _view(f"type: btrfs, options: '{declared}'").options
    assert kernel in option.shown
    assert declared in option.shown


@pytest.mark.parametrize(
    ("text", "mounted", "keeps"),
    [
        ("type: btrfs", True, True),
        ("type: btrfs, options: noatime", True, True),
        ("type: btrfs, options: 'discard=async'", False, False),
        ("type: btrfs, options: nodiscard", True, False),
    ],
)
def test_discards_happen_only_if_declared(text: str, mounted: bool, keeps: bool) -> None:
    view = _view(text)
    assert ("nodiscard" in view.mount[3].split(",")) is mounted
    assert view.keeps_deleted is keeps


@pytest.mark.parametrize(("kind", "told"), [("f2fs", True), ("btrfs", True), ("ext4", False), ("xfs", False)])
def test_discard_by_default_is_switched_off_and_checked(kind: str, told: bool) -> None:
    text = TEXT.replace("type: [ext2, ext3, ext4, xfs, f2fs, btrfs]", f"type: {kind}")
    files = rendered(next(cell for cell in space(text).cells() if cell.name.startswith("nas")))
    (mount,) = [line for line in files["1-set-up.sh"].splitlines() if line.startswith("mount ")]
    assert ("nodiscard" in mount) is told
    assert 'told fs.discard off "$got"' in files["3-verify.sh"]


@pytest.mark.parametrize(
    ("has", "got"),
    [
        ("rw,relatime,space_cache=v2,subvolid=5,subvol=/", "off"),
        ("rw,relatime,discard=async,space_cache=v2", "discard=async"),
        ("rw,lazytime,discard,discard_unit=block", "discard"),
        ("rw,lazytime,nodiscard,discard_unit=block", "off"),
    ],
)
def test_an_undeclared_discard_is_seen_in_the_mount_options(has: str, got: str) -> None:
    script = _files("nas/type=f2fs/many/rw=read,direct=true")["3-verify.sh"]
    part = script[script.index("got=off\n") : script.index("told fs.discard")] + 'printf %s "$got"'
    said = subprocess.run(["bash", "-c", part], env={"has": has}, capture_output=True, text=True)
    assert said.stdout == got


def test_mkfs_gets_all_values_explicitly() -> None:
    for kind, words in (("xfs", ["-d", "noalign"]), ("ext4", ["stride=0,stripe_width=0"])):
        text = TEXT.replace("type: [ext2, ext3, ext4, xfs, f2fs, btrfs]", f"type: {kind}, align: off")
        script = rendered(next(cell for cell in space(text).cells() if cell.name.startswith("nas")))["1-set-up.sh"]
        (line,) = re.findall(rf"^mkfs\.{kind} .*$", script, re.MULTILINE)
        assert all(word in line for word in words), line
        assert "nodiscard" in line or " -K " in line


@pytest.mark.parametrize(
    ("fs", "words", "read"),
    [
        ("type: ext4, inode_size: 512B", ["-I 512"], ["inode_size 512"]),
        ("type: ext4, checksums: false", ["-O '^metadata_csum'"], ["checksums 0"]),
        ("type: ext4, checksums: true, journal: none", ["-O metadata_csum"], ["checksums 1"]),
        ("type: xfs, inode_size: 1KiB", ["-i size=1024"], ["inode_size 1024"]),
        ("type: xfs, allocation_groups: 6", [",agcount=6 "], ["allocation_groups 6"]),
        ("type: xfs, checksums: false", [",crc=0 "], ["checksums 0"]),
        ("type: f2fs, mkfs: -i -w 4096", ["-i -w 4096 "], []),
    ],
)
def test_choices_of_mkfs_are_made_and_read_back(fs: str, words: list[str], read: list[str]) -> None:
    def scripts(keys: str) -> dict[str, str]:
        text = TEXT.replace("type: [ext2, ext3, ext4, xfs, f2fs, btrfs]", keys)
        return rendered(next(cell for cell in space(text).cells() if cell.name.startswith("nas")))

    chosen, usual = scripts(fs), scripts(fs.partition(",")[0])
    for name, parts in (("1-set-up.sh", words), ("3-verify.sh", [f"told fs.{one} " for one in read])):
        assert all(part in chosen[name] for part in parts), name
        assert not any(part in usual[name] for part in parts), "mkfs decides"


def test_the_mark_is_on_the_disks_and_decides_what_is_wiped() -> None:
    view = _view("type: btrfs, data: raid10")
    assert view.mark in view.mkfs
    assert view.mark != _view("type: btrfs, data: raid1").mark
    tear_down = _files("own/many/rw=read,direct=true")["5-tear-down.sh"]
    assert tear_down.index("umount") < tear_down.index("wipefs --quiet --all")


@pytest.mark.parametrize(
    ("chunk", "stripe"), [("64KiB", "stride=0,stripe_width=0"), ("256KiB", "stride=16,stripe_width=32")]
)
def test_on_thin_volumes_only_chunks_of_whole_stripes_are_aligned_to(chunk: str, stripe: str) -> None:
    thin = f"lvm: {{type: thin, stripes: 2, stripe_size: 64KiB, chunk: {chunk}}}"
    text = TEXT.replace("md: {level: 5, chunk: 64KiB}", thin).replace(
        "type: [ext2, ext3, ext4, xfs, f2fs, btrfs]", "type: ext4"
    )
    script = rendered(next(cell for cell in space(text).cells() if cell.name.startswith("nas")))["1-set-up.sh"]
    assert stripe in script
