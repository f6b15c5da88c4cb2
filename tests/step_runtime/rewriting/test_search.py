"""The search prices every program within reach once, and finds what is cheapest by each figure."""

from __future__ import annotations

import pytest

from step_runtime.base.functions import Fn
from step_runtime.base.measures import Figure
from step_runtime.cost.chip import Chip
from step_runtime.cost.front import figures_key
from step_runtime.cost.model import Cost, estimate
from step_runtime.program.graph import Program
from step_runtime.rewriting.search import Variant, variants
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import infer_types
from tests.support.priced import checked
from tests.support.task_texts import ADD, MATRIX, NEG, SAME, SUM, task_text

TASK = task_text([MATRIX], [NEG, ADD, SUM], [SAME])
SCOPE = static_scope(loads_task(TASK, "search"))


def price(program: Program) -> Cost:
    types, _ = infer_types(program, SCOPE)
    known = [kind for kind in types if kind is not None]
    return estimate(program, known, SCOPE.sizes, lambda fn: 1, Chip())


def best(found: list[Variant], objective: Figure) -> Variant:
    return min(found, key=lambda variant: (*figures_key(variant.cost.figures(), objective), len(variant.text)))


def found(text: str, objective: Figure = "memory", limit: int = 100, merges: bool = False) -> list[Variant]:
    def splits(fn: Fn) -> bool:
        return merges

    return variants(checked(TASK, text).program, SCOPE, price, objective, splits, limit)


@pytest.mark.parametrize(
    ("text", "objective", "cheapest", "rewrite"),
    [
        (
            "return step.Streamify().apply(step.Bufferize(a=1).apply(E0))",
            "memory", "return E0\n", "drop a round trip",
        ),
        (
            "return step.Map(fn=fn_neg).apply(step.Repeat(n=3).apply(E0))",
            "operations", "E1 = step.Map(fn=fn_neg).apply(E0)\nE2 = step.Repeat(n=3).apply(E1)\nreturn E2\n",
            "compute before repeating",
        ),
        (
            "E1, E2 = step.Copy().apply(E0)\nE3 = step.Map(fn=fn_neg).apply(E1)\nE4 = step.Map(fn=fn_neg).apply(E2)\n"
            "return step.Map(fn=fn_add).apply((E3, E4))",
            "operations",
            "E1 = step.Map(fn=fn_neg).apply(E0)\nE2, E3 = step.Copy().apply(E1)\n"
            "E4 = step.Map(fn=fn_add).apply((E2, E3))\nreturn E4\n",
            "share",
        ),
        (
            "return step.Flatten(L=[1]).apply(step.Promote(b=0).apply(E0))", "time", "return E0\n", "drop a round trip"
        ),
    ],
)  # fmt: skip
def test_the_cheapest_program_is_found(text: str, objective: Figure, cheapest: str, rewrite: str) -> None:
    """Each by the rewrite that it needs."""
    variant = best(found(text, objective), objective)
    assert variant.text == cheapest
    assert rewrite in variant.rewrites


def test_folds_are_merged_only_where_that_is_known_to_keep_the_result() -> None:
    text = "E1 = step.Promote(b=2).apply(E0)\nE2 = step.Accum(fn=fn_sum, b=1).apply(E1)\n"
    text += "return step.Accum(fn=fn_sum, b=1).apply(E2)"
    assert "b=2" in best(found(text, merges=True), "memory").text.partition("Accum")[2]
    assert all("Accum(fn=fn_sum, b=2)" not in variant.text for variant in found(text))


def test_every_program_is_priced_once_and_no_more_than_the_limit() -> None:
    text = "E1, E2 = step.Copy().apply(E0)\nE3 = step.Repeat(n=3).apply(step.Map(fn=fn_neg).apply(E1))\n"
    text += "return E3, step.Map(fn=fn_neg).apply(step.Repeat(n=3).apply(E2))"
    everything = found(text)
    texts = [variant.text for variant in everything]
    assert len(set(texts)) == len(texts) > 3
    assert [variant.text for variant in found(text, limit=2)] == texts[:2]
    assert everything[0].rewrites == ()
