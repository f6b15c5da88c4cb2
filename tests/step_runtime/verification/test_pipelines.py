"""Large streams that only an Accum reads are computed in parts, with the same results in a fraction of the memory."""

from __future__ import annotations

import pytest
import torch

from step_runtime import verify
from step_runtime.execution.applier import Applier
from step_runtime.language.parser import parse
from step_runtime.verification import pipelines
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.simulate import simulate
from tests.support.small_tasks import of_scalars

FNS = {
    "f": ("torch.sin(input[0])", 1),
    "g": ("state[0] * 0.5 + input[0]", 0),
    "m": ("torch.exp(input[0] - input[1])", 2),
    "bad": ("input[0].item() / 0", 1),
}
TASK = of_scalars(FNS, "input_data['E0'].sum(1)", out="[N]")
PROGRAMS = {
    "a map": "a = step.Map(fn=fn_f).apply(step.Repeat(n=M).apply(E0))\nreturn step.Accum(fn=fn_g, b=2).apply(a)",
    "a chain": "a, b = step.Copy().apply(E0)\na = step.Map(fn=fn_f).apply(a)\na = step.Map(fn=fn_m).apply((a, b))\n"
    "return step.Accum(fn=fn_g, b=1).apply(a)",
}


def results(text: str) -> torch.Tensor:
    instance = TaskInstance(TASK, TASK.size_sets()[0])
    program, _ = parse(text, instance.scope)
    types, found = infer_types(program, instance.scope)
    assert not found
    (result,) = simulate(program, types, instance.sample_inputs(0), instance.sizes, Applier(torch.float64))
    return result[0]


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_parts_give_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their size, the last being smaller."""
    whole = results(text)
    assert whole.shape == (7,)
    for size in (1, 1000, 3000):
        for name in ("step_runtime.verification.pipelines.PART", "step_runtime.program.memory.PART"):
            monkeypatch.setattr(name, size)
        assert torch.allclose(results(text), whole)


def test_an_error_in_a_part_has_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Map's line, not the Accum's."""
    monkeypatch.setattr(pipelines, "PART", 1)
    text = "a = step.Map(fn=fn_bad).apply(E0)\nreturn step.Accum(fn=fn_g, b=1).apply(a)"
    (found,) = verify(TASK, text).diagnostics
    assert found.code == "task-function" and found.span is not None and found.span.line == 1
