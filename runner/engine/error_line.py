"""What a failed script says went wrong: of all that its programs printed, the line that says most. Pure."""

from __future__ import annotations

import re

_OURS = "matrix: "
#: Says where else to look.
_POINTER = re.compile(
    r"dmesg\(1\)|\bfor more (information|details)|--help\b|^(See|Check|Consult) |^(Try|Run) [`'\"]|^btrfs-progs v",
    re.IGNORECASE,
)
_WARNING = re.compile(r"^(\S+: )?(warning|note)\b", re.IGNORECASE)
#: Says only that something before it went wrong.
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
#: Lines of a summary of options, which goes on until something else begins.
_SYNOPSIS = re.compile(r"\s|\[|/\*|<")
#: So far in begins what belongs to the line before it; LVM has all of its lines two blanks in.
_CONTINUED = re.compile(r"\t| {4}")


def evidence(output: str) -> str:
    """The line of a failed script that says most: our own word, else that of the program that failed.

    Our own may end in a colon: then the program's follows it.
    """
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    ours = [line.strip().removeprefix(_OURS) for line in lines if line.strip().startswith(_OURS)]
    if ours and not ours[-1].endswith(":"):
        return ours[-1][:300]
    said = complaint([line for line in lines if not line.strip().startswith(_OURS)]) or "it said nothing"
    return " ".join((*ours[-1:], said))[:300]


def complaint(lines: list[str]) -> str:
    """What programs complain of last in these lines, none of which is blank; empty if there are none."""
    useful = _joined(_without_usage([line for line in lines if not _POINTER.search(line.strip())]))
    told = [one for one in useful if not _WARNING.match(one)]
    complaints = [one for one in told if _COMPLAINT.search(one)]
    causes = [one for one in complaints if not _AFTERMATH.search(one)]
    return (causes or complaints or told or useful or [line.strip() for line in lines] or [""])[-1]


def _without_usage(lines: list[str]) -> list[str]:
    """Some programs explain all of themselves after what they complain of, some before."""
    at = next((at for at, line in enumerate(lines) if _USAGE.match(line)), None)
    if at is None:
        return lines
    if any(_COMPLAINT.search(line) for line in lines[:at]):
        return lines[:at]
    after = next((end for end in range(at + 1, len(lines)) if not _SYNOPSIS.match(lines[end])), len(lines))
    return lines[:at] + lines[after:]


def _joined(lines: list[str]) -> list[str]:
    """Each line with those that only go on from it."""
    joined: list[str] = []
    for line in lines:
        if joined and _CONTINUED.match(line):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line.strip())
    return joined
