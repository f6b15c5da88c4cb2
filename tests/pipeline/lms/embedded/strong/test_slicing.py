"""Pruning a draft: what the outputs do not need goes, but no function and no input does."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.lowering import lower
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.edge_model import EdgeModel
from pipeline.lms.embedded.strong.move_builder import MoveBuilder
from pipeline.lms.embedded.strong.reference_guide import ReferenceGuide
from pipeline.lms.embedded.strong.slicing import backward_slice
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task

_TASK = """
inputs:
- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.randn}
fns:
- {name: Exp, apply: 'return [torch.exp(input[0])]', input_dtype: fp32, output_dtype: fp32, func_name: fn_exp}
- {name: Log, apply: 'return [torch.log(input[0])]', input_dtype: fp32, output_dtype: fp32, func_name: fn_log}
outputs:
- {name: S0, dtype: fp32, dims: [M, N], data_transform: "torch.log(1 * torch.exp(torch.exp(input_data['E0'])))"}
"""


def drawn(names: list[str], sources: list[int]) -> tuple[TaskView, Draft, ReferenceGuide]:
    """The draft that maps these functions on these streams, with its guide."""
    view = TaskView(loads_task(_TASK))
    draft = Draft.start(view.table.inputs)
    guide = ReferenceGuide(view, view.interpretation, draft, view.callees, (), StepLimit(10**6))
    find_operands = MoveBuilder(view, EdgeModel(), SeededChoice(0, 1.0), StepLimit(10**6), read=True)
    for name, source in zip(names, sources, strict=True):
        callee = next(callee for callee in view.callees if callee.fn.label == name)
        operands = next(m for m in guide._operands(callee, source) if m.sources == (source,))
        move = find_operands.apply(draft, callee, operands)
        assert move is not None
        draft.add(move)
        draft.support.append(0.0)
        guide.advance()
    return view, draft, guide


def test_what_leads_nowhere_is_left_out() -> None:
    """A step beside the way goes, streams are renumbered, and the program is the way alone."""
    view, draft, guide = drawn(["fn_exp", "fn_exp", "fn_log", "fn_exp"], [0, 1, 2, 2])
    trail_reads = [stream for stream in range(len(draft.streams)) if guide.reads(stream, 0)]
    lean = backward_slice(view.table, draft, guide, {view.fns[0]})
    assert trail_reads == [1, 3]
    assert lean is not None and lean.read and len(lean.moves) == len(lean.support) == 1 and lean.results == (1,)
    program, _ = lower(view.table, lean, lambda: False)
    assert [node.op.name for node in program.nodes] == ["Map"]


def test_a_draft_that_would_lose_a_function_is_not_pruned() -> None:
    """The shortest way to what was read leaves a function out that is needed: then there is nothing to prune to."""
    view, draft, guide = drawn(["fn_exp", "fn_exp", "fn_log"], [0, 1, 2])
    assert backward_slice(view.table, draft, guide, set(view.fns)) is None


def test_a_draft_whose_output_is_not_there_is_not_pruned() -> None:
    """No stream holds what was read."""
    view, draft, guide = drawn(["fn_log"], [0])
    assert backward_slice(view.table, draft, guide, {view.fns[1]}) is None
