"""Streams of tuples are made again at larger shapes, where structural primitives can't repeat them."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Move
from pipeline.lms.embedded.lowering import lower, tidy
from pipeline.lms.embedded.operands import Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.beam_search import BeamSearch
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.strong.lifting import Lifting
from pipeline.lms.embedded.strong.operand_beam import OperandBeam
from pipeline.lms.embedded.strong.outlook import Outlook
from pipeline.lms.embedded.strong.search_style import SearchStyle
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.strong.strong_proposer import learned_for
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import Coercion
from step_runtime.base.types import StreamType
from step_runtime.program.printer import print_program
from step_runtime.tasks.reader import loads_task
from step_runtime.verification.verify import Verifier

PAIRS = """
inputs:
- {name: x, dtype: fp32, dims: [N, B], data_gen: torch.randn}
- {name: y, dtype: fp32, dims: [M, B], data_gen: torch.randn}
fns:
- {name: Place, apply: "return [state[0] + 1, input[0]]", init: [-1, 0], input_dtype: fp32,
   output_dtype: [fp32, fp32], func_name: fn_place}
- {name: Twice, apply: "return [input[0], 2 * input[1]]", input_dtype: [fp32, fp32],
   output_dtype: [fp32, fp32], func_name: fn_twice}
- {name: Near, apply: "i, a, j, b = input; return [torch.where(j > i, 0.0, a * b)]",
   input_dtype: [fp32, fp32, fp32, fp32], output_dtype: fp32, func_name: fn_near}
- {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}
outputs:
- name: O
  dtype: fp32
  dims: [N, B]
  data_transform: |
    x, y = input_data['x'], input_data['y']
    pairs = 2 * x.unsqueeze(2) * y.unsqueeze(1)
    pairs.masked_fill(torch.arange(M_value) > torch.arange(N_value).unsqueeze(1), 0.0).sum(-1)
sizes: {N: [4, 3], M: [3, 5], B: [2, 3]}
"""
"""Each element of one stream meets those of another that do not come later; both are numbered in tuples."""
BEFORE = """
inputs:
- {name: x, dtype: fp32, dims: [N, B], data_gen: torch.randn}
fns:
- {name: Place, apply: "return [state[0] + 1, input[0]]", init: [-1, 0], input_dtype: fp32,
   output_dtype: [fp32, fp32], func_name: fn_place}
- {name: Before, apply: "i, a, j, b = input; return [torch.where((b > a) | ((b == a) & (j < i)), 1.0, 0.0)]",
   input_dtype: [fp32, fp32, fp32, fp32], output_dtype: fp32, func_name: fn_before}
- {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}
outputs:
- name: O
  dtype: fp32
  dims: [N, B]
  data_transform: |
    order = input_data['x'].sort(dim=-1, descending=True, stable=True).indices
    order.argsort(dim=-1).float()
sizes: {N: [4, 5], B: [2, 3]}
"""
"""Each element of a stream meets all the others: the stream of tuples must meet itself."""
SWAPPED = BEFORE.replace(
    "- {name: Before",
    """- {name: Swap, apply: "return [input[1], input[0]]", input_dtype: [fp32, fp32], output_dtype: [fp32, fp32],
   func_name: fn_swap}
- {name: Before""",
)


class Bench:
    """A pool and its lifting, with `place` applied to all inputs at their own shapes."""

    def __init__(self, text: str) -> None:
        self.view = TaskView(loads_task(text))
        self.table = self.view.table
        steps = StepLimit(10**7)
        dims = DimGuide(self.view.influence, steps)
        self.pool = StreamPool(self.table, self.view.dependences, dims, steps, 1.0)
        beam = OperandBeam(self.view, self.pool, Outlook(self.view, self.view.callees), steps, SearchStyle())
        self.lifting = Lifting(self.view, self.pool, beam.serving, steps)
        self.callees = {callee.fn.label: callee for callee in self.view.callees}
        fn = self.callees["fn_place"].fn
        self.placed = []
        for source, type_ in enumerate(self.table.inputs):
            result = self.table.intern(StreamType(fn.output, self.table.types[type_].shape))
            fold = next(fold for fold in self.table.folds(self.table.types[type_].shape) if fold.scan and fold.b == 1)
            move = Move((fn,), (source,), (Coercion((), 0.0),), result, fold)
            self.placed.append(self.pool.add(move, 0.0))

    def shape(self, stream: int) -> str:
        return str(self.table.types[self.pool.type_of(stream)])


def test_a_tuple_is_made_where_it_meets_another() -> None:
    """No dim can be inserted outside those of a tuple, so its maker folds what is repeated before."""
    bench = Bench(PAIRS)
    x, y = bench.placed
    found = [*bench.lifting.choices(bench.callees["fn_near"], Operands((x, y), (2, 2)), joined=False)]
    assert {bench.shape(lifted.made[-1]) for lifted in found} == {"[fp32, fp32] [M, N, B]", "[fp32, fp32] [N, M, B]"}
    for lifted in found:
        (old,), (new,) = lifted.replaced, lifted.made
        assert old in (x, y) and new in lifted.operands.sources and lifted.score < 0
        assert len(bench.pool.move(new).coercions[0].repeats) == 1 and bench.pool.move(new).fold.b == 1  # type: ignore[union-attr]
        served = bench.callees["fn_near"].operand_types((2, 2))
        types = [bench.pool.type_of(source) for source in lifted.operands.sources]
        assert bench.table.joins(types, served, bench.callees["fn_near"].number)


def test_what_a_tuple_is_made_of_is_made_again_as_well() -> None:
    """Up to the streams that can be repeated."""
    bench = Bench(PAIRS)
    x, y = bench.placed
    fn = bench.callees["fn_twice"].fn
    type_ = bench.pool.type_of(y)
    twice = bench.pool.add(Move((fn,), (y,), (Coercion((), 0.0),), type_), 0.0)
    found = [*bench.lifting.choices(bench.callees["fn_near"], Operands((x, twice), (2, 2)), joined=False)]
    made = max((lifted.made for lifted in found), key=len)
    assert [next(bench.pool.move(stream).functions()).label for stream in made] == ["fn_place", "fn_twice"]
    assert {bench.shape(stream) for stream in made} == {"[fp32, fp32] [M, N, B]"}


def test_a_tuple_meets_itself_along_a_dim_that_the_outputs_mix() -> None:
    """Either of the two may be the one of which all elements meet each element of the other; not along the batch."""
    bench = Bench(BEFORE)
    (x,) = bench.placed
    found = [*bench.lifting.choices(bench.callees["fn_before"], Operands((x, x), (2, 2)), joined=True)]
    (new,) = {lifted.made[-1] for lifted in found}
    assert bench.shape(new) == "[fp32, fp32] [N, N, B]"
    assert {lifted.operands.sources for lifted in found} == {(new, x), (x, new)}


def test_what_meets_itself_is_made_of_what_is_made_again() -> None:
    """It varies along the inner one of two like dims, as all that it is made of."""
    bench = Bench(SWAPPED)
    (x,) = bench.placed
    (fn, type_) = bench.callees["fn_swap"].fn, bench.pool.type_of(x)
    swapped = bench.pool.add(Move((fn,), (x,), (Coercion((), 0.0),), type_), 0.0)
    found = [*bench.lifting.choices(bench.callees["fn_before"], Operands((x, swapped), (2, 2)), joined=True)]
    made = max((lifted.made for lifted in found), key=len)
    assert [bench.shape(stream) for stream in made] == ["[fp32, fp32] [N, N, B]"] * 2
    assert bench.pool.move(made[1]).sources == made[:1] and not bench.pool.move(made[1]).coercions[0].ops


def test_inputs_and_streams_without_tuples_stay() -> None:
    """Those are repeated by structural primitives, or not at all."""
    bench = Bench(PAIRS)
    choices = bench.lifting.choices(bench.callees["fn_near"], Operands((0, 0, 1, 1), (1, 1, 1, 1)), joined=True)
    assert [*choices] == []


def test_a_beam_search_lets_a_tuple_meet_itself() -> None:
    """The right program scans twice; which of the two is compared with the other is a matter of chance."""
    view = TaskView(loads_task(BEFORE))
    edges = learned_for(view, ((), ())).edge_model
    search = BeamSearch(view, edges, SeededChoice(0, 1.0), StepLimit(10**6), ())
    search.run()
    best = sorted(search.finished, key=lambda draft: 60 * draft.similarity + draft.worth)[-4:]
    programs = [print_program(tidy(lower(view.table, draft, lambda: False)[0])) for draft in best]
    assert any(Verifier(view.task).verify(program).passed for program in programs)
