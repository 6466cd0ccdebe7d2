"""Suggestions for misspelt words."""

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

from matrix_runner.base.text import shorten

#: Names of keys in other programs, and their names here.
_OTHER_NAMES = {
    **dict.fromkeys(("block_size", "blocksize"), "bs"),
    **dict.fromkeys(("depth", "qd", "queue_depth", "queuedepth"), "iodepth"),
    **dict.fromkeys(("duration", "time_based"), "runtime"),
    **dict.fromkeys(("filesystem", "fstype"), "type"),
    **dict.fromkeys(("jobs", "threads"), "numjobs"),
    "chunk_size": "chunk",
    "engine": "ioengine",
    "filesize": "size",
    "ramp_time": "ramp",
    "read_ahead_kb": "readahead",
    "readwrite": "rw",
}


_MOST_NAMES, _LONGEST_WORD, _MOST_SHOWN = 1000, 100, 50
_MOST_MEANT, _SHORT = 5, 3


def did_you_mean(word: str, known: Iterable[str]) -> str:
    names = list(dict.fromkeys(known))
    if (meant := _OTHER_NAMES.get(word)) in names:
        return f"did you mean {meant}?"
    return hint(word, names).removeprefix("; ") or f"known are {few_names(names)}"


def few_names(names: Collection[str]) -> str:
    """List names within the length of a message: users and files can have many, and long ones."""
    shown = [shorten(name, _LONGEST_WORD) for name in islice(names, _MOST_SHOWN)]
    more = f" and {len(names) - _MOST_SHOWN:,} more" if len(names) > _MOST_SHOWN else ""
    return f"{', '.join(shown)}{more}"


def near(word: str, names: Iterable[str]) -> list[str]:
    known = list(names)
    if len(known) > _MOST_NAMES or len(word) > _LONGEST_WORD:  # a comparison takes 10 us, and a file may have many
        return []
    wanted = word.lower()
    if longer := [name for name in known if name.lower().endswith((f".{wanted}", f"_{wanted}"))]:
        return longer[:_MOST_MEANT]
    found = difflib.get_close_matches(wanted, [name.lower() for name in known], n=2, cutoff=0.6)
    return [name for name in known if name.lower() in found and not _is_another(wanted, name.lower())]


def _is_another(word: str, name: str) -> bool:
    """Return whether it is rather a name of its own: `irq_affinity` is not rq_affinity, `zfs` neither fs nor xfs."""
    return word[1:] == name or (len(word) <= _SHORT and word[:1] != name[:1])


def hint(word: str, names: list[str]) -> str:
    meant = near(word, [name for name in names if name != word])
    return f"; did you mean {' or '.join(meant)}?" if meant else ""
