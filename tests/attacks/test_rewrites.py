"""What is offered and saved has passed everything that its original passed, stress inputs included.

A rewrite that leaves out what keeps a softmax finite, or merges folds whose function is associative on most numbers
only, is never taken; each has a control that is.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from optimizers import Entry, TokenCount
from pipeline.actions.generate_programs import Found, Solutions
from pipeline.actions.price_program import Optimized, optimize
from pipeline.optimize import as_json
from pipeline.running.simplifying import simplified_solutions
from pipeline.verification.metric import Metric
from step_runtime.tasks.reader import loads_task, read_task
from step_runtime.tasks.task import Task
from tests.support.paths import PROJECT

TASKS = ("softmax", "log_softmax")


def task(name: str) -> Task:
    return read_task(PROJECT / f"data/tasks-extra/{name}.yaml")


def stable(name: str) -> str:
    """A program that takes the largest number off first."""
    return (PROJECT / f"data/oracles-extra/{name}.step").read_text()


@pytest.mark.parametrize("objective", ["correctness", "operations"])
@pytest.mark.parametrize("name", TASKS)
def test_a_maximum_that_is_taken_off_stays(name: str, objective: str) -> None:
    """In what `generate` offers: it does not overflow where the answer does not."""
    solutions = Solutions(objective, Metric(ThreadPoolExecutor(1)))  # type: ignore[arg-type]
    assert solutions.metric.findings(task(name), stable(name)) == ()
    assert solutions.of(task(name), Found(stable(name), "embedded", "answer 1")).findings == ()


def test_what_is_recorded_as_a_solution_is_no_worse() -> None:
    """The answer itself, if no simpler text is; the control, which overflows anyway, may be simplified."""
    metric = Metric(ThreadPoolExecutor(1))
    draft = stable("softmax")
    entry = Entry("softmax", {"task": task("softmax")}, {"impl": draft}, 1, 1, 0.7, 0, 0.7, 0, TokenCount())
    (text,) = simplified_solutions([entry], metric, None, None, 1).values() or [draft]
    assert metric.findings(task("softmax"), text) == ()


FOLD = """
inputs: [{{name: E0, dtype: fp32, dims: [M, N], data_gen: torch.rand}}]
fns:
- {{name: Fold, apply: "{apply}", init: [0], input_dtype: fp32, output_dtype: fp32, func_name: fold}}
outputs:
- name: S0
  dtype: fp32
  dims: [1]
  data_transform:
  - |
    def step(state, x):
        input, state = [x], [state]
        {apply}
    rows = []
    for row in input_data['E0']:
        s = torch.zeros(())
        for x in row:
            s = torch.as_tensor(step(s, x)[0])
        rows.append(s)
    s = torch.zeros(())
    for x in rows:
        s = torch.as_tensor(step(s, x)[0])
    s.reshape(1)
"""
IN_TURN = """\
E1 = step.Promote(b=2).apply(E0)
E2 = step.Accum(fn=fold, b=1).apply(E1)
return step.Accum(fn=fold, b=1).apply(E2)
"""
LEFT = {
    "one that resets beyond a bound": "return [torch.where(state[0] + input[0] > 50, 0.0, state[0] + input[0])]",
    "one that saturates": "return [torch.clamp(state[0] + input[0], max=100)]",
    "one that resets at an element": "return [torch.where(input[0].abs() > 50, input[0], state[0] + input[0])]",
    "one that tells a proof from a run": (
        "return [torch.clamp(state[0] + input[0], max=100) if type(input[0]) is torch.Tensor else state[0] + input[0]]"
    ),
}


@pytest.mark.parametrize("attack", LEFT)
def test_folds_that_are_not_proved_are_not_merged(attack: str) -> None:
    """However the numbers sampled come out; the command says which folds it left, and why."""
    found = optimize(loads_task(FOLD.format(apply=LEFT[attack]), "t"), IN_TURN, "operations")
    assert isinstance(found, Optimized)
    assert not {"merge folds", "split a fold"}.intersection(found.best.rewrites)
    assert list(found.left) == ["fold"] == list(as_json(found)["left"])


def test_control_a_sum_is_merged() -> None:
    """Nothing is left."""
    given = loads_task(FOLD.format(apply="return [state[0] + input[0]]"), "t")
    found = optimize(given, IN_TURN, "memory")
    assert isinstance(found, Optimized)
    assert (found.left, "merge folds" in found.best.rewrites) == ({}, True)
