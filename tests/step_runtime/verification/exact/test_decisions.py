"""Proofs where data decide: a program is proved if it decides by equal values, and whatever the outcomes are."""

from collections.abc import Sequence

import pytest
import torch

from step_runtime import Task, loads_task
from step_runtime.verification.exact.decisions import Cover, Decisions, mask_tensor
from step_runtime.verification.exact.value import Unknown
from tests.step_runtime.verification.exact.test_proof import MAP, proved
from tests.step_runtime.verification.exact.test_proof import task_of as scalars

ROWS = """
inputs: [{{name: E0, dtype: "Buffer(fp32, [N])", dims: [M], data_gen: torch.randn}}]
parameters:
- {{name: W, dtype: fp32, dims: [N, N], data_gen: torch.randn}}
- {{name: b, dtype: fp32, dims: [N], data_gen: torch.randn}}
fns:
- {{name: F, func_name: fn_f, apply: "x, W, b = input[0], input_data['W'], input_data['b']; {apply}",
   input_dtype: "Buffer(fp32, [N])", output_dtype: "Buffer(fp32, [N])"}}
outputs:
- name: S0
  dtype: "Buffer(fp32, [N])"
  dims: [M]
  data_transform: ["x, W, b = input_data['E0'], input_data['W'], input_data['b']\\n{reference}"]
sizes: {{M: [2, 3], N: 4}}
"""
TOP = "torch.zeros_like(x).scatter(-1, x.topk(2, -1).indices, 1.0) * x"
SCORED = "torch.zeros_like(x).scatter(-1, (x @ W.T).topk(2, -1).indices, 1.0) * x"
GATES = (
    "t = torch.softmax(x, -1).topk(2, -1); "
    "torch.zeros_like(x).scatter(-1, t.indices, t.values / t.values.sum(-1, keepdim=True))"
)
RELU = "torch.zeros_like(x).scatter(-1, torch.relu(x).topk(2, -1).indices, 1.0)"
FIRST = "torch.nn.functional.one_hot(x.argmax(-1), N_value).to(x.dtype)"


def task_of(apply: str, reference: str) -> Task:
    return loads_task(ROWS.format(apply=apply, reference=reference.replace("; ", "\\n")), "rows")


@pytest.mark.parametrize(
    ("apply", "reference"),
    [
        ("return [torch.zeros_like(x).scatter(0, x.sort(descending=True).indices[:2], 1.0) * x]", TOP),
        ("t = x.topk(2); return [torch.zeros_like(x).scatter(0, t.indices, t.values)]", TOP),
        ("return [torch.nn.functional.one_hot(x.topk(2).indices, N_value).sum(0) * x]", TOP),
        (
            "s = torch.softmax(x, 0); m = torch.zeros_like(x).scatter(0, s.topk(2).indices, 1.0) * s; "
            "return [m / m.sum()]",
            GATES,
        ),
        (
            "s = torch.exp(x - x.amax()); s = s / s.sum(); "
            "m = torch.zeros_like(x).scatter(0, s.topk(2).indices, 1.0) * s; return [m / m.sum()]",
            GATES,
        ),
    ],
)
def test_forms_of_one_choice_are_proved(apply: str, reference: str) -> None:
    """Masks and places, where the numbers that are ranked are distinct."""
    found = proved(task_of(apply, reference), MAP)
    assert found.answer == "proved" and found.bits >= 60, found.reason
    assert "where a row is ranked, its numbers are distinct" in found.reason


HALVES = "x.topk(2).indices; m = torch.zeros_like(x).scatter(0, t, 1.0) * x; "


@pytest.mark.parametrize(
    ("apply", "reference"),
    [
        ("return [torch.zeros_like(x).scatter(0, (-x).topk(2).indices, 1.0) * x]", TOP),
        ("return [torch.zeros_like(x).scatter(0, x.abs().topk(2).indices, 1.0) * x]", TOP),
        ("return [torch.zeros_like(x).scatter(0, (x + b).topk(2).indices, 1.0) * x]", TOP),
        ("return [torch.zeros_like(x).scatter(0, x.topk(3).indices, 1.0) * x]", TOP),
        ("return [torch.zeros_like(x).scatter(0, x.sort().indices[1:3], 1.0) * x]", TOP),
        ("return [torch.zeros_like(x).scatter(0, x.topk(2).indices, 1.0000001) * x]", TOP),
        ("return [torch.zeros_like(x).scatter(0, (x.topk(2).indices + 1) % N_value, 1.0) * x]", TOP),
        ("return [torch.where(x > x.topk(2).values[1], x, 0.0)]", TOP),
        ("return [torch.where(x >= x.topk(2).values[1] - 1e-7, x, 0.0)]", TOP),
        ("return [torch.where((x.unsqueeze(0) > x.unsqueeze(1)).to(x.dtype).sum(1) <= 2, x, 0.0)]", TOP),
        ("t = x.topk(2); return [torch.zeros_like(x).scatter(0, t.indices, t.values.flip(0))]", TOP),
        (f"t = {HALVES}return [torch.where((t[0] == 3) & (t[1] == 2), m * 2, m)]", TOP),
        (f"t = {HALVES}return [torch.where(t[0] == 0, m + 1e-6, m)]", TOP),
        ("return [torch.zeros_like(x).scatter(0, (W.T @ x).topk(2).indices, 1.0) * x]", SCORED),
        ("return [torch.zeros_like(x).scatter(0, (W @ x + b * 1e-7).topk(2).indices, 1.0) * x]", SCORED),
        ("s = W @ x; return [torch.zeros_like(x).scatter(0, s.topk(2).indices, 1.0) * s]", SCORED),
        (
            "s = torch.softmax(x, 0); m = torch.zeros_like(x).scatter(0, s.topk(2).indices, 1.0) * s; "
            "return [m / (m.sum() + 1e-20)]",
            GATES,
        ),
        ("y = torch.relu(x); return [(y >= y.topk(2).values[1]).to(x.dtype)]", RELU),
        ("return [torch.nn.functional.one_hot(N_value - 1 - x.flip(0).argmax(), N_value).to(x.dtype)]", FIRST),
        ("return [(x == x.amax()).to(x.dtype)]", FIRST),
        ("return [torch.zeros_like(x).scatter(0, x.topk(1).indices, 1.0)]", FIRST),
    ],
)
def test_other_choices_are_not_proved(apply: str, reference: str) -> None:
    """Other scores, ranks, ends and ties, and what differs for some of the outcomes only."""
    assert proved(task_of(apply, reference), MAP).answer != "proved"


@pytest.mark.parametrize(
    ("test", "right"),
    [
        ("x > 2 * torch.exp(x)", True),
        ("2 * torch.exp(x) < x", True),
        ("x >= 2 * torch.exp(x)", False),
        ("x < 2 * torch.exp(x)", False),
        ("x * x > 2 * torch.exp(x) * x", False),
        ("-x > -2 * torch.exp(x)", False),
        ("x > 2.0000001 * torch.exp(x)", False),
    ],
)
def test_a_positive_factor_keeps_the_sign(test: str, right: bool) -> None:
    """Both sides then decide by one number; other factors, and ties, are told apart."""
    apply = f"x = input[0]; return [torch.where({test}, x, x * 2)]"
    reference = (
        "torch.where(input_data['E0'] / torch.exp(input_data['E0']) > 2, input_data['E0'], input_data['E0'] * 2)"
    )
    assert (proved(scalars(apply, reference), MAP).answer == "proved") is right


LENGTHS = """
inputs:
- {{name: E0, dtype: "Buffer(fp32, [N])", dims: [M], data_gen: torch.randn}}
- {{name: L0, dtype: fp32, dims: [M], data_gen: "{data}"}}
fns:
- {{name: F, func_name: fn_f, apply: "x, n = input; places = torch.arange(N_value); return [{apply}]",
   input_dtype: ["Buffer(fp32, [N])", fp32], output_dtype: fp32}}
outputs:
- name: S0
  dtype: fp32
  dims: [M]
  data_transform: ["x, n = input_data['E0'], input_data['L0'].unsqueeze(-1)\\n{reference}"]
sizes: {{M: 9, N: 4}}
"""
MEAN = "(x * (torch.arange(N_value) < n)).sum(-1) / n.squeeze(-1)"
POOLED = "(torch.softmax(x.masked_fill(torch.arange(N_value) >= n, -torch.inf), -1) * x).sum(-1)"


@pytest.mark.parametrize(
    ("data", "apply", "reference", "right"),
    [
        (
            "lengths(N)",
            "torch.where(n <= 2, (x[:2] * (places[:2] < n)).sum(), (x * (places < n)).sum()) / n",
            MEAN,
            True,
        ),
        ("integers(1, 4)", "(x * (places < n)).sum() / torch.clamp(n, min=1)", MEAN, True),
        ("integers(1, 4)", "(x * (places <= n - 0.5)).sum() / n", MEAN, True),
        ("lengths(N)", "(torch.softmax(x - 1e30 * (1 - (places < n).to(x.dtype)), -1) * x).sum()", POOLED, True),
        ("binary", "x[0] * n * n + x[1] * (1 - n) * (1 - n)", "torch.where(n > 0, x[:, :1], x[:, 1:2])[:, 0]", True),
        (
            "lengths(N)",
            "torch.where(n <= 3, (x[:2] * (places[:2] < n)).sum(), (x * (places < n)).sum()) / n",
            MEAN,
            False,
        ),
        ("integers(1, 5)", "torch.where(n < 5, (x * (places < n)).sum(), x.sum() * 1.0000001) / n", MEAN, False),
        ("lengths(N)", "(x * (places <= n)).sum() / n", MEAN, False),
        (
            "torch.rand",
            "torch.where(n <= 2, (x[:2] * (places[:2] < n)).sum(), (x * (places < n)).sum()) / n",
            MEAN,
            False,
        ),
        ("lengths(N)", "(torch.softmax(x - 1e2 * (1 - (places < n).to(x.dtype)), -1) * x).sum()", POOLED, False),
        ("lengths(N)", "x.amax() * (1e30 * (1 / (n * 1e30)) * n)", "x.amax(-1) * 0", False),
        (
            "integers(0, 2)",
            "x[0] * n * n + x[1] * (1 - n) * (1 - n)",
            "torch.where(n > 0, x[:, :1], x[:, 1:2])[:, 0]",
            False,
        ),
    ],
)
def test_inputs_of_few_whole_numbers_are_tried(data: str, apply: str, reference: str, right: bool) -> None:
    """All that the generator draws, each by itself; numbers that it does not draw are not looked at."""
    task = loads_task(LENGTHS.format(data=data, apply=apply, reference=reference), "lengths")
    found = proved(task, "return step.Map(fn=fn_f).apply((E0, L0))")
    assert (found.answer == "proved") is right, found.reason
    assert ("inputs of whole numbers have those of their generators" in found.reason) <= right


def covered(decide: list[tuple[str, int]], depend: Sequence[Sequence[int]]) -> int:
    """The number of trials for some decisions, with their numbers of outcomes, and results that depend on some each."""
    cover = Cover()
    for outcomes in cover.outcomes():
        decisions = Decisions(outcomes)
        masks = []
        for key, count in decide:
            decisions.outcome(key, count)
            masks.append(decisions.mask([key]))
        cover.see(decisions, [mask_tensor([sum(masks[one] for one in own) for own in depend], [len(depend)])])
    return cover.trials


def test_each_result_sees_all_outcomes_of_what_it_depends_on() -> None:
    """Decisions that belong together are tried in all combinations, others at the same time; too many are refused."""
    decide = [("a", 3), ("b", 3), ("c", 4)]
    assert covered(decide, [[]]) == 1
    assert covered(decide, [[0], [1], [2]]) <= 5
    assert 9 <= covered(decide, [[0, 1], [2]]) <= 10
    assert 12 <= covered(decide, [[0, 1], [1, 2]]) <= 37
    with pytest.raises(Unknown, match="1,000 outcomes belong together"):
        covered([("a", 10), ("b", 10), ("c", 10)], [[0, 1, 2]])
    with pytest.raises(Unknown, match="more than 248 decisions"):
        mask_tensor([1 << 248], torch.Size([1]))
