"""A stream has a landmark if it has its value for two inputs; the only output is none."""

from collections.abc import Iterator

import pytest
import torch

from pipeline.synthesis import SearchBudget
from pipeline.synthesis.bottom_up import BatchExecutor
from pipeline.synthesis.observation import SEEDS, Observation, least_instance
from pipeline.synthesis.rules import InputTerm, RuleTable, RuleTerm
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.execution.invocation import default_dtype
from tests.support.small_tasks import of_scalars

FNS = {
    "round": ("(10 * input[0]).round()", 1),
    "same": ("(10 * input[0] + 1e-5).round()", 1),
    "sine": ("torch.sin(input[0])", 1),
}


@pytest.fixture
def float64() -> Iterator[None]:
    with default_dtype(torch.float64):
        yield


@pytest.mark.usefixtures("float64")
def test_a_landmark_holds_at_a_second_input() -> None:
    """Of two streams with the same value, one made by another function is refused where it differs at the next seed."""
    given = of_scalars(FNS, "(10 * input_data['E0']).round().sin()")
    instance = least_instance(given)
    executor = BatchExecutor(instance, TypeSpace(instance.scope), SearchBudget())
    observation = Observation(instance, executor)
    (source,) = observation.inputs
    type_ = executor.space.intern(source.type)
    table = RuleTable(executor.space)
    made = {
        rule.fn.label: RuleTerm(rule, (InputTerm(0),))
        for consumer in table.functions
        for rule in table.rules(consumer, (type_,))
    }

    def reached(values: torch.Tensor, term: RuleTerm) -> list[int]:
        return list(observation.reached(source.type, values, lambda _: term))

    value = (10 * source.values).round()
    assert not reached(value, made["fn_sine"])
    assert reached(value, made["fn_round"])
    assert not reached(value.sin(), made["fn_sine"]), "the output"
    data = instance.sample_inputs(observation.seed)["E0"][0]
    assert torch.equal(data.flatten(), source.values[0])


@pytest.mark.usefixtures("float64")
def test_the_data_are_of_a_seed_that_tells_programs_apart() -> None:
    """At one seed only, the ReLU changes a number."""
    instance = least_instance(of_scalars(FNS, "torch.relu(input_data['E0'] + 3)"))
    telling = [seed for seed in SEEDS if bool((instance.sample_inputs(seed)["E0"][0] < -3).any())]
    executor = BatchExecutor(instance, TypeSpace(instance.scope), SearchBudget())
    assert [Observation(instance, executor).seed] == telling != [SEEDS[0]]
