"""What the rig of a stack has to be: its disks, kernel, memory, modules and programs."""

from collections.abc import Iterable, Iterator

from matrix_runner.base.model import digest, written
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.tune import target_kind
from matrix_runner.machines.base import RigSpec
from matrix_runner.machines.needs import needs_of
from matrix_runner.records.environment import DiskFacts
from matrix_runner.simdisks.disk import Disk
from matrix_runner.space.space import Stack


def rig_spec(matrix: Matrix, stack: Stack, kernel: str | None) -> RigSpec:
    wish = matrix.machine
    needs = [need for need, _ in needs_of(stack.layers.value, matrix.profile)]
    modules = tuple(sorted({name for need in needs for name in need.modules}))
    programs = tuple(sorted({name for need in needs for name in need.program_names}))
    options = tuple(sorted({name for need in needs for name in need.options}))
    powers = powers_of(stack)
    return RigSpec(
        *(matrix.every_disk(), kernel or stack.kernel, wish.cpus, wish.memory, modules, programs, powers),
        cmdline=stack.cmdline,
        options=options,
    )


def specs_of(matrix: Matrix, stacks: Iterable[Stack], kernel: str | None) -> Iterator[RigSpec]:
    return (rig_spec(matrix, stack, kernel) for stack in stacks)


def simulated_disk_facts(disk: Disk) -> DiskFacts:
    link = f"{disk.link.name}, {disk.link.rate / 1e6:g} MB/s" if disk.link else ""
    if disk.physics is None:
        return DiskFacts(size=disk.size, bus=disk.bus, link=link)
    kind, numbers = disk.physics.kind, digest(disk.physics.characteristics).hex()
    return DiskFacts(
        size=disk.size,
        bus=disk.bus,
        model=kind,
        name=disk.model,
        fitted_to=disk.fitted_to,
        digest=numbers,
        link=link,
    )


def powers_of(stack: Stack) -> tuple[str, ...]:
    settings = [name for tune in stack.tunes for name in written(tune.value)]
    needed = {
        "faults": bool(stack.faults),
        "host": not all(target_kind(name, top="disk") for name in settings),
    }
    return tuple(name for name, is_needed in needed.items() if is_needed)
