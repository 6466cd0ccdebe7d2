"""Primitives of the drawings. One file is light or dark, as the reader's browser prefers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Sequence

    Point = tuple[float, float]

#: The width of the text column of a page, in pixels.
WIDTH = 700
FONT = "system-ui, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'DejaVu Sans Mono', monospace"
#: Colours by name, light and dark.
COLOURS = {
    "ground": ("#ffffff", "#16181a"),
    "text": ("#1b1b1b", "#e6e6e6"),
    "faint": ("#5c5c5c", "#a6a6a6"),
    "rule": ("#d4d4d4", "#3a3d40"),
    "panel": ("#f3f3f3", "#212427"),
    "blue": ("#0b57a4", "#7cb7ff"),
    "blue-tint": ("#e3eefa", "#1b2f47"),
    "orange": ("#a03c00", "#ffb27a"),
    "orange-tint": ("#fbeade", "#43291a"),
    "green": ("#1a6b35", "#7fd49a"),
    "green-tint": ("#e0f2e5", "#1b3a25"),
    "purple": ("#6b2c91", "#d3a4f3"),
    "purple-tint": ("#f1e5f8", "#35234a"),
    "grey": ("#4a4f55", "#b4bac0"),
    "grey-tint": ("#e9ebed", "#2c3135"),
}
#: Sizes of text, in pixels at full width.
BODY, SMALL, TITLE = 15, 13, 16
_ARROW_HEAD = 9
_STYLE = f"""text {{ font-family: {FONT}; font-size: {BODY}px; fill: var(--text); }}
.small {{ font-size: {SMALL}px; }}
.title {{ font-size: {TITLE}px; font-weight: 600; }}
.mono {{ font-family: {MONO}; font-size: 14px; white-space: pre; }}
.strong {{ font-weight: 600; }}"""


def palette() -> str:
    """Return the style sheet that declares the colours."""
    light, dark = ("".join(f"--{name}: {pair[at]}; " for name, pair in COLOURS.items()).strip() for at in (0, 1))
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def document(width: float, height: float, title: str, description: str, style: str, parts: Sequence[str]) -> str:
    """Return an SVG file with a ground in the colour of its mode, as pages may be in the other mode."""
    wide, high = number(width), number(height)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"',
            ' role="img" aria-labelledby="title description">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            f"<style>\n{palette()}{style}\n</style>",
            f'<rect width="{wide}" height="{high}" rx="8" fill="var(--ground)"/>',
            *parts,
            "</svg>\n",
        )
    )


@dataclass(frozen=True)
class Scale:
    """A linear axis: values from `low` to `high` are pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


class Picture:
    """A drawing that grows by its methods; `str()` is the file."""

    def __init__(self, title: str, description: str, height: float) -> None:
        self.title = title
        self.description = description
        self.height = height
        self._parts: list[str] = []

    def __str__(self) -> str:
        return document(WIDTH, self.height, self.title, self.description, _STYLE, self._parts)

    def text(self, at: Point, text: str, style: str = "", *, anchor: str = "middle", colour: str = "text") -> None:
        """Write a line of text: `at` is its base line's start, middle or end."""
        x, y = map(number, at)
        look = f' class="{style}"' if style else ""
        fill = f' style="fill: var(--{colour})"' if colour != "text" else ""
        self._parts.append(f'<text x="{x}" y="{y}" text-anchor={quoteattr(anchor)}{look}{fill}>{escape(text)}</text>')

    def box(
        self, at: Point, size: Point, *lines: str, colour: str = "grey", small: int = 1, dashed: bool = False
    ) -> None:
        """Draw a box with lines of text in its middle; the lines from number `small` on are small."""
        (x, y), (width, height) = at, size
        self.rectangle(at, size, fill=f"{colour}-tint", line=colour, dashed=dashed)
        step = 19
        first = y + height / 2 - (len(lines) - 1) * step / 2 + 5
        for place, line in enumerate(lines):
            style = "strong" if place < small else "small"
            self.text((x + width / 2, first + place * step), line, style)

    def rectangle(self, at: Point, size: Point, *, fill: str, line: str = "", dashed: bool = False) -> None:
        (x, y), (width, height) = (map(number, pair) for pair in (at, size))
        stroke = f' stroke="var(--{line})" stroke-width="1.5"' if line else ""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        corner = 5 if line else 2
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{corner}" '
            f'fill="var(--{fill})"{stroke}{dashes}/>'
        )

    def line(self, *points: Point, colour: str = "text", width: float = 2, dashed: bool = False) -> None:
        path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        dashes = ' stroke-dasharray="6 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="var(--{colour})" stroke-width="{number(width)}"{dashes}/>'
        )

    def arrow(self, *points: Point, colour: str = "text", dashed: bool = False) -> None:
        """Draw a path of straight lines, with a head at its end."""
        (from_x, from_y), (x, y) = points[-2:]
        along = ((x > from_x) - (x < from_x), (y > from_y) - (y < from_y))
        back = (x - along[0] * _ARROW_HEAD, y - along[1] * _ARROW_HEAD)
        across = (along[1] * 5, along[0] * 5)
        self.line(*points[:-1], back, colour=colour, dashed=dashed)
        corners = ((x, y), (back[0] + across[0], back[1] + across[1]), (back[0] - across[0], back[1] - across[1]))
        path = " ".join(f"{number(a)},{number(b)}" for a, b in corners)
        self._parts.append(f'<polygon points="{path}" fill="var(--{colour})"/>')

    def dot(self, at: Point, *, colour: str = "blue", radius: float = 4.5, hollow: bool = False) -> None:
        x, y = map(number, at)
        fill = "ground" if hollow else colour
        self._parts.append(
            f'<circle cx="{x}" cy="{y}" r="{number(radius)}" '
            f'fill="var(--{fill})" stroke="var(--{colour})" stroke-width="2"/>'
        )

    def interval(self, at: Point, low: float, high: float, *, colour: str = "blue", upright: bool = True) -> None:
        """Draw a mean with the bounds of its interval, in pixels along the axis."""
        x, y = at
        for bound in (low, high):
            cap = ((x - 6, bound), (x + 6, bound)) if upright else ((bound, y - 6), (bound, y + 6))
            self.line(*cap, colour=colour)
        self.line(*(((x, low), (x, high)) if upright else ((low, y), (high, y))), colour=colour)
        self.dot(at, colour=colour, radius=5)
