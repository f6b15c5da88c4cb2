"""The choices agree with the code that implements them."""

from typing import get_args

from optimizers import baselines as registry
from optimizers.baselines import Baseline
from optimizers.strategies.registry import SELECTIONS
from pipeline.agent.agent import Agent
from pipeline.agent.compiled import SavedProgram
from pipeline.base import choices
from pipeline.base.config import LMConfig, RunConfig
from pipeline.lms import factory


def test_every_optimizer_has_a_class() -> None:
    """The command's names are the registry's; those that reflect are DSPy's."""
    assert set(choices.OPTIMIZERS) == set(registry.OPTIMIZERS)
    assert set(choices.SELECTIONS) == set(SELECTIONS) - {"none"}, "which is an optimizer of its own"
    assert set(choices.REFLECTING) | set(choices.VALIDATING) <= set(choices.OPTIMIZERS)
    assert all(issubclass(registry.get(name), Baseline) for name in choices.REFLECTING)


def test_every_guardian_and_proposer_makes_an_agent() -> None:
    """And is accepted in a compiled program's file."""
    for mode in choices.GUARDIANS:
        for kind in choices.PROPOSERS:
            agent = Agent(mode, proposer=kind, prompts={"proposer": "", "guardian": ""})
            assert (agent.guardian.mode, agent.proposer.kind) == (mode, kind)
    assert get_args(SavedProgram.model_fields["guardian"].annotation) == choices.GUARDIANS
    assert get_args(SavedProgram.model_fields["proposer"].annotation) == choices.PROPOSERS


def test_the_defaults_are_those_of_the_lms() -> None:
    """The factory's own, which other callers use."""
    assert RunConfig(optimizer="none").lm == choices.EMBEDDED
    assert (LMConfig().max_tokens, LMConfig().timeout) == (factory.MAX_TOKENS, factory.TIMEOUT)
