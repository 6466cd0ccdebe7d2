"""Random job files: fio runs them through `job:` with the options and jobs of the file run by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from matrix_runner.scripts.cell import Files, Place, workload_job
from matrix_runner.space.load import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPTIONS: dict[str, tuple[str | None, ...]] = {
    "rw": ("read", "randwrite", "randrw", "rw", "randread:2"),
    "readwrite": ("write", "readwrite"),
    "bs": ("4k", "4096", "0x1000", "4k,8k", "2Ki"),
    "blocksize": ("8K",),
    "bsrange": ("1k-8k",),
    "bssplit": ("4k/60:8k/40", "2k/50:4k"),
    "iodepth": ("1", "4"),
    "ioengine": ("psync", "sync", "libaio", "pvsync2", "mmap"),
    "buffered": ("1",),
    "direct": ("0",),
    "numjobs": ("1", "2"),
    "rwmixread": ("30",),
    "rwmixwrite": ("80",),
    "io_size": ("32k",),
    "loops": ("2",),
    "norandommap": (None, "0"),
    "random_distribution": ("zipf:1.2", "random"),
    "stonewall": (None,),
    "group_reporting": (None, "0", "1"),
    "new_group": (None,),
    "thinktime": ("10us", "5"),
    "fsync": ("8",),
    "nrfiles": ("2",),
    "nr_files": ("3",),
    "number_ios": ("7",),
    "offset": ("4k",),
    "buffer_compress_percentage": ("50",),
    "dedupe_percentage": ("20",),
    "description": ("two words",),
    "startdelay": ("10ms",),
    "stats": ("0", "1"),
    "name": ("other",),
}
_options = st.sampled_from(sorted(_OPTIONS)).flatmap(
    lambda key: st.sampled_from(_OPTIONS[key]).map(lambda value: key if value is None else f"{key}={value}")
)
_lines = st.builds("".join, st.tuples(st.sampled_from(["", "  "]), _options, st.sampled_from(["", " ", " # why", ";"])))
_bodies = st.lists(_lines, max_size=6).map("\n".join)
_names = st.lists(st.sampled_from(["db", "log", "a reader", "w.1", "db"]), min_size=1, max_size=3)
_OURS = {"directory", "randseed", "lat_percentiles", "clat_percentiles", "allow_file_create", "verify_state_save"}


@st.composite
def job_files(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """Draw a job file, and values of `set`."""
    names = draw(_names)
    text = f"[global]\nsize=64k\n{draw(_bodies)}\n" + "".join(f"[{name}]\n{draw(_bodies)}\n\n" for name in names)
    values = st.dictionaries(
        st.sampled_from(["iodepth", "size", f"{names[0]}.size", f"{names[0]}.fsync"]), st.just("32768"), max_size=2
    )
    return text, draw(values)


def by_hand(text: str, values: Mapping[str, str], folder: Path) -> str:
    """Add target and values: the last line of an option counts."""
    found = f"[global]\ndirectory={folder}\nrandseed=7\nlat_percentiles=1\n"
    head, *sections = text.split("\n[")
    for section in (head, *(f"[{one}" for one in sections)):
        name = section.partition("]")[0].strip("[")
        # A value of one section comes after that of all.
        ordered = sorted(values.items(), key=lambda one: "." in one[0])
        own = [(key.rpartition(".")[2], one) for key, one in ordered if key.rpartition(".")[0] in {"", name}]
        found += section + "\n" + ("" if name == "global" else "".join(f"{key}={one}\n" for key, one in own))
    return found


def through_job(text: str, values: Mapping[str, str], folder: Path) -> tuple[str, tuple[str, ...]]:
    matrix = "name: m\ndisks: {count: 1, size: 64MiB}\nlayouts: {fs: [fs: {type: ext4}]}\n"
    matrix += f"workloads: {{w: {{job: x.fio, set: {json.dumps(values)}}}}}\n"
    ((work, _),) = parse("m.yaml", matrix, lambda _: text).space.workloads
    place = Place(files=Files(str(folder), "", 1, 1, 1, single_use=True))
    return workload_job(work, place, 7), work.value.job_names


def run_fio(job: str, folder: Path) -> dict[str, Any] | None:
    """Return fio's JSON; None if fio refuses the job."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    # Without `timeout`, the jobs of a fio that hangs would work for ever: only their parent would be killed.
    command = ["timeout", "--kill-after=5", "60", "fio", "--output-format=json", "-"]
    done = subprocess.run(command, input=job, cwd=folder.parent, capture_output=True, text=True)
    at = done.stdout.find("{")
    found: dict[str, Any] | None = json.loads(done.stdout[at:]) if done.returncode == 0 and at >= 0 else None
    return found


def effective(whole: dict[str, Any]) -> list[dict[str, str]]:
    """Return the options of each job. fio writes an entry without a name for a job that it counts with another."""
    common = whole.get("global options", {})
    options = [{**common, **job.get("job options", {})} for job in whole["jobs"] if "jobname" in job]
    return [{key: one for key, one in each.items() if key not in _OURS} for each in options]


def compare(text: str, values: Mapping[str, str]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name, "files")
        expected = run_fio(by_hand(text, values, folder), folder)
        assume(expected is not None)
        assert expected
        job, names = through_job(text, values, folder)
        found = run_fio(job, folder)
    assert found, "fio refuses the rendered job"
    assert effective(found) == effective(expected)
    identities = [[(one.get("jobname"), one.get("groupid")) for one in whole["jobs"]] for whole in (found, expected)]
    assert identities[0] == identities[1]
    reported = tuple(dict.fromkeys(name for name, _ in identities[0] if name))
    assert names == (reported if len(reported) > 1 else ())


@pytest.fixture(autouse=True)
def fio() -> None:
    if not shutil.which("fio"):
        pytest.skip("no fio")


@given(job_files())
@settings(max_examples=4, deadline=None)
def test_a_random_job_file_runs_as_by_hand(drawn: tuple[str, dict[str, str]]) -> None:
    compare(*drawn)


@pytest.mark.exhaustive
@given(job_files())
@settings(max_examples=20, deadline=None)
def test_twenty_random_job_files_run_as_by_hand(drawn: tuple[str, dict[str, str]]) -> None:
    compare(*drawn)
