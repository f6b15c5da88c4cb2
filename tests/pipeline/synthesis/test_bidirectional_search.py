"""Synthesis holds these.

- What it gives passes the verifier; what only looks right on the data observed is refused, and the search goes on.
- Of streams of one type and value it keeps one.
- The same candidates give the same result, and no budget is overdrawn.
- A function that fails on some values costs those values alone.
"""

import pytest

from pipeline.synthesis import SearchBudget, synthesize
from step_runtime import verify
from step_runtime.language.parser import parse
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import check_affine
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


def test_a_stream_that_is_used_twice_is_made_once_and_copied() -> None:
    """x² + x of x = 3·E0: the tripled stream has one node."""
    fns = {"triple": ("3 * input[0]", 1), "square": ("input[0] ** 2", 1), "plus": ("input[0] + input[1]", 2)}
    given = of_scalars(fns, "9 * input_data['E0'] ** 2 + 3 * input_data['E0']")
    outcome = synthesize(given, SearchBudget(seconds=600, candidates=20_000))
    assert outcome.impl is not None and outcome.length == 3
    program, found = parse(outcome.impl, static_scope(given))
    assert not found and not check_affine(program)
    names = [node.op.name for node in program.nodes]
    assert outcome.impl.count("fn_triple") == 1 and names.count("Copy") == 1


def test_a_function_that_fails_on_some_values_is_used_where_it_does_not() -> None:
    """It refuses negative numbers, which only the square is without."""
    strict = "torch.sqrt(input[0]) if float(input[0]) >= 0 else 1 / 0"
    fns = {"root": (strict, 1), "square": ("input[0] ** 2", 1), "negate": ("-input[0]", 1)}
    outcome = synthesize(of_scalars(fns, "-input_data['E0'].abs()"), SearchBudget(seconds=600, candidates=2_000))
    assert outcome.impl is not None
    assert outcome.length == 3


RAMP = """
inputs:
- {name: slope, dtype: fp32, dims: [M], data_gen: torch.rand}
- {name: signal, dtype: fp32, dims: [N, M], data_gen: torch.rand}
fns:
- name: Add
  apply: "return [state[0] + input[0]]"
  init: [0]
  input_dtype: fp32
  output_dtype: fp32
  func_name: fn_add
- name: Mix
  apply: "return [input[0] * torch.cos(input[1])]"
  input_dtype: [fp32, fp32]
  output_dtype: fp32
  func_name: fn_mix
outputs:
- name: mixed
  dtype: fp32
  dims: [N, M]
  data_transform:
  - |
    torch.cos(input_data['slope'].unsqueeze(1) * torch.arange(1, N_value + 1)) * input_data['signal']
"""


def test_a_fold_may_repeat_its_operand() -> None:
    """A phase accumulator: one number for each stream, added up along a dim that the stream lacks."""
    ramp = loads_task(RAMP, "ramp")
    found = synthesize(ramp, SearchBudget(candidates=2_000))
    assert found.impl and "step.Scan" in found.impl and "step.Repeat(n=N)" in found.impl
