"""A program's canonical text, which prompts show and by which texts count as the same; and the same of graphs.

The text has no comments, no strings and no names of its author's: variables are E4, E5, … in the order of their first
binding. A variable is a set of bindings of which some may reach one use, loops included, so that texts of one canonical
text do the same step by step (paper, Sections 3.1 and 6.2). A canonical text is canonical itself.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from step_runtime.base.syntax import BUILTINS, parse_python
from step_runtime.language.evaluator import WORDS, is_text
from step_runtime.language.parser import read
from step_runtime.program.graph import Program, StreamId
from step_runtime.program.printer import print_primitive

_NAMES = frozenset({"step", *BUILTINS})
_INNER = (
    ast.Constant, ast.Tuple, ast.List, ast.Starred, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp, ast.Call,
    ast.Attribute, ast.keyword,
)  # fmt: skip
_NUMBERED = re.compile(r"E(\d+)")
_MARKER = re.compile(r"\[\[(?=\s*#)")


def for_prompt(text: str) -> str:
    """A text in which nothing divides the request that it is a part of."""
    return _MARKER.sub("[ [", text)


def canonical_text(text: str, names: Mapping[str, str]) -> str:
    """The canonical text; `names` are the task's that a program may use, each with the name to write for it.

    Raises:
        ValueError: It is no program of the language.
    """
    found = _canonical(text, (), names)
    if found is None:
        raise ValueError("expected a program")
    return found[0]


@functools.lru_cache(maxsize=1024)  # the same demonstrations stand in thousands of requests
def shown_program(text: str, statement: str) -> str:
    """A program as the demonstration of a task of the user's: its canonical text, with the names that the task has.

    A program of another language is shown without comments, any other text as it is.
    """
    try:
        return canonical_text(text, {name: name for name in re.findall(r"\w+", statement)})
    except ValueError:
        pass
    try:
        return for_prompt(ast.unparse(parse_python(text)))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return for_prompt(text)


def canonical_key(text: str, inputs: Sequence[str] = ()) -> str:
    """A digest of the canonical text, in which the task's names are kept; of the text itself if it is no program.

    It groups answers, and never decides on a verdict. `inputs` are the task's input names, which a `def body` may
    rename.
    """
    return _key(text, tuple(inputs))


@functools.lru_cache(maxsize=4096)
def _key(text: str, inputs: tuple[str, ...]) -> str:
    found = _canonical(text, inputs, None)
    return _digest(repr(found or text))


class _NoProgram(Exception):
    """The tree holds something that is not part of the language."""


def _canonical(text: str, inputs: Sequence[str], names: Mapping[str, str] | None) -> tuple[str, ...] | None:
    """The canonical text, and what else tells programs apart; None for a text that is no program."""
    source = read(text)
    if source.diagnostics:
        return None
    variables, statements, head = _Variables(names), list(source.statements), ""
    if source.parameters is not None:
        own = [parameter.arg for parameter in source.parameters]
        given = [inputs[index] if index < len(inputs) else f"E{index}" for index in range(len(own))]
        variables.known |= {name: f"hidden {name}" for name in inputs} | dict(zip(own, given, strict=True))
        if len({*own}) < len(own) or (inputs and len(own) != len(inputs)):
            head = f"{len(own)} parameters, {len({*own})} names"  # they are rejected
    try:
        module = ast.Module(variables.block(statements), [])
    except _NoProgram:
        return None if names is not None else ("\n".join(map(ast.dump, statements)), head, repr(variables.known))
    variables.rename()
    code = f"{ast.unparse(module)}\n"
    if source.parameters is not None and not inputs:
        code = f"def body({', '.join(given)}):\n{textwrap.indent(code, '    ')}"
    return code, head


class _Variable:
    """A binding, joined with others; `outer` is the name that may stand for something else, as it may be unbound."""

    def __init__(self, outer: str = "") -> None:
        self.outer = outer
        self._joined: _Variable | None = None

    def root(self) -> _Variable:
        return self if self._joined is None else self._joined.root()

    def join(self, other: _Variable) -> None:
        one, two = self.root(), other.root()
        if one is not two:
            one.outer, two._joined = one.outer or two.outer, one


class _Variables:
    """Follows the bindings through a program's statements, in the order of evaluation.

    Attributes:
        known: What to write for names that the program does not bind. Without `names` all others stay.
    """

    def __init__(self, names: Mapping[str, str] | None) -> None:
        self._strict = names is not None
        self.known = dict(names or {})
        self._reaching: dict[str, frozenset[_Variable]] = {}
        self._outer: dict[str, _Variable] = {}
        self._bound: dict[ast.Name, _Variable] = {}
        self._found: list[tuple[ast.Name, _Variable]] = []

    def block(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """The statements, without those that are text."""
        kept = [statement for statement in statements if not is_text(statement)]
        for statement in kept:
            match statement:
                case ast.Assign(targets=targets, value=value):
                    self._read(value)
                    statement.targets = [self._bind(target) for target in targets]
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(), attr="append")) as value):
                    self._read(value)
                case ast.Return(value=ast.expr() as value):
                    self._read(value)
                case ast.For(target=target, iter=iterable, body=body, orelse=[]):
                    self._read(iterable)
                    before = self._loop([target, *body])
                    statement.target = self._bind(target)
                    statement.body = self.block(body) or [ast.Expr(ast.Constant(""))]
                    if not _is_filled(iterable):
                        self._reaching = {
                            name: after if after == before.get(name) else after | before.get(name, self._outside(name))
                            for name, after in self._reaching.items()
                        }
                case _:
                    raise _NoProgram
        return kept

    def _loop(self, nodes: Sequence[ast.AST]) -> dict[str, frozenset[_Variable]]:
        """What reaches a loop; what its body binds then reaches its beginning, too."""
        before = dict(self._reaching)
        for node in _stored(nodes):
            reaching = self._reaching.get(node.id, self._outside(node.id))
            self._reaching[node.id] = reaching | {self._variable(node)}
        return before

    def _read(self, node: ast.expr | ast.keyword) -> None:
        match node:
            case ast.Name(id=name):
                first, *others = self._reaching.get(name, self._outside(name))
                for other in others:
                    first.join(other)
                self._found.append((node, first))
            case ast.ListComp(elt=element, generators=generators):
                self._read(generators[0].iter)
                before = self._loop([generator.target for generator in generators])
                for generator in generators:
                    if generator.ifs or generator.is_async:
                        raise _NoProgram
                    if generator is not generators[0]:
                        self._read(generator.iter)
                    generator.target = self._bind(generator.target)
                self._read(element)
                self._reaching = before
            case ast.Attribute(attr=word) | ast.keyword(arg=word) if self._strict and word not in WORDS:
                raise _NoProgram
            case ast.Constant(value=value) if self._strict and type(value) is not int:
                raise _NoProgram
            case _ if isinstance(node, _INNER):
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr | ast.keyword):
                        self._read(child)
            case _:
                raise _NoProgram

    def _bind(self, target: ast.expr) -> ast.expr:
        """The target, several names as a tuple."""
        match target:
            case ast.Name(id=name):
                self._reaching[name] = frozenset({self._variable(target)})
                self._found.append((target, self._variable(target)))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return ast.Tuple([self._bind(part) for part in parts], ast.Store())
            case ast.Starred(value=inner):
                target.value = self._bind(inner)
            case _:
                raise _NoProgram
        return target

    def _variable(self, node: ast.Name) -> _Variable:
        return self._bound.setdefault(node, _Variable())

    def _outside(self, name: str) -> frozenset[_Variable]:
        """What a name stands for where it is not bound."""
        return frozenset({self._outer.setdefault(name, _Variable(name))})

    def rename(self) -> None:
        """Writes the canonical names into the tree."""
        roots = dict.fromkeys(variable.root() for _, variable in self._found)
        names = {root: self._written(root.outer) for root in roots}
        taken = [*names.values(), *(self.known.values() if self._strict else ())]
        numbers = [int(found[1]) for name in taken if (found := _NUMBERED.fullmatch(name))]
        fresh = (f"E{number}" for number in count(max(numbers, default=-1) + 1))
        names = {root: name or next(fresh) for root, name in names.items()}
        for node, variable in self._found:
            node.id = names[variable.root()]

    def _written(self, outer: str) -> str:
        """What to write for a name that may not be bound; nothing for one that no task gives."""
        return self.known.get(outer, outer if outer in _NAMES or not self._strict else "")


def _stored(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """The names that nodes bind, but for those within comprehensions."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node
        if not isinstance(node, ast.ListComp):
            yield from _stored(ast.iter_child_nodes(node))


def _is_filled(iterable: ast.expr) -> bool:
    """Whether a loop's sequence is written out and not empty."""
    match iterable:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(not isinstance(part, ast.Starred) for part in parts)
    return False


@dataclass(frozen=True)
class Description:
    """What a graph computes, regardless of the order of independent primitives.

    A stream is described by the primitive that made it, its place among the results, and what that primitive consumed;
    transparent primitives are omitted. Nodes, and graphs, of one digest compute the same.
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
