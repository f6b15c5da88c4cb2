"""Wrong programs of every kind that was once proved, and pairs of functions that differ: none is proved."""

import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from step_runtime import Task, loads_task
from step_runtime.verification.exact import proof
from step_runtime.verification.exact.decisions import Decisions, deciding
from step_runtime.verification.exact.facts import Known, keeping
from step_runtime.verification.exact.operators import Operators
from step_runtime.verification.exact.residues import Draw, Laws, drawing, level
from step_runtime.verification.exact.table import TABLE
from step_runtime.verification.exact.trace import trace
from step_runtime.verification.exact.value import free
from tests.step_runtime.verification.exact.test_proof import MAP, proved

ROWS = """
inputs: [{{name: E0, dtype: "Buffer({number}, [N])", dims: [M], data_gen: "{data}"}}]
parameters: [{{name: W, dtype: fp32, dims: [N], data_gen: torch.randn}}]
fns:
- {{name: F, func_name: fn_f, apply: "x, y = input[0], input_data['W']; return [{one}]",
   input_dtype: "Buffer({number}, [N])", output_dtype: "Buffer(fp32, [N])"}}
outputs:
- name: S0
  dtype: "Buffer(fp32, [N])"
  dims: [M]
  data_transform: ["torch.stack([(lambda x, y: {other})(x, input_data['W']) for x in input_data['E0']])"]
sizes: {{M: 2, N: 4}}
"""
OLD_PRIMES = (1_427_025_599, 713_512_799, 356_756_399, 2**31 - 1, 2**61 - 1)


def pair(one: str, other: str, number: str = "fp32", data: str = "torch.randn") -> Task:
    return loads_task(ROWS.format(one=one, other=other, number=number, data=data), "pair")


MASKED = """T - T ~ x * 0 | x + 0 * T ~ x | T * 0 ~ x * 0 | torch.exp(T - T) * x ~ x | torch.exp(0 * T) ~ x * 0 + 1
torch.maximum(T, T.amax()) - T.amax() ~ x * 0 | torch.exp(T.amax() - T.amax()) + y ~ y + 1 | T * y - T * y ~ x * 0
x + T.sum() - T.sum() ~ x | torch.sigmoid(T - T) ~ x * 0 + 0.5 | torch.exp(T + y - T) ~ torch.exp(y)
torch.exp(T) * torch.exp(-T) ~ x * 0 + 1 | torch.where(y > 0, T - T, x) ~ torch.where(y > 0, 0.0, x)
torch.lerp(T, T, 0.5) ~ T | torch.lerp(T, x, 0.0) ~ T | T.mean() - T.mean() + y ~ y | (T[None] @ y) * 0 + y ~ y
T.cummax(0)[0] - T.cummax(0)[0] + y ~ y | torch.outer(T, y)[0] * 0 + y ~ y | torch.addcmul(y, T, x, value=0) ~ y
T.logsumexp(0) - T.logsumexp(0) + y ~ y"""
KINDS: dict[str, list[tuple[str, ...]]] = {
    "a logarithm forgets a sign": [
        *((f"(-x) ** {n}", f"x ** {n}") for n in (33, 35, 49, 65, 99, 101)),
        *((f"(x * x) ** {n / 2}", f"x ** {n}") for n in (33, 35, 49, 65, 99, 101)),
        ("torch.exp(0.5 * torch.log(x ** 2))", "x"),
        ("torch.log(-x) ** 2", "torch.log(x) ** 2"),
        ("torch.log(x * x)", "2 * torch.log(x)"),
        ("torch.log(x * y)", "torch.log(x) + torch.log(y)"),
        ("torch.sqrt(x * y)", "torch.sqrt(x) * torch.sqrt(y)"),
        ("torch.exp(3 * torch.log(-x))", "-x * x * x"),
        ("(-x) ** 0.3", "x ** 0.3"),
        ("(x * x) ** y", "x ** (2 * y)"),
        ("x ** y * x ** y", "x ** (2 * y)"),
        ("(x * y) ** y", "x ** y * y ** y"),
    ],
    "the undefined is swallowed": [
        ("torch.nan_to_num(torch.sqrt(x), nan=7.0)", "torch.nan_to_num(torch.sqrt(x), nan=5.0)"),
        ("torch.nan_to_num(1 / x, posinf=1.0)", "torch.nan_to_num(1 / x, posinf=2.0)"),
        ("torch.isinf(1 / torch.relu(x)).double()", "x * 0"),
        ("(torch.sqrt(x) != torch.sqrt(x)).double()", "x * 0"),
        ("torch.isnan(torch.log(x)).double()", "x * 0"),
        ("torch.fmax(torch.sqrt(x), torch.full_like(x, -1))", "torch.maximum(torch.sqrt(x), torch.full_like(x, -1))"),
        ("(torch.log(x) + torch.log(y) > 0).double()", "(torch.log(x * y) > 0).double()"),
        ("(torch.sqrt(x) >= 0).double()", "x * 0 + 1"),
        ("torch.where(torch.sqrt(x) < 0, 3.0, x)", "x"),
        ("torch.sqrt(x).argmax() + 0 * x", "x.argmax() + 0 * x"),
        ("torch.sqrt(x).sort()[0]", "torch.sqrt(x.sort()[0])"),
        ("torch.sign(torch.sqrt(x))", "(x > 0).double()"),
        ("torch.nan_to_num(torch.softmax(x.masked_fill(y > 0, -torch.inf), 0), nan=9.0)",
         "torch.nan_to_num(torch.softmax(x.masked_fill(y > 0, -torch.inf), 0), nan=0.0)"),
        ("x / x", "x * 0 + 1"),
        ("torch.sqrt(x) ** 2", "x"),
        ("torch.exp(torch.log(x))", "x"),
        ("1 / (1 / x)", "x"),
        ("x * y / y", "x"),
        ("torch.rsqrt(x) ** 2", "1 / x"),
        ("torch.isfinite(1 / x).double()", "x * 0 + 1"),
        ("(1 / x).to(torch.int32).double()", "(1 / x).trunc()"),
        ("torch.xlogy(x, x)", "x * torch.log(x)"),
    ],
    "minus infinity is swallowed": [
        tuple(side.replace("T", "x.masked_fill(y > 0, -torch.inf)") for side in case.strip().split(" ~ "))
        for case in MASKED.replace("\n", " | ").split(" | ")
    ],
    "constants alike modulo a prime": [
        *((f"x.clamp(max={1 + p})", "x.clamp(max=1)") for p in OLD_PRIMES),
        *((f"x + 1 / {10**10 + p}", "x + 1e-10") for p in OLD_PRIMES),
        *((f"x + 1e-9 * ({p} * x)", "x") for p in OLD_PRIMES),
        *((f"torch.exp(x * {1 + 1 / p})", "torch.exp(x)") for p in OLD_PRIMES[:3]),
        *((f"x + functools.reduce(lambda s, _: s + s, range({n}), x * 2.0 ** -{n})", "x") for n in (61, 62, 63)),
    ],
    "types of results": [
        ("((x > 0.6) + (x > 1.5)).double()", "(x > 0.6).double() + (x > 1.5).double()"),
        ("((x > 0.6) * 1 + (x > 1.5)).double()", "((x > 0.6) | (x > 1.5)).double()"),
        ("x.sum(dtype=torch.int64).double() + y", "x.sum() + y"),
        ("(x > 0).sum(dtype=torch.bool).double() + y", "(x > 0).sum().double() + y"),
        ("x.sum(dtype=torch.int32).double() + y", "x.sum().trunc() + y"),
        ("x.cumsum(0, dtype=torch.int64).double()", "x.cumsum(0)"),
        ("x.cumsum(0, dtype=torch.int64).double()", "x.cumsum(0).trunc()"),
        ("x.prod(dtype=torch.int64).double() + y", "x.prod() + y"),
        ("x.cumprod(0, dtype=torch.int64).double()", "x.cumprod(0)"),
        ("x.view(torch.int64).double()", "x"),
        ("x.view(torch.int64).sort()[1].double()", "x.sort()[1].double()"),
        ("(x.view(torch.int64) > 0).double()", "(x > 0).double()"),
        ("x.to(torch.int64).double()", "x"),
        ("x.to(torch.int64).double()", "x.floor()"),
        ("x.to(torch.int8).double()", "x.to(torch.int32).double()"),
        ("x.to(torch.bool).double()", "x"),
        ("x.to(torch.int16).double()", "x.round()"),
        ("x.sum(dtype=torch.int8).double() + y", "x.sum(dtype=torch.int64).double() + y"),
        ("(x > 0).cumsum(0, dtype=torch.bool).double()", "(x > 0).cumsum(0).double()"),
        ("(x * 100).to(torch.uint8).double()", "(x * 100).to(torch.int8).double()"),
    ],
    "integers wrap around": [
        ("(x * x).double()", "x.double() * x.double()"),
        ("(x * x).double()", "(x.long() * x.long()).double()"),
        ("(x * 50000).double()", "x.double() * 50000"),
        ("(x + 2147480000).double()", "x.double() + 2147480000"),
        ("(-x - 2147480000).double()", "-x.double() - 2147480000"),
        ("(x * x * x).double()", "x.double() ** 3"),
        ("(x ** 2).double()", "x.double() ** 2"),
        ("(x.square()).double()", "x.double() ** 2"),
        ("x.to(torch.int8).double()", "x.double()"),
        ("(x.to(torch.int8) * x.to(torch.int8)).double()", "x.to(torch.int8).double() ** 2"),
        ("x.to(torch.int16).double()", "x.double()"),
        ("(x * x).cumsum(0, dtype=torch.int32).double()", "(x.double() ** 2).cumsum(0)"),
        ("(x * 30000).sum(dtype=torch.int32).double() + y", "x.double().sum() * 30000 + y"),
        ("x.cumprod(0, dtype=torch.int32).double()", "x.double().cumprod(0)"),
        ("x.prod(dtype=torch.int32).double() + y", "x.double().prod() + y"),
        ("(x.long() ** 5).double()", "x.double() ** 5"),
        ("(x.long() * x * x * x * x).double()", "x.double() ** 5"),
        ("(50 * x.long()).cumprod(0).double()", "(50 * x.double()).cumprod(0)"),
        ("((x + 2147440000) // 2).double()", "(x.double() + 2147440000).div(2).floor()"),
        ("(x * x > 0).double()", "(x != 0).double()"),
        ("(x * x - x * x + x * 46341).double()", "x.double() * 46341"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_was_once_proved_is_proved_no_more(kind: str) -> None:
    assert len(KINDS[kind]) >= 20
    whole = kind == "integers wrap around"
    for one, other in KINDS[kind]:
        task = pair(
            one.replace("functools", "__import__('functools')"),
            other,
            *(("int32", "integers(0, 46400)") if whole else ()),
        )
        assert proved(task, MAP).answer != "proved", (one, other)


RIGHT = [
    ("x * 2", "x + x"),
    ("x.sum() + y", "x[0] + x[1] + x[2] + x[3] + y"),
    ("torch.softmax(x, 0)", "x.exp() / x.exp().sum()"),
    ("x ** 33", "x ** 30 * x ** 3"),
    ("x / (x * x + 1)", "x * (1 / (1 + x.square()))"),
    ("(x > 0).sum() + y", "(x > 0).double().sum() + y"),
    ("(x + 1) - x", "x * 0 + 1"),
    ("(x * x - y * y)", "(x - y) * (x + y)"),
    ("x.var(0) + y", "(x * x).mean() * 4 / 3 - x.mean() ** 2 * 4 / 3 + y"),
]


def test_what_is_right_beside_them_is_proved() -> None:
    """Also where rounding carries far at wide points, which does not refute a proof."""
    for one, other in RIGHT:
        assert proved(pair(one, other), MAP).answer == "proved", (one, other)


def test_no_program_can_know_its_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Primes and inputs are others for each program, also for one that was written from another's, and repeatable."""
    drawn: list[Draw] = []

    def draw(digest: bytes, laws: Laws) -> Draw:
        drawn.append(Draw(digest, laws))
        return drawn[-1]

    monkeypatch.setattr(proof, "Draw", draw)
    seen: set[int] = set()
    program = "x"
    for number in range(8):
        task = pair(program, "x")
        assert (proved(task, MAP).answer == "proved") == (not number)
        own = {prime for primes in drawn[-1].primes for prime in primes}
        assert not seen & own and all(prime.bit_length() >= 61 for prime in own)
        seen |= own
        program = f"x * {1 + drawn[-1].primes[2][0]} / {number + 1}"
    assert proved(task, MAP).answer != "proved" and drawn[-1].digest in [one.digest for one in drawn[:-1]]


WRONG = [
    "x + 1", "x.abs()", "x.relu()", "x.clamp(max=1e3)", "x * 1.001", "x.round()", "x.sign()", "x.exp()", "x.flip(0)",
    "x.sort()[0]", "x - x.mean()", "torch.where(x == 0, 1.0, x)", "torch.where(x > 100, 1.0, x)", "x.cumsum(0)",
    "torch.where(x.abs() < 1e-5, 1.0, x)", "x.clamp(min=-1e4)", "x.amax() + 0 * x", "x ** 3", "-x", "x.tanh()",
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_floats_refute_what_a_faulty_proof_says(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a comparison that finds everything equal, the verdict is `different`, and asks for a report."""
    monkeypatch.setattr(proof._Sides, "_difference", lambda *_: None)
    found = proved(pair(wrong, "x"), MAP)
    assert found.answer == "different" and "please report it" in found.reason and proof.version() in found.reason


FORMS = """
x + y | x - y | y - x | x * y | x * y + 1 | x + 2 * y | 2 * x + y | x * x | x ** 3 | x ** 33 | (-x) ** 33 + y
x * x * y | x * y * y | x / (y * y + 1) | y / (x * x + 1) | x / (y * y + 2) | 1 / (x * x + 1) | x.exp() | (-x).exp()
(2 * x).exp() | (x + y).exp() | x.exp() + y.exp() | (x * x + 1).log() | (x * x + 2).log() | (x * x + 1).sqrt()
(x * x + 2).sqrt() | (x * x + 1).rsqrt() | (x * x).sqrt() | x.abs() + y.abs() | (x + y).abs() | x.sigmoid()
y.sigmoid() | (-x).sigmoid() | x.tanh() | (x / 2).tanh() | x.sin() | x.cos() | (2 * x).sin() | (x + 1).sin() | x.erf()
x.atan() | x.sinh() | x.cosh() | F.silu(x) | F.gelu(x) | F.gelu(x, approximate='tanh') | F.softplus(x)
F.logsigmoid(x) | x.relu() | (-x).relu() | x.clamp(-1, 1) | x.clamp(-1, 2) | x.clamp(min=1) | x.clamp(max=1)
torch.maximum(x, y) | torch.minimum(x, y) | torch.where(x > 0, x, y) | torch.where(x >= 0, x, y)
torch.where(x < 0, x, y) | torch.where(x > y, x, y * 2) | torch.where(y > 0, x, y) | x.floor() | x.ceil() | x.round()
x.trunc() | x.sign() | (x > y) * 1.0 | (x < y) * 1.0 | (x >= y) * 1.0 | (x == y) * 1.0 | (x > 0) * 1.0
x.sum() + 0 * y | x.mean() + 0 * y | x.prod() + 0 * y | x.amax() + 0 * y | x.amin() + 0 * y | x.var() + 0 * y
x.std() + 0 * y | x.logsumexp(0) + 0 * y | x.var(correction=0) + 0 * y | (x * y).sum() + 0 * y | x.cumsum(0)
x.cumprod(0) | y.cumsum(0) | x.flip(0).cumsum(0) | x.softmax(0) | x.log_softmax(0) | (2 * x).softmax(0) | x.flip(0)
x.roll(1) | x.roll(2) | x.sort()[0] | x.sort(descending=True)[0] | x.topk(4)[0] + y | x.cummax(0)[0] | x.cummin(0)[0]
x.logcumsumexp(0) | torch.logaddexp(x, y) | x.lerp(y, 0.25) | x.lerp(y, 0.75) | torch.addcmul(x, x, y)
torch.addcmul(y, x, y, value=2) | x % 2 | x % 3 | torch.fmod(x, 2) | x // 2 | x.argmax() + 0 * y | x.argmin() + 0 * y
torch.linalg.vector_norm(x) + 0 * y | torch.linalg.vector_norm(x, 1) + 0 * y | torch.outer(x, y).sum(0)
torch.outer(x, y).tril().sum(0) | torch.outer(x, y).triu().sum(0) | torch.outer(x, y).diagonal() + 2
x.gather(0, torch.tensor([1, 0, 3, 2])) | x.scatter(0, torch.tensor([0, 1, 2, 3]), 2 * y)
x.scatter(0, torch.tensor([1, 0, 2, 3]), 2 * y) | F.pad(x[:3], (1, 0)) | F.pad(x[:3], (0, 1)) | x.half() * 1.0
x.to(torch.int8) * 1.0 | x.to(torch.int64) * 1.0 | x * 1.0000001 | x + 1e-9 | x * 0.3333333 | x / 3 | torch.exp2(x)
3.5 ** x | x.expm1() * 3
"""


@pytest.mark.parametrize("laws", ["gathered", "linear", "leading"])
def test_functions_that_differ_have_other_residues(laws: str) -> None:
    """Each pair of 129 forms over the operators of the table: 8,256 wrong programs."""
    forms = [form.strip() for line in FORMS.strip().splitlines() for form in line.split(" | ")]

    def run(x: Tensor, y: Tensor) -> Sequence[Tensor]:
        return [
            eval(form, {"torch": torch, "F": torch.nn.functional, "x": x, "y": y}) * torch.ones(4).double()
            for form in forms
        ]

    with drawing(Draw(b"forms", laws)), keeping(Known()), deciding(Decisions(ranks=False)):  # type: ignore[arg-type]
        inputs = [free(name, (4,), torch.float64) for name in "xy"]
        results = trace(run, [torch.zeros(4).double()] * 2).run(Operators(TABLE), inputs)
        words = [tuple(map(tuple, level(each.data)[:, 0].T.tolist())) for each in results]
    alike = [
        (one, other) for (one, a), (other, b) in itertools.combinations(zip(forms, words, strict=True), 2) if a == b
    ]
    assert alike == [] and len(forms) > 120


def test_what_may_be_0_divides_on_both_sides_alone() -> None:
    assert proved(pair("x / (x * x + y * y + 1)", "x * (1 / (1 + y * y + x * x))"), MAP).answer == "proved"
    assert proved(pair("x * (y - 1) / (y - 1)", "x"), MAP).answer == "unknown"
