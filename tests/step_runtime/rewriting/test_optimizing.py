"""Programs of tasks are rewritten by what their functions are known to do."""

import pytest
import torch

from step_runtime.base.functions import Fn
from step_runtime.base.units import Figure, figures_key
from step_runtime.cost.chip import Chip
from step_runtime.cost.model import Cost, estimate
from step_runtime.execution.applier import Applier, Data
from step_runtime.execution.invocation import default_dtype
from step_runtime.execution.number_formats import same_numbers
from step_runtime.language.parser import evaluate, read
from step_runtime.program.graph import Program
from step_runtime.rewriting.optimizing import Variant, explored, variants
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.simulate import simulate
from step_runtime.verification.task_costs import Rejected, TaskCosts
from step_runtime.verification.verify import verify
from tests.support.oracles import oracle, task
from tests.support.priced import checked
from tests.support.task_texts import ADD, MATRIX, NEG, SAME, SUM, task_text

NEEDLESS = """\
E1, E2 = step.Copy().apply(E0)
E3 = step.Streamify().apply(step.Bufferize(a=1).apply(E1))
E4 = step.Accum(fn=fn_add, b=1).apply(step.Map(fn=fn_square).apply(E3))
E5 = step.Repeat(n=D).apply(E4)
E6 = step.Map(fn=fn_sqrt).apply(step.Map(fn=fn_addeps).apply(step.Map(fn=fn_divbyd).apply(E5)))
return step.Map(fn=fn_div).apply((E2, E6))
"""
"""RMSNorm with a needless buffer, and the root of the mean computed for every element."""


def test_a_needlessly_dear_program_becomes_as_cheap_as_the_reference() -> None:
    """By memory and by operations; what is found passes."""
    costs = TaskCosts(task("norm/2"))
    reference = costs.price(oracle("norm/2")).cost
    for objective in ("memory", "operations"):
        found = explored(costs, NEEDLESS, objective, 60).variants
        assert found[0].cost.figure(objective) == reference.figure(objective)
        assert verify(task("norm/2"), found[0].text).passed
        given = next(variant for variant in found if not variant.rewrites)
        assert given.cost.figure(objective) > found[0].cost.figure(objective)


def test_a_program_that_fails_a_check_is_rejected() -> None:
    with pytest.raises(Rejected):
        explored(TaskCosts(task("norm/2")), "return E9", "memory")


def outputs(instance: TaskInstance, text: str) -> list[Data]:
    """What a program computes on one input."""
    program, found = evaluate(read(text), instance.scope)
    types, errors = infer_types(program, instance.scope)
    assert not found and not errors
    with default_dtype(torch.float64):
        return simulate(program, types, instance.sample_inputs(0), instance.sizes, Applier(torch.float64))


ROUNDED = """
inputs:
- {name: x, dtype: bf16, dims: [M, N, K], data_gen: torch.randn}
- {name: i, dtype: bool, dims: [M, N, K], data_gen: binary}
fns:
- {name: Third, apply: "return [input[0] / 3]", input_dtype: bf16, output_dtype: bf16, func_name: fn_third}
- {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: bf16, output_dtype: bf16,
   func_name: fn_add}
- {name: Any, apply: "return [state[0] | input[0]]", init: [0], input_dtype: bool, output_dtype: bool,
   func_name: fn_any}
outputs:
- {name: S, dtype: bf16, dims: [D, K], data_transform: "input_data['x'].sum((1, 2)).unsqueeze(1).repeat(1, D_value)"}
- {name: T, dtype: bool, dims: [K], data_transform: "input_data['i'].any(2).any(1)"}
"""
SUMS = """\
E1 = step.Streamify().apply(step.Bufferize(a=1).apply(step.Map(fn=fn_third).apply(x)))
E2 = step.Map(fn=fn_third).apply(step.Repeat(n=D).apply(step.Accum(fn=fn_add, b=2).apply(E1)))
return E2, step.Accum(fn=fn_any, b=2).apply(i)
"""


IN_TURN = SUMS.replace("E2 =", "F1 = step.Accum(fn=fn_add, b=1).apply(E1)\nE2 =").replace(
    "b=2).apply(E1)", "b=1).apply(F1)"
)


@pytest.mark.parametrize(("text", "folds"), [(SUMS, 1), (IN_TURN, 2)])
def test_no_rewrite_moves_a_rounding(text: str, folds: int) -> None:
    """Every program found gives the very same numbers: only a fold of truth values is split or merged."""
    given = loads_task(ROUNDED, "rounded")
    instance = TaskInstance(given, given.size_sets()[0])
    expected = outputs(instance, text)
    found = explored(TaskCosts(given), text, "operations", 25).variants
    applied = {name for variant in found for name in variant.rewrites}
    assert applied >= {"drop a round trip", "compute before repeating", "split a fold"}
    for variant in found:
        assert variant.text.count("fn=fn_add,") == folds
        for parts, others in zip(outputs(instance, variant.text), expected, strict=True):
            assert all(map(same_numbers, parts, others)), (variant.rewrites, variant.text)


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
            "return step.Repeat(n=2).apply(step.Repeat(n=3).apply(E0))", "memory",
            "E1 = step.Repeat(n=6).apply(E0)\nE2 = step.Reshape(L=[0], S=2).apply(E1)\nreturn E2\n", "repeat once",
        ),
        (
            "E1, E2 = step.Copy().apply(E0)\nE3 = step.Repeat(n=M).apply(E1)\n"
            "E4 = step.Streamify().apply(step.Repeat(n=M).apply(step.Bufferize(a=1).apply(E2)))\n"
            "return step.Map(fn=fn_add).apply((E3, E4))",
            "memory",
            "E1, E2 = step.Copy().apply(E0)\nE3 = step.Bufferize(a=1).apply(E1)\nE4 = step.Repeat(n=M).apply(E3)\n"
            "E5 = step.Streamify().apply(E4)\nE6, E7 = step.Copy().apply(E5)\n"
            "E8 = step.RepeatRef().apply((E2, E6))\nE9 = step.Map(fn=fn_add).apply((E8, E7))\nreturn E9\n",
            "repeat with reference",
        ),
        (
            "return step.Flatten(L=[1]).apply(step.Promote(b=0).apply(E0))", "time", "return E0\n", "drop a round trip"
        ),
        (
            "E1 = step.Bufferize(a=1).apply(E0)\nE2 = step.Promote(b=1).apply(E1)\n"
            "return step.Bufferize(a=1).apply(E2)",
            "memory", "E1 = step.Promote(b=2).apply(E0)\nE2 = step.Bufferize(a=2).apply(E1)\nreturn E2\n",
            "reshape at once",
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
