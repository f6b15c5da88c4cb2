"""Costs of a task's programs, with its own functions and references."""

from __future__ import annotations

import pytest
import sympy

from step_runtime.base.errors import TaskError
from step_runtime.cost.chip import Chip
from step_runtime.verification.costing import Rejected, TaskCosts
from tests.support.oracles import oracle, task

D, K, M, N = sympy.symbols("D K M N")


def test_a_program_of_the_benchmark() -> None:
    """RMSNorm on scalars: figures, polynomials, the bound and the critical path."""
    priced = TaskCosts(task("norm/2")).price(oracle("norm/2"))
    assert priced.cost.figures() == {"memory": 68, "traffic": 896, "operations": 735, "time": 133, "queue": 15}
    assert priced.formulas == {
        "memory": 4 * D + 4,
        "traffic": 8 * D * N,
        "operations": 6 * D * N + 9 * N,
        "time": D * N + D + 5,
        "queue": D - 1,
    }
    assert (priced.bound.traffic, priced.bound.operations, priced.bound.time) == (896, 735, 112)
    path = [priced.program.nodes[number].op.name for number in priced.cost.path]
    assert path == ["Copy", "Map", "Accum", "Map", "Map", "Map", "Repeat", "Zip", "Map"]


def test_experts_count_as_if_every_token_chose_each() -> None:
    """The weights' dims are in the polynomial, and the number of experts is a constant of the task."""
    priced = TaskCosts(task("etoe/0")).price(oracle("etoe/0"))
    assert priced.cost.bounded
    assert priced.formulas["operations"] == 12 * D * K * M * N + 12 * D * M * N + 12 * K * M * N + 36 * M * N


def test_other_sizes_and_another_chip() -> None:
    costs = TaskCosts(task("norm/2"), Chip(rate=1))
    sizes = costs.sizes({"D": 32})
    priced = costs.price(oracle("norm/2"), sizes, formulas=False)
    assert (priced.cost.sizes["D"], priced.cost.queue, priced.formulas) == (32, 31, {})


@pytest.mark.parametrize(("changes", "quoted"), [({"Q": 3}, "no dim Q; expected one of"), ({"D": 0}, "D")])
def test_sizes_that_the_task_does_not_have(changes: dict[str, int], quoted: str) -> None:
    with pytest.raises(TaskError, match=quoted):
        TaskCosts(task("norm/2")).sizes(changes)


def test_a_size_that_global_sets_cannot_be_changed() -> None:
    changed = task("norm/2").model_copy(update={"global_": "ctx[D] = 16"})
    with pytest.raises(TaskError, match="`global` sets D to 16"):
        TaskCosts(changed).sizes({"D": 8})


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("return E7", "parse"),
        ("return step.Zip().apply((E0, E0))", "affine"),
        ("return step.Map(fn=fn_add).apply(E0)", "type"),
        ("return step.Bufferize(a=1).apply(E0)", "shape"),
    ],
)
def test_a_program_that_fails_a_check_has_no_cost(text: str, stage: str) -> None:
    with pytest.raises(Rejected) as rejected:
        TaskCosts(task("norm/2")).price(text)
    assert stage in {diagnostic.stage for diagnostic in rejected.value.diagnostics}
