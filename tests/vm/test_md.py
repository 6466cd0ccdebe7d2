"""Every level, layout and option of md, and partitions, on real kernels: built, read back, written through, taken apart."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from matrix_runner.carry.trial import NotOnThisRig, SetUpFailed, StackOnRig
from matrix_runner.machines.base import Rig, RigLost, Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.record import Outcome, Reading
from matrix_runner.scripts.cell import cell_scripts
from matrix_runner.space.space import Cell, Space, Stack
from matrix_runner.space.variants import top_of
from tests.support.amounts import TIMES
from tests.support.matrices import space
from tests.support.meddling import MeddledMeanwhile
from tests.support.rigs import content_of, rig_of, spec_of
from tests.support.shared_rig import SharedRig, run_at

#: Some build dozens of arrays on one machine, and a busy host emulates slowly.
pytestmark = [pytest.mark.vm, pytest.mark.timeout(3000)]

HEAD = "name: md\ndisks: {count: 6, size: %s}\nlayouts:\n"
TAIL = """
workloads: {work: {rw: randwrite, bs: 4KiB, size: 1MiB, iodepth: 4, fio: {verify: crc32c, do_verify: 1, verify_fatal: 1}}}
repeat: 1
"""
LEVELS = """\
  raid0: [md: {level: 0, chunk: [4KiB, 12KiB, 1MiB, 16MiB]}]
  mirror: [md: {level: 1, devices: 3, spare: 1, write_mostly: 2, bitmap: internal, bitmap_chunk: 128KiB, metadata: [1.0, 1.2]}]
  old: [md: {level: [1, 4, 5, 6, 10], metadata: 0.90, bitmap: internal}]
  new: [md: {level: [1, 5, 10], metadata: [1.0, 1.1], bitmap: [none, internal]}]
  five: [md: {level: 5, chunk: 64KiB, layout: [left-asymmetric, right-asymmetric, right-symmetric, parity-first, parity-last]}]
  six: [md: {level: 6, layout: [ddf-zero-restart, ddf-N-restart, ddf-N-continue]}]
  six-q: [md: {level: 6, layout: [left-asymmetric-6, right-asymmetric-6, left-symmetric-6, right-symmetric-6, parity-first-6]}]
  ten: [md: {level: 10, devices: [4, 5], layout: [n2, f2, o2, n3, f3, o3]}]
"""
OPTIONS = """\
  ppl: [md: {level: 5, ppl: true, chunk: [4KiB, 16MiB], metadata: [1.0, 1.2]}]
  journal: [md: {level: [4, 5, 6], journal: 1}]
  size: [md: {level: [1, 5, 10], size: 20500KiB}]
  lost: [md: {level: [1, 4, 5, 6, 10], state: degraded}]
  lost-logged: [md: {level: 5, state: degraded, ppl: true}]
  lost-journalled: [md: {level: 6, state: {degraded: 2}, journal: 1}]
  lost-copy: [md: {level: 10, layout: f3, state: {degraded: 2}, bitmap: internal}]
  lost-mirror: [md: {level: 1, devices: 3, state: degraded, write_mostly: 1, metadata: 0.90}]
  waited: [md: {level: [1, 4, 5, 6, 10], sync: wait, size: 8MiB}]
  mirrored-stripes: [md: {level: 0, groups: 2, chunk: 64KiB}, md: {level: 1}]
  striped-mirrors: [md: {level: 1, groups: 3}, md: {level: 0, chunk: 64KiB}]
  fifty: [md: {level: 5, groups: 2, chunk: 64KiB}, md: {level: 0, chunk: 64KiB}]
  quarters: [partition: {count: 4}, md: {level: 5, devices: 6, groups: 4}, md: {level: 0}]
  misaligned: [partition: {align: 512B, from: 32256B}, md: {level: 5, chunk: 64KiB}]
  part: [partition: {at: 25%, size: 50%}, pick: {number: 2}]
  parts-of-an-array: [md: {level: 5, chunk: 64KiB}, partition: {count: 3}, md: {level: 0}]
"""


class Bench:
    """One rig, and arrays that are built on it one after the other."""

    def __init__(self, found: Space, rig: Rig, machine: Qemu) -> None:
        self.found, self.rig, self.machine = found, rig, machine

    def cell(self, layout: str) -> Cell:
        return next(cell for cell in self.found.cells() if cell.stack.label == layout)

    async def build(self, layout: str | Stack) -> StackOnRig:
        array = layout if isinstance(layout, Stack) else self.cell(layout).stack
        return await StackOnRig.build(self.found.matrix, array, self.rig, self.machine, None)

    async def shell(self, text: str) -> str:
        (result,) = await self.rig.run([Step("somebody", text)], expected=0, deadline=120)
        assert result.status == 0, result.output
        return result.output.strip()


def bench(
    text: str,
    place: Path | SharedRig,
    go: Callable[[Bench], Coroutine[Any, Any, None]],
    kernel: str | None = None,
    size: str = "64MiB",
) -> None:
    """Bring a rig up on which all the layouts can be built, and do something on it."""
    found = space(HEAD % size + text + TAIL)

    async def on_a_rig() -> None:
        machine = Qemu()
        async with rig_of(spec_of(found, kernel), place, machine) as rig:
            await go(Bench(found, rig, machine))

    run_at(place, on_a_rig())


def amiss(bench: Bench, array: Stack, readings: tuple[Reading, ...]) -> str:
    """Where the size of the top is not what was computed: it may be more by what rounding takes, never less."""
    real = [int(one.got) * 512 for one in readings if one.setting.endswith(".size") or one.setting == "md.size"]
    top = top_of(array.layers.value, bench.found.matrix)[-1].size
    return "" if any(top <= size <= top + (1 << 20) for size in real) else f"{top} is none of {real}"


async def whole_way(bench: Bench) -> None:
    """Each array: built, built again over itself, read back, written through, taken apart twice."""
    wrong: dict[str, str] = {}
    for array in bench.found.stacks:
        try:
            await bench.build(array)
            built = await bench.build(array)
            cell = next(cell for cell in bench.found.cells() if cell.stack is array)
            found = (await built.measure(cell, 1)).trial
            wrong[array.label] = found.reason or amiss(bench, array, found.readings)
            await built.tear_down()
            await built.tear_down()
        except (SetUpFailed, RigLost) as failed:
            wrong[array.label] = f"{failed.brief}: {failed.details[-500:]}"
    assert {label: reason for label, reason in wrong.items() if reason} == {}
    left = await bench.shell("ls /dev/md 2>/dev/null; grep ^md /proc/mdstat || true")
    assert left == ""


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", [LEVELS, OPTIONS], ids=["levels", "options"])
def test_everything_is_built_read_back_written_through_and_taken_apart(text: str, tmp_path: Path) -> None:
    bench(text, tmp_path, whole_way)


OLDER = """\
  joined: [md: {level: linear, metadata: [0.90, 1.0, 1.2]}]
  striped: [md: {level: [0, 5, 6], chunk: 64KiB}, partition: {align: 512B, from: 32256B}]
  ten: [md: {level: 10, layout: [n2, f2, o3]}]
  mirrors: [md: {level: 1, groups: 3, write_mostly: 1}, md: {level: linear}]
  quarters: [partition: {count: 2}, md: {level: 5, devices: 6, groups: 2, ppl: true}, md: {level: 0}]
"""


@pytest.mark.exhaustive
def test_an_older_kernel_has_linear_too(tmp_path: Path) -> None:
    bench(OLDER, tmp_path, whole_way, kernel="debian-12")


async def stopped(bench: Bench) -> None:
    """An array that somebody stopped, started again."""
    built = await bench.build("mirrored")
    scripts = built.scripts_of(bench.cell("mirrored"))
    await bench.shell(scripts["activate.sh"])  # which is up already
    await bench.shell("mdadm --stop --quiet /dev/md/matrix-0")
    await bench.shell(scripts["activate.sh"])
    found = (await built.measure(bench.cell("mirrored"), 1)).trial
    assert found.reason == ""


@pytest.mark.exhaustive
@pytest.mark.parametrize("kernel", ["debian-12", "debian-13"])
def test_a_stopped_array_starts_again_beside_an_empty_device(kernel: str, tmp_path: Path) -> None:
    bench("  mirrored: [md: {level: 1, devices: 2}]\n", tmp_path, stopped, kernel=kernel)


@pytest.mark.exhaustive
def test_large_chunks(tmp_path: Path) -> None:
    bench("  large: [md: {level: [0, 5, 10], chunk: 64MiB}]\n", tmp_path, whole_way, size="1GiB")


@pytest.mark.exhaustive
def test_a_newer_kernel_has_no_linear(tmp_path: Path) -> None:
    async def go(bench: Bench) -> None:
        with pytest.raises(NotOnThisRig) as raised:
            await bench.build("joined")
        why = f"`md: {{level: linear}}` needs linear, and this kernel ({bench.rig.facts['kernel']}) has no such module"
        assert raised.value.brief == f"{why}: name another at `kernel:`"
        await (await bench.build("striped")).tear_down()

    bench("  joined: [md: {level: linear}]\n  striped: [md: {level: 0}]\n", tmp_path, go, kernel="debian-13")


UNDER_WAY = """\
  rebuilding: [md: {level: [1, 5, 6, 10], state: rebuilding}]
  rebuilding-logged: [md: {level: 5, state: rebuilding, ppl: true}]
  rebuilding-journalled: [md: {level: 6, state: rebuilding, journal: 1}]
  rebuilding-mirror: [md: {level: 1, devices: 3, write_mostly: 1, bitmap: internal, state: rebuilding}]
  syncing: [md: {level: [1, 4, 5, 6, 10], sync: background, bitmap: [none, internal]}]
  syncing-logged: [md: {level: 5, sync: background, ppl: true}]
  syncing-journalled: [md: {level: 5, sync: background, journal: 1}]
  above: [md: {level: 1, groups: 3, state: rebuilding}, md: {level: 0, chunk: 64KiB}]
"""


@pytest.mark.exhaustive
def test_a_sync_lasts_for_the_whole_trial(tmp_path: Path) -> None:
    """These disks are rebuilt in no time, so arrays are slowed down; without that, it is noticed."""

    async def go(bench: Bench) -> None:
        wrong: dict[str, str] = {}
        for array in bench.found.stacks:
            built = await bench.build(array)
            cell = next(cell for cell in bench.found.cells() if cell.stack is array)
            await bench.shell(
                "for at in /sys/block/md*/md; do echo 500 >$at/sync_speed_min; echo 500 >$at/sync_speed_max; done"
            )
            for round_number in (1, 2):
                found = (await built.measure(cell, round_number)).trial
                wrong[f"{array.label} {round_number}"] = found.reason
            await bench.shell("for at in /sys/block/md*/md; do echo 2000000 >$at/sync_speed_max; done")
            await built.tear_down()
        assert {label: reason for label, reason in wrong.items() if reason} == {}

    bench(UNDER_WAY, tmp_path, go)


def test_a_sync_that_ends_early_is_no_measurement(shared_rig: SharedRig) -> None:
    async def go(bench: Bench) -> None:
        built = await bench.build("small")
        work = replace(bench.cell("small"))
        finding = (await built.measure(work, 1)).trial
        assert finding.outcome is Outcome.BROKEN
        assert finding.figures is None
        assert "wanted resync" in finding.reason or "was over at once" in finding.reason
        await built.tear_down()

    bench("  small: [md: {level: 1, sync: background, size: 1MiB}]\n", shared_rig, go)


def test_a_reboot_away_all_is_found_again(shared_rig: SharedRig) -> None:
    """Stopped and without its links, as after a reboot; `activate.sh` has it back as it was."""
    from matrix_runner.scripts.jinja import render

    async def go(bench: Bench) -> None:
        for label in ("stack", "lost"):
            built = await bench.build(label)
            await bench.shell(
                "rm -f /dev/md/*; for level in 1 2; do for node in /dev/md1??; do [ ! -b $node ] || mdadm --stop $node || true; done; done"
            )
            assert await bench.shell("grep ^md /proc/mdstat || true") == ""
            await bench.shell(render("activate.sh", None, title=label, stack=built._scripts.stack))
            assert (await built.measure(bench.cell(label), 1)).trial.reason == ""
            await built.tear_down()

    text = "  stack: [md: {level: 1, groups: 3, write_mostly: 1}, md: {level: 5, journal: 1, devices: 2}, partition: {count: 2}]\n"
    bench(text + "  lost: [md: {level: 6, state: degraded}]\n", shared_rig, go)


SABOTAGE = """\
  five: [md: {level: 5, chunk: 64KiB}]
  logged: [md: {level: 5, journal: 1}]
  mirror: [md: {level: 1, write_mostly: 1, spare: 1}]
  nested: [md: {level: 1, groups: 3}, md: {level: 0}]
"""


def test_changed_settings_are_noticed(shared_rig: SharedRig) -> None:
    last = "$(ls -d /sys/block/md127/md/dev-* | tail -1)"
    changes = {
        "five": ("mdadm --fail /dev/md127 %s", "md.degraded wanted 0, kernel says 1"),
        "mirror": (
            f"echo -writemostly >{last}/../dev-%s/state",
            "md.member5 wanted in_sync,write_mostly/4, kernel says in_sync/4",
        ),
        "logged": ("mdadm --fail /dev/md127 %s", "md.consistency_policy wanted journal"),
    }

    async def go(bench: Bench) -> None:
        members = {
            "five": bench.rig.disks[1],
            "mirror": f'$(basename "$(readlink -f {bench.rig.disks[4]})")',
            "logged": bench.rig.disks[5],
        }
        for label, (text, reason) in changes.items():
            built = await bench.build(label)
            assert (await built.measure(bench.cell(label), 1)).trial.reason == ""
            await bench.shell(text % members[label])
            finding = (await built.measure(bench.cell(label), 2)).trial
            assert finding.outcome is Outcome.BROKEN
            assert finding.reason.startswith("not as declared: ")
            assert reason in finding.reason or label == "logged", finding.reason
            await built.tear_down()

    bench(SABOTAGE, shared_rig, go)


#: So slow that it is not over before fio is.
CHECK = "for end in min max; do echo 1 >/sys/block/md127/md/sync_speed_$end; done; echo check >/sys/block/md127/md/sync_action"


def test_an_array_changed_during_a_trial_gives_no_figure(shared_rig: SharedRig) -> None:
    meanwhile = {
        "five": (CHECK, "md.sync_action wanted idle until the end of the measurement, kernel says check"),
        "mirror": (
            "mdadm --fail /dev/md127 %s",
            "md.degraded wanted 0 until the end of the measurement, kernel says 1",
        ),
    }

    async def go(bench: Bench) -> None:
        for label, (text, said) in meanwhile.items():
            built, cell = await bench.build(label), bench.cell(label)
            built._rig = MeddledMeanwhile(bench.rig, text.replace("%s", bench.rig.disks[1]))
            finding = (await built.measure(cell, 1)).trial
            assert (finding.outcome, finding.figures) == (Outcome.BROKEN, None)
            assert finding.reason.startswith(f"not as declared: {said} (")
            built._rig = bench.rig
            await built.tear_down()

    bench("  five: [md: {level: 5}]\n  mirror: [md: {level: 1, devices: 3}]\n", shared_rig, go)


def test_foreign_arrays_are_named_and_stay(shared_rig: SharedRig) -> None:
    async def go(bench: Bench) -> None:
        one, two = bench.rig.disks[:2]
        await bench.shell(f"mdadm --create /dev/md5 --run --level=1 --raid-devices=2 --assume-clean {one} {two}")
        for state, said in (("", f"{one} is in use by md5"), ("mdadm --stop /dev/md5", "linux_raid_member")):
            await bench.shell(f"{state or ':'}")
            before = [await content_of(bench.rig, number) for number in (0, 1)]
            with pytest.raises(SetUpFailed) as raised:
                await bench.build("nested")
            assert said in raised.value.brief
            assert [await content_of(bench.rig, number) for number in (0, 1)] == before
        await bench.shell(f"mdadm --zero-superblock {one} {two}")
        await (await bench.build("nested")).tear_down()

    bench(SABOTAGE, shared_rig, go)


def test_own_arrays_are_known_in_each_state(shared_rig: SharedRig) -> None:
    meddling = {
        "another name": "mdadm --stop /dev/md127; rm -f /dev/md/*; mdadm --assemble /dev/md77 --run {disks}",
        "half assembled": "mdadm --stop /dev/md127; mdadm -I {one}; grep inactive /proc/mdstat",
        "only superblocks": "mdadm --stop /dev/md127",
        "half of them": "mdadm --stop /dev/md127; mdadm --zero-superblock {one}",
        "a disk gone": "mdadm --fail /dev/md127 {one}; sleep 0.5; mdadm --remove /dev/md127 {one}",
        "nothing": "mdadm --stop /dev/md127; mdadm --zero-superblock {disks}",
    }

    #: A set-up removes what is left with the text of a tear-down. At night, both are tried in every state.
    torn_down = {*meddling} if TIMES > 1 else {"half assembled", "nothing"}

    async def go(bench: Bench) -> None:
        built = await bench.build("five")
        verify = cell_scripts(bench.cell("five"), built.view).verify
        for name, text in meddling.items():
            meddle = text.format(one=bench.rig.disks[0], disks=" ".join(bench.rig.disks))
            await bench.shell(meddle)
            if name in torn_down:
                await built.tear_down()
                await bench.build("five")
                await bench.shell(meddle)
            built = await bench.build("five")
            assert "md.degraded\t0\t0" in await bench.shell(f"({verify}\n)"), name
        assert (await built.measure(bench.cell("five"), 1)).trial.reason == ""
        await built.tear_down()

    bench(SABOTAGE, shared_rig, go)


def test_arrays_whose_disks_are_all_gone_are_stopped(tmp_path: Path) -> None:
    driver = "/sys/bus/virtio/drivers/virtio_blk"
    names = 'for disk in {}; do disk=$(readlink -f "$disk"); readlink -f "/sys/block/${{disk#/dev/}}/device"; done'

    async def go(bench: Bench) -> None:
        for label in ("five", "mirrors"):
            built = await bench.build(label)
            arrays = int(await bench.shell("grep -c ^md /proc/mdstat"))
            gone = [Path(path).name for path in (await bench.shell(names.format(" ".join(bench.rig.disks)))).split()]
            await bench.shell(f"for disk in {' '.join(gone)}; do echo $disk >{driver}/unbind; done")
            assert int(await bench.shell("grep -c ^md /proc/mdstat")) == arrays > 0
            torn = await bench.shell(f"({built._scripts.tear_down}\n) 2>&1 || true")
            assert torn.endswith("is not a block device"), torn
            assert await bench.shell("grep ^md /proc/mdstat || true") == ""
            await bench.shell(f"for disk in {' '.join(gone)}; do echo $disk >{driver}/bind; done")
            await built.tear_down()

    text = "  five: [md: {level: 5}, fs: {type: ext4}]\n  mirrors: [md: {level: 1, groups: 3}, md: {level: 0}]\n"
    bench(text, tmp_path, go)


@pytest.mark.exhaustive
def test_a_tear_down_that_cannot_end_loses_the_rig(tmp_path: Path) -> None:
    async def go(bench: Bench) -> None:
        built = await bench.build("five")
        await bench.shell("exec 9</dev/md127; sleep 300 <&9 >/dev/null 2>&1 & echo $! >/run/sleeper")
        with pytest.raises(RigLost, match="tear-down failed: "):
            await built.tear_down()
        await bench.shell("kill $(cat /run/sleeper); sleep 0.2")
        await built.tear_down()

    bench(SABOTAGE, tmp_path, go)
