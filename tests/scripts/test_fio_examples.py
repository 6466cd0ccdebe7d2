"""The examples of fio as workloads: each runs with the options, the jobs and the bytes of the file run by hand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.scripts.cell import Files, Place, workload_job
from matrix_runner.space.advice import matrix_of_job
from matrix_runner.space.load import parse
from matrix_runner.work.fio.output import parse as parse_figures
from tests.hosts.loops import attach, detach, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXAMPLES = Path("/usr/share/doc/fio/examples")
_SIZE = 64 << 20
_ENGINE = "an engine that is not for disks and files"
_LIBRARY, _NETWORK, _HARDWARE = "a library that Debian's fio lacks", "needs a server", "needs special hardware"
_META = "does no I/O on data: it creates, removes or changes files"
LEFT_OUT = {
    **dict.fromkeys(("cpp_null", "null", "cpuio", "exec"), _ENGINE),
    **dict.fromkeys(("e4defrag", "e4defrag2", "falloc", "ftruncate"), _META),
    **dict.fromkeys(("filecreate-ioengine", "filedelete-ioengine", "filestat-ioengine"), _META),
    **dict.fromkeys(("dfs", "ime", "libhdfs", "gfapi", "rados", "rbd"), _NETWORK),
    **dict.fromkeys(("http-s3", "http-s3-crypto", "http-s3-storage-class", "http-swift", "http-webdav"), _NETWORK),
    **dict.fromkeys(("libiscsi", "nbd", "netio", "netio_multicast", "nfs"), _NETWORK),
    **dict.fromkeys(("librpma_apm-client", "librpma_apm-server"), _NETWORK),
    **dict.fromkeys(("librpma_gpspm-client", "librpma_gpspm-server"), _NETWORK),
    **dict.fromkeys(
        ("gpudirect-rdmaio-client", "gpudirect-rdmaio-server", "rdmaio-client", "rdmaio-server"), _HARDWARE
    ),
    **dict.fromkeys(("dev-dax", "libpmem", "pmemblk", "mtd", "libcufile-cufile", "libcufile-posix"), _HARDWARE),
    **dict.fromkeys(("sg_verify", "sg_verify-fail", "sg_write_same_ndob"), _HARDWARE),
    **dict.fromkeys(("uring-cmd-ng", "uring-cmd-zoned"), _HARDWARE),
    **dict.fromkeys(("libzbc-rand-write", "libzbc-seq-read"), _LIBRARY),
    "zbd-seq-read": "needs a zoned disk: below the write pointer of a usual one it reads nothing",
    "enospc-pressure": "fails by hand: fio cannot trim files",
    "poisson-rate-submission": "fio 3.33 hangs in one of three runs, by hand as well",
}
_SHORT = {"runtime": "1", "size": "4m"}
#: What makes an example small: a file system or a device, and values of `set`.
CUT: dict[str, tuple[str, dict[str, str]]] = {
    "1mbs_clients": ("files", {"size": "64k", "startdelay": "0", "rate": "0", "ratemin": "0"}),
    "aio-read": ("files", {"size": "2m"}),
    "backwards-read": ("files", {"size": "2m"}),
    "basic-verify": ("device", {"size": "2m"}),
    "butterfly": ("files", {"size": "2m"}),
    "cmdprio-bssplit": ("device", {"size": "8m"}),
    "cmdprio-percentage": ("device", {"size": "8m"}),
    "cross-stripe-verify": ("device", {"io_size": "256k", "offset_increment": "1m", "size": "1m", "numjobs": "4"}),
    "dedupe-global": ("files", {"size": "1m"}),
    "disk-zone-profile": ("device", {"zonesize": "1m", "zoneskip": "3m"}),
    "exitwhat": ("files", {"filesize": "4m", "number_ios": "100", "slow1.thinktime": "200", "slow2.thinktime": "200"}),
    "fio-rand-RW": ("files", _SHORT),
    "fio-rand-read": ("files", _SHORT),
    "fio-rand-write": ("files", _SHORT),
    "fio-seq-RW": ("files", _SHORT),
    "fio-seq-read": ("files", _SHORT),
    "fio-seq-write": ("files", _SHORT),
    "fixed-rate-submission": ("files", {"size": "2m"}),
    "flow": ("files", _SHORT),
    "fsx": ("files", {"loops": "5"}),
    "iometer-file-access-server": ("files", {"size": "4m"}),
    "jesd219": ("device", {"size": "4m"}),
    "latency-profile": ("device", {"size": "4m", "latency_window": "100000"}),
    "numa": ("device", {"size": "4m", "job2.numa_cpu_nodes": "0", "job2.numa_mem_policy": "interleave:0"}),
    "rand-zones": ("files", {"size": "4m"}),
    "ssd-steadystate": ("device", {"size": "4m"}),
    "ssd-test": ("files", _SHORT),
    "steadystate": ("files", {"runtime": "3", "size": "4m", "ss_dur": "2s", "ss_ramp": "0"}),
    "surface-scan": ("device", {"size": "4m", "fill_device": "0"}),
    "tiobench-example": ("files", {"size": "1m", "timeout": "5"}),
    "waitfor": ("files", {"filesize": "4m"}),
    "xnvme-compare": ("device", {"size": "4m", "runtime": "1", "ramp_time": "0"}),
    "xnvme-zoned": ("device", {"size": "4m", "zonesize": "1m", "ramp_time": "0", "override.bs": "4k"}),
    "zbd-rand-write": ("device", {"zonesize": "4m", "max_open_zones": "4", "numjobs": "2", "runtime": "1"}),
    "zipf": ("files", {"ioengine": "psync", "size": "2m"}),
}
#: One example of each kind for every day.
DAILY = ("aio-read", "basic-verify", "butterfly", "cmdprio-bssplit", "fsx", "ssd-steadystate")
ENVIRONMENT = {"FIO_RW": "randread", "FIO_IODEPTH": "2", "FIO_BS": "8k"}
_OURS = {"filename", "directory", "allow_file_create", "lat_percentiles", "clat_percentiles", "verify_state_save"}
_OURS |= {"randseed", "write_bw_log", "write_lat_log", "log_offset", "log_prio", "verify_dump"}
#: Jobs whose bytes differ from run to run: time ends them, or their request sizes or seeds are random.
_RANDOM = {"exitwhat", "jesd219", "iometer-file-access-server", "cmdprio-bssplit", "latency-profile", "flow"}


@dataclass
class ByHand:
    """A job file changed without the program: targets, and some values."""

    lines: list[str]
    sections: list[str] = field(default_factory=list)

    def text(self, target: str, values: Mapping[str, str], *, in_files: bool) -> str:
        found = [f"[global]\n{'directory' if in_files else 'filename'}={target}\nrandseed=7\nlat_percentiles=1\n"]
        section = ""
        for line in [*self.lines, "["]:
            if line.lstrip().startswith("["):
                found += [
                    f"{key.rpartition('.')[2]}={one}" for key, one in values.items() if self._is_for(key, section)
                ]
                section = line.strip().strip("[]")
                found += [line] if section else []
            elif kept := self._kept(line, values, section, in_files=in_files):
                found.append(kept)
        return "\n".join(found) + "\n"

    def _is_for(self, key: str, section: str) -> bool:
        return bool(section) and section != "global" and key.rpartition(".")[0] in {"", section}

    def _kept(self, line: str, values: Mapping[str, str], section: str, *, in_files: bool) -> str:
        name = re.split(r"[=;#]", line)[0].strip()
        name = {"blocksize": "bs", "ss": "steadystate"}.get(name, name)
        gone = {key for key in values if "." not in key} | {key[len(section) + 1 :] for key in values if section in key}
        if name in gone or name == "directory" or (name == "filename" and not in_files):
            return ""
        if name == "filename":
            return "filename=" + re.split(r"[;#]", line)[0].partition("=")[2].strip().strip("/").replace("/", "_")
        return line


@dataclass
class Where:
    device: str
    folder: Path

    def run(self, job: str) -> tuple[str, list[dict[str, Any]], dict[str, str]]:
        for file in self.folder.iterdir():
            file.unlink()
        work = self.folder.parent
        (work / "job.fio").write_text(job)
        command = ["fio", "--output-format=json+", "--output=out.json", "job.fio"]
        environment = {**ENVIRONMENT, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, env=environment, timeout=60)
        text = (work / "out.json").read_text()
        assert done.returncode == 0, (done.stdout + done.stderr)[:600]
        whole = json.loads(text[text.index("\n{") if text[0] != "{" else 0 :])
        return text, whole["jobs"], whole.get("global options", {})


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Where]:
    if why := why_not():
        pytest.skip(why)
    if not EXAMPLES.is_dir() or not shutil.which("fio"):
        pytest.skip("without fio-examples on this host")
    folder = tmp_path_factory.mktemp("examples") / "files"
    folder.mkdir()
    disk = folder.with_name("disk")
    with disk.open("wb") as file:
        file.truncate(_SIZE)
    device = attach(disk)
    try:
        yield Where(device, folder)
    finally:
        detach(device)


def through_job(name: str, where: Where) -> str:
    kind, values = CUT[name]
    layouts = "fs: [fs: {type: ext4}]" if kind == "files" else "raw: [disk]"
    text = f"name: m\ndisks: {{count: 1, size: 64MiB}}\nlayouts: {{{layouts}}}\n"
    text += f"workloads: {{w: {{job: x.fio, set: {json.dumps(values)}}}}}\n"
    job = (EXAMPLES / f"{name}.fio").read_text()
    with pytest.MonkeyPatch.context() as patch:
        for key, value in ENVIRONMENT.items():
            patch.setenv(key, value)
        ((work, in_files),) = parse("m.yaml", text, lambda _: job).space.workloads
    files = Files(str(where.folder), "", 1, 1, 1, single_use=True)
    return workload_job(work, Place(files=files) if in_files else Place((where.device,)), 7)


def effective(job: dict[str, Any], common: dict[str, str]) -> dict[str, str]:
    return {key: one for key, one in {**common, **job["job options"]}.items() if key not in _OURS}


def compare(name: str, where: Where) -> None:
    kind, values = CUT[name]
    target = str(where.folder) if kind == "files" else where.device
    lines = (EXAMPLES / f"{name}.fio").read_text().splitlines()
    _, by_hand, common = where.run(ByHand(lines).text(target, values, in_files=kind == "files"))
    text, jobs, ours = where.run(through_job(name, where))
    assert [effective(one, ours) for one in jobs] == [effective(one, common) for one in by_hand]
    assert [(one["jobname"], one["groupid"]) for one in jobs] == [(one["jobname"], one["groupid"]) for one in by_hand]
    figures = parse_figures(text)
    moved: Counter[str] = Counter()
    for one in by_hand:
        moved[one["jobname"]] += one["read"]["io_bytes"] + one["write"]["io_bytes"]
    if len(moved) > 1:
        assert list(figures.jobs) == list(moved)
    timed = any("runtime" in effective(one, common) or "timeout" in effective(one, common) for one in by_hand)
    for job, total in moved.items():
        each = figures.jobs.get(job, figures)
        bytes_ = sum(side.bytes for side in (each.read, each.write) if side)
        if not timed and name not in _RANDOM:
            assert bytes_ == total, job
        else:
            assert (bytes_ > 0) == (total > 0), job


def test_init_writes_a_matrix_of_every_example(monkeypatch: pytest.MonkeyPatch) -> None:
    if not EXAMPLES.is_dir():
        pytest.skip("without fio-examples on this host")
    for key, value in ENVIRONMENT.items():
        monkeypatch.setenv(key, value)
    refused = {"zipf", "xnvme-zoned"}  # an engine without I/O; a job that overwrites what another one verifies
    for name in CUT.keys() - refused:

        def text_of(path: str) -> str:
            return Path(path).read_text()

        text = matrix_of_job("m", str(EXAMPLES / f"{name}.fio"), "schema.json", text_of)
        assert parse("m.yaml", text, text_of).space.count() == 2, name


def test_every_example_is_run_or_left_out_with_a_reason(where: Where) -> None:
    assert {path.stem for path in EXAMPLES.glob("*.fio")} == CUT.keys() | LEFT_OUT.keys()
    assert not CUT.keys() & LEFT_OUT.keys()


@pytest.mark.parametrize("name", DAILY)
def test_an_example_runs_as_by_hand(name: str, where: Where) -> None:
    compare(name, where)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in CUT if name not in DAILY])
def test_every_example_runs_as_by_hand(name: str, where: Where) -> None:
    compare(name, where)
