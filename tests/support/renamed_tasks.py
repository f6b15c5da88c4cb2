"""A task under two sets of names, and what is learned of one for the other."""

from __future__ import annotations

from pipeline.lms.embedded.lowering import lower
from pipeline.lms.embedded.prompt.parsing import SolvedExample
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.draft_search import DraftSearch, LearnedEdges
from pipeline.lms.embedded.strong.strong_proposer import learned_for
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.base.types import StreamType
from step_runtime.program.graph import Program
from step_runtime.tasks.reader import loads_task

RUNNING = """
inputs:
- {{name: {input}, dtype: fp32, dims: [M, N], data_gen: torch.randn}}
fns:
- name: Add
  apply: return [state[0] + input[0]]
  init: [0]
  input_dtype: fp32
  output_dtype: fp32
  func_name: {fn}
- {{name: Half, apply: "return [input[0] / 2]", input_dtype: fp32, output_dtype: fp32, func_name: fn_half}}
outputs:
- {{name: S0, dtype: fp32, dims: [M, N], data_transform: unreadable()}}
"""


SCANNED = "E1 = step.Map(fn=fn_half).apply(E0)\nreturn step.Scan(fn=fn_add, b=1).apply(E1)"
REDUCED = "E1 = step.Accum(fn=fn_add, b=1).apply(step.Map(fn=fn_half).apply(E0))\nreturn step.Repeat(n=M).apply(E1)"
VIEW = TaskView(loads_task(RUNNING.format(input="x", fn="fn_collect")))


def demo(program: str, times: int = 1) -> tuple[SolvedExample, ...]:
    return tuple(SolvedExample(loads_task(RUNNING.format(input="E0", fn="fn_add")), program) for _ in range(times))


def taught(examples: tuple[SolvedExample, ...], demonstrations: tuple[SolvedExample, ...]) -> LearnedEdges:
    """What is learned for the same kind of task under other names."""
    return learned_for(VIEW, (examples, demonstrations))


def drafts(learned: LearnedEdges, count: int = 60) -> list[tuple[Program, list[StreamType], TaskView]]:
    """Drafts for that task."""
    view, found = VIEW, []
    for seed in range(count):
        draft = DraftSearch(view, learned, SeededChoice(seed, 1.0), StepLimit(10**6)).sample()
        if draft is not None:
            found.append((*lower(view.table, draft, lambda: False), view))
    return found


def names(program: Program) -> list[str]:
    return [node.op.name for node in program.nodes]


def scans(learned: LearnedEdges) -> float:
    programs = [program for program, _, _ in drafts(learned)]
    return sum("Scan" in names(program) for program in programs) / len(programs)
