"""Interpretation PyTorch as text: differently written code of one meaning gives one term, other code another."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.symbolic.algebra import Algebra, Term
from pipeline.lms.embedded.symbolic.interpreter import SymbolicInterpreter
from pipeline.lms.embedded.symbolic.operations import Operations
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task


def read(*codes: str) -> list[Term]:
    algebra = Algebra()
    words = Operations(algebra, lambda term: term)
    data = {"x": algebra.atom("input", "x"), "y": algebra.atom("input", "y"), "W": algebra.atom("weight", "W")}
    reader = SymbolicInterpreter(words, {"E": 2}, data)
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
        ("x.prod(-1) ** (1 / D_value)", "torch.exp(torch.log(x).mean(-1))"),
        ("torch.log_softmax(x, -1)", "torch.log(torch.exp(x - x.amax(-1)) / torch.exp(x - x.amax(-1)).sum(-1))"),
        ("torch.sigmoid(x)", "torch.exp(x) / (1 + torch.exp(x))"),
        ("torch.abs(2 * (x - y))", "(y - x).abs() * 2"),
        ("torch.cumprod(x, -1).log()", "torch.log(x).cumsum(-1)"),
        ("torch.logcumsumexp(x, -1)", "x.exp().cumsum(-1).log()"),
        ("torch.add(x, y, alpha=3)", "x + 3 * y"),
        ("x.clone().mul_(y).add_(1)", "x * y + 1"),
        ("torch.nn.LeakyReLU(0.2)(x)", "torch.where(x > 0, x, 0.2 * x)"),
        ("torch.nn.GELU(approximate='tanh')(x)", "torch.nn.functional.gelu(x, approximate='tanh')"),
        ("x.max(-1, keepdim=True)[0]", "x.amax(-1, keepdim=True)"),
        ("top, _ = torch.max(x, dim=-1)\ntop", "x.amax(-1)"),
        ("x if 'a' == 'a' else y", "x"),
        ("torch.norm(x, p=1)", "x.abs().sum()"),
        ("torch.linalg.vector_norm(x, 3)", "(x.abs() ** 3).sum() ** (1 / 3)"),
    ],
)
def test_code_of_one_meaning_gives_one_term(one: str, other: str) -> None:
    """Spelling, order of commutative operands, and shapes do not count."""
    first, second = read(one, other)
    assert first is second


@pytest.mark.parametrize(
    ("one", "other"),
    [("x - y", "y - x"), ("x / y", "y / x"), ("torch.exp(x)", "torch.log(x)"), ("x.sum(-1)", "x.cumsum(-1)"),
     ("F.gelu(x)", "F.gelu(x, approximate='tanh')"), ("x.norm(1)", "x.norm(2)"), ("x.sum(-1)", "x.sum(-1).sum(-1)"),
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
     "x.norm(2, 1)", "torch.log(-1)", "torch.exp(1e9)", "torch.exp(1000 * x) - torch.exp(1001)", "1 / (x - x)",
     "torch.where(x > 0, x, float('-inf')).exp()", "(1e-13 * x + y) ** -0.5", "torch.norm(x, 0)", "x ** (x - x)",
     "x.sum(x)",
     "a, b, c = x\na + q", "[i for i in x]", "f'{x}'", "x if y else W", "x += 1", "z += 1\nz", "lambda: x", "zip(x)"],
)  # fmt: skip
def test_odd_code_does_not_make_the_reader_fail(code: str) -> None:
    """Wrong arguments, unknown names and unknown forms give some term."""
    assert isinstance(read(code)[0], Term)


def task_view(*fns: str, reference: str = "input_data['E0'].sum(-1)") -> TaskView:
    head = "inputs:\n- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.randn}\n"
    tail = f'outputs:\n- {{name: S0, dtype: fp32, dims: [N], data_transform: "{reference}"}}\n'
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
    fn, arguments = view.fns[0], view.interpretation.inputs[0]
    assert view.interpretation.wanted(view.interpretation.value(fn, arguments, "Accum"))
    assert not view.interpretation.wanted(view.interpretation.value(fn, arguments, "Scan"))


def test_a_sum_of_sums_is_read_in_both_ways() -> None:
    """The variance of what is centred already: only if both sums are along one dim has it no mean any more."""
    add = (
        "- {name: F, apply: 'return [state[0] + input[0]]', init: [0], input_dtype: fp32, output_dtype: fp32, "
        "func_name: fn}\n"
    )
    mean = "(input_data['E0'] - input_data['E0'].mean(-1, keepdim=True)).mean(-1)"
    view = task_view(add, reference=f"{mean} + input_data['E0'].sum(-1)")
    plain = task_view(add).interpretation.outputs[0][0]
    assert [len(interpretation.outputs[0][0].summands) for interpretation in view.interpretations] == [
        3,
        len(plain.summands),
    ]
    assert len(task_view(add).interpretations) == 1


def test_what_another_way_computes_is_useful_and_not_wanted() -> None:
    """A reference that divides by a root does not compute its inverse; a function that does is of use all the same."""
    entry = "- {{name: F, apply: '{}', input_dtype: fp32, output_dtype: fp32, func_name: {}}}\n"
    view = task_view(
        entry.format("return [torch.rsqrt(1 + input[0])]", "fn_a"),
        entry.format("return [torch.exp(1 + input[0])]", "fn_b"),
        reference="(input_data['E0'] / torch.sqrt(1 + input_data['E0'])).sum(-1)",
    )
    interpretation = view.interpretation
    inverse, unlike = (interpretation.value(fn, interpretation.inputs[0], "Map") for fn in view.fns)
    assert not interpretation.wanted(inverse) and interpretation.useful(inverse)
    assert not interpretation.wanted(unlike) and not interpretation.useful(unlike)
