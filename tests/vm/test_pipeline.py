"""The whole way, from a matrix to figures, on real machines with real md."""

import asyncio
import csv
import json
import os
import random
import select
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from matrix_runner.carry.trial import Measured, StackOnRig
from matrix_runner.machines.base import RigSpec, Step, StepResult
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.record import Outcome
from matrix_runner.records.run_folder import run_folders
from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.simdisks.disk import Disk
from matrix_runner.space.space import Space
from tests.support import forked
from tests.support.amounts import times
from tests.support.forked import Forked
from tests.support.matrices import space
from tests.support.meddling import Meddled
from tests.support.rigs import content_of, rig_of, spec_of
from tests.support.shared_rig import SharedRig

pytestmark = pytest.mark.vm
ROOT = Path(__file__).parents[2]

LEVELS = """\
name: levels
disks: {count: 4, size: 64MiB}
layouts:
  disk: [disk: {number: 2}]
  raid1: [md: {level: 1, metadata: 0.90, sync: wait}]
  raid4: [md: {level: 4, chunk: 4KiB, spare: 1}]
  raid5: [md: {level: 5, bitmap: internal, metadata: 1.0}]
  raid6: [md: {level: 6, chunk: 64KiB, metadata: 1.1, sync: wait}]
  near: [md: {level: 10, layout: n2}]
  far: [md: {level: 10, layout: f2}]
  offset: [md: {level: 10, layout: o3}]
tune: {readahead: [default, 1MiB], stripe_cache_size: [default, 1024], scheduler: [none, mq-deadline]}
workloads: {work: {rw: randrw, bs: 4KiB, size: 1MiB, iodepth: 4}}
repeat: 1
"""


ON_SATA = """\
name: queues
disks: {count: 5, size: 64MiB, bus: %s}
layouts: {disk: [disk], raid5: [md: {level: 5, spare: 1}]}
tune: {ncq_depth: [default, 16]}
workloads: {work: {rw: randwrite, bs: 4KiB, size: 1MiB, iodepth: 4}}
repeat: 1
"""
#: Built and taken apart twice, and measured with the first of the settings, too: at night, `test_md` does that with all.
TWICE = {"disk", "raid5"}


async def _every_layout(found: Space, place: SharedRig, machine: Qemu) -> dict[str, set[str]]:
    """Each layout built, cells of it measured, and taken apart, all on one machine; some twice over."""
    reasons: dict[str, set[str]] = {}
    async with rig_of(spec_of(found), place, machine) as rig:
        for array in found.stacks:
            built = await StackOnRig.build(found.matrix, array, rig, machine, None)
            cells = [cell for cell in found.cells() if cell.stack is array]
            reasons[array.label] = {(await built.measure(cells[-1], 1)).trial.reason}
            if array.label in TWICE:
                built = await StackOnRig.build(found.matrix, array, rig, machine, None)
                reasons[array.label].add((await built.measure(cells[0], 2)).trial.reason)
                await built.tear_down()
            await built.tear_down()
    return reasons


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LEVELS, id="virtio"),
        # Every change boots twelve disks on each bus; all levels on them are for the night.
        pytest.param(ON_SATA % "sata", id="sata", marks=pytest.mark.exhaustive),
        pytest.param(ON_SATA % "scsi", id="scsi", marks=pytest.mark.exhaustive),
    ],
)
def test_every_level_is_built_verified_measured_and_taken_apart(text: str, shared_rig: SharedRig) -> None:
    found = space(text)
    reasons = shared_rig.run(_every_layout(found, shared_rig, Qemu()))
    assert set(reasons) == set(found.matrix.layouts)
    assert {label: found - {""} for label, found in reasons.items()} == {label: set() for label in reasons}


WATCHED = """\
name: watched
disks: {count: 3, size: 64MiB}
layouts: {raid5: [md: {level: 5}]}
monitor: 1s
workloads: {work: {rw: randrw, bs: 4KiB, iodepth: 4, runtime: 3s}}
repeat: 1
"""


async def _watched(place: SharedRig) -> Measured:
    found, machine = space(WATCHED), Qemu()
    async with rig_of(spec_of(found), place, machine) as rig:
        built = await StackOnRig.build(found.matrix, found.stacks[0], rig, machine, None)
        measured = await built.measure(next(iter(found.cells())), 1)
        await built.tear_down()
        return measured


def test_activity_beside_a_trial_is_recorded(shared_rig: SharedRig) -> None:
    measured = shared_rig.run(_watched(shared_rig))
    figures = measured.trial.figures
    assert figures
    assert figures.read
    assert figures.write
    devices = {row["device"]: row for row in csv.DictReader(measured.outputs["devices.csv"].splitlines())}
    assert set(devices) == {"md", "disk0", "disk1", "disk2"}
    # fio is done when the array is: nothing else reads or writes it.
    assert int(devices["md"]["read_bytes"]) == figures.read.bytes
    assert int(devices["md"]["written_bytes"]) == figures.write.bytes
    on_disks = sum(int(devices[f"disk{number}"]["written_bytes"]) for number in range(3))
    assert on_disks >= 1.5 * figures.write.bytes  # with almost every block its own parity
    assert float(measured.trial.notes["evenness"]) > 0.5
    assert measured.trial.notes["bottleneck"]
    # Of one processor of the host, QEMU used some part for these requests.
    cost = measured.trial.facts.host_cpu_per_io
    assert cost is not None
    assert 1e-3 < cost / 1e9 * figures.total_iops < 64
    (host,) = json.loads(measured.outputs["samples.json"])["sysstat"]["hosts"]
    (*_, last) = host["statistics"]
    assert {disk["disk-device"] for disk in last["disk"]} >= {row["node"] for row in devices.values()}
    assert {"iowait", "idle", "sys"} <= set(last["cpu-load-all"][0] if "cpu-load-all" in last else last["cpu-load"][0])
    assert not json.loads(measured.outputs["fio.json"])["jobs"][0]["error"]


COURSES = """\
name: courses
disks: {count: 2, size: 64MiB}
layouts: {raid0: [md: {level: 0, chunk: 16KiB}]}
workloads:
  all: {rw: read, bs: 64KiB, iodepth: 4, profile: position}
  some: {rw: write, bs: 64KiB, profile: position, each: 128KiB}
  time: {rw: randrw, bs: 4KiB, iodepth: 4, numjobs: 2, runtime: 300ms, profile: time}
repeat: 1
"""


async def _courses(place: SharedRig) -> dict[str, tuple[Measured, list[dict[str, str]]]]:
    found, machine = space(COURSES), Qemu()
    async with rig_of(spec_of(found), place, machine) as rig:
        built = await StackOnRig.build(found.matrix, found.stacks[0], rig, machine, None)
        measured = {cell.workload.label: await built.measure(cell, 1) for cell in found.cells()}
        await built.tear_down()
    return {
        name: (one, list(csv.DictReader(one.outputs["profile.csv"].splitlines()))) for name, one in measured.items()
    }


def test_the_course_of_a_rate_is_kept(shared_rig: SharedRig) -> None:
    found = shared_rig.run(_courses(shared_rig))
    everything, rows = found["all"]
    assert everything.trial.figures
    assert everything.trial.figures.read
    assert sum(int(row["bytes"]) for row in rows) == everything.trial.figures.read.bytes
    offsets = [int(row["offset"]) for row in rows]
    assert offsets == list(range(0, everything.trial.figures.read.bytes, offsets[1]))
    assert 50 <= len(rows) <= 100
    some, rows = found["some"]
    assert some.trial.figures
    assert some.trial.figures.write
    assert some.trial.figures.write.bytes == 128 * 1024 * len(rows)
    assert {int(row["bytes"]) for row in rows} == {64 * 1024}  # after the first request at each place
    _, rows = found["time"]
    assert all(float(row["read_bw"]) > 0 or float(row["write_bw"]) > 0 for row in rows)
    assert rows


STEADY = """\
name: steady
disks: {count: 2, size: 64MiB}
layouts: {raid0: [md: {level: 0, chunk: 16KiB}]}
workloads:
  any:  {rw: randread, bs: 4KiB, ramp: 0.2s, runtime: 60s, steady: {within: 100000%, over: 2s, slope: false}}
  none: {rw: randread, bs: 4KiB, runtime: 3s, steady: {within: 0.000001%, over: 2s, slope: false}}
  own:  {rw: randread, bs: 4KiB, runtime: 3s, fio: {steadystate: "bw:0.000001%", steadystate_duration: 2s}}
repeat: 1
"""


async def _steady(scratch: Path) -> dict[str, Measured]:
    found, machine = space(STEADY), Qemu()
    async with rig_of(spec_of(found), scratch, machine) as rig:
        built = await StackOnRig.build(found.matrix, found.stacks[0], rig, machine, None)
        return {cell.workload.label: await built.measure(cell, 1) for cell in found.cells()}


@pytest.mark.exhaustive
def test_work_ends_when_steady_and_is_marked_otherwise(tmp_path: Path) -> None:
    found = asyncio.run(_steady(tmp_path))
    figures = {name: one.trial.figures for name, one in found.items()}
    assert json.loads(found["any"].outputs["fio.json"])["jobs"][0]["steadystate"]["attained"] == 1
    assert "unsettled" not in found["any"].trial.notes
    assert found["none"].trial.notes["unsettled"].startswith("iops:0.000001% over 2 s not reached: ")
    assert found["own"].trial.notes["unsettled"].startswith("bw:0.000001% over 2 s not reached: ")
    for one in figures.values():
        assert one
        assert one.read
        assert one.read.latencies
        assert one.read.latencies.unpack().total == one.read.ios


SABOTAGE = """\
name: sabotage
disks: {count: 4, size: 64MiB, bus: sata}
layouts: {raid5: [md: {level: 5, chunk: 64KiB}]}
tune: {stripe_cache_size: 1024, readahead: 512KiB, ncq_depth: 8}
workloads: {work: {rw: read, bs: 64KiB, size: 1MiB}}
repeat: 1
"""


async def _sabotaged(place: SharedRig, found: Space, sabotage: dict[str, str]) -> dict[str, str]:
    """The reason a trial is broken with when something is changed behind our back between tuning and read-back."""
    (cell,) = found.cells()
    reasons = {}
    machine = Qemu()
    async with rig_of(spec_of(found), place, machine) as rig:
        built = await StackOnRig.build(found.matrix, cell.stack, rig, machine, None)
        for name, text in sabotage.items():
            built._rig = Meddled(rig, text)
            finding = (await built.measure(cell, 1)).trial
            assert finding.figures is None
            assert finding.outcome is Outcome.BROKEN
            reasons[name] = finding.reason
        built._rig = rig
        assert (await built.measure(cell, 1)).trial.outcome is Outcome.BROKEN  # one disk is still gone
        await built.tear_down()
    return reasons


def test_a_changed_setting_is_noticed(shared_rig: SharedRig) -> None:
    reasons = shared_rig.run(
        _sabotaged(
            shared_rig,
            space(SABOTAGE),
            {
                "stripe cache": "echo 256 >/sys/block/md127/md/stripe_cache_size",
                "readahead": "echo 4 >/sys/block/md127/queue/read_ahead_kb",
                "queue depth": "echo 1 >/sys/block/$(basename $(readlink -f /dev/disk/by-id/matrix-1))/device/queue_depth",
                "a disk": "mdadm --fail /dev/md127 $(readlink -f /dev/disk/by-id/matrix-2)",
            },
        )
    )
    assert reasons.pop("a disk").startswith("not as declared: md.degraded wanted 0, kernel says 1")
    assert reasons == {
        "stripe cache": "not as declared: stripe_cache_size wanted 1024, kernel says 256",
        "readahead": "not as declared: readahead wanted 512, kernel says 4",
        "queue depth": "not as declared: disk1.ncq_depth wanted 8, kernel says 1",
    }


async def _foreign(place: SharedRig) -> StepResult:
    found = space(SABOTAGE)
    (cell,) = found.cells()
    spec = RigSpec(tuple(Disk(64 << 20, bus="sata") for _ in range(4)), modules=("raid1", "raid456"))
    async with rig_of(spec, place) as rig:
        theirs = (
            f"mdadm --create /dev/md5 --run --level=1 --raid-devices=2 --assume-clean {rig.disks[0]} {rig.disks[1]}\n"
            "mdadm --stop /dev/md5"
        )
        scripts = stack_scripts(cell.stack, rig.disks, zeroed=True)
        await rig.run([Step("theirs", theirs)], expected=0, deadline=60)
        before = await content_of(rig, 0)
        set_up, tear_down = [
            (await rig.run([Step("step", text)], expected=0, deadline=60))[0]
            for text in (scripts.set_up, scripts.tear_down)
        ]
        assert await content_of(rig, 0) == before
        assert "linux_raid_member" in tear_down.output  # so the disks are not bare, which is said; nothing was done
        return set_up


def test_a_foreign_array_stays(shared_rig: SharedRig) -> None:
    set_up = shared_rig.run(_foreign(shared_rig))
    assert set_up.status == 1
    assert "a disk is not empty: " in set_up.output
    assert "linux_raid_member" in set_up.output


def test_default_restores_the_first_value(shared_rig: SharedRig) -> None:
    found = space(SABOTAGE.replace("1024", "[default, 1024, 512]"))
    default, tuned, less = found.cells()

    async def go() -> list[str]:
        machine, read = Qemu(), []
        async with rig_of(spec_of(found), shared_rig, machine) as rig:
            built = await StackOnRig.build(found.matrix, default.stack, rig, machine, None)
            for cell in (default, tuned, less, default):
                finding = (await built.measure(cell, 1)).trial
                assert finding.outcome is Outcome.MEASURED, finding.reason
                read += [one.got for one in finding.readings if one.setting == "stripe_cache_size"]
            await built.tear_down()
        return read

    assert shared_rig.run(go()) == ["256", "1024", "512", "256"]


def test_the_scripts_of_a_cell_can_be_run_by_hand(shared_rig: SharedRig) -> None:
    """As they lie in the cell's folder: in order, with bash and fio alone, twice over."""
    found = space(SABOTAGE)
    (cell,) = found.cells()

    async def go() -> str:
        machine = Qemu()
        async with rig_of(spec_of(found), shared_rig, machine) as rig:
            array = stack_scripts(cell.stack, rig.disks, zeroed=True)
            scripts = cell_scripts(cell, array.stack)
            names = {"1.sh": array.set_up, "2.sh": scripts.tune, "3.sh": scripts.verify, "5.sh": array.tear_down}
            text = "set -e; for script in 1 1 2 2 3 3 5 5; do bash $script.sh; done; cat /proc/mdstat"
            (result,) = await rig.run([Step("by-hand", text, names)], expected=0, deadline=60)
            assert result.status == 0, result.output
            return result.output

    assert "active raid5" not in shared_rig.run(go()).split("Personalities")[-1]


KILLED = """\
name: killed
disks: {count: 6, size: 64MiB}
layouts:
  raid5: [disks: {count: 4}, md: {level: 5, chunk: 16KiB}]
  raid1: [disks: {count: 4}, md: {level: 1}]
workloads: {work: {rw: [read, randwrite], bs: 64KiB, runtime: 100ms}}
repeat: {rounds}
"""
#: Each takes 6 s. A round is continued as a batch is.
ROUNDS = min(times(1), 2)


def _marked(tmp_path: Path) -> dict[str, str]:
    """An environment by which everything that a run starts can be told from what others run."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "runner"), "MATRIX_TEST": str(tmp_path)}


def _none_is_left(environment: dict[str, str]) -> None:
    """The kernel takes our machines down with us; it may need a moment for it."""
    word = f"MATRIX_TEST={environment['MATRIX_TEST']}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word in (process / "environ").read_bytes().split(b"\0"):
                ended = select.poll()
                ended.register(os.pidfd_open(int(process.name)), select.POLLIN)
                assert ended.poll(20_000), f"left behind: {(process / 'cmdline').read_bytes()!r}"


@pytest.mark.timeout(3000)
def test_killed_at_random_moments_it_ends_with_exactly_the_planned_trials(tmp_path: Path) -> None:
    (tmp_path / "killed.yaml").write_text(KILLED.replace("{rounds}", str(ROUNDS)))
    command = ["run", "--json", "killed.yaml"]
    environment = _marked(tmp_path)
    dice = random.Random(13)  # noqa: S311 - moments, not secrets
    for _ in range(times(1)):
        with Forked(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
            _kill_after(process, dice.randint(0, 4), dice.uniform(0, 0.8))
        _none_is_left(environment)
    result = forked.run(command, cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stderr
    _none_is_left(environment)
    folders = run_folders(tmp_path / "results")
    with (max(folders) / "trials.csv").open(newline="") as file:
        trials = list(csv.DictReader(file))
    assert len(folders) == 1
    assert len(trials) == len({(row["cell"], row["trial"]) for row in trials}) == 4 * ROUNDS
    assert {row["outcome"] for row in trials} == {"measured"}
    assert sorted(path.name for path in folders[0].iterdir() if path.name not in {".lock", ".feeding"}) == [
        "answer.txt",
        "cells", "explore.html", "journal.sqlite", "junit.xml", "manifest.json", "matrix.log", "matrix.yaml", "report.html",
        "summary.csv", "trials.csv",
    ]  # fmt: skip
    assert json.loads((folders[0] / "manifest.json").read_text())["finished"] is True


def _kill_after(process: subprocess.Popen[str], events: int, seconds: float) -> None:
    """kill -9 once it has told so many events, and a moment later, in the middle of whatever comes next."""
    assert process.stdout is not None
    for _ in zip(range(events), process.stdout, strict=False):
        pass
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.communicate()


def test_an_interrupted_run_writes_its_outputs_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "killed.yaml").write_text(KILLED.replace("{rounds}", str(ROUNDS)))
    environment = _marked(tmp_path)
    with Forked(
        ["run", "--json", "killed.yaml"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "trial":
                process.send_signal(signal.SIGINT)
                break
        process.communicate()
    assert process.returncode == 130
    _none_is_left(environment)
    (folder,) = run_folders(tmp_path / "results")
    with (folder / "trials.csv").open(newline="") as file:
        assert 1 <= len(list(csv.DictReader(file))) < 4 * ROUNDS
    assert (folder / "junit.xml").stat().st_size > 0
