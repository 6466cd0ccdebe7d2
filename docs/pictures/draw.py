"""Draw the pictures of the documentation again: `python -m docs.pictures.draw [--record]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from docs.pictures import charts, diagrams, screenshots, terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FOLDER = Path(__file__).parent
#: Each SVG and its drawing.
DRAWINGS: Mapping[str, Callable[[], object]] = {
    "data-flow.svg": diagrams.data_flow,
    "layout-stack.svg": diagrams.layout_stack,
    "rounds.svg": diagrams.rounds,
    "simulated-disk.svg": diagrams.simulated_disk,
    "statistics-interval.svg": charts.interval,
    "statistics-rounds.svg": charts.drift,
    "statistics-stopping.svg": charts.stopping,
    "statistics-states.svg": charts.states,
    "statistics-percentile.svg": charts.percentile,
    "statistics-comparison.svg": charts.comparison,
    "statistics-runs.svg": charts.runs,
    "terminal.svg": terminal.film,
}


def main() -> None:
    if "--record" in sys.argv[1:]:
        from docs.pictures.record import record

        record()
    for name, draw in DRAWINGS.items():
        (FOLDER / name).write_text(str(draw()))
    screenshots.main()


if __name__ == "__main__":
    main()
