"""Synthesis holds these.

- What it gives passes the verifier; what only looks right on the data observed is refused, and the search goes on.
- Of streams of one type and value it keeps one.
- The same candidates give the same result, and no budget is overdrawn.
- A function that fails on some values costs those values alone.
"""

import pytest

from pipeline.synthesis import SearchBudget, synthesize
from step_runtime import verify
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


def test_every_element_of_a_stream_meets_all_others() -> None:
    """For each number the sum of those above it: a stream joins itself, repeated inside and outside its elements."""
    text = """
    inputs:
    - {name: E0, dtype: fp32, dims: [D, N], data_gen: torch.randn}
    fns:
    - {name: Above, apply: "return [torch.relu(input[0] - input[1])]", input_dtype: [fp32, fp32], output_dtype: fp32,
       func_name: fn_above}
    - {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
       func_name: fn_add}
    outputs:
    - name: S0
      dtype: fp32
      dims: [D, N]
      data_transform: "torch.relu(input_data['E0'].unsqueeze(-2) - input_data['E0'].unsqueeze(-1)).sum(-1)"
    sizes: {D: [4, 5], N: [3, 2]}
    """
    outcome = synthesize(task(text), SearchBudget(seconds=1200, candidates=20_000))
    assert outcome.impl is not None and outcome.impl.count("Repeat") == 2


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


def test_a_search_with_nothing_left_to_try_says_so() -> None:
    """A task without functions whose output is no input has no program."""
    text = """
    inputs:
    - {name: E0, dtype: fp32, dims: [N], data_gen: torch.randn}
    outputs:
    - {name: S0, dtype: fp32, dims: [N], data_transform: "input_data['E0'] * 2"}
    """
    assert synthesize(task(text)).reason == "exhausted"


def test_a_search_goes_on_past_its_first_program() -> None:
    """To a sum before the products, which has fewer operations than one after; all programs pass."""
    text = """
    inputs:
    - {name: E0, dtype: fp32, dims: [D, N], data_gen: torch.randn}
    fns:
    - {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
       func_name: fn_add}
    - {name: Half, apply: "return [input[0] * 0.5]", input_dtype: fp32, output_dtype: fp32, func_name: fn_half}
    outputs:
    - {name: S0, dtype: fp32, dims: [N], data_transform: "input_data['E0'].sum(-1) * 0.5"}
    """
    one, several = synthesize(task(text)), synthesize(task(text), SearchBudget(candidates=300, programs=8))
    assert one.programs == (one.impl,)
    assert several.impl == one.impl and several.candidates > one.candidates
    assert any(text.index("fn_add") < text.index("fn_half") for text in several.programs)
    assert all(verify(task(text), impl).passed for impl in several.programs)
