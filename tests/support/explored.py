"""A page to explore in Chromium: runs with figures that tests know, and the hands of a user."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import HOST_LIMITED, UNSETTLED, CellRow, Outcome, Trial
from matrix_runner.work.fio.output import Direction, Figures
from tests.support.facts import noted

if TYPE_CHECKING:
    from tests.support.chromium import Browser

LAYOUTS, CHUNKS, KINDS = ("raid0", "raid5"), ("64KiB", "512KiB", "1MiB"), ("read", "write")
ROUNDS = 3


def _cells() -> list[CellRow]:
    return [
        CellRow(
            f"{layout}-{chunk}-{kind}",
            f"{layout}/chunk={chunk}/work/rw={kind}",
            {"layout": layout, "md.chunk": chunk, "workload": "work", "workload.rw": kind, "workload.bs": "1MiB"},
        )
        for layout, chunk, kind in product(LAYOUTS, CHUNKS, KINDS)
    ]


def direction(rate: float) -> Direction:
    mean, p50, p90, p95, p99, p999, p9999, longest = (1e9 / rate * factor for factor in range(1, 9))
    times = (mean, p50, p90, p95, p99, p999, p9999, longest)
    return Direction(rate * 1e6, rate, int(rate * 1e6), int(rate), *times)


def run_data(*, synthetic: bool = False) -> RunData:
    """Rates in MB/s: 100, 101, 102 for the first cell, 110, 111, 112 for the second, and so on; one is broken."""
    cells, trials = _cells(), []
    for at, cell in enumerate(cells):
        for round_number in range(1, ROUNDS + 1):
            one = direction(100 + 10 * at + round_number - 1)
            reads = cell.axes["workload.rw"] == "read"
            figures = Figures(one if reads else None, None if reads else one, 1.0, 2.0, 3.0, 0)
            trials.append(Trial(cell.id, round_number, Outcome.MEASURED, figures=figures, folder="cells/x"))
    trials[0] = Trial(cells[0].id, 1, Outcome.BROKEN, "the guest panicked")
    trials[1] = Trial(cells[0].id, 2, Outcome.MEASURED, figures=trials[1].figures, **noted({UNSETTLED: "by 9 %"}))
    trials[2] = Trial(cells[0].id, 3, Outcome.MEASURED, figures=trials[2].figures, **noted({HOST_LIMITED: "by 9 %"}))
    return RunData("sweep", "dry" if synthetic else "qemu", synthetic, cells, trials)


COUNT = len(LAYOUTS) * len(CHUNKS) * len(KINDS) * ROUNDS
#: The texts about each view, the first row of the table, and the conditions.
_SEEN = """(() => {
    const text = id => document.getElementById(id).textContent;
    return {
        count: text('count'),
        chips: [...document.querySelectorAll('#chips button')].map(one => one.textContent.replace(' ✕', '')),
        about: Object.fromEntries(['parallel', 'scatter', 'heat', 'distribution', 'table'].map(one => [one, text(`about-${one}`)])),
        labels: ['parallel', 'scatter', 'heat', 'distribution'].map(one => document.getElementById(one).ariaLabel),
        rows: [...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.textContent)),
        head: [...document.querySelectorAll('thead th')].map(cell => cell.textContent),
        hash: location.hash,
    };
})()"""
#: Keep what the page saves instead of writing files.
KEEP = """(() => {
    window.saved = [];
    URL.createObjectURL = blob => { window.saved.push(blob); return 'about:blank#saved'; };
    URL.revokeObjectURL = () => {};
    HTMLAnchorElement.prototype.click = function () { window.savedName = this.download; };
})()"""


@dataclass
class Explorer:
    chromium: Browser

    def seen(self) -> dict[str, Any]:
        found: dict[str, Any] = self.chromium.run(_SEEN)
        return found

    def count(self) -> int:
        return int(str(self.seen()["count"]).split(" ")[0].replace(",", ""))

    def choose(self, element: str, value: str) -> None:
        self.chromium.run(
            f"(() => {{ const one = document.getElementById({json.dumps(element)}); one.value = {json.dumps(value)};"
            " one.dispatchEvent(new Event('change')); })()"
        )

    def drag(self, view: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag between two places of a chart, as parts of its width and height."""
        self.hold(view, start, end)
        self.release(view, end)

    def hold(self, view: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.chromium.run(f"document.getElementById('{view}').scrollIntoView({{block: 'center'}})")
        self._mouse("mousePressed", view, start)
        self._mouse("mouseMoved", view, end)

    def hover(self, view: str, at: tuple[float, float]) -> None:
        self.chromium.run(f"document.getElementById('{view}').scrollIntoView({{block: 'center'}})")
        for shift in (0.01, 0):
            self._mouse("mouseMoved", view, (at[0] + shift, at[1]), "none")

    def release(self, view: str, end: tuple[float, float]) -> None:
        self._mouse("mouseReleased", view, end)

    def _mouse(self, kind: str, view: str, at: tuple[float, float], button: str = "left") -> None:
        place = self.chromium.run(
            f"(({{x, y, width, height}}) => ({{x, y, width, height}}))"
            f"(document.getElementById('{view}').getBoundingClientRect())"
        )
        x, y = place["x"] + at[0] * place["width"], place["y"] + at[1] * place["height"]
        self.chromium.ask(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=int(button == "left")
        )

    def press(self, key: str) -> None:
        text = {"Space": " "}.get(key)
        extra = {"text": text} if text else {}
        names = {"Space": (" ", 32), "Tab": ("Tab", 9)}[key]
        for kind in ("keyDown", "keyUp"):
            self.chromium.ask(
                "Input.dispatchKeyEvent", type=kind, key=names[0], code=key, windowsVirtualKeyCode=names[1], **extra
            )

    def save(self, button: str) -> str:
        text: str = self.chromium.run(
            f"(document.querySelector({json.dumps(button)}).click(), window.saved.at(-1).text())"
        )
        return text
