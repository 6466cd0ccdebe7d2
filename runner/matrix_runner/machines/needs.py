"""What the layers of a stack need and a rig lacks, by its facts or by those that are known before it starts."""

import re
from collections.abc import Iterable, Iterator, Mapping

from matrix_runner.layers.base import Layer
from matrix_runner.layers.needs import Need
from matrix_runner.machines.base import Machine, Refusal
from matrix_runner.machines.requirements import package_of
from matrix_runner.work.profilers import PROFILERS, ProfilerName

_VERSION = re.compile(r"\d+(?:\.\d+)+")


def needs_of(layers: Iterable[Layer], profile: Iterable[ProfilerName]) -> Iterator[tuple[Need, str]]:
    """Return what a stack and profiles of its trials need, and who needs it."""
    for layer in layers:
        yield from ((need, need.label(layer.kind, getattr(layer, need.key, None))) for need in layer.needed)
    yield from ((PROFILERS[name].need, f"`profile: {name}`") for name in profile)


def lacks(
    layers: Iterable[Layer], machine: Machine, facts: Mapping[str, str], profile: Iterable[ProfilerName] = ()
) -> list[Refusal]:
    """Return why a rig with these facts cannot have a stack. What no fact is about is assumed to be there."""
    found = (one for need, who in needs_of(layers, profile) for one in _lacks(need, who, machine, facts))
    return list(dict.fromkeys(found))


def any_lacks(layers: Iterable[type[Layer]], machine: Machine, facts: Mapping[str, str]) -> Iterator[Refusal]:
    """Return what a rig with these facts lacks for any values of some kinds of layers."""
    for layer in layers:
        for need in layer.needs:
            yield from _lacks(need, need.label(layer.kind), machine, facts)


def _lacks(need: Need, who: str, machine: Machine, facts: Mapping[str, str]) -> Iterator[Refusal]:
    kernel, absent = facts.get("kernel", ""), facts.get("absent", "").split()
    if need.own_kernel and machine.shares_kernel:
        yield Refusal(
            f"{who} needs a kernel of its own, and {machine.name} shares that of its host", "use qemu or local"
        )
    other = "name another at `kernel:`" if machine.takes_folders else "boot another, or use qemu with `kernel:`"
    if need.linux and kernel and _is_older(kernel, need.linux):
        yield Refusal(f"{who} needs Linux {need.linux} or later, and the kernel is {kernel}", other)
    elif unset := [f"CONFIG_{name}" for name in need.options if name in facts.get("unset", "").split()]:
        yield Refusal(f"{who} needs {' and '.join(unset)}, and this kernel ({kernel}) is built without it", other)
    if need.processors > int(facts.get("processors", need.processors)):
        brief = f"{who} needs {need.processors} processors, and this machine has {facts['processors']}"
        more = f"write `machine: {{cpus: {need.processors}}}`, or " if machine.takes_folders else ""
        yield Refusal(brief, f"{more}write fewer queues")
    if without := [name for name in need.modules if name in facts.get("without", "").split()]:
        if need.package:
            other = (
                f"use a kernel of Debian that its {need.package} supports"
                if machine.takes_folders
                else f"install {need.package}, or use qemu, which builds it"
            )
        yield Refusal(f"{who} needs {' and '.join(without)}, and this kernel ({kernel}) has no such module", other)
    for name, _, least in (program.partition(" ") for program in need.programs):
        package = package_of(name)
        folder = f"name a folder with another {name} at `kernel:`"
        if name in absent:
            yield Refusal(f"{who} needs {name}", folder if machine.takes_folders else f"apt install {package}")
        elif least and name in facts and _is_older(facts[name], least):
            newer = folder if machine.takes_folders else f"install a newer {package}, such as that of backports"
            yield Refusal(f"{who} needs {name} {least} or later, and this is {_version(facts[name])}", newer)


def _version(text: str) -> str:
    match = _VERSION.search(text)
    return match[0] if match else text


def _is_older(text: str, least: str) -> bool:
    """Return whether a text names an older version. One without a version is not."""
    found, wanted = ([int(part) for part in _version(one).split(".") if part.isdecimal()] for one in (text, least))
    return bool(found) and found < wanted
