"""Verification for the agent's own modules holds these: copies share it, and without a metric it runs here."""

from __future__ import annotations

from copy import deepcopy

from pipeline.agent.agent import Agent
from pipeline.agent.verifier import ProgramVerifier
from tests.support.scripted_answers import RIGHT, WRONG, task


def test_without_a_metric_programs_are_verified_in_this_process() -> None:
    """As when an agent is used as a library."""
    verifier = ProgramVerifier()
    assert verifier(task(), RIGHT)
    assert verifier(task(), WRONG).stage == "value"


def test_copies_of_an_agent_share_their_verifier() -> None:
    """So that a metric that is set once serves the copies that optimizers make."""
    agent = Agent("none", refine=1, proposer_prompt="", refiner_prompt="")
    assert deepcopy(agent).verifier is agent.verifier
    assert agent.refiner.verifier is agent.proposer.verifier is agent.verifier
