"""Draw a recorded terminal as an animated SVG: a film of screens that style rules move behind a window."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import pyte

from docs.pictures.record import CAST, COMMAND, PROMPT
from docs.pictures.svg import MONO, document, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Seconds of the film per second of the run.
_SPEED = 1 / 8
_LONGEST, _SHORTEST, _LAST = 0.6, 0.06, 8.0
_TYPING = 0.05
_COLUMN, _ROW, _MARGIN, _BAR = 8.43, 17, 16, 34
#: Colours of terminals in our palette.
_HUES = {"green": "green", "cyan": "blue", "blue": "blue", "brown": "orange", "red": "orange", "magenta": "purple"}
_STYLE = f"""text {{ font-family: {MONO}; font-size: 14px; fill: var(--text); white-space: pre; }}
.b {{ font-weight: 700; }}
.film {{ animation: film SECONDS step-end infinite; }}
@media (prefers-reduced-motion: reduce) {{ .film {{ animation: none; }} }}
@keyframes film {{ FRAMES }}"""

#: A row of the screen: column, text, colour, and whether it is bold.
Row = tuple[tuple[int, str, str, bool], ...]


@dataclass(frozen=True)
class Frame:
    seconds: float
    rows: tuple[Row, ...]


def film() -> str:
    """Return the film of the kept recording. It begins and ends on the answer, which is also its still picture."""
    header, *events = (json.loads(line) for line in CAST.read_text().splitlines())
    columns, rows = header["width"], header["height"]
    *others, answer = _frames(events, columns, rows)
    frames = [answer, *others]
    total, height = sum(frame.seconds for frame in frames), rows * _ROW
    names: dict[Row, str] = {}
    screens, steps, at = [], [], 0.0
    for place, frame in enumerate(frames):
        steps.append(f"{100 * at / total:.2f}% {{ transform: translateY({-place * height}px) }}")
        at += frame.seconds
        for row, content in enumerate(frame.rows):
            if content:
                name = names.setdefault(content, f"r{len(names)}")
                screens.append(f'<use href="#{name}" y="{place * height + row * _ROW}"/>')
    style = _STYLE.replace("SECONDS", f"{total:.1f}s")
    width = columns * _COLUMN
    outer = (width + 2 * _MARGIN, height + _BAR + _MARGIN)
    return document(
        *outer,
        f"A terminal with {COMMAND}",
        "A recording of a real run: a line for each trial, a progress line, then the table of figures with their "
        "intervals, and the fastest stack for each workload. It is faster than the run was.",
        style.replace("FRAMES", " ".join(steps)),
        [
            "<defs>",
            *(f'<g id="{name}">{_row(content)}</g>' for content, name in names.items()),
            "</defs>",
            f'<rect width="{number(outer[0])}" height="{number(outer[1])}" rx="8" fill="var(--panel)"/>',
            *(f'<circle cx="{22 + 20 * place}" cy="17" r="6" fill="var(--rule)"/>' for place in range(3)),
            f'<svg x="{_MARGIN}" y="{_BAR}" width="{number(width)}" height="{height}"><g class="film">',
            *screens,
            "</g></svg>",
        ],
    )


def _frames(events: list[tuple[float, str, str]], columns: int, rows: int) -> Iterator[Frame]:
    """Yield the screens: the command as it is typed, then the screen after each event."""
    screen = pyte.Screen(columns, rows)
    stream = pyte.Stream(screen)
    stream.feed(PROMPT)
    yield Frame(0.5, _read(screen))
    for letter in COMMAND:
        stream.feed(letter)
        yield Frame(_TYPING, _read(screen))
    yield Frame(0.4, _read(screen))
    stream.feed("\r\n")
    for (at, _, text), (until, _, _) in pairwise([*events, (events[-1][0] + _LAST / _SPEED, "", "")]):
        stream.feed(text)
        is_last = at == events[-1][0]
        pause = (until - at) * _SPEED
        yield Frame(pause if is_last else min(max(pause, _SHORTEST), _LONGEST), _read(screen))


def _read(screen: pyte.Screen) -> tuple[Row, ...]:
    return tuple(tuple(_runs(screen.buffer[row], screen.columns)) for row in range(screen.lines))


def _runs(cells: Mapping[int, pyte.screens.Char], columns: int) -> Iterator[tuple[int, str, str, bool]]:
    """Yield the parts of a row with equal looks. Words that are far apart are parts, as in a table."""
    styled = [(column, cells[column]) for column in range(columns)]
    for (colour, bold), group in groupby(styled, key=lambda one: (one[1].fg, one[1].bold)):
        part = list(group)
        text = "".join(char.data for _, char in part)
        if text.strip():
            start = part[0][0] + len(text) - len(text.lstrip())
            yield start, text.strip(), _HUES.get(colour, ""), bold


def _row(content: Row) -> str:
    parts = []
    for column, text, colour, bold in content:
        look = (' class="b"' if bold else "") + (f' style="fill:var(--{colour})"' if colour else "")
        length = f' textLength="{number(len(text) * _COLUMN)}" lengthAdjust="spacingAndGlyphs"' if len(text) > 1 else ""
        parts.append(f'<text x="{number(column * _COLUMN)}" y="13"{length}{look}>{escape(text)}</text>')
    return "".join(parts)
