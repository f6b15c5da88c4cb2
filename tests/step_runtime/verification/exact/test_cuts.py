"""Cut points in exact arithmetic: long recurrences and deep functions are proved, wrong ones never."""

from textwrap import indent

import pytest

from step_runtime import Task, Verifier, loads_task
from step_runtime.language.parser import read
from step_runtime.tasks.reader import read_task_file
from step_runtime.verification.exact.proof import ExactVerdict, Prover
from step_runtime.verification.exact.value import Unknown
from tests.support.paths import PROJECT

STEPS = 8
RECURRENCE = """
inputs: [{{name: x, dtype: "Buffer(fp32, [D])", dims: [T, B], data_gen: torch.randn}}]
parameters: [{{name: W, dtype: fp32, dims: [D, D], data_gen: torch.randn}}]
fns:
- {{name: Step, func_name: fn_step, init: [0], input_dtype: "Buffer(fp32, [D])", output_dtype: "Buffer(fp32, [D])",
   apply: "{step}"}}
outputs:
- name: y
  dtype: "Buffer(fp32, [D])"
  dims: [T, B]
  data_transform:
  - |
    w, h, rows = input_data['W'], torch.zeros(B_value, D_value), []
    for t in range(T_value):
        x = input_data['x'][:, t]
{loop}
        rows.append(h)
    torch.stack(rows, 1)
sizes: {{T: {steps}, B: 2, D: 3}}
"""
SCAN = "return step.Scan(fn=fn_step, b=1).apply(x)"
Z = "state[0] @ input_data['W'] + input[0]"
TANH, GATE, FRACTION = (
    f"return [2 * torch.sigmoid(2 * ({Z})) - 1]",
    f"return [input[0] + torch.sigmoid({Z}) * (state[0] - input[0])]",
    "return [input[0] / (1 + state[0] ** 2)]",
)


def recurrence(step: str, loop: str, steps: int) -> Task:
    return loads_task(RECURRENCE.format(step=step, loop=indent(loop, " " * 8), steps=steps), "recurrence")


def kalman(steps: int, old: str = "", new: str = "") -> tuple[Task, str]:
    """The Kalman filter with a change to its functions, at small sizes, and its program."""
    text = read_task_file(PROJECT / "data/tasks-field/kalman_filter.yaml").inlined
    sizes = "sizes: {T: [6, 5], B: [4, 3], K: [3, 2]}"
    assert old in text and sizes in text
    text = text.replace(sizes, f"sizes: {{T: {steps}, B: 2, K: 2}}")
    program = (PROJECT / "data/oracles-field/kalman_filter.step").read_text()
    return loads_task(text.replace(old, new), "kalman_filter"), program


def compared(task: Task, text: str) -> tuple[ExactVerdict, list[int]]:
    """The answer, whatever the float verdict is, and the bits with all cuts of states, and of all functions."""
    verifier = Verifier(task)
    instance = verifier._instances[0]
    checked = verifier._check(read(text, verifier.limits), instance)
    assert not isinstance(checked, list)
    prover, bits = Prover(instance), []
    for every in (False, True):
        try:
            bits.append(prover._cut(checked.program, checked.types, "gathered", 0, every=every))
        except Unknown:
            bits.append(0)
    return prover.prove(checked.program, checked.types), bits


@pytest.mark.parametrize(
    ("step", "loop"),
    [
        (TANH, "h = torch.tanh(h @ w + x)"),
        (GATE, "z = torch.sigmoid(h @ w + x)\nh = (1 - z) * x + z * h"),
        (FRACTION, "h = x / (h * h + 1)"),
    ],
)
def test_recurrences_of_many_steps_are_proved(step: str, loop: str) -> None:
    """Degrees that double with each step, and exponentials of exponentials."""
    found, _ = compared(recurrence(step, loop, 24), SCAN)
    assert found.answer == "proved", found.reason
    assert found.bits >= 60


@pytest.mark.parametrize(
    ("step", "loop"),
    [
        (TANH, f"h = torch.tanh(h @ w + x)\nif t == {STEPS - 1}: h = h * 1.001"),
        (TANH, f"h = torch.tanh(h @ w + x + (h if t == {STEPS - 1} else 0))"),
        (TANH, "h = torch.tanh((h @ w if t != 1 else h @ w.T) + x)"),
        (GATE, "z = torch.sigmoid(h @ w + x)\nh = (1 - z) * h + z * x"),
        (GATE, "z = torch.sigmoid(h @ w + x)\nlast = x if t == 0 else last\nh = (1 - z) * last + z * h\nlast = x"),
        (FRACTION, "h = x / (h * h + (1 if t < 6 else 1.001))"),
        (FRACTION, "h = x / (h * h.flip(-1) + 1)"),
    ],
)
def test_recurrences_that_differ_at_one_step_are_never_proved(step: str, loop: str) -> None:
    """At the last one, from the second one on, by the number of the step before; even where all states are cut."""
    found, bits = compared(recurrence(step, loop, STEPS), SCAN)
    assert found.answer != "proved"
    assert not any(bits)


def test_chains_of_functions_are_cut_between_them() -> None:
    """A deep network without a fold."""
    step = "return [2 * torch.sigmoid(2 * (input[0] @ input_data['W'])) - 1]"
    text = RECURRENCE.format(
        step=step, loop=indent("for _ in range(8):\n    x = torch.tanh(x @ w)\nh = x", " " * 8), steps=2
    )
    task = loads_task(text.replace("init: [0], ", ""), "chain")
    layer = "x = step.Map(fn=fn_step).apply(x)\n"
    assert compared(task, f"{layer * 8}return x")[0].answer == "proved"
    for layers in (7, 9):
        found, bits = compared(task, f"{layer * layers}return x")
        assert found.answer != "proved"
        assert not any(bits)


def test_the_kalman_filter_is_proved() -> None:
    """Joseph's form of the covariance's update, and the short one."""
    found, (of_states, _) = compared(*kalman(5))
    assert found.answer == "proved", found.reason
    assert of_states >= 60


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("z - h @ mean,", "z - h @ state[0],"),
        ("f @ state[1] @ f.T", "f.T @ state[1] @ f"),
        ("cov - torch.outer(gain, h @ cov)", "cov - torch.outer(gain, h @ state[1])"),
        ("gain = seen * (cov @ h) / spread", "gain = (cov @ h) / spread"),
        ("mean + gain * surprise, cov", "mean + seen * (state[1] @ h) / spread * surprise, cov"),
    ],
)
def test_wrong_filters_are_never_proved(old: str, new: str) -> None:
    """Some differ from the second step on only: surprise, covariance, and the gain of the step before."""
    found, bits = compared(*kalman(3, old, new))
    assert found.answer != "proved"
    assert not any(bits)
