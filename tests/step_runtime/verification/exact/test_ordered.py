"""Sorted rows in exact arithmetic: what pairs of comparisons say of them is proved, everything else is not."""

import pytest

from step_runtime import Task, Verifier, loads_task
from step_runtime.language.parser import read
from step_runtime.tasks.reader import read_task_file
from step_runtime.verification.exact.proof import RANKED, ExactVerdict, Prover
from tests.support.paths import PROJECT

ROWS = """
inputs: [{{name: x, dtype: "Buffer(fp32, [D])", dims: [B], data_gen: {data}}}]
fns:
- name: F
  func_name: fn_f
  apply: |
    k = input[0]
    less, more = k.unsqueeze(-2) < k.unsqueeze(-1), k.unsqueeze(-2) > k.unsqueeze(-1)
    return [{apply}]
  input_dtype: "Buffer(fp32, [D])"
  output_dtype: "Buffer(fp32, [D])"
outputs:
- name: y
  dtype: "Buffer(fp32, [D])"
  dims: [B]
  data_transform:
  - |
    x = input_data['x']
    up, u = x.sort(-1)
    down, d = x.sort(-1, descending=True)
    {reference}
sizes: {{B: 2, D: 5}}
"""
NUCLEUS = "torch.where((more * k).sum(-1) < 0.5, k, 0.0)"
KEPT = "torch.zeros_like(x).scatter(-1, d, torch.where(down.cumsum(-1) - down < 0.5, down, 0.0))"
GINI = "k - (k * (1.0 + less.float().sum(-1))).sum()"


def answer(task: Task, text: str) -> ExactVerdict:
    """The answer at the first sizes, whatever the float verdict is."""
    verifier = Verifier(task)
    instance = verifier._instances[0]
    checked = verifier._check(read(text, verifier.limits), instance)
    assert not isinstance(checked, list)
    return Prover(instance).prove(checked.program, checked.types)


def of_rows(apply: str, reference: str, data: str = "torch.randn") -> ExactVerdict:
    text = ROWS.format(apply=apply, reference=reference, data=data)
    return answer(loads_task(text, "rows"), "return step.Map(fn=fn_f).apply(x)")


@pytest.mark.parametrize(
    ("apply", "reference"),
    [
        (NUCLEUS, KEPT),
        (
            NUCLEUS,
            KEPT.replace("-1, d, ", "-1, u, (").replace("0.0))", "0.0)).flip(-1))").replace("down", "up.flip(-1)"),
        ),
        ("more.float().sum(-1)", "d.argsort(-1).float()"),
        ("less.float().sum(-1)", "torch.zeros_like(x).scatter(-1, u, torch.arange(D_value).expand_as(u).float())"),
        ("k + (less * k).sum(-1)", "up.cumsum(-1).gather(-1, u.argsort(-1))"),
        ("k * k + (more * k * k).sum(-1)", "(x * x).gather(-1, d).cumsum(-1).gather(-1, d.argsort(-1))"),
        (GINI, "x - (up * torch.arange(1.0, D_value + 1)).sum(-1, keepdim=True)"),
        ("torch.exp(k) / torch.exp(k).sum()", "torch.softmax(down, -1).gather(-1, d.argsort(-1))"),
        ("torch.where(more.float().sum(-1) < 2, k, 0.0)", "torch.where(d.argsort(-1) < 2, x, 0.0)"),
    ],
)
def test_sums_and_ranks_of_sorted_rows_are_proved(apply: str, reference: str) -> None:
    """By the comparisons of all pairs; the answer says that the numbers are distinct."""
    found = of_rows(apply, reference)
    assert found.answer == "proved", found.reason
    assert RANKED in found.reason


@pytest.mark.parametrize(
    ("apply", "reference"),
    [
        ("torch.where((more * k).sum(-1) <= 0.5, k, 0.0)", KEPT),
        ("torch.where(k + (more * k).sum(-1) < 0.5, k, 0.0)", KEPT),
        ("torch.where((less * k).sum(-1) < 0.5, k, 0.0)", KEPT),
        (NUCLEUS, KEPT.replace(" - down", "")),
        (NUCLEUS, KEPT.replace("-1, d", "-1, u")),
        (NUCLEUS, KEPT.replace("down.cumsum", "up.cumsum")),
        (NUCLEUS, KEPT.replace("torch.where(down", "torch.where(x")),
        (NUCLEUS, KEPT.replace("0.5, down", "0.5, x")),
        (NUCLEUS, KEPT.replace("cumsum(-1)", "cumsum(-2)")),
        (NUCLEUS, KEPT.replace("torch.zeros_like(x).scatter(-1, d, ", "(")),
        ("more.float().sum(-1)", "d.float()"),
        ("more.float().sum(-1)", "u.argsort(-1).float()"),
        ("more.float().sum(-1)", "d.argsort(-1, descending=True).float()"),
        ("more.float().sum(-1) + 1", "d.argsort(-1).float()"),
        ("more.float().sum(-1)", "d.argsort(-1).argsort(-1).float()"),
        ("k + (less * k).sum(-1)", "up.cumsum(-1)"),
        ("k + (less * k).sum(-1)", "up.cumsum(-1).gather(-1, u)"),
        ("k + (less * k).sum(-1)", "up.cumsum(-1).gather(-1, d.argsort(-1))"),
        ("k + (less * k).sum(-1)", "up.flip(-1).cumsum(-1).gather(-1, u.argsort(-1))"),
        (GINI, "x - (up * torch.arange(D_value)).sum(-1, keepdim=True)"),
        (GINI, "x - (x * torch.arange(1.0, D_value + 1)).sum(-1, keepdim=True)"),
        ("k", "up"),
        ("k", "down"),
        ("k", "up.cumsum(-1)"),
        ("k - k.sum()", "up - x.sum(-1, keepdim=True)"),
        ("k + torch.arange(D_value)", "(up + torch.arange(D_value)).gather(-1, u.argsort(-1))"),
        ("k * k.sum()", "x * up[..., :4].sum(-1, keepdim=True)"),
    ],
)
def test_other_orders_are_never_proved(apply: str, reference: str) -> None:
    """Other ends, other bounds, running sums with or without the own number, places for ranks, and ties."""
    assert of_rows(apply, reference).answer != "proved"


def test_rows_whose_numbers_may_be_equal_are_not_ordered() -> None:
    """Many zeros, after a `relu`, stand in an order that torch does not define."""
    apply = NUCLEUS.replace("k", "k.relu()").replace("more", "(k.relu().unsqueeze(-2) > k.relu().unsqueeze(-1))")
    reference = f"x = x.relu(); down, d = x.sort(-1, descending=True); {KEPT}"
    assert of_rows(apply, reference).answer != "proved"
    assert of_rows("more.float().sum(-1)", "d.argsort(-1).float()", "binary").answer != "proved"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("input[1] > input[0]", "input[1] >= input[0]"),
        ("input[1] > input[0]", "input[1] < input[0]"),
        ("input[1] < 0.6", "input[1] <= 0.6"),
        ("input[1] < 0.6", "input[1] + input[0] < 0.6"),
        ("ordered.cumsum(-1) - ordered <", "ordered.cumsum(-1) <"),
        ("descending=True", "descending=False"),
        ("zeros_like(p).scatter(-1, places, kept)", "zeros_like(p).scatter(-1, places.flip(-1), kept)"),
    ],
)
def test_nucleus_filtering_is_proved_and_its_near_misses_are_not(old: str, new: str) -> None:
    """The tokens that are more probable hold less than 0.6 together, without the token itself."""
    text = read_task_file(PROJECT / "data/tasks-modern/top_p_filter.yaml").inlined
    assert old in text
    program = (PROJECT / "data/oracles-modern/top_p_filter.step").read_text()
    found = answer(loads_task(text.replace(old, new) if old else text, "top_p_filter"), program)
    assert (found.answer == "proved") == (not old), found.reason
