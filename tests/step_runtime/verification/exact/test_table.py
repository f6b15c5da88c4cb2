"""The table of operators against torch: what the prover says of exact numbers, torch says in float64 too."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from step_runtime.verification.exact import trace as tracing
from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.decisions import Decisions, deciding
from step_runtime.verification.exact.facts import Known, keeping
from step_runtime.verification.exact.operators import Operators, kind, those, widest
from step_runtime.verification.exact.residues import CHANNELS, Draw, drawing, level
from step_runtime.verification.exact.table import DEFINITIONS, TABLE
from step_runtime.verification.exact.trace import trace
from step_runtime.verification.exact.value import NAN, Unknown, Value

ROWS, SIZE = 100, 4
DTYPES = (torch.float64, torch.int64, torch.bool)
CASES = """
a + b | torch.add(a, b, alpha=3) | a - b | torch.sub(a, b, alpha=2) | torch.rsub(a, b) | a * b | a / b | a + 0.5
a + 2 | 2 - a | a * 3 | a * 0.25 | a / 4 | a - 0.5 | a - 2 | a // b | a // 2 | torch.div(a, b, rounding_mode='floor')
3 / a | torch.add(a, True) | torch.div(a, b, rounding_mode='trunc') | a % b | a % 3 | a % 0.75 | torch.fmod(a, b)
torch.fmod(a, 2) | torch.fmod(a, 0.75) | a ** 2 | a ** 3 | a ** 0 | a ** -1 | a ** 33 | a ** 0.5 | a ** -1.5
a ** 0.3 | a ** b | 2 ** a | 3.5 ** a | a ** torch.arange(4) | -a | a.square() | a.abs() | a.relu() | a.reciprocal()
a.exp() | torch.exp2(a) | a.expm1() | a.log() | a.log1p() | a.sqrt() | a.rsqrt() | a.sigmoid() | a.tanh() | a.sin()
a.cos() | torch.cos(a * torch.pi / 4) | a.erf() | a.atan() | a.sinh() | a.cosh() | F.silu(a) | F.gelu(a)
F.gelu(a, approximate='tanh') | F.softplus(a) | F.logsigmoid(a) | F.hardtanh(a) | F.glu(a) | torch.logaddexp(a, b)
a.logcumsumexp(0) | a.logsumexp(0) | F.softmax(a, 0) | F.log_softmax(a, 0)
torch.outer(a, b) @ b | torch.outer(a, b) @ torch.outer(b, a) | a @ b | torch.vdot(a, b)
torch.addmv(a, torch.outer(a, b), b) | torch.addmm(a, torch.outer(a, b), torch.outer(b, a))
torch.outer(a, b)[None] @ torch.outer(b, a)[None]
torch.baddbmm(torch.outer(a, b)[None], torch.outer(a, b)[None], torch.outer(b, a)[None], beta=2, alpha=3)
F.conv1d(a[None, None], b[None, None, :2]) | torch.cdist(a[:, None], b[:, None])
torch.cdist(a[:, None], b[:, None], p=1.0) | torch.linalg.vector_norm(a) | torch.linalg.vector_norm(a, 1)
F.max_pool2d(a.view(1, 1, 2, 2), 2) | torch.fft.rfft(a).real
torch.view_as_complex(a.view(2, 2)).imag | torch.polar(a, b).real | (torch.complex(a, b) * torch.complex(b, a)).imag
torch.complex(a, b).abs() | torch.addcmul(a, b, a, value=2) | torch.addcdiv(a, b, a)
torch.lerp(a, b, 0.25) | torch.lerp(a, b, a) | a.clamp(-1, 1) | a.clamp(min=b) | torch.clamp_min(a, b)
torch.clamp_max(a, b) | torch.maximum(a, b) | torch.minimum(a, b) | torch.fmax(a, b) | torch.fmin(a, b)
torch.where(a > b, a, b) | torch.where(a > 0, a, 0.0) | torch.where(a == b, b, a) | a.masked_fill(b > 0, 2)
torch.where(a > 0, a, 1) | a.floor() | a.ceil() | a.trunc() | a.round() | a.sign() | a > b | a < b | a >= b | a <= b
a == b | a != b | a > 0 | a <= 1 | a == 2 | a < 0.5 | a >= -1 | a != 0 | ~(a > b) | torch.logical_not(a)
torch.logical_and(a, b) | torch.logical_or(a, b) | torch.logical_xor(a, b) | (a > 0) & (b > 0)
torch.bitwise_or(a > 0, b > 0) | (a > 0) ^ (b > 0) | a.isnan() | a.isinf() | a.isfinite() | a.any() | a.all()
a.view(2, 2).any(0) | a.view(2, 2).all(1) | a.sum() | a.view(2, 2).sum(1, keepdim=True) | a.sum(dtype=torch.float64)
a.mean() | a.view(2, 2).mean(0) | a.prod() | a.view(2, 2).prod(1) | a.prod(dtype=torch.float64) | a.cumsum(0)
a.cumprod(0) | a.cumsum(0, dtype=torch.float64) | a.cumprod(0, dtype=torch.float64) | a.mean(dtype=torch.float64)
a.var() | a.var(0, correction=0) | a.view(2, 2).var(1) | torch.var_mean(a)[1] | a.std() | a.amax()
a.view(2, 2).amin(1) | a.max() | a.view(2, 2).max(1)[0] | a.min(0)[0] | a.argmax() | a.view(2, 2).argmin(1)
a.topk(2)[0] | a.sort()[0] | a.sort(stable=True)[0] | a.cummax(0)[0] | a.cummin(0)[0]
a.gather(0, torch.tensor([2, 0, 0, 3])) | a.gather(0, (b > 0).long()) | a.scatter(0, torch.tensor([1, 3, 0, 2]), b)
a.scatter(0, (b > 0).long(), 5) | a[torch.tensor([3, 3, 1])] | a[(b > 0).long()]
a.index_select(0, torch.tensor([2, 2])) | a.index_select(0, (b > 0).long())
F.embedding((b > 0).long(), a.view(2, 2)) | F.one_hot((b > 0).long(), 2) | torch.full((2,), 3) + a[:2]
torch.full_like(a, 2) | torch.zeros_like(a) + a | torch.ones_like(a) + a | a.new_zeros(4) + a | a.new_ones(4) + a
a.new_full((4,), 2) + a | torch.zeros(4) + a | torch.ones(4) * a | torch.eye(2) + a[:2] | torch.arange(4) + a
torch.arange(1, 5) * a | torch.arange(0, 8, 2) - a | torch.linspace(0, 3, 4) * a | a + torch.scalar_tensor(2.0)
a[torch.tril_indices(2, 2)[0]] | a[torch.triu_indices(2, 2)[1]] | a.double() | a.to(torch.int64) | a.to(torch.bool)
a.to(torch.int8) | a.view(2, 2).T | a.flip(0) | a.roll(1) | torch.cat([a, b]) | torch.stack([a, b])
a.view(2, 2).tril() | F.pad(a, (1, 1), value=2.0) | a.repeat(2) | a.unfold(0, 2, 1) | a.diag_embed() | a.chunk(2)[1]
a[1:3] | a[::2] | a.view(2, 2).permute(1, 0) | a.to(torch.int32) * 3 | torch.full_like(a, 2, dtype=torch.int64)
torch.full_like(a, 2, dtype=torch.float64) | torch.full_like(a, 1, dtype=torch.bool) | a.clamp(-0.5, 1.5)
(a > 0).masked_fill(b > 0, True) | torch.arange(4.0) + a | torch.full((4,), True) & (a > 0) | torch.full((4,), 1) + a
F.cosine_similarity(a, b, dim=0) | F.binary_cross_entropy_with_logits(a, b)
torch.full((4,), 0.5) + a | a.float() * 2 | a.bool() | a.double() + 1 | a.long()
"""
NUMBERS = [n / d for d in (1, 2, 3, 4, 8, 16, 32, 64) for n in range(-4 * d, 4 * d + 1)] + [
    *map(float, range(-600, 600))
]
SEEN: set[tuple[str, str]] = set()


def points(dtype: torch.dtype, seed: int) -> Tensor:
    """Halves, quarters and whole numbers with zeros, ties and opposites, and rows that are all alike."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.randint(-12, 13, (ROWS, SIZE), generator=generator).double()
    found[: ROWS // 2] /= 4
    found[::7] = found[::7, :1]
    found[::11] = found[::11].abs() + 1
    return found > 0 if dtype == torch.bool else found.to(dtype)


class Watched(Operators):
    """Notes the types of the operators that it has followed."""

    def found(self, name, target, args, kwargs, result):  # type: ignore[no-untyped-def]
        found = super().found(name, target, args, kwargs, result)
        types = f"{widest(those([args, kwargs], Value))}>{kind(result.dtypes[0])}"
        SEEN.add((name, types))
        return found


def exact(code: str, dtypes: tuple[torch.dtype, ...]) -> tuple[Value, list[Tensor]] | None:
    """What the prover gives of the points as open numbers, and torch; None where torch takes no such types."""

    def run(a: Tensor, b: Tensor) -> list[Tensor]:
        return [eval(code, {"torch": torch, "F": torch.nn.functional, "a": a, "b": b})]

    rows = 1 if "conv" in code else ROWS  # weights of a convolution are the same for all elements
    data = [points(dtype, seed)[:rows] for seed, dtype in enumerate(dtypes)]
    try:
        expected = [run(*row)[0] for row in zip(*data, strict=True)]
    except (RuntimeError, TypeError):
        return None
    values = []
    for own, dtype in zip(data, dtypes, strict=True):
        found = constants(own.double()).reshape(CHANNELS, rows, SIZE)
        value = Value(found, torch.full((1, rows, SIZE), NAN, dtype=torch.float64), dtype, bits=dtype == torch.bool)
        values.append(replace(value, range=(-12, 12)) if dtype == torch.int64 else value)
    with deciding(Decisions(ranks=False)):
        return trace(run, [each[0] for each in data]).run(Watched(TABLE), values)[0], expected


def keys(data: Tensor) -> list[tuple[int, ...]]:
    return [tuple(column) for column in level(data).flatten(1).T.tolist()]


def check(found: Value, expected: list[Tensor], meaning: dict[tuple[int, ...], float]) -> int:
    """Equal residues are equal floats, those of a small fraction are that, and what is undefined is said to be."""
    numbers = torch.stack([each.double() for each in expected])
    assert found.dtype == expected[0].dtype and found.shape == tuple(expected[0].shape)
    near = 1e-9 if expected[0].dtype != torch.float32 else 1e-5
    words = keys(found.data.expand(CHANNELS, len(expected), *found.shape))
    kept: dict[tuple[int, ...], float] = {}
    for word, number in zip(words, numbers.flatten().tolist(), strict=True):
        if number != number or abs(number) == float("inf"):
            assert found.partial or found.lower is not None
            continue
        for other in (kept.setdefault(word, number), meaning.get(word, number)):
            assert abs(other - number) <= near * max(1.0, abs(number))
    return len(kept)


def cases() -> Iterator[str]:
    return (case.strip() for line in CASES.strip().splitlines() for case in line.split(" | "))


def test_torch_says_what_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """On numbers and edges of each type, by what they are as open numbers, of which the prover knows their residues.

    One test holds all cases, as each type that the table states has to be met by one of them.
    """
    defined: set[str] = set()

    def noting(name: str) -> Callable[..., Any]:
        def rule(*args: Any, **kwargs: Any) -> Any:
            defined.add(name)
            return DEFINITIONS[name](*args, **kwargs)

        return rule

    monkeypatch.setattr(tracing, "DEFINITIONS", {name: noting(name) for name in DEFINITIONS})
    for code in cases():
        some = 0
        with drawing(Draw(b"a table")), keeping(Known()):
            table = dict(zip(keys(constants(torch.tensor(NUMBERS))), NUMBERS, strict=True))
            second = "b" in code.replace("bool", "").replace("bmm", "")
            for dtypes in itertools.product(DTYPES, DTYPES if second else [DTYPES[0]]):
                try:
                    found = exact(code, dtypes)
                except Unknown:
                    continue
                if found is not None:
                    some += check(*found, table)
        assert some, code
    stated = {(name, types) for name, entry in TABLE.items() for types in entry.types.split()}
    assert stated - SEEN == set() and {*DEFINITIONS} - defined == set()
