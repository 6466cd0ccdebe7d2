"""Faults of a page that a reader would meet, as expressions of JavaScript that list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.top import TOP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.chromium import Browser

AXE = TOP / "tests/data/axe/axe.min.js"
WIDTHS, MODES = (1400, 1100, 800, 400), ("light", "dark")
#: Faults that a reader would see. On a screen, a wide table scrolls in its own region, with its first column fixed.
FAULTS = """[
    ...(document.documentElement.scrollWidth > innerWidth ? [`wider than ${innerWidth}`] : []),
    ...[...document.querySelectorAll('body *')]
        .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && (!one.closest('.wide') || matchMedia('print').matches))
        .map(one => `cut at ${innerWidth}: ${one.tagName} ${one.textContent.trim().slice(0, 40)}`),
    ...[...document.querySelectorAll('svg text')].filter(one => one.getBoundingClientRect().left + 1 < 0)
        .map(one => `cut at the left of ${innerWidth}: ${one.textContent}`),
    ...[...document.querySelectorAll('svg')].flatMap(svg => {
        const ticks = [...svg.querySelectorAll(':scope > .tick')].filter(one => one.getClientRects().length);
        return ticks.flatMap((one, at) => ticks.slice(at + 1).map(other => [one, other]));
    }).filter(pair => {
        const [one, other] = pair.map(tick => tick.getBoundingClientRect());
        return one.left + 1 < other.right && other.left + 1 < one.right && one.top + 1 < other.bottom && other.top + 1 < one.bottom;
    }).map(pair => `overlap at ${innerWidth}: ${pair.map(tick => tick.textContent).join(' and ')}`),
    ...[...document.querySelectorAll('.wide')].filter(one => innerWidth >= 1400 && one.scrollWidth > one.clientWidth)
        .map(one => `must be scrolled at ${innerWidth}: ${one.ariaLabel}`),
]"""
#: Faults for those who use a keyboard or a screen reader.
ACCESS = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations
    .filter(one => ['serious', 'critical'].includes(one.impact))
    .map(one => `${one.id}: ${one.nodes.map(node => node.target.join(' ')).join(', ')}`))"""
#: Texts of tables and charts that overlap the next cell, or that nobody can see.
HIDDEN = """[...document.querySelectorAll('th, td, figcaption, li, summary')]
    .filter(one => !one.checkVisibility() || one.scrollWidth > one.clientWidth + 1)
    .map(one => `hidden: ${one.tagName} ${one.textContent.trim().slice(0, 40)}`)"""


def find_faults(chromium: Browser, faults: str = FAULTS, widths: Sequence[int] = WIDTHS) -> list[str]:
    """Return the faults of the open page at all widths, light and dark, and those of its accessibility."""
    chromium.run(AXE.read_text())
    found: list[str] = []
    for mode in MODES:
        for width in widths:
            chromium.show_as(width, mode)
            chromium.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            found += chromium.run(faults)
        found += [f"{mode}: {fault}" for fault in chromium.run(ACCESS)]
    return found
