"""Synthesis holds these.

- What it gives passes the verifier; what only looks right on the data observed is refused, and the search goes on.
- Of streams of one type and value it keeps one.
- The same candidates give the same result, and no budget is overdrawn.
- A function that fails on some values costs those values alone.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from pipeline.synthesis import SearchBudget, synthesize
from pipeline.synthesis.bidirectional_search import BidirectionalSearch
from pipeline.synthesis.top_down import TopDown
from pipeline.synthesis.value_blocks import close
from step_runtime import verify
from step_runtime.execution.invocation import default_dtype
from step_runtime.verification.loading import load_task
from tests.support.paths import PROJECT
from tests.support.small_tasks import of_scalars, task

DATA = PROJECT / "data"
SOLVED = [
    "tasks/gemm/2",
    "tasks/norm/2",
    "tasks/rope/2",
    "tasks/index/1",
    "tasks/etoe/2",
    "tasks-extra/cosine_similarity",
]


@pytest.mark.parametrize("name", SOLVED)
def test_tasks_of_many_kinds_are_solved(name: str) -> None:
    """With less than a hundred thousand candidates, from the task alone, by a program that passes anywhere."""
    given = load_task(DATA / f"{name}.yaml")
    outcome = synthesize(given, SearchBudget(seconds=1200, candidates=100_000))
    assert outcome.reason is None and outcome.impl is not None
    assert verify(given, outcome.impl, seeds=(5, 6)).passed
    assert outcome.length and 0 < outcome.candidates <= 100_000


def test_a_program_found_is_a_cheapest() -> None:
    """Of two ways, the one with a function less; functions that are of no use are left out."""
    fns = {
        "plus": ("input[0] + 1", 1),
        "double": ("2 * input[0]", 1),
        "both": ("2 * (input[0] + 1)", 1),
        "sine": ("torch.sin(input[0])", 1),
    }
    outcome = synthesize(of_scalars(fns, "(2 * (input_data['E0'] + 1)).sin()"))
    assert outcome.length == 2
    assert outcome.impl is not None and "fn_both" in outcome.impl


def test_every_output_is_found() -> None:
    """Two outputs, one of them an input as it is."""
    text = """
    inputs:
    - {name: E0, dtype: fp32, dims: [D, N], data_gen: torch.randn}
    fns:
    - {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
       func_name: fn_add}
    outputs:
    - {name: S0, dtype: fp32, dims: [N], data_transform: "input_data['E0'].sum(-1)"}
    - {name: S1, dtype: fp32, dims: [D, N], data_transform: "input_data['E0']"}
    """
    outcome = synthesize(task(text))
    assert outcome.impl == "E1 = step.Accum(fn=fn_add, b=1).apply(E0)\nreturn E1, E0\n"


def test_what_is_right_only_where_observed_is_refused() -> None:
    """At the sizes observed N is 4: a multiplication by 4 comes first there, and N_value is right everywhere."""
    fns = {"four": ("input[0] * 4", 1), "rows": ("input[0] * N_value", 1)}
    outcome = synthesize(of_scalars(fns, "input_data['E0'] * N_value"))
    assert outcome.refused == 1
    assert outcome.impl is not None and "fn_rows" in outcome.impl


def test_of_equal_streams_one_is_kept() -> None:
    """Whatever was made: no two streams of one type agree in value, but for inputs."""
    fns = {
        "square": ("input[0] ** 2", 1),
        "power": ("input[0] * input[0]", 1),
        "abs": ("input[0].abs()", 1),
        "plus": ("input[0] + input[1]", 2),
        "add": ("state[0] + input[0]", 0),
    }
    unsolvable = of_scalars(fns, "torch.sin(input_data['E0'])")
    with default_dtype(torch.float64):
        search = BidirectionalSearch(unsolvable, SearchBudget(seconds=600, candidates=1_000))
        assert search.run().reason == "candidates"
    for buckets in search._bottom_up.buckets.values():
        values = torch.cat([bucket.values for bucket in buckets.values()]) if buckets else torch.zeros(0, 1)
        for row, other in list(combinations(range(min(len(values), 60)), 2)):
            assert not bool(close(values[row : row + 1], values[other : other + 1]))


def test_the_same_candidates_give_the_same_result() -> None:
    """Solved or not, all but the times are equal, and no more candidates are tried than allowed."""
    given = load_task(DATA / "tasks" / "norm" / "1.yaml")
    outcomes = [
        replace(synthesize(given, SearchBudget(seconds=1200, candidates=5_000)), seconds=0.0, processor=0.0)
        for _ in range(2)
    ]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].reason == "candidates" and outcomes[0].candidates <= 5_000


@pytest.mark.parametrize(
    ("budget", "reason"), [(SearchBudget(seconds=0.01), "time"), (SearchBudget(numbers=2_000), "memory")]
)
def test_a_budget_ends_the_search(budget: SearchBudget, reason: str) -> None:
    """With no program, and with the bound that was met."""
    outcome = synthesize(load_task(DATA / "tasks" / "norm" / "1.yaml"), budget)
    assert (outcome.impl, outcome.reason) == (None, reason)


def test_a_search_with_nothing_left_to_try_says_so() -> None:
    """A task without functions whose output is no input has no program."""
    text = """
    inputs:
    - {name: E0, dtype: fp32, dims: [N], data_gen: torch.randn}
    outputs:
    - {name: S0, dtype: fp32, dims: [N], data_transform: "input_data['E0'] * 2"}
    """
    assert synthesize(task(text)).reason == "exhausted"


def test_a_function_that_fails_on_some_values_is_used_where_it_does_not() -> None:
    """It refuses negative numbers, which only the square is without."""
    strict = "torch.sqrt(input[0]) if float(input[0]) >= 0 else 1 / 0"
    fns = {"root": (strict, 1), "square": ("input[0] ** 2", 1), "negate": ("-input[0]", 1)}
    outcome = synthesize(of_scalars(fns, "-input_data['E0'].abs()"), SearchBudget(seconds=600, candidates=2_000))
    assert outcome.impl is not None
    assert outcome.length == 3


def test_going_backward_reaches_deeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """LayerNorm is found within so many candidates, and not bottom-up alone."""
    given, budget = load_task(DATA / "tasks" / "norm" / "0.yaml"), SearchBudget(seconds=1200, candidates=25_000)
    assert synthesize(given, budget).impl is not None
    monkeypatch.setattr(TopDown, "_push", lambda *args: None)
    assert synthesize(given, budget).reason == "candidates"
