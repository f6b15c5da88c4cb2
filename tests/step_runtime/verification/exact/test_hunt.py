"""Wrong programs of every kind that was once proved, and pairs of functions that differ: none is proved."""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

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
STEPS = """
inputs: [{{name: E0, dtype: fp32, dims: {taken}, data_gen: torch.randn}}]
fns:
- {{name: F, func_name: fn_f, apply: "return [{step}]", init: [{init}], input_dtype: fp32, output_dtype: {dtype}}}
outputs: [{{name: S0, dtype: {dtype}, dims: {dims}, data_transform: [{references}]}}]
sizes: {{M: 3, N: 4}}
"""


def pair(one: str, other: str, number: str = "fp32", data: str = "torch.randn") -> Task:
    return loads_task(ROWS.format(one=one, other=other, number=number, data=data), "pair")


def masked(side: str, test: str = "y > 0") -> str:
    """`M(number)` is x with that number where a test holds."""
    return re.sub(r"M\(([^)]*)\)", rf"x.masked_fill({test}, \1)", side)


def wrong() -> dict[str, list[str]]:
    """The lines of `wrong.txt` by kind."""
    _, *parts = Path(__file__).with_name("wrong.txt").read_text().split("\n# ")
    return {kind: lines for kind, *lines in (part.strip().splitlines() for part in parts)}


def by_hand(line: str) -> tuple[Task, str]:
    """The task and the program of a line of `wrong.txt`."""
    sides, _, data = line.partition(" :: ")
    parts = [masked(side) for side in sides.split(" ~ ")]
    if len(parts) == 2:
        return pair(*parts, *data.split(" ", 1)) if data else pair(*parts), MAP
    step, init, reference = parts
    references = ", ".join(f"\"E = input_data['E0']\\n{one}\"" for one in reference.split(" & "))
    dtype = "[fp32, fp32]" if " & " in reference else "fp32"
    taken, dims = {"Scan": ("[M, N]",) * 2, "Accum": ("[M, N]", "[N]"), "Nested": ("[M, N, M]", "[M]")}[data]
    written = STEPS.format(step=step, init=init, references=references, dtype=dtype, taken=taken, dims=dims)
    fold = f"step.{data.replace('Nested', 'Accum')}(fn=fn_f, b=1).apply(E0)"
    return loads_task(written, "steps"), f"return {fold.replace('E0', fold) if data == 'Nested' else fold}"


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", wrong())
def test_a_wrong_program_is_never_proved(kind: str, every: int) -> None:
    """Of kinds that were once proved, and others; one in five, or all."""
    for line in wrong()[kind][::every]:
        assert proved(*by_hand(line)).answer != "proved", line


RIGHT = [
    ("torch.where(x > y, x, y)", "torch.maximum(x, y)"),
    ("torch.where(x <= y, x, y)", "torch.minimum(y, x)"),
    ("x * 2", "x + x"),
    ("x.sum() + y", "x[0] + x[1] + x[2] + x[3] + y"),
    ("torch.softmax(x, 0)", "x.exp() / x.exp().sum()"),
    ("x ** 33", "x ** 30 * x ** 3"),
    ("x / (x * x + y * y + 1)", "x * (1 / (1 + y * y + x.square()))"),
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
