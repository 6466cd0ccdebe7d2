"""The host itself for whoever is not root: as a host behind ssh, by sudo instead of ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from runner.base.errors import HarnessBroken
from runner.hosts.agent.sudo import sudo_connection
from runner.machines.base import Refusal
from runner.machines.local import Local, unreal
from runner.machines.ssh import Ssh

if TYPE_CHECKING:
    from runner.hosts.agent.connection import Connection
    from runner.machines.base import RigSpec


class Sudo(Ssh):
    """See the module. Its results are those of `local`, which it is."""

    name: ClassVar[str] = Local.name

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        """What such disks cannot do, what the host does not have, and why root's rights are not to be had."""
        try:
            sudo_connection()
        except HarnessBroken as error:
            return [*Local().refusals(spec), Refusal(error.brief, error.resolution)]
        return [*unreal(spec), *self._unfit(spec)]

    def lacks(self, kernel: str) -> str:
        """It has one kernel, which runs."""
        return Local().lacks(kernel)

    def _line(self) -> Connection:
        return sudo_connection()
