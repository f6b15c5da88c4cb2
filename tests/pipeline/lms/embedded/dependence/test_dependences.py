"""Programs that depend on the inputs as the reference does are recognized, by text alone and without names."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.lms.embedded.dependence.dependences import Dependences
from pipeline.lms.embedded.dependence.paths import EXP, SUM, product, tagged
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from tests.support.paths import PROJECT

TASK = """
global: |
  def scaled(a, b):
      return a @ b / D_value**0.5
inputs:
- {name: A, dtype: 'Buffer(fp32, [D])', dims: [N, H], data_gen: torch.randn}
- {name: B, dtype: 'Buffer(fp32, [D])', dims: [N, H], data_gen: torch.randn}
- {name: C, dtype: 'Buffer(fp32, [D])', dims: [N, H], data_gen: torch.randn}
fns:
- name: Fold
  apply: |
    a, b, c = input
    weight = torch.exp(scaled(a, b))
    return [state[0] + weight, state[1] + weight * c]
  init: [0, 0]
  input_dtype: ['Buffer(fp32, [D])', 'Buffer(fp32, [D])', 'Buffer(fp32, [D])']
  output_dtype: [fp32, 'Buffer(fp32, [D])']
  func_name: fn_fold
- name: Finish
  apply: |
    return [input[1] / input[0]]
  input_dtype: [fp32, 'Buffer(fp32, [D])']
  output_dtype: Buffer(fp32, [D])
  func_name: fn_finish
outputs:
- name: O
  dtype: Buffer(fp32, [D])
  dims: [H]
  data_transform:
  - |
    total, weights = 0, 0
    for t in range(N_value):
        weight = torch.exp(scaled(input_data['A'][:, t], input_data['B'][:, t]))
        total, weights = total + weight * input_data['C'][:, t], weights + weight
    total / weights
sizes: {N: [4, 5], D: [3, 2], H: [2, 3]}
"""


AVERAGE = """
global: |
  beta = 0.9
inputs:
- {name: A, dtype: fp32, dims: [N, H], data_gen: torch.randn}
- {name: B, dtype: fp32, dims: [N, H], data_gen: torch.randn}
fns:
- name: Average
  apply: |
    return [beta * input[0] + (1 - beta) * input[1]]
  input_dtype: [fp32, fp32]
  output_dtype: fp32
  func_name: fn_average
outputs:
- name: O
  dtype: fp32
  dims: [N, H]
  data_transform:
  - |
    torch.lerp(input_data['A'], input_data['B'], 1 - beta)
sizes: {N: [4, 5], H: [2, 3]}
"""


def similarity(text: str, order: tuple[int, int, int], finish: str = "fn_finish", fold: str = "fn_fold") -> float:
    """The similarity of Finish of a Fold of the inputs in some order."""
    task = loads_task(text, "task")
    fns = static_scope(task).fns
    found = Dependences(task, {})
    folded = found.applied(fns[fold], tuple(found.inputs[place][0] for place in order))
    return found.similarity([found.applied(fns[finish], folded)])


def test_the_right_order_of_operands_is_the_most_similar() -> None:
    """A loop in the reference, a helper in `global` and a state of two components are no obstacle."""
    assert similarity(TASK, (0, 1, 2)) == pytest.approx(1.0)
    assert all(similarity(TASK, order) < 0.9 for order in ((2, 1, 0), (0, 2, 1), (0, 0, 2)))


def test_names_do_not_matter() -> None:
    """Renamed inputs and functions have the same similarities."""
    renamed = TASK.replace("'A'", "'Q'").replace("name: A", "name: Q").replace("fn_fold", "fn_b").replace("scaled", "g")
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        assert similarity(renamed, order, fold="fn_b") == similarity(TASK, order)


def test_what_is_multiplied_first_does_not_matter_on_the_way() -> None:
    """Whether a value comes before the others of a product is a matter of writing, not of what is computed."""
    found = Dependences(loads_task(TASK, "task"), {})
    scaled = tagged(product(found.inputs[0][0], found.inputs[1][0]), SUM)
    assert found.passes((scaled,)) == 1.0
    assert found.passes((frozenset(path._replace(first=0) for path in scaled),)) == 1.0
    assert found.passes((frozenset(path._replace(partners=0) for path in scaled),)) == 0.0


def test_parts_of_a_product_resemble_it() -> None:
    """Products may be taken in another order, and summed up elsewhere; other operations count."""
    first, end = TASK.index("    total, weights"), TASK.index("sizes:")
    reference = (
        "    a, b, c = input_data['A'], input_data['B'], input_data['C']\n    (a * b * c + torch.exp(a)).sum(0)\n"
    )
    found = Dependences(loads_task(TASK[:first] + reference + TASK[end:], "task"), {})
    a, b, c = (flows[0] for flows in found.inputs)
    later = product(b, c)
    assert found.passes((product(a, b),)) == 1.0 > found.passes((later,))
    assert found.resembles((later,)) == found.resembles((tagged(later, SUM),)) == 1.0
    assert found.resembles((tagged(later, EXP), later)) == 0.5


def test_which_operand_a_constant_multiplies_tells_operands_apart() -> None:
    """A moving average takes its operands in one order only, although it adds both."""
    task = loads_task(AVERAGE, "task")
    found, fn = Dependences(task, {}), static_scope(task).fns["fn_average"]
    (old,), (new,) = found.inputs
    assert found.passes(found.applied(fn, (old, new))) == 1.0 > found.passes(found.applied(fn, (new, old)))
    assert found.similarity([found.applied(fn, (old, new))]) == 1.0 > found.similarity([found.applied(fn, (new, old))])


def test_a_wrong_step_does_not_fit() -> None:
    """What the reference never takes an exponential of must not get into one."""
    task = loads_task(TASK, "task")
    fold = static_scope(task).fns["fn_fold"]
    found = Dependences(task, {})
    a, b, c = (flows[0] for flows in found.inputs)
    assert found.fits(found.applied(fold, (a, b, c))) > found.fits(found.applied(fold, (a, c, b)))


def test_nothing_is_run(tmp_path: Path) -> None:
    """Code that would write a file is only read."""
    target = tmp_path / "written"
    code = f"open({str(target)!r}, 'w')"
    text = TASK.replace("    total, weights = 0, 0\n", f"    total, weights = 0, 0\n    {code}\n", 1)
    assert similarity(text.replace("    a, b, c = input\n", f"    {code}\n    a, b, c = input\n"), (0, 1, 2)) > 0.9
    assert not target.exists()


def test_values_on_the_way_are_known() -> None:
    """The reference computes both sums of the fold, but none with operands exchanged, and none of the second input."""
    task = loads_task(TASK, "task")
    fold = static_scope(task).fns["fn_fold"]
    found = Dependences(task, {})
    a, b, c = (flows[0] for flows in found.inputs)
    assert found.passes(found.applied(fold, (a, b, c))) == 1.0
    assert found.passes(found.applied(fold, (a, c, b))) == 0.0
    assert found.passes((a, found.applied(fold, (c, b, a))[1])) == 0.5


RUNNING = """
inputs:
- {name: A, dtype: fp32, dims: [N, H], data_gen: torch.randn}
fns:
- name: Fold
  apply: |
    top, total = state
    new = torch.maximum(top, input[0])
    return [new, total * torch.exp(top - new) + torch.exp(input[0] - new)]
  init: [-inf, 0]
  input_dtype: fp32
  output_dtype: [fp32, fp32]
  func_name: fn_fold
- name: Finish
  apply: |
    return [torch.relu(1 / input[1])]
  input_dtype: [fp32, fp32]
  output_dtype: fp32
  func_name: fn_finish
outputs:
- name: O
  dtype: fp32
  dims: [H]
  data_transform:
  - |
    a = input_data['A']
    torch.relu(1 / torch.exp(a - a.amax(1, keepdim=True)).sum(1))
sizes: {N: [4, 5], H: [2, 3]}
"""


def test_a_running_maximum_guards_an_exponential_beside_other_bounds() -> None:
    """A bound elsewhere in the reference does not make it one of the exponent: only the order of factors differs."""
    task = loads_task(RUNNING, "task")
    fns = static_scope(task).fns
    found = Dependences(task, {})
    folded = found.applied(fns["fn_fold"], found.inputs[0])
    assert found.fits(folded) == found.fits(found.applied(fns["fn_finish"], folded)) == pytest.approx(0.8)


def test_a_factor_that_only_one_side_has_is_none() -> None:
    """As a mask by position, where the reference knows no positions."""
    masked = TASK.replace("weight * c]", "weight * c * (torch.arange(D_value) >= 0)]")
    assert similarity(masked, (0, 1, 2)) == similarity(TASK, (0, 1, 2))


def test_a_function_that_counts_gives_positions_of_its_own() -> None:
    """What it gives is no data, whatever it is given."""
    task = loads_task((PROJECT / "data/tasks-modern/alibi_attention.yaml").read_text(), "task")
    scope = static_scope(task)
    found = Dependences(task, scope.sizes)
    counting = [name for name, fn in scope.fns.items() if found.counts(fn)]
    assert counting == ["fn_place"]
    (flow, *_) = found.applied(scope.fns["fn_place"], found.inputs[0])
    assert flow and not found.of_data(flow) and found.of_data(found.inputs[0][0])
