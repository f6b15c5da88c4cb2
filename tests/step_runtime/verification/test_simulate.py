"""The simulator computes what programs mean on tokens: random ones, and the reference program of every task."""

from collections import Counter
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from step_runtime import Verifier, loads_task, verify
from step_runtime.base.types import Buffer, Multihot, STuple
from step_runtime.execution.applier import Applier
from step_runtime.language.parser import parse
from step_runtime.primitives import PRIMITIVES
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.simulate import simulate
from tests.support import oracles
from tests.support.agreement import compare, disagreement
from tests.support.random_programs import Case, random_case
from tests.support.small_tasks import of_scalars
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
