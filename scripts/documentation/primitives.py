"""A page for each primitive: its rule, small streams before and after it, and where it is used.

Streams are computed by the token semantics that the tests hold the simulator to (`tests/support/tokens`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import sympy
import torch
from torch import Tensor

from scripts.documentation import cookbook
from scripts.documentation.streams import Row, draw
from step_runtime import primitives as p
from step_runtime.base.functions import Fn
from step_runtime.base.types import Buffer, DType, Multihot, Scalar, StreamType, STuple
from step_runtime.program.graph import Node, Program
from step_runtime.program.printer import print_primitive
from tests.support.tokens import Value, render, trace_tokens

FP32 = Scalar("float")


class Double(Fn):
    """Twice the element."""

    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        """The result."""
        return [2 * args[0][0]]


class Add(Fn):
    """Adds the element to the state, from 0."""

    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        """The new state."""
        return [args[0][0] + args[1][0]]

    def getInit(self) -> Sequence[Tensor]:
        """The initial state."""
        return [torch.tensor(0.0)]


class Product(Fn):
    """The product of a pair."""

    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        """The result."""
        return [args[0][0] * args[0][1]]


DOUBLE, ADD = Double("double", FP32, FP32), Add("add", FP32, FP32)
PRODUCT = Product("product", STuple((FP32, FP32)), FP32)
Typed = tuple[StreamType, Value]


def stream(values: object, dtype: DType = FP32, depth: int = 0) -> Typed:
    """A stream of nested lists; the `depth` innermost dims belong to the elements."""
    tensor = torch.tensor(values, dtype=torch.float64)
    shape = tensor.shape[: tensor.dim() - depth]
    return StreamType(dtype, tuple(sympy.Integer(size) for size in reversed(shape))), (tensor,)


def index(*rows: Sequence[int]) -> Typed:
    """A stream of multihots."""
    return stream([list(row) for row in rows], Multihot("float", len(rows[0])), 1)


ROW, MATRIX = stream([1, 2, 3]), stream([[1, 2], [3, 4]])
CUBE = stream([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
BUFFERS = stream([[1, 2], [3, 4]], Buffer(FP32, [2]), 1)


@dataclass(frozen=True)
class Example:
    """A primitive with a configuration, applied to streams, and what to notice."""

    op: p.Primitive
    inputs: tuple[Typed, ...]
    text: str


EXAMPLES: dict[str, list[Example]] = {
    "Map": [
        Example(p.Map(DOUBLE), (MATRIX,), "The function takes one value after the other; stop tokens pass unchanged."),
        Example(p.Map(PRODUCT), (MATRIX, stream([[5, 6], [7, 8]])), "A tuple of streams is zipped first."),
    ],
    "Zip": [Example(p.Zip(), (ROW, stream([7, 8, 9])), "Values are paired; both streams stop at the same places.")],
    "Accum": [
        Example(p.Accum(ADD, 1), (MATRIX,), "The sum of each row replaces the `S1` that closes it."),
        Example(p.Accum(ADD, 1), (CUBE,), "In a stream of higher rank, each stop loses one level."),
        Example(p.Accum(ADD, 2), (CUBE,), "With `b=2`, the two inner dims are folded in stream order."),
    ],
    "Scan": [
        Example(p.Scan(ADD, 1), (MATRIX,), "The state after every value; it restarts after each `S1`."),
        Example(p.Scan(ADD, 2), (CUBE,), "With `b=2`, it restarts only after an `S2`."),
    ],
    "Promote": [
        Example(p.Promote(0), (ROW,), "`b=0`: every element becomes a row of its own."),
        Example(p.Promote(1), (ROW,), "`b=1`, the rank plus one: the whole stream becomes one row."),
        Example(p.Promote(1), (MATRIX,), "In between, one stop of a higher level replaces each stop."),
    ],
    "Flatten": [
        Example(p.Flatten((1,)), (MATRIX,), "`L=[1]` merges dim 1 into dim 0: the stops between rows vanish."),
        Example(p.Flatten((2,)), (CUBE,), "`L=[2]` merges dim 2 into dim 1."),
    ],
    "Reshape": [
        Example(p.Reshape((0,), sympy.Integer(2)), (stream([1, 2, 3, 4]),), "A dim of 4 becomes two rows of `S=2`."),
    ],
    "Repeat": [
        Example(p.Repeat(sympy.Integer(2)), (ROW,), "The copies form a new innermost dim. `RepeatLast` is an alias."),
    ],
    "RepeatRef": [
        Example(
            p.RepeatRef(),
            (stream([8, 9]), MATRIX),
            "Each element fills one row of the reference, whose values are dropped.",
        ),
    ],
    "Bufferize": [
        Example(p.Bufferize(1), (MATRIX,), "Each row becomes one element, which a function can read at once."),
        Example(p.Bufferize(2), (CUBE,), "With `a=2`, each matrix becomes one element."),
    ],
    "Streamify": [
        Example(p.Streamify(), (BUFFERS,), "The inverse of Bufferize: the buffer's dims become the innermost dims.")
    ],
    "Copy": [Example(p.Copy(), (ROW,), "Only a Copy allows a second use of a stream.")],
    "Partition": [
        Example(
            p.Partition(sympy.Integer(2)),
            (ROW, index([1, 0], [0, 1], [1, 0])),
            "Each element goes to the stream whose bit is 1, in order.",
        ),
        Example(
            p.Partition(sympy.Integer(2)),
            (MATRIX, index([1, 1], [1, 0])),
            "If the data has more inner dims than the index, slices are routed, each to any number of streams.",
        ),
    ],
    "Merge": [
        Example(
            p.Merge(ADD),
            (stream([1, 3]), stream([2]), index([1, 0], [0, 1], [1, 0])),
            "Each index element takes the next element of the stream whose bit is 1.",
        ),
        Example(
            p.Merge(ADD),
            (stream([1, 2]), stream([5, 7]), index([1, 1], [0, 0], [1, 0], [0, 1])),
            "Several bits: the elements are folded in the order of the streams. No bit: the initial state.",
        ),
    ],
    "Identity": [Example(p.Identity(), (ROW,), "The same stream. It consumes its input like any other primitive.")],
}


class Rule(NamedTuple):
    """A primitive in the table on the page about the language, and in a sentence that begins with its name."""

    call: str
    requires: str
    result: str
    effect: str
    summary: str


RULES = {
    "Map": Rule(
        "`Map(fn)`",
        "a stateless function of the element type",
        "the same dims",
        "applies `fn` to each element; a tuple of streams is zipped first",
        "applies a function without state to each element.",
    ),
    "Zip": Rule(
        "`Zip()` of two",
        "equal dims",
        "tuples",
        "pairs elements",
        "pairs the elements of two streams.",
    ),
    "Accum": Rule(
        "`Accum(fn, b)`",
        "a stateful function, `0 < b <= a`",
        "`shape[b:]`",
        "folds the `b` inner dims from the initial state, innermost fastest",
        "folds the inner dims with a function that has a state, and emits the last state.",
    ),
    "Scan": Rule(
        "`Scan(fn, b)`",
        "as Accum",
        "the same dims",
        "as Accum, but emits the state after every element",
        "folds like Accum, and emits the state after each element.",
    ),
    "Promote": Rule(
        "`Promote(b)`",
        "`0 <= b <= a + 1`",
        "a 1 at index `b`",
        "the same elements",
        "inserts a dim of 1.",
    ),
    "Flatten": Rule(
        "`Flatten(L)`",
        "consecutive ints of `1..a`",
        "each dim in `L` merged into the next inner one",
        "the same elements",
        "merges neighboring dims.",
    ),
    "Reshape": Rule(
        "`Reshape(L, S)`",
        "dims that `S` divides",
        "each dim in `L` becomes `[S, dim/S]`",
        "the same elements",
        "splits dims into groups.",
    ),
    "Repeat": Rule(
        "`Repeat(n)`",
        "a dim, 1 or more",
        "`[n] + shape`",
        "each element `n` times; `RepeatLast` is an alias",
        "emits each element several times.",
    ),
    "RepeatRef": Rule(
        "`RepeatRef()` of data, ref",
        "`ref.shape[1:] == data.shape`",
        "`ref.shape`",
        "each element as often as ref's innermost dim says; consumes both",
        "repeats each element along its row of a reference.",
    ),
    "Bufferize": Rule(
        "`Bufferize(a=k)`",
        "`0 < k <= rank`, no tuple",
        "`shape[k:]`",
        "gathers the `k` inner dims into a Buffer",
        "stores inner dims as one element, a Buffer.",
    ),
    "Streamify": Rule(
        "`Streamify()`",
        "a Buffer",
        "the buffer's dims, then `shape`",
        "the inverse of Bufferize",
        "turns a Buffer's dims into dims of the stream.",
    ),
    "Copy": Rule(
        "`Copy()`, `Copy(n=4)`",
        "",
        "the stream, twice, or four times: a chain of three Copies",
        "",
        "makes two streams of one.",
    ),
    "Partition": Rule(
        "`Partition(N)` of data, index",
        "a Multihot of length `N` whose dims are the outer dims of data",
        "`N` streams, each with its own outermost dim",
        "sends each slice of data to every stream whose bit is set; a stream may get none",
        "routes slices of a stream to several streams, by an index of multihots.",
    ),
    "Merge": Rule(
        "`Merge(fn)` of streams, index",
        "as many streams as the Multihot has bits, equal except in the outermost dim",
        "the index's dims outside",
        "takes, for each index element, the next slice of every stream whose bit is set, and folds them in order",
        "gathers routed streams again, and folds slices of the same index element.",
    ),
    "Identity": Rule(
        "`Identity()`",
        "",
        "the stream",
        "",
        "passes its stream on.",
    ),
}
INTRODUCTION = """\
# Primitives

A page for each primitive, with its rule and small streams before and after it. In the pictures a stream reads from left
to right. Blue boxes are values. Orange boxes are *stop tokens*: `S1` closes the innermost dim, `S2` the two innermost
dims, and so on; the end of the stream closes the outermost dim. So `1, 2, S1, 3, 4, S1` is a matrix of two rows, a
stream of dims `[2, 2]`. The pictures are computed by the token semantics that the tests compare the simulator with.

[The language](../language.md) has the rules in one table; the [cookbook](../cookbook/index.md) shows the primitives in
use.
"""


def files(docs: Path) -> dict[Path, str]:
    """The pages and pictures by path, for the folder of the documentation."""
    folder = docs / "primitives"
    language, site = docs / "language.md", docs.parent / "mkdocs.yml"
    used = recipes_by_primitive(docs)
    made = {
        folder / "index.md": "\n".join([INTRODUCTION, *(f"- [{n}]({n}.md) {RULES[n].summary}" for n in EXAMPLES), ""])
    }
    made[language] = with_table(language.read_text(encoding="utf-8"))
    made[site] = with_pages(site.read_text(encoding="utf-8"))
    for name, examples in EXAMPLES.items():
        parts = []
        for number, example in enumerate(examples, start=1):
            file = f"{name}-{number}.svg"
            before, after = rows(example)
            made[folder / file] = draw(shown(example.op), before, after)
            listed = "; ".join(render(row.tokens) or "no token" for row in after)
            parts.append(f"{example.text}\n\n![{shown(example.op)} gives {listed}]({file})\n")
        made[folder / f"{name}.md"] = page(name, parts, used.get(name, []))
    return made


def page(name: str, examples: Sequence[str], used: Sequence[str]) -> str:
    """The page of a primitive, in Markdown."""
    call, requires, result, _, summary = RULES[name]
    see = "Recipes that use it: " + ", ".join(used) + "." if used else ""
    table = "\n".join([
        "| written | requires | dims of the result |", "|---|---|---|",
        f"| {call.replace('`', '`step.', 1)} | {requires or 'nothing'} | {result} |",
    ])  # fmt: skip
    return "\n\n".join([f"# {name}", f"{name} {summary}", table, "## Before and after", *examples, see]).strip() + "\n"


def with_table(language: str) -> str:
    """The page about the language with a row for each primitive."""
    lines = [f"| {' | '.join(rule[:4])} |".replace("|  |", "| |").replace("|  |", "| |") for rule in RULES.values()]
    return re.sub(r"(?<=\|---\|---\|---\|---\|\n)\| `Map\(.*?\n(?=\n)", "\n".join([*lines, ""]), language, flags=re.S)


def with_pages(site: str) -> str:
    """MkDocs' configuration with a page for each primitive."""
    pages = "".join(f"    - {name}: primitives/{name}.md\n" for name in RULES)
    return re.sub(r"(?<=    - primitives/index.md\n)(    - \w+: primitives/\w+.md\n)*", pages, site)


def recipes_by_primitive(docs: Path) -> dict[str, list[str]]:
    """Links to the recipes that use each primitive."""
    used: dict[str, list[str]] = {}
    for path in cookbook.recipes(docs):
        title, _ = cookbook.comment(path)
        for name in dict.fromkeys(re.findall(r"step\.(\w+)\(", path.read_text(encoding="utf-8"))):
            used.setdefault(name, []).append(f"[{title.lower()}](../cookbook/{path.stem}.md)")
    return used


def rows(example: Example) -> tuple[list[Row], list[Row]]:
    """The streams before and after, with their tokens."""
    count = len(example.inputs)
    names = tuple(f"E{number}" for number in range(count))
    types = [kind for kind, _ in example.inputs]
    results = example.op.infer(types, p.Rules({}))
    outputs = tuple(range(count, count + len(results)))
    program = Program(names, (Node(example.op, tuple(range(count)), outputs),), outputs)
    data = {name: value for name, (_, value) in zip(names, example.inputs, strict=True)}
    traced = trace_tokens(program, [*types, *results], data, {})
    labels = [f"E{number}: {_type(kind)}" for number, kind in enumerate([*types, *results])]
    made = [Row(label, tokens) for label, tokens in zip(labels, traced, strict=True)]
    return made[:count], made[count:]


def shown(op: p.Primitive) -> str:
    """The primitive as a program has it, without `step.`."""
    return print_primitive(op).removeprefix("step.")


def _type(kind: StreamType) -> str:
    return re.sub(r"\brouted\.\d+", "?", str(kind))
