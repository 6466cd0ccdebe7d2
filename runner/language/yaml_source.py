"""A YAML text with the place of everything in it, so that an error can point at what it is about."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from runner.language.yaml_errors import told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Path = tuple[str | int, ...]

#: More than any matrix needs; a few lines of nested aliases would otherwise unfold to gigabytes.
MAX_BYTES = 1 << 20
MAX_NODES = 200_000
#: Python writes none of more than some thousand digits.
LONGEST_NUMBER = 1000


class Flaw(NamedTuple):
    """Something wrong, where it stands (a path of keys and list positions), and what would be right."""

    path: Path
    message: str
    #: The key itself is wrong, not what it stands for.
    of_key: bool = False


class Place(NamedTuple):
    """File, line and column, the latter two counted from 1."""

    file: str
    line: int
    column: int

    @classmethod
    def of(cls, mark: Any) -> Place:
        """Where the parser was."""
        return cls(mark.name, mark.line + 1, mark.column + 1)


class UnreadableError(Exception):
    """Not YAML, or not of a kind that we read."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.message = message


@dataclass(frozen=True)
class Source:
    """A parsed text: plain data, and the node tree that knows the places, also those in files that it uses."""

    name: str
    text: str
    data: Any
    root: Node | None = field(repr=False)
    #: The texts of the files that it uses, by name.
    used: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The places of guidelines that came along with a whole file: not all of them need be about this matrix.
    loose: frozenset[int] = frozenset()

    def place(self, path: Path) -> Place:
        """Where a path stands; of one that does not exist, where the nearest thing around it does."""
        node, mark = self.root, self.root.start_mark if self.root else None
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            key, node = found
            mark = key.start_mark
        # The value is what is wrong with a scalar; the key is where to look for anything larger, or for nothing at all.
        if isinstance(node, ScalarNode) and node.start_mark.index < node.end_mark.index:
            mark = node.start_mark
        return Place.of(mark) if mark else Place(self.name, 1, 1)

    def place_of_key(self, path: Path) -> Place:
        """Where the key at the end of the path stands."""
        node = self.root
        for step in path[:-1]:
            found = _child(node, step)
            node = found[1] if found else None
        found = _child(node, path[-1]) if path else None
        mark = found[0].start_mark if found else None
        return Place.of(mark) if mark else self.place(path[:-1])

    def line(self, place: Place) -> str:
        """The whole line of a place."""
        lines = {self.name: self.text, **self.used}.get(place.file, "").splitlines()
        return lines[place.line - 1] if 0 < place.line <= len(lines) else ""


def _child(node: Node | None, step: str | int) -> tuple[Node, Node] | None:
    """The node that names a child, and the child."""
    if isinstance(node, MappingNode):
        return next(((key, value) for key, value in node.value if key.value == str(step)), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _unfolded(node: Node, known: dict[int, int]) -> int:
    """How many nodes there would be with every alias written out."""
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = MAX_NODES  # a node that contains itself has no end
    children: list[Node] = []
    if isinstance(node, MappingNode):
        children = [one for pair in node.value for one in pair]
    elif isinstance(node, SequenceNode):
        children = node.value
    elif node.tag == "tag:yaml.org,2002:int" and len(node.value) > LONGEST_NUMBER:
        raise UnreadableError(Place.of(node.start_mark), "no number here is that large")
    elif any("\ud800" <= char <= "\udfff" for char in str(node.value)):
        raise UnreadableError(Place.of(node.start_mark), "half a surrogate pair is no character")
    known[id(node)] = 1 + sum(_unfolded(child, known) for child in children)
    return known[id(node)]


class _Named(StringIO):
    """A text that tells the parser its name, which comes back with every place."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def compose(name: str, text: str) -> Node | None:
    """The node tree of a text in YAML 1.2; raises UnreadableError with the place of the first thing that is not."""
    if len(text.encode()) > MAX_BYTES:
        raise UnreadableError(Place(name, 1, 1), f"larger than {MAX_BYTES >> 20} MiB")
    with _readable(name):
        root: Node | None = YAML(typ="safe", pure=True).compose(_Named(name, text))
    return root


def plain(name: str, root: Node | None) -> Any:
    """The data of a node tree."""
    if root is None:
        return None
    if _unfolded(root, {}) >= MAX_NODES:
        raise UnreadableError(Place(name, 1, 1), "aliases in it unfold to more than a matrix can hold")
    with _readable(name):
        return YAML(typ="safe", pure=True).constructor.construct_document(root)


def repeated_keys(root: Node | None) -> list[tuple[Place, str]]:
    """Every key that stands a second time in its map, with its place; the map loses it."""
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
                    message = f"'{key.value}' stands here a second time: line {line} has it already; keep one"
                    found.append((Place.of(key.start_mark), message))
            node.value = [(key, value) for key, value in node.value if first[str(key.value)] is key]
            left += [one for pair in node.value for one in pair]
    return sorted(found)


def read(name: str, text: str) -> Source:
    """Parse a text that stands for itself."""
    root = compose(name, text)
    for place, message in repeated_keys(root):
        raise UnreadableError(place, message)
    return Source(name, text, plain(name, root), root)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except MarkedYAMLError as error:
        words, mark = told(error)
        raise UnreadableError(Place.of(mark) if mark else Place(name, 1, 1), words) from None
    except (YAMLError, ValueError, RecursionError) as error:
        problem = str(error).splitlines()[0] if str(error) else "nested too deeply"
        raise UnreadableError(Place(name, 1, 1), problem) from None
