"""Sines and cosines in exact arithmetic: sums of angles, periods, parts of a turn and complex numbers."""

from __future__ import annotations

import re

import pytest

from step_runtime import Task, loads_task
from step_runtime.tasks.reader import read_task_file
from tests.step_runtime.verification.exact.test_proof import DATA, MAP, answers, proved, task_of

RIGHT = [
    ("cos(x + 1 / x)", "cos(x) * cos(1 / x) - sin(x) * sin(1 / x)"),
    ("cos(2 * x)", "2 * cos(x) ** 2 - 1"),
    ("sin(3 * x)", "3 * sin(x) - 4 * sin(x) ** 3"),
    ("cos(x) ** 2 + sin(x) ** 2", "x * 0 + 1"),
    ("cos(x + 2 * pi)", "cos(x)"),
    ("cos(x + pi)", "-cos(x)"),
    ("cos(x + pi / 2)", "-sin(x)"),
    ("cos(pi / 2 - x)", "sin(x)"),
    ("cos(x + pi / 4)", "(cos(x) - sin(x)) / 2 ** 0.5"),
    ("sin(x + pi / 3)", "sin(x) / 2 + cos(x) * 3 ** 0.5 / 2"),
    ("cos(2 * pi * (x + 0.25))", "-sin(x * pi * 2)"),
    ("cos(pi / 180 * x * 2)", "cos(x / 90 * pi)"),
    ("exp(cos(2 * x))", "exp(cos(x) ** 2 - sin(x) ** 2)"),
    ("exp2(x) * sqrt(x) * cos(2 * x)", "sqrt(x) * exp2(x) * (2 * cos(x) ** 2 - 1)"),
    ("exp(complex(x, 2 * x)).real", "exp(x) * cos(2 * x)"),
    ("(exp(1j * x) * exp(2j * x) * complex(x, 1 - x)).imag", "x * sin(3 * x) + (1 - x) * cos(3 * x)"),
    ("(1 / complex(cos(x), sin(x))).imag", "-sin(x)"),
    ("(polar(x, x) / polar(x, 2 * x)).conj().imag", "sin(x)"),
    ("(complex(x, x) ** 2).imag", "2 * x * x"),
    ("where(x > 0, complex(1 / x, x), 0.0).imag", "relu(x)"),
    ("(exp(1j * stack([x, 2 * x, 3 * x])).view(1, 3) @ exp(-1j * stack([x, x, x]).view(3, 1))).real.sum()",
     "1 + cos(x) + cos(2 * x)"),
]  # fmt: skip
WRONG = [
    ("cos(x + 1 / x)", "cos(x) * cos(1 / x) + sin(x) * sin(1 / x)"),
    ("sin(x + 1 / x)", "sin(x) * cos(1 / x) - cos(x) * sin(1 / x)"),
    ("sin(x + 1 / x)", "cos(x) * cos(1 / x) + sin(x) * sin(1 / x)"),
    ("cos(2 * x)", "2 * sin(x) ** 2 - 1"),
    ("cos(x) ** 2 - sin(x) ** 2", "x * 0 + 1"),
    ("cos(x + pi)", "cos(x)"),
    ("cos(x + 2 * pi)", "-cos(x)"),
    ("cos(x + pi / 2)", "sin(x)"),
    ("cos(x + pi / 4)", "-(cos(x) - sin(x)) / 2 ** 0.5"),
    ("cos(x + pi / 4)", "(cos(x) + sin(x)) / 2 ** 0.5"),
    ("sin(x + pi / 3)", "sin(x) / 2 - cos(x) * 3 ** 0.5 / 2"),
    ("cos(2 * pi * (x + 0.25))", "sin(x * pi * 2)"),
    ("cos(2 * pi * x)", "x * 0 + 1"),
    ("cos(pi * remainder(x, 1.0))", "cos(pi * x)"),
    ("cos(remainder(x, 3 * pi))", "cos(x)"),
    ("cos(remainder(x, 6.2831853))", "cos(x)"),
    ("cos(2 * pi * remainder(x, 1.0) / 3)", "cos(2 * pi * x / 3)"),
    ("cos(2 * pi * remainder(x, 1.0) * x)", "cos(2 * pi * x * x)"),
    ("cos(pi * round(x))", "x * 0 + 1"),
    ("exp(2 * pi * remainder(x, 1.0))", "exp(2 * pi * x)"),
    ("erf(remainder(x, 2 * pi))", "erf(x)"),
    ("remainder(remainder(x, 1.0) + 1 / x, 2.0)", "remainder(x + 1 / x, 2.0)"),
    ("fmod(fmod(x, 1.0) + 1 / x, 1.0)", "fmod(x + 1 / x, 1.0)"),
    ("cos(where(x > 0, x, x + pi))", "cos(x)"),
    ("sqrt(cos(x) ** 2)", "cos(x)"),
    ("exp(complex(x, 2 * x)).real", "exp(x) * sin(2 * x)"),
    ("(exp(1j * x) * exp(-2j * x)).imag", "sin(x)"),
    ("(1 / complex(cos(x), sin(x))).imag", "sin(x)"),
    ("polar(x, x).conj().imag", "x * sin(x)"),
    ("exp(1j * x).real", "exp(x)"),
    ("cat([complex(x, x).view(1), x.view(1)]).imag.sum()", "2 * x"),
    # Multiples of the primes of residues.
    ("1427025599.0 * x", "x * 0"),
    ("exp(713512799.0 * x)", "x * 0 + 1"),
    ("cos(88520857.0 * x)", "x * 0 + 1"),
]


def task(form: str, other: str) -> Task:
    """A function, and a reference, each given as a formula of `x`."""
    sides = (re.sub(r"(?<![\w.])([a-z]\w+)(?=[ (/)*]|$)", r"torch.\1", each) for each in (form, other))
    one, two = (re.sub(r"\bx\b", x, side) for x, side in zip(("input[0]", "input_data['E0']"), sides, strict=True))
    return task_of(f"return [{one}]", two, "torch.rand")


@pytest.mark.parametrize(("form", "other"), RIGHT)
def test_laws_of_angles_are_proved(form: str, other: str) -> None:
    """Sums, whole turns and parts of them, in real and complex forms."""
    found = proved(task(form, other), MAP)
    assert found.answer == "proved", found.reason


@pytest.mark.parametrize(("form", "other"), WRONG)
def test_wrong_laws_of_angles_are_not_proved(form: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By residues alone, without a look at numbers."""
    monkeypatch.setattr("step_runtime.verification.exact.proof.defined", lambda *_: True)
    found = proved(task(form, other), MAP)
    assert found.answer != "proved" and "not followed" not in found.reason


@pytest.mark.parametrize(
    ("name", "part", "other"),
    [
        ("s5_irregular", "size * torch.sin(angle)]", "-size * torch.sin(angle)]"),
        ("s5_irregular", "angle = input_data['freq'] * input[0]", "angle = input_data['freq'] * input[0] + torch.pi"),
        ("s5_irregular", "norm = lr**2 + li**2", "norm = torch.ones_like(lr)"),
        ("s5_irregular", "(ar - 1) * lr + ai", "(ar + 1) * lr + ai"),
    ],
)
def test_a_wrong_angle_in_a_program_is_never_proved(
    name: str, part: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another sign, period, phase or discretization in a function of a task, by residues alone."""
    monkeypatch.setattr("step_runtime.verification.exact.proof.defined", lambda *_: True)
    text = read_task_file(DATA / f"tasks-field/{name}.yaml").inlined
    assert text.count(part) == 1
    program = (DATA / f"oracles-field/{name}.step").read_text()
    assert "proved" not in answers(loads_task(text.replace(part, other), name), program)
    assert set(answers(loads_task(text, name), program)) == {"proved"}
