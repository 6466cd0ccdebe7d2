"""Every text in the source that a user can see, found in the syntax trees of all modules."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

#: Two words with a space between them.
PROSE = re.compile(r"[a-zA-Z,;:)}\]'`…] [(`'{\[]*[a-z]{2}|^[a-z]+ [a-z{]|[a-z] [A-Z{]")
#: Texts for programs: scripts, SQL, regular expressions, templates.
CODE = re.compile(
    r"\n[^\n]*\n|\$[@1{]|=~|PATH=|MATRIX_BELL|\bexec\b|sh -c|busybox|perl -e|start=\{"
    r"|\\[bsdw.(|]|\(\?|\[\^|^\w+\[\w+, \w+\]$"
    r"|\b(SELECT|FROM|PRAGMA|INSERT|ALTER|UPDATE|CREATE)\b"
    r"|sys\.exit|console=|--device-cgroup|<network>|devices\{\{|\{\{range|APT::"
)
#: Arguments that the help pages show, or the JSON Schema of the language.
IN_HELP = {"description", "help", "epilog", "short_help", "examples", "title"}
#: Calls whose arguments are for programs.
FOR_PROGRAMS = {"run", "compile", "execute", "fullmatch", "search", "match", "sub", "cast", "get", "Literal", "tool"}
ADVICE = {"resolution", "advice", "remedy"}
#: Classes of messages that are not errors. All errors count, too.
MESSAGES = {"Cause", "Flaw", "Leftover", "Note", "Problem", "Refusal"}
#: A longer expression is shown as `{…}`.
LONGEST = 30


@cache
def catalogue(package: Path) -> tuple[tuple[str, list[str]], ...]:
    """Return the name of each module that has messages, and these in the order of the source."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py"))}
    classes = MESSAGES | error_classes(trees.values())
    messages = ((str(path.relative_to(package)), Module(tree, classes).messages()) for path, tree in trees.items())
    return tuple((name, found) for name, found in messages if found)


def error_classes(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names of all errors: of Python, of click, and those derived from them."""
    names = {name for module in (builtins, click) for name, one in vars(module).items() if is_error(one)}
    bases = {
        one.name: {ast.unparse(base).rpartition(".")[2] for base in one.bases}
        for tree in trees
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef)
    }
    while more := {name for name, parents in bases.items() if parents & names} - names:
        names |= more
    return names


def is_error(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, BaseException)


class Module:
    def __init__(self, tree: ast.Module, classes: Collection[str]) -> None:
        self._classes = classes
        self._parents = dict[ast.AST, ast.AST]()
        self._nodes = list(in_order(tree, self._parents))
        #: Texts that an f-string shows in place of a variable.
        self._shown: set[ast.AST] = set()
        self._open = set[str]()

    def messages(self) -> list[str]:
        texts = [node for node in self._nodes if self._is_message(node)]
        tops = dict.fromkeys(map(self._top, texts))
        entries = {top: self._entry(top) for top in tops}
        whole = {top: entry for top, entry in entries.items() if not self._shown & set(self._above(top))}
        return list(
            dict.fromkeys(entry for top, entry in whole.items() if isinstance(top, ast.Call) or is_sentence(entry))
        )

    def _is_message(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        else:
            return False
        return bool(PROSE.search(text)) and not CODE.search(text) and not self._is_elsewhere(node)

    def _above(self, node: ast.AST) -> Iterator[ast.AST]:
        above: ast.AST | None = node
        while above is not None:
            yield above
            above = self._parents.get(above)

    def _is_elsewhere(self, node: ast.AST) -> bool:
        """Return whether a text is a docstring, a help text or for a program."""
        for above in self._above(node):
            match above:
                case ast.Expr(value=ast.Constant()):
                    return True
                case ast.keyword(arg=name) if name in IN_HELP:
                    return True
                case ast.Call() if above is not node and name_of(above) in FOR_PROGRAMS:
                    return True
                case ast.stmt():
                    return isinstance(above, ast.AnnAssign) and node in ast.walk(above.annotation)
        return False

    def _top(self, node: ast.AST) -> ast.AST:
        """Return the message that a text belongs to: the whole call of an error, or the whole expression."""
        top = node
        for above in self._above(node):
            if isinstance(above, ast.stmt):
                break
            if isinstance(above, ast.Call) and name_of(above) in self._classes:
                return above
            if isinstance(above, ast.JoinedStr | ast.BinOp | ast.IfExp):
                top = above
        return top

    def _entry(self, top: ast.AST) -> str:
        if not isinstance(top, ast.Call):
            return self._text(top)
        brief, named = list(top.args), {one.arg: one.value for one in top.keywords}
        if name_of(top) == "Refusal" and len(brief) == 2 and self._has_text(brief[0]):
            named["resolution"] = brief.pop()
        lines = [": ".join(self._text(one) for one in brief if not is_empty(one))]
        for name, value in named.items():
            if name in ADVICE:
                lines.append(f"→ {self._text(value)}")
            elif name == "details" or self._has_text(value):
                lines.append(self._text(value))
        return "\n".join(lines)

    def _has_text(self, node: ast.AST) -> bool:
        return any(map(self._is_message, ast.walk(node)))

    def _text(self, node: ast.AST) -> str:
        """Show an expression as text, with variables and calls in braces."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(map(self._text, parts))
            case ast.FormattedValue(value=value):
                return self._text(value)
            case ast.BinOp(left=left, op=ast.Add(), right=right) if self._has_text(node):
                return self._text(left) + self._text(right)
            case ast.IfExp(body=body, orelse=orelse):
                return f"({'|'.join(self._text(one) for one in (body, orelse) if not is_empty(one))})"
            case ast.Name(id=name) if name not in self._open and (texts := self._assigned(name, node)):
                self._shown.update(texts)
                self._open.add(name)  # a text may extend itself
                shown = "|".join(map(self._text, texts))
                self._open.remove(name)
                return shown if len(texts) == 1 else f"({shown})"
            case ast.Call(func=ast.Attribute(attr="join"), args=[inner]):
                return self._text(inner)
            case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner):
                return f"{self._text(inner)}…"
            case ast.Tuple(elts=[inner]) | ast.List(elts=[inner]):
                return self._text(inner)
        return self._shortened(node)

    def _shortened(self, node: ast.AST) -> str:
        if texts := [one for one in ast.iter_child_nodes(node) if self._has_text(one)]:
            shown = "|".join(map(self._text, texts))
            return shown if len(texts) == 1 else f"({shown})"
        shown = ast.unparse(node).replace("self.", "")
        return f"{{{shown}}}" if len(shown) <= LONGEST and "\n" not in shown else f"{{{first_name(node)}…}}"

    def _assigned(self, name: str, at: ast.AST) -> list[ast.AST]:
        """Return the texts that a function assigns to a variable."""
        around = next((one for one in self._above(at) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)), None)
        values = [
            node.value
            for node in (ast.walk(around) if around else ())
            if isinstance(node, ast.Assign | ast.NamedExpr)
            and ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target) == name
        ]
        return [one for one in values if at not in set(ast.walk(one)) and self._has_text(one)]


def in_order(tree: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    """Yield all nodes in the order of the source, and note their parents.

    Positions inside of f-strings depend on the version of Python.
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        children = list(ast.iter_child_nodes(node))
        parents.update(dict.fromkeys(children, node))
        waiting += reversed(children)


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_sentence(text: str) -> bool:
    """Return whether a text is more than a label: it has three words outside of braces."""
    return len(re.findall(r"[A-Za-z]{2,}", re.sub(r"\{[^}]*\}", "", text))) >= 3


def is_empty(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant | ast.Tuple | ast.List) and ast.unparse(node) in {"''", "()", "[]", "None"}


def first_name(node: ast.AST) -> str:
    names = [
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute | ast.Name)
    ]
    return names[0] if names else ""
