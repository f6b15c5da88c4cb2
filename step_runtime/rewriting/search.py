"""Every program that rewrites lead to from one, within a budget, the cheapest expanded first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from step_runtime.base.functions import Fn
from step_runtime.base.measures import Figure
from step_runtime.cost.front import figures_key
from step_runtime.cost.model import Cost
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.rewriting.rules import RULES
from step_runtime.rewriting.shared import Shared, shared
from step_runtime.tasks.scope import Scope
from step_runtime.verification.check import insert_copies

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
        for number in range(len(program.program.nodes)):
            for other in rule(program, number):
                after = program.with_program(other)
                if after is not None and [after.types[stream] for stream in after.program.results] == results:
                    yield name, after
