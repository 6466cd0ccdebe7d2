"""Errors that a user sees: what happened, the evidence, and what to do."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    ALL_MEASURED = 0
    CLAIM_FAILED = 1  # a guideline fails, or something is slower
    BAD_INPUT = 2
    BROKEN = 3
    INTERRUPTED = 130


class MatrixError(Exception):
    """Base of every error that is shown without a traceback."""

    exit_code = Exit.BROKEN

    def __init__(self, brief: str, *, details: str = "", resolution: str = "") -> None:
        super().__init__(brief)
        self.brief = brief
        self.details = details
        self.resolution = resolution
        if details:
            self.add_note(details)  # tracebacks show the evidence, too


class BadInput(MatrixError):
    """The user's input cannot be used; no trial was started."""

    exit_code = Exit.BAD_INPUT


class HarnessBroken(MatrixError):
    """The program or the host failed; it is no result about the storage under test."""
