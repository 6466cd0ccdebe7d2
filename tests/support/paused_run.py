"""`matrix run` as a process of its own that stops at a trial until it is told to go on: `python -m … TRIALS WORDS…`."""

from __future__ import annotations

import sys
from typing import Any

from runner.cli import main
from runner.results.journal import Journal


def stop_at(trials: int) -> None:
    """Say so and read a line, once the trial after so many is begun."""
    begin = Journal.begin

    def begun(journal: Journal, *words: Any) -> None:
        begin(journal, *words)
        if len(journal.recorded_identities()) == trials:
            sys.stderr.write("stopped\n")
            sys.stderr.flush()
            sys.stdin.readline()

    Journal.begin = begun  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    stop_at(int(sys.argv[1]))
    sys.argv = ["matrix", *sys.argv[2:]]
    main()
