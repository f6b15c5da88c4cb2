"""The simulator computes what programs mean on tokens: random ones, and the reference program of every task."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings

from step_runtime.base.types import Buffer, Multihot, STuple
from step_runtime.language.parser import parse
from step_runtime.primitives import PRIMITIVES
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import instances
from tests.support import oracles
from tests.support.agreement import compare, disagreement
from tests.support.random_programs import Case, random_case
from tests.support.strategies import cases
from tests.support.truth import computes


@settings(max_examples=60)
@given(cases())
def test_simulator_computes_what_tokens_say(case: Case) -> None:
    """Random well-typed programs are accepted, and simulate to what they mean on tokens."""
    assert disagreement(case) is None


@pytest.mark.slow
@settings(max_examples=600)
@given(cases())
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
