"""Programs of tasks are rewritten by what their functions are known to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import pytest
import torch

from step_runtime.base.functions import Fn
from step_runtime.base.types import Buffer, Scalar, STuple, components_of
from step_runtime.execution.applier import Applier, Data
from step_runtime.execution.invocation import default_dtype
from step_runtime.execution.number_formats import element_type, same_numbers
from step_runtime.language.parser import evaluate, read
from step_runtime.rewriting.optimizing import is_monoid, rewritten
from step_runtime.tasks.reader import loads_task
from step_runtime.verification.check import infer_types
from step_runtime.verification.costing import Rejected, TaskCosts
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.simulate import simulate
from step_runtime.verification.verify import verify
from tests.support.element_functions import Given
from tests.support.oracles import oracle, task

F, V = Scalar("float"), Buffer(Scalar("float"), [4])


class State(Given):
    """A function whose state is of a format, as is its element."""

    def __init__(self, body: Callable[..., Sequence[Any]], kind: Scalar | Buffer, first: float) -> None:
        super().__init__(body, kind, kind, [first])

    def getInit(self) -> Sequence[torch.Tensor]:
        """The first state in its format."""
        (part,) = components_of(self.output)
        return [initial.to(element_type(part, torch.float64)) for initial in super().getInit()]


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
    reference = costs.price(oracle("norm/2"), formulas=False).cost
    for objective in ("memory", "operations"):
        found = rewritten(costs, NEEDLESS, objective, 60)
        assert found[0].cost.figure(objective) == reference.figure(objective)
        assert verify(task("norm/2"), found[0].text).passed
        given = next(variant for variant in found if not variant.rewrites)
        assert given.cost.figure(objective) > found[0].cost.figure(objective)


def test_a_program_that_fails_a_check_is_rejected() -> None:
    with pytest.raises(Rejected):
        rewritten(TaskCosts(task("norm/2")), "return E9", "memory")


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (Given(lambda s, x: [s[0] + x[0]], V, V, [0.0]), True),
        (Given(lambda s, x: [torch.maximum(s[0], x[0])], F, F, [float("-inf")]), True),
        (Given(lambda s, x: [s[0] * x[0]], F, F, [1.0]), True),
        (Given(lambda s, x: [s[0] + x[0], s[1] * x[1]], STuple((F, F)), STuple((F, F)), [0.0, 1.0]), True),
        (Given(lambda s, x: [s[0] + x[0]], F, F, [1.0]), False),  # counts its start for every part
        (Given(lambda s, x: [s[0] + 2 * x[0]], F, F, [0.0]), False),
        (Given(lambda s, x: [s[0] - x[0]], F, F, [0.0]), False),
        (Given(lambda s, x: [s[0] + x[0].sum()], V, F, [0.0]), False),
        (Given(lambda x: [x[0]], F, F), False),
        (State(lambda s, x: [s[0] + x[0]], Scalar("int8"), 0), True),
        (State(lambda s, x: [s[0] + x[0]], Buffer(Scalar("int32"), [4]), 0), True),
        (State(lambda s, x: [torch.maximum(s[0], x[0])], Scalar("int8"), -128), True),
        (State(lambda s, x: [s[0] | x[0]], Scalar("bool"), 0), True),
        (State(lambda s, x: [(s[0].int() + x[0]).clamp(-128, 127)], Scalar("int8"), 0), False),  # saturates
        (State(lambda s, x: [s[0] + x[0]], Scalar("bf16"), 0), False),  # rounds after every element
        (State(lambda s, x: [torch.maximum(s[0].float(), x[0].float())], Scalar("fp8_e5m2"), -inf), False),
    ],
)
def test_folds_that_may_be_split(fn: Fn, expected: bool) -> None:
    """Sums from 0, products from 1, maxima from -inf; never where a state is rounded."""
    assert is_monoid(fn, {}) == expected


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
- {name: i, dtype: int8, dims: [M, N, K], data_gen: "integers(-128, 127)"}
fns:
- {name: Third, apply: "return [input[0] / 3]", input_dtype: bf16, output_dtype: bf16, func_name: fn_third}
- {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: bf16, output_dtype: bf16,
   func_name: fn_add}
- {name: AddWhole, apply: "return [state[0] + input[0]]", init: [0], input_dtype: int8, output_dtype: int8,
   func_name: fn_add_whole}
outputs:
- {name: S, dtype: bf16, dims: [D, K], data_transform: "input_data['x'].sum((1, 2)).unsqueeze(1).repeat(1, D_value)"}
- {name: T, dtype: int8, dims: [K], data_transform: "input_data['i'].sum((1, 2))"}
"""
SUMS = """\
E1 = step.Streamify().apply(step.Bufferize(a=1).apply(step.Map(fn=fn_third).apply(x)))
E2 = step.Map(fn=fn_third).apply(step.Repeat(n=D).apply(step.Accum(fn=fn_add, b=2).apply(E1)))
return E2, step.Accum(fn=fn_add_whole, b=2).apply(i)
"""


IN_TURN = SUMS.replace("E2 =", "F1 = step.Accum(fn=fn_add, b=1).apply(E1)\nE2 =").replace(
    "b=2).apply(E1)", "b=1).apply(F1)"
)


@pytest.mark.parametrize(("text", "folds"), [(SUMS, 1), (IN_TURN, 2)])
def test_no_rewrite_moves_a_rounding(text: str, folds: int) -> None:
    """Every program that rewrites lead to gives the very same numbers: only sums of integers are split or merged."""
    given = loads_task(ROUNDED, "rounded")
    instance = TaskInstance(given, given.size_sets()[0])
    expected = outputs(instance, text)
    found = rewritten(TaskCosts(given), text, "operations", 25)
    applied = {name for variant in found for name in variant.rewrites}
    assert applied >= {"drop a round trip", "compute before repeating", "split a fold"}
    for variant in found:
        assert variant.text.count("fn=fn_add,") == folds
        for parts, others in zip(outputs(instance, variant.text), expected, strict=True):
            assert all(map(same_numbers, parts, others)), (variant.rewrites, variant.text)
