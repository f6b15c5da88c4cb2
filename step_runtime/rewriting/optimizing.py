"""The rewrites of a program of a task, priced with the task's own functions."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from step_runtime.base.functions import Fn
from step_runtime.base.units import Figure, figures_key
from step_runtime.cost.model import Cost
from step_runtime.language.parser import parse
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.rewriting.associativity import why_not_merged
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
            known[fn.label] = why_not_merged(costs.task, fn.label)
        return known[fn.label] is None

    found = variants(program, scope, price, objective, merges, limit)
    own = found[0]
    found.sort(key=lambda variant: (*figures_key(variant.cost.figures(), objective), len(variant.text)))
    if len(parse(own.text, scope)[0].nodes) == len(program.nodes):
        # Nothing in it is needless, so the author's names and comments stay.
        found[found.index(own)] = replace(own, text=f"{text.rstrip()}\n")
    return Explored(tuple(found), {label: reason for label, reason in known.items() if reason is not None})
