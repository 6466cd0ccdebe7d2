"""Names of files in a run folder, of cells as paths in it, and of facts in an environment; files by their names."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from matrix_runner.base.errors import BadInput

CELLS = "cells"  # the folder of cells in a run
ARCHIVE = "cells.sqlite"  # what a large run has instead
_PART = re.compile(r"[A-Za-z0-9._=,+@%-]{1,255}")


def parts_of(name: str) -> list[str]:
    """Split a name into path parts. Refuse one that leads elsewhere or needs quotes in a shell."""
    parts = name.split("/")
    for part in parts:
        if not _PART.fullmatch(part) or part in {".", ".."}:
            raise BadInput(
                f"{name!r} cannot name a folder or a file",
                resolution="names are parts of letters, digits and ._=,+@%- (1 to 255 each), joined by /",
            )
    return parts


def is_file_of_trial(name: str) -> bool:
    """Return whether a worker may name a file so: not like a folder of trials, or a file that is being written."""
    return len(name) <= 128 and bool(_PART.fullmatch(name)) and not name.startswith((".", "trial-"))


def check_file_name(name: str, what: str = "a file of a trial") -> str:
    if "/" in name:
        raise BadInput(f"{name!r} cannot name {what}", resolution="leave out the slashes: it is one name")
    return parts_of(name)[0]


class LazyFiles(Mapping[str, bytes]):
    """Files by their paths, read one by one: together they may not fit into memory."""

    def __init__(self, paths: Sequence[str], read: Callable[[str], bytes]) -> None:
        self._paths, self._read = dict.fromkeys(paths), read

    def __getitem__(self, path: str) -> bytes:
        if path not in self._paths:
            raise KeyError(path)
        return self._read(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


OF = ": "  # in the keys of an environment
#: Runs and databases from before version 1 are read by this commit and by those before it.
LAST_COMMIT = "aad239b9"


def split_owner(name: str) -> tuple[str | None, str]:
    """Split a key of an environment after the kernel or the host that it is of; None: it is of the whole run."""
    owner, of, fact = name.partition(OF)
    return (owner, fact) if of else (None, name)
