"""The demonstrations of a compiled program, without those that verification refuses."""

from __future__ import annotations

from collections.abc import Callable

import dspy

from pipeline.agent.agent import Agent
from pipeline.agent.compiled import make_agent
from pipeline.record.models import fetch_program
from pipeline.running.gate import Gate
from pipeline.verification.pool import LocalWorkers, Workers
from step_runtime.tasks.task import SolvedTask


def learned_agent(source: str, tell: Callable[[str], None], workers: Workers | None = None) -> Agent:
    """The agent of a compiled program, named by its file or its address; `tell` gets the refusals.

    Raises:
        UsageError: It is not a compiled program.
    """
    agent = make_agent(fetch_program(source), source)
    Gate(workers or LocalWorkers(), tell).agent(agent, source)
    return agent


def solved_examples(agent: Agent) -> dict[str, SolvedTask]:
    """The tasks of an agent's demonstrations, or of its pool, with their programs, by name."""
    demos = [demo for predictor in agent.predictors() for demo in predictor.demos if "impl" in demo]
    if agent.pool:
        demos = [dspy.Example(**each.inputs, **each.outputs) for each in agent.pool.entries]
    return {demo["task"].name: SolvedTask(demo["task"].without_impl(), demo["impl"]) for demo in demos}
