"""Guidelines on runs in the store."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from matrix_runner.answers.samples import Measured
from matrix_runner.answers.selectors import select_cells
from matrix_runner.answers.stored_samples import read_samples
from matrix_runner.answers.verdicts import SHARE, UNWATCHED, Judgement, judge_guidelines
from matrix_runner.base.errors import BadInput
from matrix_runner.pages.searches import read_searches
from matrix_runner.space.load import Declared, parse
from matrix_runner.work.metrics import FOUND

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from matrix_runner.answers.stored_samples import Samples
    from matrix_runner.language.guidelines import Guideline
    from matrix_runner.records.run_folder import Manifest
    from matrix_runner.records.store import RunRow, SharedStore


def columns_of(guidelines: Iterable[Guideline]) -> list[str]:
    """Return the columns of trials that they need. The result of a search is not such a column."""
    figures = (one.claimed.figure for one in guidelines if one.claimed.metric not in FOUND)
    return list(dict.fromkeys(column for figure in figures for column in figure.columns))


def read_for(
    guidelines: Sequence[Guideline], store: SharedStore, runs: Sequence[RunRow], results: Path, only: Sequence[str] = ()
) -> list[Samples]:
    """Read what guidelines need: cells, and searches if a guideline is about them."""
    cells = select_cells(None, only, store.different_cells() if only else ())
    found = read_samples(store, runs, columns_of(guidelines), cells)
    searched = any(one.claimed.metric in FOUND for one in guidelines)
    return [*found, *(read_searches(runs, results, only=only) if searched else ())]


def judged_in_store(guidelines: Sequence[Guideline], found: Sequence[Samples]) -> list[Judgement]:
    synthetic = {one.run.synthetic for one in found}
    if len(synthetic) > 1:
        raise BadInput(
            "some of these runs are synthetic, from the dry machine",
            resolution="name only measured runs, or only synthetic ones",
        )
    return judge_guidelines(guidelines, map(as_measured, found), synthetic=True in synthetic, share=share_of(found))


def share_of(found: Iterable[Samples]) -> float:
    """Return the part of the error rate for each look at a verdict: smaller if guidelines steered trials."""
    return SHARE if any(one.run.steered for one in found) else 1.0


def as_measured(samples: Samples) -> Measured:
    """Return a cell of a run with the stopping rule of the run. Steered runs do not use the rule of the matrix."""
    rule = UNWATCHED if samples.run.steered else samples.rule
    return Measured(
        samples.run.id,
        samples.cell,
        {column: samples.rounds(column) for column in samples.metrics},
        rule,
        samples.stopped_by(rule),
        samples.measured,
        samples.host_limited,
        samples.lost_share,
    )


def declared_by(manifest: Manifest) -> Declared:
    def used(name: str) -> str:
        return _used_file(name, manifest.used)

    return parse("matrix.yaml", manifest.text, used, bytes_of=lambda name: used(name).encode())


def _used_file(name: str, files: Mapping[str, str]) -> str:
    """Return the content of a used file. The end of its path identifies it."""
    plain = re.sub(r"^(\.\./)+", "", posixpath.normpath(name))
    # Shipped files may have another path today.
    for ending in (plain, "/".join(plain.split("/")[-2:])):
        for path, text in files.items():
            if path == ending or path.endswith(f"/{ending}"):
                return text
    raise FileNotFoundError(name)
