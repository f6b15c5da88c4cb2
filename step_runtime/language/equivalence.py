"""Keys under which programs count as the same.

Two questions, each with its own key:

- `canonical_key`: do two texts have the same syntax tree up to a consistent renaming of variables (paper, Sections 3.1
  and 6.2)? It groups correct answers, distinguishes failures and counts distinct answers, without a task. An occurrence
  of a name is identified by the bindings that may reach it, loops included, so that texts of one key do the same step
  by step; comments and layout do not count. It never decides on a verdict.
- `Description.key`: do two graphs compute the same by the same primitives, in any order? The verifier, which has
  checked both graphs, runs only one of them.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from step_runtime.language.evaluator import is_text
from step_runtime.language.parser import read
from step_runtime.program.graph import Program, StreamId
from step_runtime.program.printer import print_primitive


def canonical_key(text: str, inputs: Sequence[str] = ()) -> str:
    """A digest of the text's syntax tree up to renaming; of the text itself if it cannot be parsed.

    `inputs` are the task's input names, which a `def body` may rename.
    """
    return _tree_key(text, tuple(inputs))


@functools.lru_cache(maxsize=4096)
def _tree_key(text: str, inputs: tuple[str, ...]) -> str:
    pieces = _by_lines(text)
    names: dict[str, _Bindings] = {}
    head = ""
    if pieces is None:
        source = read(text)
        if source.diagnostics:
            return "text:" + _digest(text)
        if source.parameters is not None:
            own = [parameter.arg for parameter in source.parameters]
            names = {name: (f"{name} hidden",) for name in inputs}
            for index, name in enumerate(own):
                names[name] = (inputs[index] if index < len(inputs) else f"parameter {index}",)
            if len(own) != len(inputs) or len(set(own)) < len(own):
                # Without the inputs' names, or if these parameters are rejected, their spelling and number count.
                head = f"body({len(own)}, {len(set(own))})\n"
        try:
            pieces = [*_pieces(source.statements)]
        except _ForeignNode:
            return "tree:" + _digest("\n".join(map(ast.dump, source.statements)) + head + repr(names))
    return "tree:" + _digest(head + _renamed(pieces, names))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


# --- a tree as pieces ---


class _Use(NamedTuple):
    """A name that is read."""

    name: str


class _Bind(NamedTuple):
    """A name that is bound."""

    name: str


class _Enter(NamedTuple):
    """The start of a loop's body; `bound` are the names that it binds, each with the number of the binding in it."""

    bound: tuple[tuple[str, int], ...]


class _Leave(NamedTuple):
    """The end of a loop's body, which has run at least once if `certain`."""

    certain: bool


class _Scope(NamedTuple):
    """The start or the end of a comprehension, whose names are its own."""

    opens: bool


_Piece: TypeAlias = str | _Use | _Bind | _Enter | _Leave | _Scope
_Bindings: TypeAlias = tuple[str, ...]
"""What a name may refer to: numbers of bindings, and its own spelling if it may be unbound."""


class _ForeignNode(Exception):
    """The tree holds a node that is not part of the language; its names are compared by spelling."""


_UNTAME = re.compile("[\r\f\v\0\ufeff]")
"""Characters that may end a line, or that a line may not contain."""


def _by_lines(text: str) -> list[_Piece] | None:
    """The pieces of a text in which every line is complete; samples of one task share most lines.

    None for any other text. A line that starts in the first column, parses alone and is not continued by an indented
    one parses the same in any text.
    """
    if _UNTAME.search(text) or len(text) > 20_000:
        return None
    pieces: list[_Piece] = []
    for line in text.split("\n"):
        own = _of_line(line)
        if own is None:
            return None
        pieces += own
    return pieces


@functools.lru_cache(maxsize=16384)
def _of_line(line: str) -> tuple[_Piece, ...] | None:
    """The pieces of one line; None if it has to be read with others."""
    if not line.partition("#")[0].strip(" \t"):
        return ()
    source = read(line)
    if line[0].isspace() or source.diagnostics or source.parameters is not None:
        return None
    try:
        return tuple(_pieces(source.statements))
    except _ForeignNode:
        return None


def _pieces(statements: Sequence[ast.stmt]) -> Iterator[_Piece]:
    """The pieces of statements in the order of evaluation; adjacent texts are one piece."""
    words: list[str] = []
    for piece in _block(statements):
        if isinstance(piece, str):
            words.append(piece)
            continue
        if words:
            yield "".join(words)
            words = []
        yield piece
    if words:
        yield "".join(words)


def _block(statements: Sequence[ast.stmt]) -> Iterator[_Piece]:
    for statement in statements:
        if is_text(statement):
            continue
        yield f"{type(statement).__name__}\n"
        match statement:
            case ast.Assign(targets=targets, value=value):
                yield from _expression(value)
                for target in targets:
                    yield "=\n"
                    yield from _target(target)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(), attr="append")) as call):
                yield from _expression(call)
            case ast.Return(value=ast.expr() as value):
                yield from _expression(value)
            case ast.For(target=target, iter=iterable, body=body, orelse=[]):
                yield from _expression(iterable)
                inner = [*_target(target), *_block(body)]
                yield _Enter(tuple(_bound(inner)))
                yield from inner
                yield _Leave(_is_filled(iterable))
                yield "end\n"
            case _:
                raise _ForeignNode


def _target(target: ast.expr) -> Iterator[_Piece]:
    match target:
        case ast.Name(id=name):
            yield _Bind(name)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            # `(a, b) = …` and `[a, b] = …` are equal.
            yield f"unpack {len(parts)}\n"
            for part in parts:
                yield from _target(part)
        case ast.Starred(value=inner):
            yield "*\n"
            yield from _target(inner)
        case _:
            raise _ForeignNode


def _expression(node: ast.expr) -> Iterator[_Piece]:
    match node:
        case ast.Name(id=name):
            yield _Use(name)
            return
        case ast.Constant(value=value):
            # With its type: 1, 1.0 and True are equal.
            yield f"{type(value).__name__} {value!r}\n"
            return
        case ast.ListComp(elt=element, generators=generators):
            yield from _comprehension(element, generators)
            return
        case ast.Tuple() | ast.List() | ast.Starred() | ast.Subscript() | ast.Slice() | ast.BinOp() | ast.UnaryOp():
            yield f"{type(node).__name__}\n"
        case ast.Call() | ast.Attribute():
            yield f"{type(node).__name__}\n"
        case _:
            raise _ForeignNode
    for field, value in ast.iter_fields(node):
        if field != "ctx":
            yield from _field(value)
    yield "end\n"


def _field(value: object) -> Iterator[_Piece]:
    match value:
        case list(items):
            yield f"{len(items)}\n"
            for item in items:
                yield from _field(item)
        case ast.keyword(arg=name, value=inner):
            yield f"{name}=\n"
            yield from _expression(inner)
        case ast.expr():
            yield from _expression(value)
        case ast.operator() | ast.unaryop():
            yield f"{type(value).__name__}\n"
        case None | str():
            yield f"{value}\n"
        case _:
            raise _ForeignNode


def _comprehension(element: ast.expr, generators: Sequence[ast.comprehension]) -> Iterator[_Piece]:
    """A comprehension's loops, outermost first, then its element; an iteration may see names of an earlier one."""
    yield f"ListComp {len(generators)}\n"
    yield _Scope(True)
    parts: list[_Piece] = []
    for generator in generators:
        if generator.ifs or generator.is_async:
            raise _ForeignNode
        targets = [*_target(generator.target)]
        if generator is generators[0]:
            yield from _expression(generator.iter)
        else:
            parts += _expression(generator.iter)
        parts += ["in\n", *targets]
    yield _Enter(tuple(_bound(parts)))
    yield from parts
    yield from _expression(element)
    yield _Scope(False)
    yield "end\n"


def _bound(pieces: Sequence[_Piece]) -> Iterator[tuple[str, int]]:
    """The names that pieces bind for later pieces, with the number of each binding among their own."""
    number, inside = 0, 0
    for piece in pieces:
        if isinstance(piece, _Scope):
            inside += 1 if piece.opens else -1
        elif isinstance(piece, _Bind):
            if not inside:
                yield piece.name, number
            number += 1


def _is_filled(iterable: ast.expr) -> bool:
    """Whether a loop's sequence is written out and not empty."""
    match iterable:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(not isinstance(part, ast.Starred) for part in parts)
    return False


def _renamed(pieces: Sequence[_Piece], names: dict[str, _Bindings]) -> str:
    """The pieces as one text in which the bindings that may reach a use replace the variable's name."""
    outer: list[dict[str, _Bindings]] = []
    count = 0
    words: list[str] = []
    for piece in pieces:
        match piece:
            case str():
                words.append(piece)
            case _Use(name):
                words.append("|".join(names.get(name, (name,))) + "\n")
            case _Bind(name):
                names[name] = (f"#{count}",)
                count += 1
                words.append("bind\n")
            case _Enter(bound):
                outer.append(dict(names))
                for name, number in bound:
                    names[name] = _joined(name, names.get(name), (f"#{count + number}",))
            case _Leave(certain):
                names = _after_loop(outer.pop(), names, certain)
            case _Scope(True):
                outer.append(dict(names))
            case _Scope(False):
                # Bindings before the loops' first iteration, and before the comprehension.
                outer.pop()
                names = outer.pop()
    return "".join(words)


def _after_loop(before: Mapping[str, _Bindings], names: dict[str, _Bindings], certain: bool) -> dict[str, _Bindings]:
    """The bindings after a loop, whose body may not have run at all unless `certain`."""
    if certain:
        return names
    return {
        name: bindings if before.get(name) == bindings else _joined(name, before.get(name), bindings)
        for name, bindings in names.items()
    }


def _joined(name: str, one: _Bindings | None, other: _Bindings) -> _Bindings:
    """The bindings of either; a name that may be unbound may also refer to itself."""
    return tuple(sorted({*(one or (f"{name} itself",)), *other}))


@dataclass(frozen=True)
class Description:
    """The computation of a graph, regardless of the order of independent primitives.

    Every stream is described by the primitive that made it, its place among the results and the descriptions
    of what that primitive consumed; transparent ones are omitted. The affine rule is checked before: a
    description says what a program computes, not whether it is valid.

    Attributes:
        nodes: For each primitive a digest of what it computes, including everything that leads to it, so that nodes
            with one digest compute the same; empty for transparent ones.
    """

    program: Program
    streams: Mapping[StreamId, str]
    nodes: Sequence[str]

    def key(self, *, whole: bool = False) -> str:
        """A digest of the live part of the graph.

        With `whole`, primitives that no result depends on count too, as all primitives run and any may fail.
        """
        # Some fail on their data even if nothing uses their result.
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
