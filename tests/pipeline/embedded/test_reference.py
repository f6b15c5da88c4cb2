"""Reading PyTorch as text: differently written code of one meaning gives one term, other code another."""

from __future__ import annotations

import pytest

from pipeline.embedded.task_view import TaskView
from pipeline.embedded.terms import Algebra, Term
from pipeline.embedded.torch_text import TorchText
from pipeline.embedded.vocabulary import Vocabulary
from step_runtime.task import loads_task


def read(*codes: str) -> list[Term]:
    algebra = Algebra()
    words = Vocabulary(algebra, lambda term: term)
    data = {"x": algebra.atom("input", "x"), "y": algebra.atom("input", "y"), "W": algebra.atom("weight", "W")}
    reader = TorchText(words, {"E": 2}, data)
    prelude = "x, y, W = input_data['x'], input_data['y'], input_data['W']\n"
    return [words.term(reader.run(prelude + code, {})) for code in codes]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x / torch.sqrt(y + 1e-5)", "x * torch.rsqrt(torch.add(y, 1e-5))"),
        ("x.mean(-1, keepdim=True)", "torch.sum(x, -1).unsqueeze(1) / D_value"),
        ("torch.einsum('nm,nm->n', x, y)", "(y * x).sum(-1)"),
        ("x @ y", "torch.einsum('nk,km->nm', x, y)"),
        ("(x - y).square()", "x ** 2 - 2 * x * y + y * y"),
        ("torch.softmax(x, -1)", "e = torch.exp(x)\ne / e.sum(-1, keepdim=True)"),
        ("torch.where(x > 0.5, x, y)", "c = (0.5 < x).float()\nc * x + (1 - c) * y"),
        ("torch.stack([x * W[i] for i in range(E_value)], -1).sum(-1)", "x * W[0] + x * W[1]"),
        ("torch.nn.functional.gelu(x.T)", "torch.nn.GELU()(x)"),
        ("torch.var(x, -1)", "((x - x.mean(-1)) ** 2).sum(-1) / (D_value - 1)"),
        ("x.var(-1, unbiased=False)", "(x - x.mean(-1)).square().mean(-1)"),
        ("F.cosine_similarity(x, y, dim=-1)", "(x * y).sum(-1) / torch.sqrt((x * x).sum(-1) * (y * y).sum(-1))"),
        ("F.layer_norm(x, (D_value,), None, None, 1e-3)", "(x - x.mean(-1)) / torch.sqrt(x.var(-1, False) + 1e-3)"),
        ("F.cross_entropy(x, y, reduction='none')", "(y * (torch.logsumexp(x, -1) - x)).sum(-1)"),
        ("torch.cdist(x, y)", "torch.sqrt(((x - y) ** 2).sum(-1))"),
        ("torch.nn.LogSoftmax(-1)(x)", "x - torch.log(torch.exp(x).sum(-1))"),
        ("x.amin(-1)", "-torch.amax(-x, -1)"),
        ("torch.clamp(x, min=0)", "torch.relu(x)"),
        ("torch.nn.functional.linear(x, W, y)", "x @ W.T + y"),
    ],
)
def test_code_of_one_meaning_gives_one_term(one: str, other: str) -> None:
    """Spelling, order of commutative operands, and shapes do not count."""
    first, second = read(one, other)
    assert first is second


@pytest.mark.parametrize(
    ("one", "other"),
    [("x - y", "y - x"), ("x / y", "y / x"), ("torch.exp(x)", "torch.log(x)"), ("x.sum(-1)", "x.cumsum(-1)"),
     ("x.topk(1).indices", "x.topk(2).indices"), ("W[0]", "W[1]"), ("x.amax(-1)", "x.amin(-1)")],
)  # fmt: skip
def test_code_of_another_meaning_gives_another_term(one: str, other: str) -> None:
    """Operands in order, the operation and what is selected count."""
    first, second = read(one, other)
    assert first is not second


def test_code_that_is_not_understood_is_an_atom() -> None:
    """No code makes the reader fail; the same text is the same atom."""
    first, second, third = read("[*x, lambda: 3][0]", "[*x, lambda: 3][0]", "{1: x}[1]")
    assert first is second and first is not third


@pytest.mark.parametrize(
    "code",
    ["torch.square()", "torch.sqrt(x, y, W)", "torch.einsum('nm', x)", "torch.einsum(x, y)", "torch.where(x)",
     "torch.pow(1e300, 2) * x", "x[-9]", "(x, y)[5]", "torch.stack([])", "x ** 0.5 ** -1", "0 * x / (x - x)",
     "x.norm(2, 1)", "x.sum(x)",
     "a, b, c = x\na + q", "[i for i in x]", "f'{x}'", "x if y else W", "x += 1", "z += 1\nz", "lambda: x", "zip(x)"],
)  # fmt: skip
def test_odd_code_does_not_make_the_reader_fail(code: str) -> None:
    """Wrong arguments, unknown names and unknown forms give some term."""
    assert isinstance(read(code)[0], Term)


def task_view(*fns: str) -> TaskView:
    head = "inputs:\n- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.randn}\n"
    tail = "outputs:\n- {name: S0, dtype: fp32, dims: [N], data_transform: \"input_data['E0'].sum(-1)\"}\n"
    return TaskView(loads_task(f"{head}fns:\n{''.join(fns)}{tail}"))


def test_a_state_that_the_next_step_ignores_is_an_emission() -> None:
    """A fold part of whose state is never read again is told from one that reads all of it."""
    entry = "- {{name: F, apply: '{}', init: [0, 0], input_dtype: fp32, output_dtype: [fp32, fp32], func_name: {}}}\n"
    view = task_view(
        entry.format("return [state[0] + input[0], input[0] - state[0]]", "fn_a"),
        entry.format("return [state[0] + input[0], state[1] + state[0]]", "fn_b"),
    )
    assert [view.emits(fn) for fn in view.fns] == [True, False]


def test_a_fold_is_read_as_the_reduction_or_the_scan_that_it_is() -> None:
    """Accum of an addition is a sum, which this reference computes; Scan of it a running sum, which it does not."""
    view = task_view(
        "- {name: F, apply: 'return [state[0] + input[0]]', init: [0], input_dtype: fp32, output_dtype: fp32, "
        "func_name: fn}\n"
    )
    fn, arguments = view.fns[0], view.reading.inputs[0]
    assert view.reading.wanted(view.reading.value(fn, arguments, "Accum"))
    assert not view.reading.wanted(view.reading.value(fn, arguments, "Scan"))
