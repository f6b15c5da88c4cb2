"""An LM that answers by script, and a task with a right program, one that reuses a stream, and wrong ones."""

from collections.abc import Callable
from typing import Any

import dspy
from dspy import lm15

from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task
from tests.support.scripted_program import respond

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


class Engine:
    """Gives each request's answer by a function of it, or the same to all, and keeps the requests."""

    def __init__(self, answer: str | Callable[[lm15.Request], str]) -> None:
        self.answer = answer
        self.requests: list[lm15.Request] = []

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.requests.append(request)
        text = self.answer if isinstance(self.answer, str) else self.answer(request)
        return respond(request, text, lm15.Usage(input_tokens=1, output_tokens=1))

    def __deepcopy__(self, memo: dict[int, Any]) -> "Engine":
        return self

    @property
    def texts(self) -> list[str]:
        """All that the LM was told, a text a request."""
        return ["\n".join([str(r.system), *(m.text or "" for m in r.messages)]) for r in self.requests]


def scripted(answer: str | Callable[[lm15.Request], str]) -> tuple[dspy.LM, Engine]:
    """An LM, and the engine behind it."""
    engine = Engine(answer)
    return dspy.LM("scripted", engine=engine, cache=False), engine


def asks_guardian(request: lm15.Request) -> bool:
    """Whether a request is one to the guardian."""
    return "[[ ## input_impl ## ]]" in (request.messages[-1].text or "")
