"""`matrix doctor`: each machine knows its needs, and machines/requirements.py the commands that meet them."""

import platform
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click

from matrix_runner.base.errors import BadInput, Exit, HarnessBroken
from matrix_runner.base.extras import list_extras
from matrix_runner.base.process import run
from matrix_runner.cli.disks import load_lab_file
from matrix_runner.cli.options import PLACE
from matrix_runner.cli.screen import echo, echo_whole
from matrix_runner.hosts.agent.connection import connection_to
from matrix_runner.language.matrix import SUITES, is_path, kernel_error
from matrix_runner.layers import LAYERS
from matrix_runner.machines import MACHINES, WITH_HOSTS, Where, machine
from matrix_runner.machines.base import MachineOptions, Refusal, RigSpec
from matrix_runner.machines.local import Local, query_host
from matrix_runner.machines.needs import any_lacks
from matrix_runner.machines.qemu.host import outlook
from matrix_runner.machines.qemu.kernel_config import inspect, lacks, smallest_config
from matrix_runner.machines.qemu.recipe import image_in
from matrix_runner.machines.requirements import (
    OPTIONAL,
    PACKAGES,
    PATIENCE,
    describe,
    facts,
    missing,
    missing_optional,
    query_command,
)
from matrix_runner.scripts.cell import explain_missing_fio
from matrix_runner.simdisks.disk import Disk
from matrix_runner.simdisks.server import TOOLS


def check_image(name: str) -> bool:
    if name in SUITES:
        echo_whole(f"kernel    {name}: Debian's own kernel, with its modules. The appliance is built for it.")
        return True
    if not is_path(name) and not Path(name).is_file():
        raise BadInput(f"--kernel {name}: {kernel_error(name)}")

    path = Path(name).expanduser()
    kernel = inspect(image_in(path) or path)
    echo_whole(f"kernel    {kernel.image}: Linux {kernel.release}")
    echo_whole(f"modules   {'' if kernel.modules else 'not '}in {kernel.image.parent / 'lib/modules' / kernel.release}")
    if not kernel.modules:
        echo_whole(f"          - make INSTALL_MOD_PATH={kernel.image.absolute().parent} modules_install")
    if not kernel.source:
        echo_whole("config    unknown: the image has no IKCONFIG, and there is no configuration beside it")
        echo_whole(f"          - copy its .config to {kernel.image.parent / f'config-{kernel.release}'}")
        echo_whole("          - or build it with CONFIG_IKCONFIG=y")
        return False
    echo_whole(f"config    from {kernel.source}")
    found = tuple(lacks(kernel.config, modules=kernel.modules))
    needed = [lack for lack in found if lack.option.boots]
    for lack in needed:
        echo_whole(f"          - {lack.message}")
    optional = [lack for lack in found if not lack.option.boots]
    for lack in optional:
        if not lack.is_module:
            echo_whole(f"          optional  {lack.message}")
    # Modules that cannot be loaded have one cause, so they get one line.
    if modules := sum(lack.is_module for lack in optional):
        echo_whole(f"          optional  {modules} more of `matrix help machines` are modules that cannot be loaded")
    echo_whole(f"verdict   {_verdict(len(needed), len(found))}")
    return not needed


def _verdict(needed: int, missing: int) -> str:
    if needed:
        return f"cannot boot the appliance: {_options(needed)} missing"
    if missing:
        return f"boots the appliance; {_options(missing)} missing for the optional work above"
    return "boots the appliance, and has all that layouts need"


def _options(count: int) -> str:
    return f"{count} option{'s are' if count > 1 else ' is'}"


_NEEDS = [need for layer in LAYERS.values() for need in layer.needs]
ANY_LAYOUT = tuple(dict.fromkeys(name for need in _NEEDS for name in need.modules))
_OPTIONS_OF_LAYERS = tuple(name for need in _NEEDS for name in need.options)
_PROGRAMS = tuple(dict.fromkeys(name for need in _NEEDS for name in need.program_names))
_EPILOG = """\b
Examples:
  matrix doctor --on qemu           exit code 3 if that machine cannot be used
  matrix doctor --on ssh:shelf      check a host of hosts.yaml or of the ssh configuration
  matrix doctor --kernel ./bzImage  check a kernel; exit code 3 if no virtual machine can boot it
  matrix doctor --kernel-config >matrix.config
                                    then, in a kernel tree: make KCONFIG_ALLCONFIG=../matrix.config allnoconfig bzImage
"""


@click.command("doctor", epilog=_EPILOG)
@click.option("--on", "place", type=PLACE, help="Check this machine only.")
@click.option(
    "--kernel",
    help="Check this kernel only: debian-12, debian-13, also with -backports, or the path of a bzImage.",
)
@click.option("--kernel-config", is_flag=True, help="Print the smallest configuration of a kernel for qemu.")
def command(place: Where | None, kernel: str | None, *, kernel_config: bool) -> None:
    """Show what this host can run, and what is missing for the rest. Only reads."""
    if kernel_config:
        echo_whole(smallest_config().rstrip())
        return
    if kernel:
        raise click.exceptions.Exit(0 if check_image(kernel) else Exit.BROKEN)
    no_fio = explain_missing_fio()
    fio = no_fio or run(["fio", "--version"], timeout=10).stdout.split("\n")[0] or "does not answer"
    lacking = [name for tool, names in TOOLS.items() if shutil.which(tool) is None for name in names.split()]
    echo(f"host      Linux {platform.release()}, Python {platform.python_version()}")
    echo(f"fio       {fio}")
    echo(f"results   {shutil.disk_usage('.').free / 1e9:,.0f} GB free for {Path('results').absolute()}/")
    echo("disks     " + (f"cannot be simulated: apt install {' '.join(lacking)}" if lacking else "can be simulated"))
    echo(f"kvm       {outlook()}")
    _show_extras()
    missing = {one: _refusals(one) for one in ([place] if place else map(Where, MACHINES))}
    for one, refusals in missing.items():
        hint = f"; check a host with matrix doctor --on {one.machine}:HOST"
        ready = f"ready{hint if one.machine in WITH_HOSTS and not one.host else ''}"
        echo(f"{one.machine:<9} {'cannot be used' if refusals else ready}")
        makes_disks = machine(one.machine, MachineOptions()).brings_disks
        lines, commands = describe(refusals, also=[*lacking, *(["fio"] if no_fio else [])] if makes_disks else ())
        for line in [*(f"- {line}" for line in lines), *(f"→ {command}" for command in commands)]:
            echo(f"          {line}")
        if not refusals and not one.host:
            _show_lacks(one.machine)
        if not makes_disks and one.machine not in WITH_HOSTS:  # it uses the disks of this host
            with suppress(HarnessBroken):  # already printed as a refusal
                _show_optional(run(query_command((), OPTIONAL), timeout=PATIENCE).stdout)
    if place and place.host:
        _show_host(_ssh_name(place.host))
    if all(missing.values()):
        raise click.exceptions.Exit(Exit.BROKEN)


def _show_extras() -> None:
    extras = [*list_extras()]
    echo(f"extras    {', '.join(name for name, _, there in extras if there) or 'not installed'}")
    for name, what, there in extras:
        if not there:
            echo(f"          optional  pip install 'matrix-runner[{name}]': for {what}")


def _show_lacks(name: str, known: Mapping[str, str] | None = None) -> None:
    place = machine(name, MachineOptions())
    spec = RigSpec((), modules=ANY_LAYOUT, programs=_PROGRAMS, options=_OPTIONS_OF_LAYERS)
    known = place.known(spec) if known is None else known
    without = set((Local().known(spec) if place.shares_kernel else known).get("without", "").split())
    # Most modules are missing for one reason: the kernel was built without them.
    needs = [(need.label(kind), {*need.modules} & without) for kind, layer in LAYERS.items() for need in layer.needs]
    if several := [(label, names) for label, names in needs if names]:
        modules = ", ".join(sorted(set[str]().union(*(names for _, names in several))))
        stacks = ", ".join(label for label, _ in several)
        remedy = "other stacks run. Install its modules, boot another, or use qemu"
        echo(f"          skips     stacks with {stacks}: the kernel ({known['kernel']}) has no {modules}; {remedy}")
    for lack in any_lacks(LAYERS.values(), place, {**known, "without": ""}):
        echo(f"          skips     {lack.message}")


def _ssh_name(host: str) -> str:
    lab = load_lab_file(None)
    found = lab.hosts.get(host) if lab else None
    return found.reach.removeprefix("ssh:") if found and found.reach != "local" else host


def _show_host(name: str) -> None:
    connection = connection_to(name)
    if not connection.is_connected:
        return  # already printed as a refusal
    answer = query_host(connection, ANY_LAYOUT, (*PACKAGES, *OPTIONAL))
    known = facts(answer)
    for what in ("kernel", "fio", "mdadm", "lvm"):
        echo(f"          {what:<9} {known.get(what, 'not there')}")
    lacks = missing(answer)
    for what in lacks:
        echo(f"          lacks     {what}")
    if not lacks:
        echo("          has all that layouts need")
    _show_lacks("ssh", {**known, "without": "", "absent": ""})  # these are listed above
    _show_optional(answer)


def _show_optional(answer: str) -> None:
    for what in missing_optional(answer):
        echo(f"          optional  {what}")


def _refusals(place: Where) -> list[Refusal]:
    disks = tuple(Disk(1 << 30, "sata") for _ in range(4))
    wishes = MachineOptions(where=_ssh_name(place.host) if place.host else "")
    return machine(place.machine, wishes).refusals(RigSpec(disks))  # modules depend on the layout
