"""Files that a matrix includes (`use: layouts/raids.yaml#far`), and the check of their data against a model."""

import posixpath
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from matrix_runner.base.files import shipped
from matrix_runner.base.findings import Flaw, Path, Place
from matrix_runner.base.model import Model
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.messages import from_pydantic
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.language.yaml_source import (
    MAX_NODES,
    Source,
    UnreadableError,
    compose,
    count_nodes,
    plain,
    repeated_keys,
)
from matrix_runner.work.fio.workload import misplaced
from matrix_runner.work.jobs.file import JobFile, JobReader, why_unreadable
from matrix_runner.work.replay.trace import BadTraceError, Trace, parse_trace

DEEPEST = 8  # limit for layouts that use layouts that use layouts
SHELF = shipped("matrix") / "models"  # the folder of the shipped disk models
_ANY_MODEL = "{kind: ideal}"  # placeholder for a model that cannot be loaded, so that the rest is still checked
_ANY_LAYER = "disk"
_ANY_TRACE = parse_trace("any", b"fio version 3 iolog\n0 any read 0 512\n")


@dataclass
class Uses:
    text_of: Callable[[str], str]  # reads a file by its name; raises OSError or UnicodeDecodeError
    texts: dict[str, str] = field(default_factory=dict)
    trees: dict[str, Node | None] = field(default_factory=dict)
    wrong: list[tuple[Place, str]] = field(default_factory=list)
    layouts: dict[Node, dict[str, list[Node]]] = field(default_factory=dict)  # by the tree of their file
    nodes: int = 0  # of all files that were parsed, and those that were included

    def refuse(self, node: Node, message: str) -> None:
        self.wrong.append((Place.of(node.start_mark), message))

    def spliced(self, layers: list[Node], depth: int = 0) -> Iterator[Node]:
        for layer in layers:
            used = _value(layer, "use")
            if used is None:
                yield layer
            elif why := _misused(layer, used):
                self.refuse(used, why)
            elif depth == DEEPEST:
                self.refuse(used, "these layouts use each other in a loop")
            else:
                yield from self.spliced(self._layers(used), depth + 1)

    def _layers(self, used: Node) -> list[Node]:
        file, _, layout = str(used.value).partition("#")
        if not (file and layout):
            self.refuse(used, f"'{used.value}': write the file and the layout in it, like raids.yaml#far")
            return []
        tree = self._tree(file, used)
        if tree is None or self.nodes > MAX_NODES:
            return []
        if tree not in self.layouts:
            self.layouts[tree] = _layouts(tree)
        known = self.layouts[tree]
        if layout not in known:
            near = f" '{layout}'; {did_you_mean(layout, known)}" if known else "s"
            self.refuse(used, f"{file} has no layout{near}")
        layers = known.get(layout, [])
        return layers if self._fits(1 + sum(map(count_nodes, layers)), used) else []

    def model(self, name: ScalarNode) -> Node | None:
        text = str(name.value)
        if "/" in text or text.endswith((".yaml", ".yml")):
            return self._tree(text, name)
        if text in models():
            return self._tree(str(SHELF / f"{text}.yaml"), name)
        self.refuse(name, f"there is no disk model '{text}'; {did_you_mean(text, models())}")
        return None

    def advice(self, items: list[Node]) -> Iterator[tuple[Node, bool]]:
        """Yield guidelines with included files expanded, and whether each came with all others of its file."""
        for item in items:
            if not isinstance(item, ScalarNode):
                yield item, False
                continue
            file, _, name = str(item.value).partition("#")
            before = len(self.wrong)
            tree = self._tree(file, item)
            if self.nodes > MAX_NODES:
                return  # refused already
            listed = list(tree.value) if isinstance(tree, SequenceNode) else []
            chosen = [guideline for guideline in listed if not name or _text(guideline, "id") == name]
            if listed and not chosen:
                names = [_text(guideline, "id") for guideline in listed]
                self.refuse(item, f"{file} has no guideline '{name}'; {did_you_mean(name, names)}")
            elif not listed and len(self.wrong) == before:
                self.refuse(item, f"{file} is not a list of guidelines")
            if self._fits(1 + len(listed) + sum(map(count_nodes, chosen)), item):
                yield from ((guideline, not name) for guideline in chosen)

    def _tree(self, file: str, user: Node) -> Node | None:
        folder = posixpath.dirname(user.start_mark.name)
        name = posixpath.join(folder, file)
        if name not in self.trees:
            self.trees[name] = None
            try:
                if self.nodes <= MAX_NODES:
                    self.texts[name] = self._text(name, file)
                    tree = compose(name, self.texts[name])
                    self.trees[name] = tree if tree and self._fits(count_nodes(tree), user) else None
            except (OSError, ValueError) as error:
                self.refuse(user, why_unreadable(name, error))
            except UnreadableError as error:
                self.wrong.append((error.place, error.message))
        return self.trees[name]

    def _fits(self, nodes: int, user: Node) -> bool:
        """Count nodes, and refuse the first that are too many: files could include each other a million times."""
        before, self.nodes = self.nodes, self.nodes + nodes
        if before <= MAX_NODES < self.nodes:
            self.refuse(user, f"with this, the included files have more than {MAX_NODES:,} values")
        return self.nodes <= MAX_NODES

    def _text(self, name: str, file: str) -> str:
        # `layouts/` and `guidelines/` fall back to the shipped folders.
        try:
            return self.text_of(name)
        except FileNotFoundError:
            if file.startswith(("layouts/", "guidelines/")):
                with suppress(OSError, ValueError):
                    return self.text_of(str(shipped("matrix") / file))
            raise


def _misused(layer: Node, used: Node) -> str:
    if isinstance(used, SequenceNode):
        return "`use` takes one layout; for several write several names, one: [use: A.yaml#x], other: [use: A.yaml#y]"
    if not isinstance(used, ScalarNode):
        return "`use` takes the file and the layout in it, like raids.yaml#far"
    alone = isinstance(layer, MappingNode) and len(layer.value) == 1
    return "" if alone else "`use` must be the only key of its list item; other layers are items of their own"


def models() -> list[str]:
    return sorted(path.stem for path in SHELF.glob("*.yaml"))


def _with_model(key: Node, value: Node, uses: Uses) -> Node:
    if key.value == "model" and isinstance(value, ScalarNode):
        return uses.model(value) or (compose("any", _ANY_MODEL) if uses.wrong else None) or value
    return value


def _value(node: Node | None, key: str) -> Node | None:
    if not isinstance(node, MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _text(node: Node | None, key: str) -> str:
    value = _value(node, key)
    return str(value.value) if isinstance(value, ScalarNode) else ""


def _layouts(root: Node | None) -> dict[str, list[Node]]:
    layouts = _value(root, "layouts")
    if not isinstance(layouts, MappingNode):
        return {}
    return {str(name.value): stack.value for name, stack in layouts.value if isinstance(stack, SequenceNode)}


def read_with_uses(
    name: str,
    text: str,
    text_of: Callable[[str], str],
    bytes_of: Callable[[str], bytes],  # of a trace
    environment: Mapping[str, str],
) -> tuple[Source, list[Flaw]]:
    """Parse a matrix with all files that it includes, and list the wrong ones; the rest can still be checked."""
    root = compose(name, text)
    uses = Uses(text_of)
    layouts = _value(root, "layouts")
    if isinstance(layouts, MappingNode):
        _with_layers(layouts, uses)
    disks = _value(root, "disks")
    groups = [value for _, value in disks.value] if isinstance(disks, MappingNode) else []
    for several in disks.value if isinstance(disks, SequenceNode) else [disks, *groups]:
        if isinstance(several, MappingNode):
            several.value = [(key, _with_model(key, value, uses)) for key, value in several.value]
    loose = _with_advice(root, uses)
    twice = repeated_keys(root)
    source = Source(name, text, plain(name, root), root, uses.texts, loose)
    jobs = JobReader(text_of, environment)
    _read_jobs(source, jobs)
    uses.texts.update(jobs.texts)
    wrong = [*uses.wrong, *jobs.wrong, *_read_traces(source, bytes_of, uses.texts), *twice]
    return source, [Flaw((), message, place=place) for place, message in wrong]


def _read_jobs(source: Source, reader: JobReader) -> None:
    """Replace the paths of job files by their content."""
    known: dict[str, JobFile] = {}
    folder = posixpath.dirname(source.name)
    for files, at, path in _files(source.data, "job"):
        if (file := files[at]) not in known:
            known[file] = reader.read(posixpath.join(folder, file), source.place(path))
        files[at] = known[file]


def _read_traces(
    source: Source, bytes_of: Callable[[str], bytes], texts: dict[str, str]
) -> Iterator[tuple[Place, str]]:
    """Replace the paths of traces by their content, and yield what is wrong with them."""
    known: dict[str, Trace] = {}
    folder = posixpath.dirname(source.name)
    for files, at, path in _files(source.data, "replay"):
        file, user = files[at], source.place(path)
        name, files[at] = posixpath.join(folder, file), _ANY_TRACE
        try:
            if file not in known:
                known[file] = parse_trace(file, bytes_of(name))
                texts[name] = known[file].summary
            files[at] = known[file]
        except BadTraceError as error:
            texts[name] = "\n" * (error.line - 1) + error.text
            yield (Place(name, error.line, 1), error.message) if error.line else (user, f"{name}: {error.message}")
        except (OSError, ValueError) as error:
            yield user, why_unreadable(name, error)


def _files(data: Any, key: str) -> Iterator[tuple[Any, Any, Path]]:
    """Yield each file that a workload names under a key: the map or list with its name, the place there, the path."""
    for name, work in _items(_items(data).get("workloads")).items():
        value, path = _items(work).get(key), ("workloads", str(name), key)
        if isinstance(value, list):
            yield from ((value, at, (*path, at)) for at, one in enumerate(value) if isinstance(one, str) and one)
        elif isinstance(value, str) and value:
            yield work, key, path


def _with_layers(layouts: MappingNode, uses: Uses) -> None:
    for stack in _lists_of_layers(layouts):
        if isinstance(stack, SequenceNode):
            before = len(uses.wrong)
            stack.value = list(uses.spliced(stack.value))
            if len(uses.wrong) > before and not stack.value:
                stack.value = [compose("any", _ANY_LAYER)]


def _lists_of_layers(layouts: MappingNode) -> Iterator[Node]:
    for _, layout in layouts.value:
        parts = _value(layout, "parts")
        columns = [layout, *(part for _, part in parts.value)] if isinstance(parts, MappingNode) else [layout]
        yield from (_value(column, "layers") or column for column in columns)


def _with_advice(root: Node | None, uses: Uses) -> frozenset[int]:
    guidelines = _value(root, "guidelines")
    if not isinstance(guidelines, SequenceNode):
        return frozenset()
    found = list(uses.advice(guidelines.value))
    guidelines.value = [node for node, _ in found]
    return frozenset(at for at, (_, loose) in enumerate(found) if loose)


M = TypeVar("M", bound=Model)


def validated(source: Source, model: type[M]) -> tuple[M | None, list[Flaw]]:
    data = source.data
    try:
        whole, flaws = model.model_validate(data), list[Flaw]()
    except ValidationError as error:
        whole, flaws = None, list(from_pydantic(error, source, model))
    for beside in (_too_large(data), _misplaced(data) if model is Matrix else ()):
        found = {flaw.path for flaw in flaws}
        flaws += [flaw for flaw in beside if flaw.path not in found]
    return (None if flaws else whole), flaws


def _too_large(data: Any, path: Path = ()) -> Iterator[Flaw]:
    # Neither cell ids nor the store can hold integers of more than 63 bits.
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _too_large(value, (*path, key))
    elif isinstance(data, int) and abs(data) >= 2**63:
        yield Flaw(path, "this number is too large")


def _misplaced(data: Any) -> Iterator[Flaw]:
    # Other options are checked by fio itself, later. Beside `job:`, `fio:` has no effect: that has its own message.
    for name, work in _items(_items(data).get("workloads")).items():
        if "job" in _items(work):
            continue
        for option, values in _items(_items(work).get("fio")).items():
            path: Path = ("workloads", name, "fio", option)
            if not isinstance(option, str):
                continue
            if isinstance(values, list):
                each = ((at, misplaced(option, one)) for at, one in enumerate(values))
                yield from (Flaw((*path, at), why) for at, why in each if why)
            elif why := misplaced(option, values):
                yield Flaw(path, why)


def _items(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}
