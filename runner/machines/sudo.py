"""The machine `local` for users other than root: the machine `ssh` with sudo instead of ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from runner.base.errors import HarnessBroken
from runner.hosts.agent.sudo import sudo_connection
from runner.machines.base import Refusal
from runner.machines.local import Local, model_refusals
from runner.machines.ssh import Ssh

if TYPE_CHECKING:
    from runner.hosts.agent.connection import Connection
    from runner.machines.base import RigSpec


class Sudo(Ssh):
    name: ClassVar[str] = Local.name

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        try:
            sudo_connection()
        except HarnessBroken as error:
            return [*Local().refusals(spec), Refusal(error.brief, error.resolution)]
        return [*model_refusals(spec), *self._unfit(spec)]

    def kernel_refusal(self, kernel: str) -> str:
        return Local().kernel_refusal(kernel)

    def _line(self) -> Connection:
        return sudo_connection()
