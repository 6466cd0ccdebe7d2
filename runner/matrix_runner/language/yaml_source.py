"""YAML as text with the place of every value; errors in words a user can act on, with the part of the line."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from matrix_runner.base.findings import Path, Place
from matrix_runner.base.text import printable, shorten


class _Mistake(NamedTuple):
    """A pattern in the parser's message, and our message. `{here}`: where the parser stopped."""

    problem: str
    meant: str
    where_begun: bool = False  # show the beginning of the construct, not its end


_MISTAKES = (
    _Mistake(
        r"^while parsing a flow .* got ':' in the same line$",
        "a second `key:` in one value: a comma is missing before it, or braces around it, or quotes around the text",
    ),
    _Mistake(
        r"^while parsing a flow .* expected ',' or '(?P<what>.)'",
        "is not closed: `{what}` or a comma is missing before {here}",
        where_begun=True,
    ),
    _Mistake(
        r"^while parsing a block .* found '(<block (mapping|sequence) start>)'",
        "wrong indentation: this begins in column {column}, and its neighbours begin in column {neighbours}, like line "
        "{first}; give them one indentation",
    ),
    _Mistake(
        r"^while parsing a block mapping .* found '-'",
        "a list item (`- `) among keys, which begin in line {first}; indent it to make it part of the key above",
    ),
    _Mistake(
        r"^while parsing a block .* found '\?'",
        "a key among list items (`- `), which begin in line {first}; indent it to make it part of the item above",
    ),
    _Mistake(r"found '<stream end>'", "the file ends here, within brackets"),
    _Mistake(r"found '(?P<what>[]}])'", "`{what}` has no opening bracket"),
    _Mistake(
        r"^while parsing a block .* found '<scalar>'",
        "the text in quotes ends before this: put quotes around the whole",
    ),
    _Mistake(
        r"^expected '<document start>', but found \('<block", "this line does not begin in the column of the first line"
    ),
    _Mistake(r"found character '\\t'", "a tab; indent with spaces"),
    _Mistake(r"quoted scalar found unexpected end", "this quotation mark is never closed", where_begun=True),
    _Mistake(
        r"mapping values are not allowed here",
        "a second `key:` in one value: put braces around it ({{level: 5}}) or quotes around the text; if the line "
        "above ends with a value, remove that",
    ),
    _Mistake(r"could not find expected ':'", "`:` is missing after this key", where_begun=True),
    _Mistake(
        r"found undefined alias '(?P<what>.*)'",
        "`*{what}` refers to `&{what}`, which is not defined above; put a text that begins with `*` in quotes",
    ),
    _Mistake(r"found character '(?P<what>.)' that cannot start", "a text that begins with `{what}` needs quotes"),
)


_LONGEST_NAME = 60


def explain(error: MarkedYAMLError) -> tuple[str, Any]:
    problem = " ".join(filter(None, (error.context, error.problem)))
    mark = error.problem_mark or error.context_mark
    if mark and error.context_mark and mark.line == error.context_mark.line:
        problem += " in the same line"
    for mistake in _MISTAKES:
        if found := re.search(mistake.problem, problem, re.DOTALL):
            here = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            parts = {name: shorten(part or "", _LONGEST_NAME) for name, part in found.groupdict().items()}
            words = mistake.meant.format(**parts, here=here, **_indentation(error))
            return words, error.context_mark if mistake.where_begun else mark
    return problem.removesuffix(" in the same line"), mark


def _indentation(error: MarkedYAMLError) -> dict[str, int]:
    """Return the column of the mistake, and the column and first line of the block around it."""
    mark, begun = error.problem_mark, error.context_mark
    if not (mark and begun):
        return {}
    return {"column": mark.column + 1, "neighbours": begun.column + 1, "first": begun.line + 1}


#: More than any matrix needs. Without limits, a few lines of nested aliases would expand to gigabytes.
MAX_BYTES = 1 << 20
MAX_NODES = 50_000  # the parser takes 5 s for them on a slow host
MAX_DEPTH = 64
LONGEST_NUMBER = 1000  # Python refuses to print integers of more than a few thousand digits


_LINE_BREAK = re.compile(r"\r\n?|\n")  # those of YAML 1.2


_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
#: What ruamel.yaml raises of a value that does not fit its tag.
_UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class UnreadableError(Exception):
    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.message = message


@dataclass(frozen=True)
class Source:
    name: str
    text: str
    data: Any
    root: Node | None = field(repr=False)
    used: Mapping[str, str] = field(default_factory=dict, repr=False)  # the texts of included files, by name
    #: Positions of guidelines that came with a whole file: some of them may not apply to this matrix.
    loose: frozenset[int] = frozenset()
    _known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def place(self, path: Path, *, of_key: bool = False) -> Place:
        if of_key:
            return self._place_of_key(path)
        node, mark = self.root, self.root.start_mark if self.root else None
        for step in path:
            found = self._child(node, step)
            if found is None:
                break
            key, node = found
            mark = key.start_mark
        # Point to the value of a scalar; to the key of a map, a list or an empty value.
        if isinstance(node, ScalarNode) and node.start_mark.index < node.end_mark.index:
            mark = node.start_mark
        return Place.of(mark) if mark else Place(self.name, 1, 1)

    def _place_of_key(self, path: Path) -> Place:
        node = self.root
        for step in path[:-1]:
            found = self._child(node, step)
            node = found[1] if found else None
        found = self._child(node, path[-1]) if path else None
        mark = found[0].start_mark if found else None
        return Place.of(mark) if mark else self.place(path[:-1])

    def order(self, place: Place) -> tuple[bool, Place]:
        """Return a key that sorts places of this file before those of included files."""
        return place.file != self.name, place

    def line(self, place: Place) -> str:
        if place.file not in self._known:
            self._known[place.file] = _LINE_BREAK.split({self.name: self.text, **self.used}.get(place.file, ""))
        lines = self._known[place.file]
        return lines[place.line - 1] if 0 < place.line <= len(lines) else ""

    def _child(self, node: Node | None, step: str | int) -> tuple[Node, Node] | None:
        if isinstance(node, MappingNode):
            if node not in self._known:
                self._known[node] = {
                    key.value: (key, value) for key, value in reversed(node.value) if isinstance(key.value, str)
                }
            found: tuple[Node, Node] | None = self._known[node].get(str(step))
            return found
        if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            return node.value[step], node.value[step]
        return None


class _Size(NamedTuple):
    """How many nodes a node has without aliases, and how deep they are."""

    nodes: int
    depth: int


def _unfolded(node: Node, known: dict[Node, _Size]) -> _Size:
    if node in known:
        return known[node]
    known[node] = _Size(MAX_NODES + 1, 0)  # a node may contain itself
    children: list[Node] = []
    if isinstance(node, MappingNode):
        children = [one for pair in node.value for one in pair]
    elif isinstance(node, SequenceNode):
        children = node.value
    elif node.tag == "tag:yaml.org,2002:int" and len(node.value) > LONGEST_NUMBER:
        raise UnreadableError(Place.of(node.start_mark), "this number is too large")
    elif any("\ud800" <= char <= "\udfff" for char in str(node.value)):
        raise UnreadableError(Place.of(node.start_mark), "half of a surrogate pair is not a character")
    sizes = [_unfolded(child, known) for child in children]
    depth = 1 + max((size.depth for size in sizes), default=0)
    if depth > MAX_DEPTH:
        raise UnreadableError(Place.of(node.start_mark), f"nested more than {MAX_DEPTH} deep")
    known[node] = _Size(1 + sum(size.nodes for size in sizes), depth)
    return known[node]


class _Composer(Composer):
    """Stops at the first node beyond the limits: a larger file would take minutes to parse."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self.warn_double_anchors = False
        self._count = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._count += 1
        at = self.parser.peek_event().start_mark
        if self._count > MAX_NODES:
            raise UnreadableError(Place.of(at), f"the file has more than {MAX_NODES:,} values")
        if self.depth >= MAX_DEPTH:
            raise UnreadableError(Place.of(at), f"nested more than {MAX_DEPTH} deep")
        return super().compose_node(parent, index)


class _Constructor(SafeConstructor):
    """Names the value that its tag does not fit."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            if node.tag == "tag:yaml.org,2002:null" and node.value not in _NULLS:
                raise ValueError(node.value)  # ruamel.yaml drops it
            return super().construct_object(node, deep)
        except _UNFIT as error:
            kind = node.tag.rpartition(":")[2]
            value = repr(shorten(str(node.value), _LONGEST_NAME))
            words = f"{value} is no value for the tag `!!{kind}`; remove the tag"
            if kind == "timestamp":  # plain text that looks like a date has this tag, too
                words = f"{value} is no date; write one as in 2026-11-30, or another text in quotes"
            raise UnreadableError(Place.of(node.start_mark), words) from error


class _Named(StringIO):
    """A text that passes its name to the parser, which puts it into all marks."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def compose(name: str, text: str) -> Node | None:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise UnreadableError(Place(name, 1, 1), f"larger than {MAX_BYTES >> 20} MiB")
    with _readable(name):
        yaml = YAML(typ="safe", pure=True)
        yaml.Composer = _Composer
        root: Node | None = yaml.compose(_Named(name, text))
    return root


def count_nodes(root: Node) -> int:
    """Count the nodes of a tree in which each alias is replaced by what it refers to."""
    return _unfolded(root, {}).nodes


def plain(name: str, root: Node | None) -> Any:
    if root is None:
        return None
    if count_nodes(root) > MAX_NODES:
        raise UnreadableError(
            Place(name, 1, 1), f"with aliases and included files, it has more than {MAX_NODES:,} values"
        )
    with _readable(name):
        yaml = YAML(typ="safe", pure=True)
        yaml.Constructor = _Constructor
        return yaml.constructor.construct_document(root)


def repeated_keys(root: Node | None) -> list[tuple[Place, str]]:
    """Remove keys that occur a second time in a map, and return them with their places."""
    found: list[tuple[Place, str]] = []
    seen, left = set[int](), [root] if root else []
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            left += node.value
        elif isinstance(node, MappingNode):
            first: dict[str, Node] = {}
            for key, _ in node.value:
                if (known := first.setdefault(str(key.value), key)) is not key:
                    line = known.start_mark.line + 1
                    shown = shorten(str(key.value), _LONGEST_NAME)
                    message = f"the key '{shown}' occurs twice, first in line {line}; keep one of them"
                    found.append((Place.of(key.start_mark), message))
            node.value = [(key, value) for key, value in node.value if first[str(key.value)] is key]
            left += [one for pair in node.value for one in pair]
    return sorted(found)


def read(name: str, text: str) -> Source:
    root = compose(name, text)
    for place, message in repeated_keys(root):
        raise UnreadableError(place, message)
    return Source(name, text, plain(name, root), root)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except MarkedYAMLError as error:
        words, mark = explain(error)
        raise UnreadableError(Place.of(mark) if mark else Place(name, 1, 1), words) from None
    except AssertionError:
        raise UnreadableError(Place(name, 1, 1), "`%YAML` names an unknown version; remove this line") from None
    except (YAMLError, *_UNFIT, RecursionError) as error:
        problem = str(error).splitlines()[0] if str(error) else "nested too deeply"
        raise UnreadableError(Place(name, 1, 1), problem) from None


#: The most characters of a quoted line, and how many of them come before its column.
WINDOW, BEFORE = 160, 110
LONGEST, MOST_LINES = 400, 3  # of a message


def format_error(source: Source, place: Place, message: str) -> str:
    shown = "\n".join(shorten(line, LONGEST) for line in message.split("\n")[:MOST_LINES])
    file = shorten(place.file, LONGEST)
    return f"{file}:{place.line}:{place.column}: {shown}\n{quote(source.line(place), place.column)}"


def quote(line: str, column: int) -> str:
    """Quote at most `WINDOW` characters of a line, with a caret under its column (from 1)."""
    at = min(column - 1, len(line))
    before, after = _visible(line[max(at - WINDOW - 1, 0) : at]), _visible(line[at : at + WINDOW + 1])
    kept = max(BEFORE, WINDOW - len(after))
    before = before if len(before) <= kept else f"…{before[1 - kept :]}"
    return f"    {before}{shorten(after, WINDOW - len(before))}\n    {' ' * len(before)}^"


def _visible(text: str) -> str:
    return printable(text.replace("\t", " "))
