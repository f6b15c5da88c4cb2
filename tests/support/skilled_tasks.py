"""A task with functions of the roles of a mined skill, and requests that show the skill."""

from __future__ import annotations

from functools import cache

from pipeline.agent.agent import proposer_instructions
from pipeline.agent.skills import mine
from pipeline.lms.embedded.prompt.parsing import SolvedExample, solved_examples
from pipeline.lms.embedded.retrieval.precedents import Precedents
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task
from tests.support.recurring import LONGER, PLAIN

TEXT = """
inputs: [{name: x, dtype: fp32, dims: [D, K, M], data_gen: torch.randn}]
fns:
- {name: Peak, apply: "return [torch.maximum(state[0], input[0])]", init: [-inf], input_dtype: fp32,
   output_dtype: fp32, func_name: fn_peak}
- {name: Gap, apply: "return [input[0] - input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32,
   func_name: fn_gap}
outputs: [{name: S0, dtype: fp32, dims: [D, K, M], data_transform: unreadable()}]
"""
VIEW = TaskView(loads_task(TEXT))


@cache
def shown(ir: bool = True) -> tuple[SolvedExample, ...]:
    """The examples of instructions with the skill that `PLAIN` and `LONGER` share."""
    patterns = [skill.as_pattern(1) for skill in mine([PLAIN, LONGER], 1)]
    return solved_examples(proposer_instructions(ir, "full", patterns))


def skilled() -> Precedents:
    """What the skill's example alone teaches about the task."""
    (example,) = (each for each in shown() if each.part)
    return Precedents(VIEW.task, VIEW.scope, [example])
