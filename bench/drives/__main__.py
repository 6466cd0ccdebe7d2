"""Fit models to published results of named drives, and write the page that compares them.

python -m bench.drives extract MIRRORS   # figures.csv, from bare clones of the repositories
python -m bench.drives fit [NAME ...]    # matrix/models/NAME.yaml
python -m bench.drives page              # docs/explanation/models-against-real-drives.md and its charts
python -m bench.drives hidden [SEED]     # calibrate 60 random models, and predict jobs that the fit did not see
One side: predictions of models; the figures of the drives were published by others.
"""

from __future__ import annotations

import argparse
import asyncio
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from bench.drives import figures, hidden, page
from bench.drives.sets import DRIVES
from matrix_runner.language.disks import physics_of
from matrix_runner.pages.calibration import key_lines
from matrix_runner.simdisks.clib import build_library, load_library
from matrix_runner.simdisks.fit import Fit, Subject, keys_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.drives.sets import Drive

MODELS = Path(__file__).parents[2] / "matrix/models"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.drives", description=__doc__.partition("\n")[0])
    doings = parser.add_subparsers(dest="doing", required=True)
    doings.add_parser("extract").add_argument("mirrors", type=Path)
    doings.add_parser("fit").add_argument("names", nargs="*", default=[drive.name for drive in DRIVES])
    doings.add_parser("page")
    doings.add_parser("hidden").add_argument("seed", type=int, nargs="?", default=1)
    asked = parser.parse_args()
    if asked.doing == "extract":
        figures.extract(asked.mirrors)
        return
    library = load_library(asyncio.run(build_library()))
    if asked.doing == "hidden":
        hidden.show(library, asked.seed)
        return
    if asked.doing == "page":
        page.write([page.Compared(library, drive) for drive in DRIVES])
        return
    for drive in DRIVES:
        if drive.name in asked.names:
            fitted = tuple(job for job in figures.jobs(drive, drive.own) if figures.is_fitted(job.pattern))
            subject = Subject(drive.keys, page.host_of(drive), fitted, drive.directions)
            keys = keys_of(subject, Fit(library, subject, physics_of, print).run())
            (MODELS / f"{drive.name}.yaml").write_text(model_file(drive, keys))


def model_file(drive: Drive, keys: Mapping[str, object]) -> str:
    """Return a file of the language: its source, what it was fitted to, and its keys."""
    words = f"{drive.title}. Fitted to published results of fio with random requests of 4 KiB; {drive.keys_from}"
    places = "; ".join(f"{own.repository} {own.commit} {own.folder}" for own in drive.own)
    lines = ["# yaml-language-server: $schema=../model.schema.json", f"name: {drive.name}", "source: >-"]
    lines += textwrap.wrap(words, 128, initial_indent="  ", subsequent_indent="  ")
    lines += [f"fitted_to: {places}", *key_lines(keys)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
