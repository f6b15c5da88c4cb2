"""A task with a right program, one that reuses a stream, and wrong ones."""

from dspy import lm15

from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task

TASK = """
inputs:
  - {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.rand}
fns:
  - {name: Mul, apply: "return [input[0] * input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32,
     func_name: fn_mul}
outputs:
  - name: S0
    dtype: fp32
    dims: [M, N]
    data_transform:
      - |
        input_data['E0'] ** 2
"""
RIGHT = "E1, E2 = step.Copy().apply(E0)\nE3 = step.Map(fn=fn_mul).apply((E1, E2))\nreturn E3"
REUSING = "E1 = step.Map(fn=fn_mul).apply((E0, E0))\nreturn E1"
WRONG = "E1, E2 = step.Copy().apply(E0)\nE3, E4 = step.Copy().apply(E1)\nreturn E3"
ILL_TYPED = "E1 = step.Map(fn=fn_mul).apply(E0)\nreturn E1"
BROKEN = "E1 = step.Map(fn=fn_mul"


def task(name: str = "square/0", impl: str | None = None) -> Task:
    """Squares: one input, and a product of two."""
    return loads_task(TASK, name).model_copy(update={"impl": impl}).named(name)


def asks_guardian(request: lm15.Request) -> bool:
    """Whether a request is one to the guardian."""
    return "[[ ## input_impl ## ]]" in (request.messages[-1].text or "")
