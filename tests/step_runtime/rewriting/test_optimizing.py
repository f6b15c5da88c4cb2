"""Programs of tasks are rewritten by what their functions are known to do."""

from __future__ import annotations

import pytest
import torch

from step_runtime.base.functions import Fn
from step_runtime.base.types import Buffer, Scalar, STuple
from step_runtime.rewriting.optimizing import is_monoid, rewritten
from step_runtime.verification.costing import Rejected, TaskCosts
from step_runtime.verification.verify import verify
from tests.support.element_functions import Given
from tests.support.oracles import oracle, task

F, V = Scalar("float"), Buffer(Scalar("float"), [4])
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
    ],
)
def test_folds_that_may_be_split(fn: Fn, expected: bool) -> None:
    """Sums from 0, products from 1, maxima from -inf."""
    assert is_monoid(fn, {}) == expected
