"""The simulator computes what programs mean on tokens: random ones, and the reference program of every task.

Programs on tokens mean what the paper and the language's table say, and the simulator computes just that.

Streams are written as they render; expected ones are worked by hand.
"""

import re
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from step_runtime import Verifier, loads_task, verify
from step_runtime import primitives as p
from step_runtime.base.errors import RunError
from step_runtime.base.functions import Fn
from step_runtime.base.types import Buffer, DType, Multihot, Scalar, StreamType, STuple
from step_runtime.execution.applier import Applier
from step_runtime.language.parser import parse
from step_runtime.primitives import PRIMITIVES
from step_runtime.program.graph import Node, Program
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.simulate import simulate
from tests.support import oracles
from tests.support.agreement import compare, disagreement
from tests.support.paths import PROJECT
from tests.support.random_programs import Case, random_case
from tests.support.small_tasks import of_scalars
from tests.support.tokens import Stop, Tokens, Value, encode, join, render, split, trace_tokens
from tests.support.truth import computes

CASES = st.randoms(use_true_random=False).map(random_case)
"""Well-typed programs with their scope and inputs, of every primitive and element type."""


@settings(max_examples=60)
@given(CASES)
def test_simulator_computes_what_tokens_say(case: Case) -> None:
    """Random well-typed programs are accepted, and simulate to what they mean on tokens."""
    assert disagreement(case) is None


@pytest.mark.slow
@settings(max_examples=600)
@given(CASES)
def test_simulator_computes_what_tokens_say_of_many_programs(case: Case) -> None:
    """As above."""
    assert disagreement(case) is None


def test_random_programs_have_every_primitive_and_case() -> None:
    """What the property ranges over: every primitive, empty routed streams, indices without a bit, dims of 1."""
    drawn = [random_case(Random(seed)) for seed in range(300)]
    counts = sum((case.primitives() for case in drawn), Counter())
    assert counts.keys() == {kind.__name__ for kind in PRIMITIVES.values()}
    assert min(counts.values()) > 20
    data = [part for case in drawn for value in case.data.values() for part in value]
    assert any(not part.any() for part in data)
    types = [kind for case in drawn for kind in case.scope.outputs]
    assert any(isinstance(kind.dtype, STuple) for kind in types)
    assert any(isinstance(kind.dtype, Buffer) and isinstance(kind.dtype.elem, Multihot) for kind in types)
    assert any(kind.rank > 2 for kind in types)
    assert any(1 in case.scope.sizes.values() for case in drawn)


@pytest.mark.parametrize("name", oracles.names())
def test_oracle_on_tokens_equals_simulator_and_reference(name: str) -> None:
    """Every reference program gives on tokens what its task's PyTorch code gives, at every set of sizes."""
    for instance in instances(oracles.task(name)):
        program, _ = parse(oracles.oracle(name), instance.scope)
        types, found = infer_types(program, instance.scope)
        assert not found
        data = instance.sample_inputs(3)
        assert computes(program, types, instance, data, instance.reference())
        assert compare(program, types, data, instance.sizes) is None


ROUTED = """
global: |
  E_value = 3
  ctx[E] = E_value
inputs:
- {name: x, dtype: "Buffer(bf16, [K])", dims: [M], data_gen: torch.randn}
- {name: index, dtype: "Multihot(bool, E)", dims: [M], min: 0, max: 2}
fns:
- {name: A, apply: "return [input[0].float() * 1.3]", input_dtype: "Buffer(bf16, [K])",
   output_dtype: "Buffer(fp8_e4m3, [K])", func_name: fn_a}
- {name: B, apply: "return [(input[0] * input[0]).float()]", input_dtype: "Buffer(bf16, [K])",
   output_dtype: "Buffer(fp8_e4m3, [K])", func_name: fn_b}
- {name: C, apply: "return [-input[0].float()]", input_dtype: "Buffer(bf16, [K])",
   output_dtype: "Buffer(fp8_e4m3, [K])", func_name: fn_c}
- {name: Sum, apply: "return [state[0].float() + input[0].float()]", init: [0.5],
   input_dtype: "Buffer(fp8_e4m3, [K])", output_dtype: "Buffer(fp8_e5m2, [K])", func_name: fn_sum}
outputs:
- name: O
  dtype: Buffer(fp8_e5m2, [K])
  dims: [M]
  data_transform: |
    x = input_data['x']
    parts = [part.to(torch.float8_e4m3fn).float() for part in (x.float() * 1.3, x * x, -x)]
    out = torch.full((M_value, K_value), 0.5, dtype=torch.float8_e5m2)
    for place, part in enumerate(parts):
        new = (out.float() + part).to(torch.float8_e5m2).float()
        out = torch.where(input_data['index'][:, place, None], new, out.float()).to(torch.float8_e5m2)
    out
sizes: {M: [12, 17], K: [4, 5]}
"""
ROUTING = """\
i1, i2 = step.Copy().apply(index)
done = [step.Map(fn=fn).apply(part) for fn, part in zip([fn_a, fn_b, fn_c], step.Partition(N=3).apply((x, i1)))]
return step.Merge(fn=fn_sum).apply((done, i2))
"""


def test_routing_carries_formats() -> None:
    """By truth values, of fp8 and bf16 elements; what a Merge folds is rounded after every stream."""
    verifier = Verifier(loads_task(ROUTED, "routed"))
    verdict = verifier.verify(ROUTING)
    assert verdict.passed, verdict.render(ROUTING)
    swapped = verifier.verify(ROUTING.replace("fn_a, fn_b", "fn_b, fn_a"))
    assert swapped.stage == "value"
    assert "fp8_e5m2 is compared within 0.25 (relative)" in swapped.diagnostics[0].details[1]


FNS = {
    "f": ("torch.sin(input[0])", 1),
    "g": ("state[0] * 0.5 + input[0]", 0),
    "m": ("torch.exp(input[0] - input[1])", 2),
    "bad": ("input[0].item() / 0", 1),
}
TASK = of_scalars(FNS, "input_data['E0'].sum(1)", out="[N]")
PROGRAMS = {
    "a map": "a = step.Map(fn=fn_f).apply(step.Repeat(n=5).apply(E0))\nreturn step.Accum(fn=fn_g, b=2).apply(a)",
    "a chain": "a, b = step.Copy().apply(E0)\na = step.Map(fn=fn_f).apply(a)\na = step.Map(fn=fn_m).apply((a, b))\n"
    "return step.Accum(fn=fn_g, b=1).apply(a)",
}


def results(text: str) -> torch.Tensor:
    instance = TaskInstance(TASK, TASK.size_sets()[0])
    program, _ = parse(text, instance.scope)
    types, found = infer_types(program, instance.scope)
    assert not found
    (result,) = simulate(program, types, instance.sample_inputs(0), instance.sizes, Applier(torch.float64))
    return result[0]


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_parts_give_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their size, the last being smaller."""
    whole = results(text)
    assert whole.shape == (7,)
    for size in (1, 1000, 3000):
        for name in ("step_runtime.verification.simulate.PART", "step_runtime.program.limits.PART"):
            monkeypatch.setattr(name, size)
        assert torch.allclose(results(text), whole)


def test_an_error_in_a_part_has_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Map's line, not the Accum's."""
    monkeypatch.setattr("step_runtime.verification.simulate.PART", 1)
    text = "a = step.Map(fn=fn_bad).apply(E0)\nreturn step.Accum(fn=fn_g, b=1).apply(a)"
    (found,) = verify(TASK, text).diagnostics
    assert found.code == "task-function" and found.span is not None and found.span.line == 1


FP32 = Scalar("float")


class Add(Fn):
    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        return [sum(args[0]) + sum(args[1])]  # type: ignore[list-item]

    def getInit(self) -> Sequence[Tensor]:
        return [torch.tensor(0.0)]


class Pair(Fn):
    """Keeps the running sum and the last element."""

    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        return [args[0][0] + args[1][0], args[1][0]]

    def getInit(self) -> Sequence[Tensor]:
        return [torch.tensor(0.0), torch.tensor(-1.0)]


ADD = Add("add", FP32, FP32)
PAIR = Pair("pair", FP32, STuple((FP32, FP32)))


EMPTY = sympy.Symbol("routed.9")
SIZES = {"routed.9": 0}
"""Only a routed dim may be empty."""


def numbers(text: str) -> Value:
    """The digits of a text as one tensor, its dims as it nests: "12 34" is [[1, 2], [3, 4]]."""
    rows = [[float(digit) for digit in row] for row in text.split()]
    return (torch.tensor(rows[0] if len(rows) == 1 else rows, dtype=torch.float64),)


def stream(data: Value, dtype: DType = FP32, depth: int = 0) -> tuple[StreamType, Value]:
    """A stream of what is left of the data's dims outside its elements, which have `depth`."""
    shape = data[0].shape[: data[0].dim() - depth]
    return StreamType(dtype, tuple(sympy.Integer(size) if size else EMPTY for size in reversed(shape))), data


def applied(op: p.Primitive, *streams: tuple[StreamType, Value]) -> list[str]:
    """The results of one primitive as they render."""
    names = tuple(f"I{number}" for number in range(len(streams)))
    types = [kind for kind, _ in streams]
    results = op.infer(types, p.Rules(SIZES))
    inputs = tuple(range(len(streams)))
    outputs = tuple(range(len(streams), len(streams) + len(results)))
    program = Program(names, (Node(op, inputs, outputs),), outputs)
    data = {name: value for name, (_, value) in zip(names, streams, strict=True)}
    return [render(tokens) for tokens in trace_tokens(program, [*types, *results], data, dict(SIZES))[len(streams) :]]


ROW = stream(numbers("123"))
"""1, 2, 3"""
MATRIX = stream(numbers("12 34"))
"""1, 2, S1, 3, 4, S1"""
CUBE = stream((torch.arange(1.0, 9.0, dtype=torch.float64).reshape(2, 2, 2),))
"""1, 2, S1, 3, 4, S2, 5, 6, S1, 7, 8, S2"""
PLANE = stream((torch.arange(1.0, 5.0, dtype=torch.float64).reshape(1, 2, 2),))
"""1, 2, S1, 3, 4, S2"""
EMPTY_ROW = stream((torch.zeros(1, 0, dtype=torch.float64),))
"""S1: one row without elements"""
NO_ROW = stream((torch.zeros(0, 2, dtype=torch.float64),))
"""Nothing at all: rows of two, of which there are none."""
NO_ROW_IN_ONE = stream((torch.zeros(1, 0, 2, dtype=torch.float64),))
"""S2: one plane without rows"""
EMPTY_ROW_IN_ONE = stream((torch.zeros(1, 1, 0, dtype=torch.float64),))
"""S1, S2: one plane of one row without elements"""


def hot(*bits: str) -> tuple[StreamType, Value]:
    """An index: one multihot for each text of bits."""
    rows = torch.tensor([[float(bit) for bit in text] for text in bits], dtype=torch.float64)
    return stream((rows,), Multihot("float", len(bits[0])), 1)


@pytest.mark.parametrize(
    ("op", "streams", "expected"),
    [
        (p.Accum(ADD, 1), [PLANE], ["3, 7, S1"]),
        (p.Accum(ADD, 1), [CUBE], ["3, 7, S1, 11, 15, S1"]),
        (p.Accum(ADD, 1), [EMPTY_ROW], ["0"]),
        (p.Accum(ADD, 1), [NO_ROW], [""]),
        (p.Accum(ADD, 1), [NO_ROW_IN_ONE], ["S1"]),
        (p.Accum(ADD, 1), [EMPTY_ROW_IN_ONE], ["0, S1"]),
        (p.Accum(ADD, 2), [NO_ROW_IN_ONE], ["0"]),
        (p.Scan(ADD, 2), [CUBE], ["1, 3, S1, 6, 10, S2, 5, 11, S1, 18, 26, S2"]),
        (p.Promote(0), [MATRIX], ["1, S1, 2, S2, 3, S1, 4, S2"]),
        (p.Promote(1), [EMPTY_ROW], ["S1, S2"]),
        (p.Promote(2), [NO_ROW], ["S2"]),
        (p.Flatten((1,)), [CUBE], ["1, 2, 3, 4, S1, 5, 6, 7, 8, S1"]),
        (p.Flatten((1,)), [NO_ROW_IN_ONE], ["S1"]),
        (p.Reshape((0,), sympy.Integer(2)), [CUBE], ["1, 2, S2, 3, 4, S3, 5, 6, S2, 7, 8, S3"]),
        (p.Repeat(sympy.Integer(2)), [ROW], ["1, 1, S1, 2, 2, S1, 3, 3, S1"]),
        (p.Repeat(sympy.Integer(2)), [NO_ROW_IN_ONE], ["S3"]),
        (p.RepeatRef(), [MATRIX, CUBE], ["1, 1, S1, 2, 2, S2, 3, 3, S1, 4, 4, S2"]),
        (p.RepeatRef(), [stream(numbers("8")), EMPTY_ROW], ["S1"]),
        (p.Bufferize(1), [PLANE], ["[1, 2], [3, 4], S1"]),
        (p.Bufferize(1), [EMPTY_ROW], ["[]"]),
        (p.Partition(sympy.Integer(2)), [ROW, hot("11", "00", "10")], ["1, 3", "1"]),
        (p.Partition(sympy.Integer(2)), [CUBE, hot("01", "00")], ["", "1, 2, S1, 3, 4, S2"]),
        (p.Merge(ADD), [stream(numbers("13")), stream(numbers("2")), hot("10", "01", "10")], ["1, 2, 3"]),
        (p.Merge(ADD), [stream(numbers("12")), stream(numbers("57")), hot("11", "00", "10", "01")], ["6, 0, 2, 7"]),
        (p.Merge(ADD), [MATRIX, stream((torch.zeros(0, 2),)), hot("10", "00", "10")], ["1, 2, S1, 0, 0, S1, 3, 4, S1"]),
    ],
)  # fmt: skip
def test_primitive_on_tokens(op: p.Primitive, streams: list[tuple[StreamType, Value]], expected: list[str]) -> None:
    """Every primitive turns these tokens into those, worked by hand, empty dims included."""
    assert applied(op, *streams) == expected


def test_merge_folds_streams_in_ascending_order() -> None:
    """The state after expert 0 is what expert 1 is folded into: the pair keeps the last element."""
    assert applied(p.Merge(PAIR), stream(numbers("1")), stream(numbers("2")), hot("11")) == ["(3, 2)"]


@pytest.mark.parametrize(
    ("streams", "quoted"),
    [
        ([stream(numbers("1")), stream(numbers("2")), hot("10", "10")], "stream 0 runs short"),
        ([stream(numbers("12")), stream(numbers("2")), hot("10", "01")], "stream 0 has slices left"),
    ],
)
def test_merge_needs_as_many_slices_as_the_index_takes(streams: list[tuple[StreamType, Value]], quoted: str) -> None:
    with pytest.raises(RunError, match=quoted):
        applied(p.Merge(ADD), *streams)


def test_oracle_on_tokens_shares_no_execution_code() -> None:
    """It reads graphs, types and shapes; neither the batched execution nor the primitives' own is in reach."""
    sources = [path.read_text() for path in (PROJECT / "tests/support/tokens").glob("*.py")]
    imported = {name for text in sources for name in re.findall(r"^from step_runtime(\S*) import", text, re.MULTILINE)}
    assert imported == {"", ".base.errors", ".base.functions", ".base.shapes", ".base.types", ".program.graph"}
    assert not any(re.search(r"\.run\(|Frame|Applier", text) for text in sources)


# --- spellings ---


@pytest.mark.parametrize(
    ("shape", "written", "spelled"),
    [
        ((2,), "·, ·", "·, ·, S1"), ((2, 1), "·, S1, ·, S1", "·, S1, ·, S1, S2"),
        ((1, 2, 1), "·, S1, ·, S2", "·, S1, ·, S1, S2, S3"), ((1, 1, 1, 1), "·, S3", "·, S1, S2, S3, S4"),
        ((0,), "", "S1"), ((1, 0), "S1", "S1, S2"), ((0, 1), "", "S2"), ((1, 0, 1), "S2", "S2, S3"),
        ((1, 1, 0), "S1, S2", "S1, S2, S3"), ((1, 2, 0), "S1, S1, S2", "S1, S1, S2, S3"),
        ((2, 1, 0), "S1, S2, S1, S2", "S1, S2, S1, S2, S3"),
    ],
)  # fmt: skip
def test_one_stop_closes_all_dims_up_to_its_level(shape: tuple[int, ...], written: str, spelled: str) -> None:
    """Dims (outermost first) of every kind have a spelling of their own, and `split` and `join` go both ways."""
    tokens = encode((torch.ones(shape, dtype=torch.float64),), len(shape) - 1)
    assert _dotted(tokens) == written
    assert _dotted(list(split(tokens, len(shape) - 1))) == spelled
    assert join(split(tokens, len(shape) - 1)) == tokens


def _dotted(tokens: Tokens) -> str:
    return ", ".join(str(token) if isinstance(token, Stop) else "·" for token in tokens)
