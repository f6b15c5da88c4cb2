"""A task as a proposal sees it: functions as callees, and what may be routed."""

from __future__ import annotations

from collections import Counter

from pipeline.lms.embedded.code_features import crosses, sizes_in
from pipeline.lms.embedded.task_view import TaskView, view_of
from step_runtime.base.types import StreamType
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import dump_task
from tests.support.habitual_tasks import BLOCKS
from tests.support.samples import general, general_scope


def test_functions_are_callees_and_experts_a_routing() -> None:
    """As many functions of one signature as the index has bits, folded by a function that takes their results."""
    view = TaskView(general())
    assert [callee.fn.label for callee in view.callees] == list(general_scope().fns)
    routed = [[fn.label for fn in routing.branches] for routing in view.routings]
    assert ["fn_a", "fn_b", "fn_c"] in routed
    assert all(len(names) == 3 or len(names) == 2 for names in routed)
    assert {routing.merge.label for routing in view.routings} == {"fn_sum"}
    assert all(routing.bits == 3 for routing in view.routings)


def test_functions_that_a_routing_takes_are_not_applied_alone() -> None:
    """The routing is a callee in their place."""
    view = TaskView(general())
    (experts,) = [r for r in view.routings if [fn.label for fn in r.branches] == ["fn_a", "fn_b", "fn_c"]]
    given = view.callees_given([experts])
    alone = {callee.fn.label for callee, routing in given if routing is None}
    assert alone.isdisjoint({"fn_a", "fn_b", "fn_c", "fn_sum"}) and "fn_square" in alone
    assert [routing for _, routing in given if routing is not None] == [experts]
    assert view.routing_callees[id(experts)].routed


def test_a_view_is_shared_by_the_samples_of_one_text() -> None:
    """A text without a task has none."""
    text = dump_task(general())
    assert view_of(text) is not None and view_of(text) is view_of(text)
    assert view_of("no task at all") is None


def test_streams_that_are_not_inputs_agree_with_everything() -> None:
    """Nothing is read of what a program makes itself."""
    view = TaskView(general())
    assert view.agrees(view.fns[0], 0, len(view.table.inputs))


def test_pairs_of_one_value_and_sorting_cross() -> None:
    """A value that is spread along two dims meets itself; two values that are spread do not."""
    assert crosses("x.unsqueeze(1) - x.unsqueeze(2)") and crosses("p.sort(-1).values") and crosses("x @ x.T")
    assert not crosses("x.unsqueeze(1) - y.unsqueeze(2)") and not crosses("x * x")


def test_sizes_are_read_from_code() -> None:
    """Only names of sizes count."""
    assert sizes_in("return [input[0] / (M_value * N_value)]") == {"M", "N"}
    assert sizes_in("return [input[0] / value]") == frozenset()


EQUAL = """
inputs:
- {name: x, dtype: fp32, dims: [M, N], data_gen: torch.randn}
fns:
- name: Moments
  apply: return [state[0] + 1, state[1] + input[0], state[2] + input[0] ** 2]
  init: [0, 0, 0]
  input_dtype: fp32
  output_dtype: [fp32, fp32, fp32]
  func_name: fn_moments
- {name: Spread, apply: "return [input[2] / input[0]]", input_dtype: [fp32, fp32, fp32], output_dtype: fp32,
   func_name: fn_spread}
- {name: Lerp, apply: "return [input[0] + input[3]]", input_dtype: [fp32, fp32, fp32, fp32], output_dtype: fp32,
   func_name: fn_lerp}
outputs:
- {name: O, dtype: fp32, dims: [M, N], data_transform: "input_data['x']"}
sizes: {M: 3}
"""


def test_a_tuple_of_equal_components_is_meant_for_the_function_that_takes_just_it() -> None:
    """Another one may take its components by chance, but lacks no tuple: single elements serve it as well."""
    view = TaskView(loads_task(EQUAL))
    moments, spread, lerp = view.callees
    made = view.table.intern(StreamType(moments.fn.output, view.scope.outputs[0].shape))
    assert view.diverts(lerp, made) and not view.diverts(spread, made)
    assert view.shortage(frozenset({lerp.fn}), Counter()) == 0
    assert view.shortage(frozenset({spread.fn}), Counter()) == 1


def test_what_merges_is_applied_alone_where_nothing_else_folds() -> None:
    """With one bit, elements pass one function or none; the sum of what passed is then summed over a dim."""
    view = TaskView(loads_task(BLOCKS))
    assert [(routing.bits, len(routing.branches)) for routing in view.routings] == [(1, 1)]
    given = view.callees_given(view.routings)
    assert [(callee.fn.label, routing is None) for callee, routing in given] == [("fn_sum", True), ("fn_sum", False)]
