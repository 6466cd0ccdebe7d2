"""The errors a user meets: what happened, the evidence, and what to do about it."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the process says to the shell that called it."""

    ALL_MEASURED = 0
    CLAIM_FAILED = 1  # a guideline fails, or something is slower
    BAD_INPUT = 2
    BROKEN = 3
    INTERRUPTED = 130


class MatrixError(Exception):
    """Base of every error that is shown to a user without a traceback."""

    exit_code = Exit.BROKEN

    def __init__(self, brief: str, *, details: str = "", resolution: str = "") -> None:
        super().__init__(brief)
        self.brief = brief
        self.details = details
        self.resolution = resolution
        if details:
            self.add_note(details)  # where it is shown with a traceback, the evidence belongs to it


class BadInput(MatrixError):
    """What the user wrote cannot be done; nothing was started."""

    exit_code = Exit.BAD_INPUT


class HarnessBroken(MatrixError):
    """Something of ours or of the host failed; it says nothing about the storage under test."""
