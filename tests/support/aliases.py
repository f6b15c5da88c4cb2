"""Texts that differ from an oracle only in how they name streams: some consume a stream twice, some only seem to.

Each pattern stands around one line that consumes a stream `X`. Every stream it makes beside is unused, so the
value stays what it was, and only the affine rule can tell the wrong ones.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from tests.support.edits import Mutant


@dataclass(frozen=True)
class Pattern:
    """Lines before the consuming line, what that line consumes in place of `X`, and lines after it."""

    before: str
    consumed: str
    after: str = ""


SPARE = "step.Identity().apply"
"""What consumes a stream beside the program."""

TWICE = {
    "alias": Pattern("A = X", "X", f"S = {SPARE}(A)"),
    "alias of an alias": Pattern("A = X\nB = A", "A", f"S = {SPARE}(B)"),
    "chained assignment": Pattern("A = B = X", "A", f"S = {SPARE}(B)"),
    "unpacking": Pattern("A, B = X, X", "A", f"S = {SPARE}(B)"),
    "nested unpacking": Pattern("A, (B, [C]) = X, (X, [X])", "C", f"S = {SPARE}(A)"),
    "starred unpacking": Pattern("A, *B = [X, X, X]", "A", f"S = {SPARE}(B[1])"),
    "starred display": Pattern("A = [X]\nB = [*A, *A]", "B[0]", f"S = {SPARE}(B[1])"),
    "subscripts": Pattern("A = [X, X]", "A[0]", f"S = {SPARE}(A[-1])"),
    "slices": Pattern("A = (X, X, X)", "A[:1][0]", f"S = {SPARE}(A[1:][1])"),
    "nested lists": Pattern("A = [[X], [X]]", "A[0][0]", f"S = {SPARE}(A[1][0])"),
    "comprehension over a list twice": Pattern(
        f"A = [X]\nB = [{SPARE}(s) for s in A]\nC = [{SPARE}(s) for s in A]", "B[0]"
    ),
    "comprehension with two loops": Pattern(f"A = [{SPARE}(s) for s in [X] for i in range(2)]", "A[0]"),
    "nested comprehension": Pattern(f"A = [[{SPARE}(s) for s in [X]] for i in range(2)]", "A[1][0]"),
    "zip(E, E)": Pattern("A = [X]\nB = [step.Zip().apply((s, t)) for s, t in zip(A, A)]", "X"),
    "zip(E, E), one by one": Pattern(f"A = [X]\nB = [({SPARE}(s), {SPARE}(t)) for s, t in zip(A, A)]", "B[0][0]"),
    "both operands": Pattern("A = step.Zip().apply((X, X))", "X"),
    "both operands by alias": Pattern("A = X\nB = step.Zip().apply((A, X))", "A"),
    "rebinding": Pattern(f"A = X\nB = {SPARE}(X)", "A"),
    "rebinding of the name": Pattern(f"name = X\nA = name\nname = {SPARE}(name)", "A"),
    "comprehension that shadows": Pattern(f"name = X\nA = [{SPARE}(name) for name in [name]]", "name"),
    "for with append": Pattern(f"A = []\nfor s in [X, X]:\n    A.append({SPARE}(s))", "A[0]"),
    "for over enumerate": Pattern(f"A = []\nfor i, s in enumerate([X, X]):\n    A.append({SPARE}(s))", "A[1]"),
    "for that leaks": Pattern(f"for s in [X]:\n    A = {SPARE}(s)", "s"),
    "range and subscript": Pattern(f"A = [X, X]\nB = [{SPARE}(A[i]) for i in range(len(A))]", "B[-1]"),
    "reversed": Pattern("A = reversed([X, X])\nB, C = A", "B", f"S = {SPARE}(C)"),
    "the same half of a Copy": Pattern("A = step.Copy().apply(X)", "A[0]", f"S = {SPARE}(A[::-1][1])"),
    "a Copy's source": Pattern("A, B = step.Copy().apply(X)", "A", f"S = {SPARE}(X)"),
    "list and tuple": Pattern("A = list((X, X))\nB = tuple(A)", "A[0]", f"S = {SPARE}(B[0])"),
    "alias of a list": Pattern("A = [X]\nB = A", "A[0]", f"S = {SPARE}(B[0])"),
    "append through an alias": Pattern("A = []\nB = A\nB.append(X)", "A[0]", f"S = {SPARE}(B[0])"),
    "a Copy twice": Pattern("A, B = step.Copy().apply(X)\nC, d = step.Copy().apply(X)", "A"),
}
"""Patterns that consume X, or what came of it, twice."""

ONCE = {
    "alias": Pattern("A = X", "A"),
    "many aliases": Pattern("A = B = X\nC = [A, B, (X, X)]", "C[2][1]"),
    "rebinding": Pattern(f"name = X\nname = {SPARE}(name)\nname = {SPARE}(name)", "name"),
    "rebinding by unpacking": Pattern(
        "name = X\nname, other = step.Copy().apply(name)\nname, other = other, name", "name", f"S = {SPARE}(other)"
    ),
    "unpacking": Pattern("A, (B, *C) = X, (X, X, X)", "C[0]"),
    "comprehension": Pattern(f"A = [{SPARE}(s) for s in [X]]", "A[0]"),
    "comprehension of aliases": Pattern("A = [s for s in [X, X] for i in range(3)]", "A[4]"),
    "comprehension that shadows": Pattern(f"name = X\nA = [{SPARE}(name) for name in [name]]", "A[0]"),
    "comprehension variable that stays inside": Pattern("s = X\nA = [s for s in step.Copy().apply(s)]", "A[1]"),
    "zip of both halves": Pattern(
        "A = step.Copy().apply(X)\nB = [(s, t) for s, t in zip(A, A)]", "B[0][0]", f"S = {SPARE}(B[1][1])"
    ),
    "for that rebinds": Pattern(f"name = X\nfor i in range(3):\n    name = {SPARE}(name)", "name"),
    "for with append": Pattern(
        f"A = []\nfor i, s in enumerate(step.Copy().apply(X)):\n    A.append({SPARE}(s))", "A[1]"
    ),
    "reversed halves": Pattern("A, B = reversed(step.Copy().apply(X))", "A", f"S = {SPARE}(B)"),
    "subscripts of halves": Pattern("A = step.Copy().apply(X)", "A[1:][0]", f"S = {SPARE}(A[-2])"),
    "a chain of Copies": Pattern(
        "A, B = step.Copy().apply(X)\nA, C = step.Copy().apply(A)", "C", f"S = [{SPARE}(s) for s in (A, B)]"
    ),
    "a name bound and never used": Pattern("A = X\nA = [X, X]", "X"),
    "a loop over nothing": Pattern(f"for s in []:\n    A = {SPARE}(X)\nB = [{SPARE}(X) for i in range(0)]", "X"),
}
"""Patterns that consume every stream once, however often they name it."""


def aliased(program: Program, *, each: bool = False) -> Iterator[tuple[Mutant, bool]]:
    """Every pattern around one place of the program, or around each; and whether the affine rule allows it."""
    lines = print_program(program).splitlines()
    places = [
        (number, program.inputs[stream] if stream < len(program.inputs) else _name(lines, program, stream))
        for number, node in enumerate(program.nodes)
        for stream in node.inputs
    ]
    patterns = [(pattern, name, False) for name, pattern in TWICE.items()]
    patterns += [(pattern, name, True) for name, pattern in ONCE.items()]
    for count, (pattern, name, allowed) in enumerate(patterns):
        for place in places if each else [places[count % len(places)]]:
            kind = f"{'once' if allowed else 'twice'}: {name}"
            yield Mutant(kind, _woven(lines, *place, pattern)), allowed


def _name(lines: list[str], program: Program, stream: int) -> str:
    """What the printed text calls a stream."""
    [(line, node)] = [(line, node) for line, node in zip(lines, program.nodes, strict=False) if stream in node.outputs]
    names = line.partition(" = ")[0].split(", ")
    index = node.outputs.index(stream)
    return names[index] if len(names) == len(node.outputs) else f"{names[0]}[{index}]"


def _woven(lines: list[str], number: int, name: str, pattern: Pattern) -> str:
    target, _, call = lines[number].partition(" = ")
    made, _, argument = call.partition(".apply(")
    consumed = _put(argument, name, _put(pattern.consumed, "X", name))
    middle = [*_lines(pattern.before, name), f"{target} = {made}.apply({consumed}", *_lines(pattern.after, name)]
    return "\n".join([*lines[:number], *middle, *lines[number + 1 :]]) + "\n"


def _lines(text: str, name: str) -> list[str]:
    return _put(text, "X", name).splitlines()


def _put(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<![\w\]]){re.escape(old)}(?![\w\[])", new, text)
