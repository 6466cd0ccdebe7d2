"""The journal and the shelf of a batch process: each record becomes a line for the coordinator, which stores it."""

from collections.abc import Mapping

from matrix_runner.carry.batch_messages import FILES, Outbox
from matrix_runner.records.files import Standing
from matrix_runner.records.record import Attempt, Trial


class RecordStream:
    """`standing`: where tear-down scripts stay if the stack may outlive the process."""

    def __init__(self, outbox: Outbox, standing: Standing | None = None) -> None:
        self._outbox, self._standing = outbox, standing

    def begin(self, cell: str, round_number: int, attempt: int, boot_id: str, started: str = "") -> None: ...
    def withdraw(self, cell: str, round_number: int) -> None: ...
    def record_set_up(self, round_number: int, stack: str, seconds: float) -> None: ...

    def record(self, trial: Trial) -> None:
        self._outbox.send_trial(trial)

    def record_lost(self, attempt: Attempt) -> None:
        self._outbox.send_attempt(attempt)

    def put(self, cell: str, round_number: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        self._outbox.send(FILES, cell=cell, round=round_number, scripts=dict(scripts), outputs=dict(outputs))
        return f"cells/{cell}/trial-{round_number}"

    def keep_tear_down(self, stack: str, tear_down: str) -> None:
        if self._standing:
            self._standing.keep_tear_down(stack, tear_down)

    def forget_tear_down(self, stack: str) -> None:
        if self._standing:
            self._standing.forget_tear_down(stack)
