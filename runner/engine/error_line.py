"""Find the most informative line in the output of a failed script. Pure."""

from __future__ import annotations

import re

_PREFIX = "matrix: "
#: Lines that only refer to help or logs.
_POINTER = re.compile(
    r"dmesg\(1\)|\bfor more (information|details)|--help\b|^(See|Check|Consult) |^(Try|Run) [`'\"]|^btrfs-progs v",
    re.IGNORECASE,
)
_WARNING = re.compile(r"^(\S+: )?(warning|note)\b", re.IGNORECASE)
#: Lines that only report the failure of an earlier step.
_AFTERMATH = re.compile(
    r"Error during parsing of command line|^Failed to activate new LV|^Command failed|^Aborting"
    r"|^fio: (failed to load engine|pid=\d+, err=)",
    re.IGNORECASE,
)
_COMPLAINT = re.compile(
    r"error|fail|invalid|illegal|unknown|unrecogni[sz]ed|unable|refus|denied|insufficient|unsupported|mismatch|exceed"
    r"|\b(can ?not|can't|couldn't|won't|not|no|nor|bad|wrong|must|busy|missing|already|too|unusual|out of)\b",
    re.IGNORECASE,
)
_USAGE = re.compile(r"usage:", re.IGNORECASE)
#: Lines of a usage summary.
_SYNOPSIS = re.compile(r"\s|\[|/\*|<")
#: Indentation of a continuation line; LVM indents all its lines by two blanks.
_CONTINUED = re.compile(r"\t| {4}")


def evidence(output: str) -> str:
    """Return the most informative line: the script's own message, else that of the program that failed.

    If the script's message ends in a colon, append the message of the program.
    """
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    own = [line.strip().removeprefix(_PREFIX) for line in lines if line.strip().startswith(_PREFIX)]
    if own and not own[-1].endswith(":"):
        return own[-1][:300]
    message = complaint([line for line in lines if not line.strip().startswith(_PREFIX)]) or "no message"
    return " ".join((*own[-1:], message))[:300]


def complaint(lines: list[str]) -> str:
    """Return the last error message of programs; empty without lines."""
    useful = _join_lines(_without_usage([line for line in lines if not _POINTER.search(line.strip())]))
    messages = [one for one in useful if not _WARNING.match(one)]
    complaints = [one for one in messages if _COMPLAINT.search(one)]
    causes = [one for one in complaints if not _AFTERMATH.search(one)]
    return (causes or complaints or messages or useful or [line.strip() for line in lines] or [""])[-1]


def _without_usage(lines: list[str]) -> list[str]:
    """Remove usage summaries, which come before or after the error message."""
    at = next((at for at, line in enumerate(lines) if _USAGE.match(line)), None)
    if at is None:
        return lines
    if any(_COMPLAINT.search(line) for line in lines[:at]):
        return lines[:at]
    after = next((end for end in range(at + 1, len(lines)) if not _SYNOPSIS.match(lines[end])), len(lines))
    return lines[:at] + lines[after:]


def _join_lines(lines: list[str]) -> list[str]:
    """Join each line with its continuation lines."""
    joined: list[str] = []
    for line in lines:
        if joined and _CONTINUED.match(line):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line.strip())
    return joined
