"""Keys under which programs count as the same.

`canonical_key` groups texts by isomorphic syntax tree (paper, Sections 3.1 and 6.2): a consistent renaming of
variables, comments and layout do not count. The key of `describe` groups by dataflow graph: programs of one key
compute the same by the same primitives. Constants count with their type, and no key depends on Python's `hash`.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from step_runtime.language.parser import LINE_END, read_any_depth
from step_runtime.program.graph import Program, StreamId
from step_runtime.program.limits import Limits
from step_runtime.program.printer import print_primitive

TREE = "tree:"
"""How the key of a text that parses begins."""


def canonical_key(text: str, inputs: Sequence[str] = ()) -> str:
    """A digest of the text's syntax tree up to renaming; of the words themselves where it does not parse.

    `inputs` are the task's input names, which a `def body` may call otherwise.
    """
    return _tree_key(text, tuple(inputs))


def code_of(text: str) -> str:
    """The text without its comments: programs of one code and one `canonical_key` get one verdict, places included.

    One with quotes is its own code, as a `#` may stand in a string; so must one be that does not parse.
    """
    if '"' in text or "'" in text:
        return text
    return "\n".join(line.partition("#")[0].rstrip() for line in LINE_END.split(text))


@functools.lru_cache(maxsize=4096)
def _tree_key(text: str, inputs: tuple[str, ...]) -> str:
    parameters: dict[str, str] = {}
    pieces = _by_lines(text)
    if pieces is None:
        source = read_any_depth(text, _LIMITS)
        for index, parameter in enumerate(source.parameters or ()):
            parameters[parameter.arg] = inputs[index] if index < len(inputs) else f"parameter {index}"
        pieces = None if source.diagnostics else _written(source.statements)
    if pieces is None:
        return "text:" + _digest(" ".join(text.split()))
    return TREE + _digest(_renamed(pieces, parameters))


def _by_lines(text: str) -> list[_Piece] | None:
    """The pieces of a text each of whose lines stands for itself; samples of one task have most of theirs in common."""
    pieces: list[_Piece] = []
    if len(text) > _LIMITS.characters:
        return None
    for line in text.split("\n"):
        own = _of_line(line)
        if own is None:
            return None
        pieces += own
    return pieces


@functools.lru_cache(maxsize=16384)
def _of_line(line: str) -> list[_Piece] | None:
    """The pieces of a line of whole statements; None for another one, or one that has to be read with its likes."""
    source = read_any_depth(line, _LIMITS)
    if source.diagnostics or source.parameters is not None:
        return None
    return _written(source.statements)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _written(statements: Sequence[ast.stmt]) -> list[_Piece] | None:
    """The pieces of statements; None where they nest deeper than any program may."""
    writer = _Writer()
    try:
        for statement in statements:
            if not _is_text(statement):
                writer.write(statement, _LIMITS.depth)
    except _TooDeep:
        return None
    pieces: list[_Piece] = []
    for piece in writer.pieces:
        if pieces and isinstance(piece, str) and isinstance(pieces[-1], str):
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return pieces


def _renamed(pieces: Sequence[_Piece], names: dict[str, str]) -> str:
    """The pieces as one text. Every binding gets a number; a use means the binding before it. Other names stay."""
    outer: list[dict[str, str]] = []
    count = 0
    words: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            words.append(piece)
            continue
        role, name = piece
        if role == _OPEN:
            outer.append(dict(names))
        elif role == _CLOSE:
            names = outer.pop()
        else:
            if role == _BOUND:
                names[name] = f"variable {count}"
                count += 1
            words.append(f"{names.get(name, name)}\n")
    return "".join(words)


class _TooDeep(Exception):
    """The tree nests deeper than any program may."""


class _Writer:
    """Writes a syntax tree as words, a line each, and names apart; a value comes before the target it is bound to."""

    def __init__(self) -> None:
        self.pieces: list[_Piece] = []

    def write(self, value: Any, depth: int) -> None:
        """Appends the pieces of a node, a list of nodes, or a constant, with its type.

        Raises:
            _TooDeep: more than `depth` nodes stand one inside the other.
        """
        if isinstance(value, ast.Name):
            self.pieces.append((_BOUND if isinstance(value.ctx, ast.Store) else _USED, value.id))
        elif isinstance(value, ast.AST):
            self._node(value, depth)
        elif isinstance(value, list):
            self.pieces.append("[\n")
            for item in value:
                if not _is_text(item):
                    self.write(item, depth)
            self.pieces.append("]\n")
        else:
            self.pieces.append(f"{value!r}\n")

    def _node(self, node: ast.AST, depth: int) -> None:
        if not depth:
            raise _TooDeep
        kind = type(node)
        self.pieces.append(f"{kind.__name__}\n")
        scope = kind is ast.ListComp
        if scope:
            self.pieces.append((_OPEN, ""))
        values = node.__dict__
        for field in _FIELDS[kind]:
            self.write(values[field], depth - 1)
        if scope:
            self.pieces.append((_CLOSE, ""))


_LIMITS = Limits()
_Piece: TypeAlias = str | tuple[int, str]
"""Words, or a name with its role; the names of a list comprehension stand between two roles without a name."""
_USED, _BOUND, _OPEN, _CLOSE = range(4)

_ORDER: Mapping[type[ast.AST], Sequence[str]] = {
    ast.Assign: ("value", "targets"),
    ast.For: ("iter", "target", "body", "orelse"),
    ast.ListComp: ("generators", "elt"),
    ast.comprehension: ("iter", "target", "ifs", "is_async"),
}

_FIELDS: Mapping[type[ast.AST], Sequence[str]] = {
    kind: _ORDER.get(kind) or [name for name in kind._fields if name != "ctx"]
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def _is_text(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@dataclass(frozen=True)
class Description:
    """What a graph computes, whatever the order of independent primitives.

    Every stream is described by the primitive that made it, its place among the results and the descriptions
    of what that primitive consumed; transparent ones say nothing. Streams are checked for the affine rule
    before: a description tells what a program computes, not whether it may.

    Attributes:
        program: what is described.
        streams: a description of each.
        nodes: for each primitive a digest of what it computes, all that leads to it included, so that nodes of one
            digest do the same; empty for those that say nothing.
    """

    program: Program
    streams: Mapping[StreamId, str]
    nodes: Sequence[str]

    def key(self, *, whole: bool = False) -> str:
        """A digest of the live part of the graph.

        With `whole`, primitives that no result depends on count too, as all of a program runs and any may fail.
        """
        # Some fail on their data even where nothing uses their result.
        made = zip(self.program.nodes, self.nodes, strict=True)
        effects = {digest for node, digest in made if digest and (whole or node.op.may_fail)}
        return _digest(f"{sorted(effects)} -> {[self.streams[stream] for stream in self.program.results]}")


def describe(program: Program) -> Description:
    """The description of a program's graph."""
    streams: dict[StreamId, str] = {i: f"input {name}" for i, name in enumerate(program.inputs)}
    nodes = []
    for node in program.nodes:
        if node.op.transparent:
            streams |= dict.fromkeys(node.outputs, streams[node.inputs[0]])
            nodes.append("")
            continue
        operands = ",".join(streams[stream] for stream in node.inputs)
        made = _digest(f"{print_primitive(node.op)}({operands})")
        streams |= {stream: f"{made}.{index}" for index, stream in enumerate(node.outputs)}
        nodes.append(made)
    return Description(program, streams, nodes)
