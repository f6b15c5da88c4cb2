"""Counts of truth values: equal functions of them are proved, whatever they are computed from, other ones never."""

import itertools
import random

import pytest
import torch

from step_runtime import Task, loads_task
from step_runtime.verification.exact.diagrams import Diagrams, Operation
from step_runtime.verification.exact.residues import CHANNELS, modulus_of_channels
from tests.step_runtime.verification.exact.test_proof import proved

ADMISSION = """
inputs: [{{name: E0, dtype: "Buffer(fp32, [N])", dims: [M, B], data_gen: torch.randn}}]
fns:
- {{name: Best, func_name: fn_best, apply: "x = input[0]; return [{best}]",
   input_dtype: "Buffer(fp32, [N])", output_dtype: "Multihot(fp32, N)"}}
- {{name: Admit, func_name: fn_admit, apply: "s, x = state[0], input[0]; return [{admit}]", init: [0, 0],
   input_dtype: "Multihot(fp32, N)", output_dtype: ["Buffer(fp32, [N])", "Multihot(fp32, N)"]}}
- {{name: Second, func_name: fn_second, apply: "return [input[1]]",
   input_dtype: ["Buffer(fp32, [N])", "Multihot(fp32, N)"], output_dtype: "Multihot(fp32, N)"}}
outputs:
- name: S0
  dtype: "Multihot(fp32, N)"
  dims: [M, B]
  data_transform:
  - |
    x = input_data['E0']
    hot = torch.nn.functional.one_hot(x.argmax(-1), N_value).to(x.dtype)
    {reference}
sizes: {{M: 7, B: 2, N: 3, C: 2}}
"""
PROGRAM = "return step.Map(fn=fn_second).apply(step.Scan(fn=fn_admit, b=1).apply(step.Map(fn=fn_best).apply(E0)))"
HOT = "torch.zeros_like(x).scatter(0, x.argmax().view(1), 1.0)"
BELOW = "s + x, x * (s < C_value)"
AMONG = "hot * (hot.cumsum(1) * hot <= C_value)"


def task_of(best: str = HOT, admit: str = BELOW, reference: str = AMONG) -> Task:
    return loads_task(ADMISSION.format(best=best, admit=admit, reference=reference), "admission")


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"best": "torch.nn.functional.one_hot(x.argmax(), N_value).to(x.dtype)"},
        {"best": HOT.replace("x.argmax", "torch.softmax(x, 0).argmax")},
        {"best": HOT.replace("x.argmax", "(x - x.amax()).argmax")},
        {"reference": "hot * (hot.cumsum(1) - hot < C_value)"},
        {"reference": "hot * (hot.cumsum(1) <= C_value)"},
        {"reference": "torch.where(hot.cumsum(1) > C_value, 0.0, hot)"},
        {"reference": "hot * ~((hot.cumsum(1) - hot).to(torch.int64) >= C_value)"},
        {"admit": "s + x * (s < C_value), x * (s < C_value)"},
        {"admit": "s + x, x * (1 - (s == C_value).to(x.dtype) - (s > C_value).to(x.dtype))"},
        {"admit": "s - x, x * (-s < C_value)"},
        {"admit": "s + x, (x.bool() & (2 * s <= 2 * C_value - 1)).to(x.dtype)"},
        {"admit": "s + x, x * (s < C_value - 0.3)"},
        {"admit": "s + x, x * (s * s < C_value)"},
        {"admit": "s + x, torch.clamp(C_value - s, 0, 1) * x"},
    ],
)
def test_forms_of_one_limit_are_proved(changed: dict[str, str]) -> None:
    """Places by scores of the same order, counts before and with a number, of those asked for and those admitted."""
    found = proved(task_of(**changed), PROGRAM)
    assert found.answer == "proved" and found.bits >= 60, found.reason
    assert "distinct" not in found.reason


@pytest.mark.parametrize(
    "changed",
    [
        {"best": HOT.replace("argmax", "argmin")},
        {"best": HOT.replace("x.argmax", "x.abs().argmax")},
        {"best": HOT.replace("x.argmax()", "(N_value - 1 - x.flip(0).argmax())")},
        {"best": "(x == x.amax()).to(x.dtype)"},
        {"admit": "s + x, x * (s <= C_value)"},
        {"admit": "s + x, x * (s + x < C_value)"},
        {"admit": "s + x, x * (s < C_value + 1e-3)"},
        {"admit": "s + x, x * (s.roll(1) < C_value)"},
        {"admit": "s + x, x * (s.sum() < C_value)"},
        {"admit": "s + 1 - x, x * (s < C_value)"},
        {"admit": "x, x * (s < C_value)"},
        {"admit": "torch.maximum(s, x), x * (s < C_value)"},
        {"admit": "s + x * (s < 1), x * (s < C_value)"},
        {"admit": "s + x, x * (s != C_value)"},
        {"admit": "s + x, x * (s * s <= C_value * C_value)"},
        {"admit": "s + x, x * (s < C_value) * (1 - 1e-7 * s)"},
        {"reference": "hot * (hot.flip(1).cumsum(1).flip(1) <= C_value)"},
        {"reference": "hot * (hot.cumsum(0) <= C_value)"},
        {"reference": "hot * (hot.flip(0).cumsum(1) <= C_value)"},
        {"reference": "hot * (hot.cumsum(1) * hot < C_value)"},
        {"reference": "hot * (hot.cumsum(1).cumsum(1) <= C_value)"},
        {"reference": "(hot.cumsum(1) <= C_value).to(x.dtype)"},
    ],
)
def test_other_limits_are_not_proved(changed: dict[str, str]) -> None:
    """One more or less, itself counted, other experts, rows and directions, ties, and a trace of the count."""
    assert proved(task_of(**changed), PROGRAM).answer != "proved"


SPLIT = """
inputs: [{{name: E0, dtype: fp32, dims: [M, B], data_gen: binary}}]
fns: [{{name: F, func_name: fn_f, apply: "x = input[0]; return [{apply}]", input_dtype: "Buffer(fp32, [M])",
   output_dtype: "Buffer(fp32, [M])"}}]
outputs: [{{name: S0, dtype: "Buffer(fp32, [M])", dims: [B], data_transform: ["{reference}.to(torch.float32)"]}}]
sizes: {{M: 6, B: 2}}
"""
ROWS = "return step.Map(fn=fn_f).apply(step.Bufferize(a=1).apply(E0))"
ADDRESS = "torch.where(x == 1, (1 - x).sum() + x.cumsum(0), (1 - x).cumsum(0)) - 1"
ORDER = "(torch.arange(M_value).unsqueeze(1) == {}).to(x.dtype) @ torch.arange(M_value).to(x.dtype)"


@pytest.mark.parametrize(
    ("apply", "reference", "right"),
    [
        (ORDER.format(f"({ADDRESS}).unsqueeze(0)"), "input_data['E0'].sort(dim=1, stable=True).indices", True),
        ("torch.arange(M_value) >= (1 - x).sum()", "input_data['E0'].sort(dim=1, stable=True).values", True),
        ("x.sum() > torch.arange(M_value)", "input_data['E0'].sort(dim=1, stable=True, descending=True).values", True),
        (
            "(x.argmax() == torch.arange(M_value)) & (x.sum() > 0)",
            "input_data['E0'] * (input_data['E0'].cumsum(1) == 1)",
            True,
        ),
        (
            "(x.sum() / 2).floor() + 0 * x",
            "((input_data['E0'].sum(1, keepdim=True) // 2) + 0 * input_data['E0'])",
            True,
        ),
        (
            ORDER.format(f"({ADDRESS}).unsqueeze(0)"),
            "input_data['E0'].sort(dim=1, stable=True, descending=True).indices",
            False,
        ),
        (ORDER.format(f"({ADDRESS}).unsqueeze(0)"), "input_data['E0'].flip(1).sort(dim=1, stable=True).indices", False),
        (ORDER.format(f"({ADDRESS}).unsqueeze(0)"), "input_data['E0'].sort(1).indices", False),
        ("torch.arange(M_value) > (1 - x).sum()", "input_data['E0'].sort(dim=1, stable=True).values", False),
        ("x.argmax() == torch.arange(M_value)", "input_data['E0'] * (input_data['E0'].cumsum(1) == 1)", False),
        (
            "(x.sum() / 2).ceil() + 0 * x",
            "((input_data['E0'].sum(1, keepdim=True) // 2) + 0 * input_data['E0'])",
            False,
        ),
        ("x * x[0]", "input_data['E0']", False),
    ],
)
def test_orders_of_bits(apply: str, reference: str, right: bool) -> None:
    """Addresses by counts are the places that a stable sort gives, and only those; torch leaves others open."""
    task = loads_task(SPLIT.format(apply=apply, reference=reference), "split")
    assert (proved(task, ROWS).answer == "proved") is right


OPERATIONS: tuple[Operation, ...] = ("+", "*", "max", ">", "==")


@pytest.mark.parametrize("seed", range(4))
def test_residues_of_a_function_are_those_of_its_multilinear_extension(seed: int) -> None:
    """Equal functions of truth values have one node, and its residues are the weighted sum over all outcomes."""
    choose, diagrams = random.Random(seed), Diagrams()
    points = torch.randint(0, 1 << 28, (CHANNELS, 4), generator=torch.Generator().manual_seed(seed))
    outcomes = list(itertools.product((0, 1), repeat=4))
    known: dict[tuple[int, ...], int | None] = {}
    for place in range(4):
        known[tuple(outcome[place] for outcome in outcomes)] = diagrams.atom(points[:, place], 1.0)
    for value in (-1, 0, 1, 2):
        known[(value,) * 16] = diagrams.number(value)
    for _ in range(60):
        operation = choose.choice(OPERATIONS)
        one, other = choose.choice([*known]), choose.choice([*known])
        apply = {
            "+": lambda a, b: a + b,
            "*": lambda a, b: a * b,
            "max": max,
            ">": lambda a, b: int(a > b),
            "==": lambda a, b: int(a == b),
        }[operation]
        table = tuple(apply(a, b) for a, b in zip(one, other, strict=True))
        node = diagrams.apply(operation, known[one], known[other])
        assert known.setdefault(table, node) == node
    nodes = [node for node in known.values() if node is not None]
    assert len({*nodes}) == len(known)
    for table, column in zip(known, diagrams.residues(nodes).unbind(1), strict=True):
        expected = torch.zeros(CHANNELS, dtype=torch.int64)
        for outcome, value in zip(outcomes, table, strict=True):
            weight = torch.ones_like(expected)
            for place, bit in enumerate(outcome):
                weight = (
                    weight
                    * ((points[:, place] if bit else 1 - points[:, place]) % modulus_of_channels())
                    % modulus_of_channels()
                )
            expected = (expected + weight * (value % modulus_of_channels())) % modulus_of_channels()
        assert torch.equal(column, expected)


def test_functions_that_are_too_large_are_not_followed() -> None:
    """Of too many truth values there is none, and others stay as they are."""
    diagrams = Diagrams()
    total = diagrams.number(0)
    for place in range(65):
        before = total
        found = diagrams.apply("+", total, diagrams.atom(torch.full((CHANNELS,), place + 2), 1.0))
        total = -1 if found is None else found
    assert total == -1 and diagrams.ends(before) == (0, 64)
