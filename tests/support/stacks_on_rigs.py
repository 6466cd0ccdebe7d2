"""Stacks on the rig of a test: built, read back, written through, rebooted, taken apart."""

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

from matrix_runner.carry.trial import StackOnRig
from matrix_runner.machines.base import Rig, RigSpec, Step, StepResult
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.record import Outcome
from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.scripts.jinja import render
from matrix_runner.space.space import Cell, Space, Stack
from matrix_runner.space.variants import top_of
from tests.support.reboot import KeptDisks, read_disks_anew
from tests.support.rigs import rig_of, spec_of
from tests.support.shared_rig import SharedRig, run_at

#: Content that another order of the same devices would not have.
PATTERN = """\
(seq 1000000 9999999 || true) | head -c 8388608 >/tmp/pattern
"""


WRITE = "dd if=/tmp/pattern of={top} bs=1M oflag=direct status=none\n"


COMPARE = "cmp -n 8388608 /tmp/pattern {top}\n"


def cells_of(found: Space) -> Iterator[tuple[Stack, Cell]]:
    for array in found.stacks:
        yield array, next(cell for cell in found.cells() if cell.stack is array)


async def run(rig: Rig, text: str) -> StepResult:
    (result,) = await rig.run([Step("step", text)], expected=0, deadline=240)
    return result


async def done(rig: Rig, text: str) -> str:
    result = await run(rig, text)
    assert result.status == 0, result.output
    return result.output


def read(output: str) -> dict[str, tuple[str, ...]]:
    """What was wanted and found, by setting; of several of a name, the last."""
    rows = (line.split("\t") for line in output.splitlines() if line.startswith("reading\t"))
    return {row[1]: tuple(row[2:]) for row in rows}


async def _rebooted(found: Space, scratch: Path, *, cold: bool) -> list[dict[str, tuple[str, ...]]]:
    """Each stack built and written on one rig, found again on the next with these disks, and removed on a third."""
    readings = []
    spec, machine = _template_spec(found), KeptDisks(scratch, cold=cold)
    for array, cell in cells_of(found):
        async with rig_of(spec, scratch, machine) as rig:
            assert rig.facts["fio"].startswith("fio-3.")
            assert rig.facts["clocksource"] in {"tsc", "tsc-early", "kvm-clock"}
            scripts = stack_scripts(array, rig.disks, zeroed=True)
            top = scripts.stack.tops[0]
            await done(rig, scripts.set_up)
            await done(rig, PATTERN + WRITE.format(top=top) + "sync\n")
        async with rig_of(spec, scratch, machine) as rig:
            await done(rig, read_disks_anew(rig))
            assert (await run(rig, f"test -e {top}")).status == 1
            await done(rig, scripts.activate)
            await done(rig, scripts.activate)
            readings.append(read(await done(rig, cell_scripts(cell, scripts.stack).verify)))
            await done(rig, PATTERN + COMPARE.format(top=top))
        async with rig_of(spec, scratch, machine) as rig:
            await done(rig, read_disks_anew(rig))
            await done(rig, f'test -n "$(wipefs {" ".join(rig.disks)})"')
            await done(rig, scripts.tear_down)  # of what is not active
            await done(rig, f'test -z "$(wipefs {" ".join(rig.disks)})"')
    return readings


#: The kernel loads these on demand, so that all rigs here are clones of the template that other tests have, too.
ON_DEMAND = {"dm_crypt", "dm_integrity"}


def _template_spec(found: Space) -> RigSpec:
    spec = spec_of(found)
    return replace(spec, modules=(*{*spec.modules} - ON_DEMAND,))


def _with_rig(found: Space, place: Path | SharedRig, batch: Callable[[Rig, Qemu], Awaitable[None]]) -> None:
    """One machine for all of the arrays."""

    async def work() -> None:
        machine = Qemu()
        async with rig_of(_template_spec(found), place, machine) as rig:
            await batch(rig, machine)

    run_at(place, work())


async def _say(rig: Rig, text: str) -> str:
    (result,) = await rig.run([Step("say", text)], expected=0, deadline=120)
    assert result.status == 0, result.output
    return result.output.strip()


def _cell(found: Space, array: Stack) -> Cell:
    return next(cell for cell in found.cells() if cell.stack is array)


async def _measured(built: StackOnRig, cell: Cell) -> None:
    finding = (await built.measure(cell, 1)).trial
    assert finding.outcome is Outcome.MEASURED, (cell.name, finding.reason)


def _activation(built: StackOnRig) -> str:
    return render("activate.sh", None, title="again", stack=built._scripts.stack)


async def _round(found: Space, array: Stack, rig: Rig, machine: Qemu) -> str:
    """Built, closed, started again, written through, built anew over itself, taken apart twice; how long it took."""
    clock = time.monotonic()
    built = await StackOnRig.build(found.matrix, array, rig, machine, None)
    took = time.monotonic() - clock
    tops = built._scripts.stack.tops
    sizes = [int(size) for size in (await _say(rig, f"blockdev --getsize64 {' '.join(tops)}")).split()]
    least = [shape.size for shape in top_of(array.layers.value, found.matrix)]
    assert all(low <= size < low * 1.1 + (4 << 20) for low, size in zip(least, sizes, strict=True)), (
        array.label,
        sizes,
    )
    await _closed_and_started_again(built, rig)
    await _measured(built, _cell(found, array))
    built = await StackOnRig.build(found.matrix, array, rig, machine, None)
    await _measured(built, _cell(found, array))
    clock = time.monotonic()
    await built.tear_down()
    gone = time.monotonic() - clock
    await built.tear_down()
    assert await _say(rig, "dmsetup ls") == "No devices found"
    return f"{array.label}: up {took:.1f} s, down {gone:.1f} s, {sizes[0]} bytes, {least[0]} computed\n"


#: As a reboot does it: everything from the top down, nothing wiped.
CLOSE = """\
for _ in 1 2 3 4; do
  for node in /sys/class/block/md*/md; do [[ -e $node ]] && mdadm --stop -q /dev/$(basename ${node%/md}) 2>/dev/null; done
  dmsetup remove_all 2>/dev/null
done
[[ $(dmsetup ls) == 'No devices found' ]]
"""


async def _closed_and_started_again(built: StackOnRig, rig: Rig) -> None:
    again = f"({_activation(built)}\n)\n"
    await _say(rig, f"{CLOSE}\n{again}{again}")
