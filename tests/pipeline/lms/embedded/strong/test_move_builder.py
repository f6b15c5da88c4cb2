"""Functions on their operands become moves whose types are right."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.move_builder import MoveBuilder, _best
from pipeline.lms.embedded.strong.move_scores import FITTED
from pipeline.lms.embedded.strong.strong_proposer import learned_for
from pipeline.lms.embedded.strong.ways import Way
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.type_table import FoldSpec
from step_runtime.tasks.reader import loads_task
from tests.support.habitual_tasks import VIEW as FOLDED_VIEW
from tests.support.habitual_tasks import folded, taught
from tests.support.samples import general

VIEW = TaskView(general())


def callee(name: str) -> Callee:
    return next(callee for callee in VIEW.callees if callee.fn.label == name)


def builder(sharpness: float = 1.0) -> MoveBuilder:
    edges = learned_for(VIEW, ((), ())).edge_model
    return MoveBuilder(VIEW, edges, SeededChoice(0, sharpness), StepLimit(10**6), read=False)


def start() -> Draft:
    return Draft.start(VIEW.table.inputs)


def test_a_map_keeps_the_shape_at_which_its_operands_meet() -> None:
    """The cheapest way is the most likely."""
    move = builder(1e6).apply(start(), callee("fn_square"), Operands((0,), (1,)))
    assert move is not None and move.fold is None and not move.coercions[0].ops
    assert str(VIEW.table.types[move.result]) == "fp32 [M, N]"


def test_a_fold_scans_or_not_as_decided() -> None:
    """A Scan keeps every dim, an Accum the outer ones."""
    for scan in (True, False):
        move = builder().apply(start(), callee("fn_sum"), Operands((0,), (1,)), scan)
        assert move is not None and move.fold is not None and move.fold.scan is scan
        assert move.fold.b >= 1 and VIEW.table.types[move.result].dtype == callee("fn_sum").fn.output


def test_a_routing_takes_its_branches_in_the_order_given() -> None:
    """Its last source is the index."""
    routing = next(r for r in VIEW.routings if [fn.label for fn in r.branches] == ["fn_a", "fn_b", "fn_c"])
    branches = routing.orders()[-1]
    move = builder().route(start(), routing, Operands((3, 2), (1, 1)), branches)
    assert move is not None and (move.fns, move.routing) == (branches, routing)
    assert VIEW.table.types[move.result].dtype == routing.merge.output


def test_a_fold_is_as_deep_as_in_a_solved_task() -> None:
    """A running fold of one dim or of two: types allow either."""
    depths = []
    for shown in (1, 2):
        habits = taught(FOLDED_VIEW, folded(shown)).habits
        edges = learned_for(FOLDED_VIEW, ((), ())).edge_model
        made = [
            MoveBuilder(FOLDED_VIEW, edges, SeededChoice(seed, 1.0), StepLimit(10**6), read=False, habits=habits).apply(
                Draft.start(FOLDED_VIEW.table.inputs), FOLDED_VIEW.callees[0], Operands((0,), (1,)), True
            )
            for seed in range(40)
        ]
        depths.append(sum(move.fold.b == shown for move in made if move is not None and move.fold is not None))
    assert min(depths) > 30


BATCHED = """
inputs:
- {name: x, dtype: fp32, dims: [M, N], data_gen: torch.randn}
fns:
- {name: Add, apply: "return [state[0] + input[0] ** 2]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}
- {name: Div, apply: "return [input[0] / input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32, func_name: fn_div}
outputs:
- name: O
  dtype: fp32
  dims: [M, N]
  data_transform: input_data['x'] / input_data['x'].square().sum(WHERE)
"""


def test_the_batch_is_folded_where_the_outputs_mix_it() -> None:
    """The outermost dim of all streams is not a batch if an element depends on several of its positions."""
    scores = []
    for where in ("-1, keepdim=True", ""):
        view = TaskView(loads_task(BATCHED.replace("WHERE", where)))
        edges = learned_for(view, ((), ())).edge_model
        made = MoveBuilder(view, edges, SeededChoice(0, 1.0), StepLimit(10**6), read=False)
        ways = made.variants(view.table.inputs, view.callees[0], Operands((0,), (1,)))
        scores.append(next(score for move, score in ways if move.fold == FoldSpec(False, 2, move.fold.inner, True)))  # type: ignore[union-attr]
    assert scores[1] > scores[0] + 1


def test_all_ways_to_apply_a_function_are_scored() -> None:
    """Folds come with and without a Scan; the reference has no order here, so that scanning scores less."""
    ways = builder().variants(start().streams, callee("fn_sum"), Operands((0,), (1,)))
    scans = {move.fold.scan for move, _ in ways if move.fold is not None}
    assert scans == {True, False}
    best = max(ways, key=lambda pair: pair[1])[0]
    assert best.fold is not None and not best.fold.scan


def test_ways_that_are_much_worse_than_the_best_are_left_out() -> None:
    """Those that are a little worse are kept, best first."""
    way = Way((), 0)
    assert [score for _, score in _best([(way, -9.0), (way, 1.0), (way, -4.0)])] == [1.0, -4.0]
    assert _best([]) == []


PAIRED = """
inputs:
- {name: x, dtype: 'Buffer(fp32, [N])', dims: [B], data_gen: torch.randn}
fns:
- {name: Weigh, apply: "return [input[0] * input[1]]", input_dtype: [fp32, 'Buffer(fp32, [N])'],
   output_dtype: 'Buffer(fp32, [N])', func_name: fn_weigh}
- {name: Times, apply: "return [input[0] * input[1]]", input_dtype: ['Buffer(fp32, [N])', 'Buffer(fp32, [N])'],
   output_dtype: 'Buffer(fp32, [N])', func_name: fn_times}
outputs:
- {name: o, dtype: 'Buffer(fp32, [N])', dims: [N, B],
   data_transform: ["x = input_data['x']\\nx[:, :, None] * x[:, None]"]}
sizes: {N: [4, 5], B: [2, 3]}
"""


def test_a_buffer_meets_its_own_elements() -> None:
    """Taken once whole and once cut, it does not meet itself element by element."""
    view = TaskView(loads_task(PAIRED, "task"))
    made = MoveBuilder(
        view, learned_for(view, ((), ())).edge_model, SeededChoice(0, 1.0), StepLimit(10**6), read=True, scores=FITTED
    )
    weigh, times = (made.variants(view.table.inputs, each, Operands((0, 0), (1, 1))) for each in view.callees)
    move, score = weigh[0]
    assert str(view.table.types[move.result]) == "Buffer(fp32, [N]) [N, B]" and score > FITTED.invented + FITTED.alone
    alone = [score for move, score in times if move.coercions[0] == move.coercions[1]]
    assert alone and max(alone) < FITTED.alone / 2


RELAXED = """
inputs:
- {name: tail, dtype: 'Multihot(fp32, N)', dims: [M]}
- {name: weight, dtype: fp32, dims: [M], data_gen: torch.rand}
- {name: source, dtype: 'Multihot(fp32, N)', dims: [B]}
fns:
- name: Relax
  func_name: fn_relax
  input_dtype: ['Multihot(fp32, N)', 'Multihot(fp32, N)', fp32]
  output_dtype: Buffer(fp32, [N])
  init: [0]
  apply: return [torch.maximum(state[0], input[0] + input[1] * input[2])]
outputs:
- name: o
  dtype: Buffer(fp32, [N])
  dims: [B]
  data_transform: |
    o = input_data['source']
    for k in range(N_value):
        o = torch.maximum(o, o @ input_data['tail'].T @ (input_data['tail'] * input_data['weight'].unsqueeze(1)))
    o
sizes: {N: [4, 5], M: [6, 7], B: [2, 3]}
"""


def test_what_is_folded_in_each_step_of_a_loop_is_repeated_for_all_its_operands_at_once() -> None:
    """A list is folded in each of N rounds, for each source; nothing keeps the states between rounds."""
    view = TaskView(loads_task(RELAXED, "task"))
    made = MoveBuilder(
        view, learned_for(view, ((), ())).edge_model, SeededChoice(0, 1.0), StepLimit(10**6), read=True, scores=FITTED
    )
    ways = made.variants(view.table.inputs, view.callees[0], Operands((2, 0, 1), (1, 1, 1)))
    m, n = view.scope.dims["M"], view.scope.dims["N"]
    folds = [move.fold for move, _ in ways if move.fold is not None]
    assert FoldSpec(False, 2, (m, n), False) in folds
    assert not any(fold.scan and n in fold.inner for fold in folds)
