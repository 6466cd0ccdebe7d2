"""The check of a kernel image by `matrix doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.base.errors import BadInput
from runner.language.matrix import SUITES, is_path, kernel_error

if TYPE_CHECKING:
    from runner.machines.qemu.kernel_config import Kernel, Lack


def check_image(name: str) -> bool:
    """Print the options that a kernel lacks; report whether it boots. False if its configuration is unknown."""
    if name in SUITES:
        click.echo(f"kernel    {name}: Debian's own kernel, with its modules. The appliance is built for it.")
        return True
    if not is_path(name) and not Path(name).is_file():
        raise BadInput(f"--kernel {name}: {kernel_error(name)}")
    from runner.machines.qemu.kernel_config import inspect, lacks

    kernel = inspect(Path(name).expanduser())
    click.echo(f"kernel    {kernel.image}: Linux {kernel.release}")
    click.echo(f"modules   {_modules(kernel)}")
    if not kernel.source:
        click.echo("config    unknown: the image has no IKCONFIG, and there is no configuration beside it")
        click.echo(f"          - copy its .config to {kernel.image.parent / f'config-{kernel.release}'}")
        click.echo("          - or build it with CONFIG_IKCONFIG=y")
        return False
    click.echo(f"config    from {kernel.source}")
    found = tuple(lacks(kernel.config, modules=kernel.modules))
    needed = [lack for lack in found if lack.option.boots]
    for lack in needed:
        click.echo(f"          - {lack.message}")
    _show_optional([lack for lack in found if not lack.option.boots])
    click.echo(f"verdict   {_verdict(needed, found)}")
    return not needed


def _show_optional(found: list[Lack]) -> None:
    """Print missing options. Modules that cannot be loaded have one cause, so they get one line."""
    for lack in found:
        if not lack.is_module:
            click.echo(f"          optional  {lack.message}")
    if modules := sum(lack.is_module for lack in found):
        click.echo(f"          optional  {modules} more of docs/machines.md are modules that cannot be loaded")


def _modules(kernel: Kernel) -> str:
    where = kernel.image.parent / "lib" / "modules" / kernel.release
    if kernel.modules:
        return f"in {where}"
    return f"not in {where}\n          - make INSTALL_MOD_PATH={kernel.image.absolute().parent} modules_install"


def _verdict(needed: list[Lack], found: tuple[Lack, ...]) -> str:
    if needed:
        return f"cannot boot the appliance: {_options(len(needed))} missing"
    if found:
        return f"boots the appliance; {_options(len(found))} missing for the optional work above"
    return "boots the appliance, and has all that layouts need"


def _options(count: int) -> str:
    return f"{count} option{'s are' if count > 1 else ' is'}"
