"""Recorded solutions are simpler than the answers, pass all that these passed, and fall where none of these does."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from optimizers import Entry, HeldOutVerdict, TokenCount
from optimizers.domain import Claims
from pipeline.rewriting.simplification import code_lines
from pipeline.running.simplifying import simplified_solutions
from pipeline.verification.metric import Metric
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task
from step_runtime.verification.held_out import HeldOutTask
from step_runtime.verification.verify import verify
from tests.support.paths import PROJECT

GEMM = loads_task((PROJECT / "data/tasks/gemm/0.yaml").read_text(), "gemm/0")
LONG = """\
E2 = step.Streamify().apply(step.Bufferize(a=1).apply(E0))
E3 = step.Bufferize(a=1).apply(E1)
E4 = step.Repeat(n=M).apply(E3)
E5 = step.Map(fn=fn_mul).apply((E2, step.Streamify().apply(E4)))
return step.Accum(fn=fn_add, b=1).apply(E5)
"""

SCALED = loads_task(
    """
inputs: [{name: X, dtype: fp32, dims: [N], data_gen: torch.randn}]
fns:
- {name: Scale, apply: 'return [input[0] * 1.000000001]', input_dtype: fp32, output_dtype: fp32, func_name: fn_scale}
outputs: [{name: Y, dtype: fp32, dims: [N], data_transform: "input_data['X'] * 1.000000001"}]
sizes: {N: [4, 7]}
""",
    "scaled",
)
SHORT = """\
E2 = step.Bufferize(a=1).apply(E1)
E3 = step.Repeat(n=M).apply(E2)
E4 = step.Streamify().apply(E3)
E5 = step.Map(fn=fn_mul).apply((E0, E4))
E6 = step.Accum(fn=fn_add, b=1).apply(E5)
return E6
"""


def entry(task: Task, impl: str) -> Entry:
    return Entry(str(task.name), {"task": task}, {"impl": impl}, 1, 2, 0.7, 0, 0.7, 0, TokenCount())


def here() -> Metric:
    return Metric(ThreadPoolExecutor(1))


def test_solutions_are_simpler_and_pass() -> None:
    """With the types of streams as comments; the entry holds the answer."""
    solved = entry(GEMM, LONG)
    (text,) = simplified_solutions([solved], here(), None, None, 2).values()
    assert verify(GEMM, text).passed and code_lines(text) <= code_lines(LONG)
    assert text.count("Bufferize") == 1 and "# fp32" in text
    assert solved.outputs["impl"] == LONG


def test_no_text_costs_more_than_the_answer() -> None:
    """Where a run has an objective: the same graph stays, only its text is another."""
    asked: list[str] = []

    def fewest_buffers(example: Any, outputs: Mapping[str, Any]) -> float:
        asked.append(outputs["impl"])
        return -asked[-1].count("Bufferize")

    (text,) = simplified_solutions([entry(GEMM, LONG)], here(), fewest_buffers, None, 2).values()
    assert text.count("Bufferize") == LONG.count("Bufferize") and "# fp32" in text
    assert any(shorter.count("Bufferize") == 1 for shorter in asked)


def test_a_solution_that_cannot_be_simplified_stays(caplog: pytest.LogCaptureFixture) -> None:
    """A verifier that fails, and a text that is as simple as can be, keep the answers; others go on."""

    class Losing(Metric):
        def verdict(self, task: Any, text: str) -> Any:
            if task.name == "lost":
                raise OSError("the worker is lost")
            return super().verdict(task, text)

    metric = Losing(ThreadPoolExecutor(1))
    found = simplified_solutions([entry(GEMM.named("lost"), LONG), entry(GEMM, LONG)], metric, None, None, 2)
    assert list(found) == ["gemm/0"]
    assert caplog.messages == ["lost: the sampled solution is recorded: the worker is lost"]
    assert simplified_solutions([entry(GEMM, found["gemm/0"])], here(), None, None, 2) == {}


class Judge:
    """Judges programs here; `texts` are those that it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, solutions: Claims, refused: Claims) -> list[HeldOutVerdict]:
        self.texts += [str(outputs["impl"]) for _, outputs in refused]
        found = [HeldOutTask(one.task, 0).judge(str(outputs["impl"])) for one, outputs in refused]
        return [HeldOutVerdict("passed" if each.passed else "failed", each.reason) for each in found]


def test_a_simpler_text_that_falls_on_held_out_data_is_not_recorded(caplog: pytest.LogCaptureFixture) -> None:
    """Tolerances let a factor near 1 be left out. Only texts of other graphs than passing answers are judged."""
    passed = HeldOutVerdict("passed")
    scaled = replace(entry(SCALED, "return step.Map(fn=fn_scale).apply(X)"), held_out=passed)
    same = replace(entry(GEMM, SHORT), held_out=passed)
    fallen = replace(entry(GEMM.named("fallen"), LONG), held_out=HeldOutVerdict("failed"))
    metric = here()
    (text,) = simplified_solutions([scaled], metric, None, None, 1).values()
    assert "fn_scale" not in text
    judge = Judge()
    found = simplified_solutions([scaled, same, fallen], metric, None, judge, 1)
    assert [*found] == ["gemm/0", "fallen"] and judge.texts == [text]
    assert "scaled: the sampled solution is recorded: simpler, its verdict on held-out" in caplog.text
