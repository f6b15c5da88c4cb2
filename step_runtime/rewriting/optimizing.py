"""The rewrites of a program of a task, priced with the task's own functions."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from step_runtime.base.errors import TaskCodeError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes
from step_runtime.base.types import Element, Multihot, components_of
from step_runtime.base.units import Figure
from step_runtime.cost.front import figures_key
from step_runtime.cost.model import Cost
from step_runtime.execution.invocation import Data, apply, default_dtype, element_layout, initial
from step_runtime.execution.number_formats import element_type, exact
from step_runtime.language.parser import parse
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.rewriting.associativity import unproved
from step_runtime.rewriting.rules import RULES
from step_runtime.rewriting.shared import Shared, shared
from step_runtime.tasks.scope import Scope
from step_runtime.verification.check import infer_types, insert_copies
from step_runtime.verification.task_costs import TaskCosts

MAX_PROGRAMS = 200
"""Programs that a search prices at most."""


@dataclass(frozen=True)
class Variant:
    """A program that rewrites lead to, which keeps the affine rule; its cost, and the rules applied, in order."""

    text: str
    cost: Cost
    rewrites: tuple[str, ...]


def variants(
    program: Program,
    scope: Scope,
    price: Callable[[Program], Cost],
    objective: Figure,
    merges: Callable[[Fn], bool] = lambda fn: False,
    limit: int = MAX_PROGRAMS,
) -> list[Variant]:
    """The program without needless Copies, and all that it can be rewritten to, in the order in which they are found.

    Programs are expanded by the objective, the smallest first, until there are `limit`. `merges` is that of `Shared`.

    Raises:
        ValueError: The program is not well-typed.
    """
    start = shared(program, scope, merges)
    if start is None:
        raise ValueError("the program is not well-typed")
    found: dict[str, Variant] = {}
    frontier: list[tuple[tuple[float, ...], int, Shared, Variant]] = []

    def meet(program: Shared, rewrites: tuple[str, ...]) -> None:
        copied = insert_copies(program.program)
        text = print_program(copied)
        if text not in found and len(found) < limit:
            found[text] = Variant(text, price(copied), rewrites)
            rank = (*figures_key(found[text].cost.figures(), objective), float(len(program.program.nodes)))
            heapq.heappush(frontier, (rank, len(found), program, found[text]))

    meet(start, ())
    while frontier and len(found) < limit:
        _, _, program_now, variant = heapq.heappop(frontier)
        for name, other in _steps(program_now):
            meet(other, (*variant.rewrites, name))
    return list(found.values())


def _steps(program: Shared) -> Iterator[tuple[str, Shared]]:
    """The programs one rewrite away, with the rule's name; those of another result type are left out."""
    results = [program.types[stream] for stream in program.program.results]
    for name, rule in RULES.items():
        for node in program.program.nodes:
            for build in rule(program, node):
                after = program.replaced(node, build)
                if after is not None and [after.types[stream] for stream in after.program.results] == results:
                    yield name, after


_TRIALS = 4


@dataclass(frozen=True)
class Explored:
    """The programs that rewrites lead to.

    Attributes:
        variants: The programs, the cheapest first; the program itself is among them, as it is written, or without what
            is needless in it: Copies, and streams that nothing uses.
        left: By function, why its folds, which rewrites could merge or split, stay as they are.
    """

    variants: tuple[Variant, ...]
    left: Mapping[str, str]


def rewritten(costs: TaskCosts, text: str, objective: Figure, limit: int = MAX_PROGRAMS) -> list[Variant]:
    """The variants of `explored`; raises as that."""
    return list(explored(costs, text, objective, limit).variants)


def explored(costs: TaskCosts, text: str, objective: Figure, limit: int = MAX_PROGRAMS) -> Explored:
    """The programs that rewrites lead to, and the folds that these leave alone.

    `limit` programs are priced at most. What is proved holds for real numbers, so the programs are to be verified.

    Raises:
        Rejected: The program fails a check.
        TaskError: The task's code fails.
    """
    sizes = costs.sizes({})
    program, _, scope = costs.check(text, sizes)

    def price(program: Program) -> Cost:
        types, _ = infer_types(program, scope)
        return costs.cost(program, [kind for kind in types if kind is not None], sizes)

    known: dict[str, str | None] = {}

    def merges(fn: Fn) -> bool:
        if fn.label not in known:
            known[fn.label] = why_not_merged(costs.function(fn.label, sizes), sizes)
        return known[fn.label] is None

    found = variants(program, scope, price, objective, merges, limit)
    own = found[0]
    found.sort(key=lambda variant: (*figures_key(variant.cost.figures(), objective), len(variant.text)))
    if len(parse(own.text, scope)[0].nodes) == len(program.nodes):
        # Nothing in it is needless, so the author's names and comments stay.
        found[found.index(own)] = replace(own, text=f"{text.rstrip()}\n")
    return Explored(tuple(found), {label: reason for label, reason in known.items() if reason is not None})


def why_not_merged(fn: Fn, sizes: Sizes) -> str | None:
    """Why a fold's function is not proved to be associative with its initial state as the unit; None if it is.

    Then folding the folds of parts gives the fold of the whole. A state that is rounded at every step never counts as
    associative, since parts are rounded elsewhere; integers and truth values are exact. A proof is tried on random
    elements as well.
    """
    reason = unproved(fn, sizes)
    if reason is None and not _holds_on_samples(fn, sizes):
        return "it is not associative on random elements"
    return reason


def _holds_on_samples(fn: Fn, sizes: Sizes) -> bool:
    generator = torch.Generator().manual_seed(0)
    with default_dtype(torch.float64):
        try:
            return all(_associates(fn, sizes, generator) for _ in range(_TRIALS))
        except TaskCodeError:
            return False


def _associates(fn: Fn, sizes: Sizes, generator: torch.Generator) -> bool:
    a, b, c = (tuple(_sample(part, sizes, generator) for part in components_of(fn.input)) for _ in range(3))

    def call(state: Data, element: Data) -> Data:
        # A function may write into what it is given.
        return apply(fn, [[part.clone() for part in state], [part.clone() for part in element]], sizes, torch.float64)

    unit = call(initial(fn, sizes, torch.float64), a)
    left, right = call(call(a, b), c), call(a, call(b, c))
    pairs = [*zip(unit, a, strict=True), *zip(left, right, strict=True)]
    return all(torch.allclose(exact(one), exact(other), rtol=1e-9, atol=1e-9) for one, other in pairs)


def _sample(element: Element, sizes: Sizes, generator: torch.Generator) -> torch.Tensor:
    format_, shape = element.format, element_layout(element, sizes)
    if format_.kind != "float":
        # All of the range, as a function may saturate at its ends.
        whole = torch.randint(int(format_.least), int(format_.most) + 1, shape, generator=generator)
        return whole.to(element_type(element, torch.float64))
    numbers = torch.randn(shape, dtype=torch.float64, generator=generator)
    return (numbers > 0).to(numbers.dtype) if isinstance(getattr(element, "elem", element), Multihot) else numbers
