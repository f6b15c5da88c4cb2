"""The gain of a skill for an LM: right answers with and without it, on tasks whose solutions it does not show.

Both agents are asked for the same samples of the same tasks, and no guardian repairs them. One has the signature's
sentence as its instructions; the other all that the skill says, and what was learned as demonstrations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import dspy

from optimizers import Attempt
from pipeline.actions.evaluate_program import sampled_once
from pipeline.actions.sweep_figures import interval
from pipeline.actions.write_skill import Skill
from pipeline.agent.agent import Agent
from pipeline.base.config import ProgramConfig
from pipeline.base.errors import Exit, LMUnavailable, UsageError, print_message
from pipeline.base.text import counted
from pipeline.cli.progress import progress_display
from pipeline.cluster.cluster import open_workers
from pipeline.running.session import ProgramSession, fitted, lm_session, open_program
from pipeline.verification.metric import Metric
from signatures import Propose
from step_runtime.tasks.task import Task


@dataclass(frozen=True)
class Measured:
    """Rates of right answers by task, without and with a skill, each from 0 to 1.

    Attributes:
        lm: The model.
        settings: How it was sampled, in words.
        without: The rate of each task without the skill.
        given: The rate with it, of the same tasks.
    """

    lm: str
    settings: str
    without: Mapping[str, float]
    given: Mapping[str, float]

    @property
    def difference(self) -> tuple[float, float, float]:
        """The mean difference of the rates, and the ends of its 95 % interval, with tasks as pairs."""
        found = interval([self.given[name] - self.without[name] for name in self.without])
        mean = found["mean"] or 0.0
        low, high = found["low"], found["high"]
        return mean, -math.inf if low is None else low, math.inf if high is None else high

    @property
    def gains(self) -> bool:
        """Whether the interval lies above zero."""
        return self.difference[1] > 0

    def text(self) -> str:
        """The figures as Markdown, with the conclusion."""
        mean, low, high = (100 * value for value in self.difference)
        rows = [
            f"| {label} | {100 * fmean(rates.values()):.1f} % | {sum(map(bool, rates.values()))} |"
            for label, rates in (("without it", self.without), ("with it", self.given))
        ]
        verdict = (
            f"It helps this model: {mean:+.1f} points (95 % interval {low:+.1f} to {high:+.1f}, paired by task)."
            if self.gains
            else f"No gain was measured: {mean:+.1f} points (95 % interval {low:+.1f} to {high:+.1f}, paired by task)."
        )
        tasks = f"on {counted(len(self.without), 'task')} that this skill does not contain"
        head = f"`{self.lm}`, {self.settings}, {tasks}:"
        return "\n".join(
            [head, "", "| skill | right answers | tasks solved |", "|---|---|---|", *rows, "", verdict, ""]
        )


def measure(name: str, skill: Skill, config: ProgramConfig, tasks: Sequence[Task]) -> Measured:
    """Samples the LM of the settings with and without a skill.

    Args:
        name: The command's, for messages.
        skill: What is measured.
        config: The LM and how it is sampled; limits hold for each of the two agents.
        tasks: Those that the skill contains are left out.

    Raises:
        UsageError: The skill contains every task, or a task's code fails.
        LMUnavailable: The LM can't be used, or a limit or an interrupt ended the samples.
        ClusterUnavailable: The cluster can't be used.
    """
    unseen = [task for task in tasks if not skill.contains(task)]
    if not unseen:
        raise UsageError("--tasks: the skill contains a solution of every task; name other tasks")
    demos = [dspy.Example(task=solved.task, impl=solved.program) for solved in skill.learned.values()]
    agents = {
        "without": _agent(config.language, Propose.instructions),
        "with": _agent(config.language, skill.instructions(), demos),
    }
    rates: dict[str, Mapping[str, float]] = {}
    with open_workers(config, name) as workers:
        session = open_program(config, workers, partial(print_message, name))
        with lm_session(session.lm, workers, config.language) as metric:
            for label, agent in agents.items():
                print_message(name, f"{counted(len(unseen), 'task')} {label} the skill, {session.lm.model}")
                rates[label] = _rates(name, replace(session, agent=agent), unseen, metric)
    temperatures = ", ".join(f"{value:g}" for value in session.config.temperatures)
    settings = f"{counted(config.samples, 'sample')} each at temperature {temperatures}, seed {config.seed}"
    return Measured(session.lm.model, settings, rates["without"], rates["with"])


def _agent(language: str | None, instructions: str, demos: Sequence[dspy.Example] = ()) -> Agent:
    agent = Agent("none", prompts={"proposer": instructions, "guardian": ""}, language=language)
    agent.proposer.predict.demos = list(demos)
    return agent


def _rates(name: str, session: ProgramSession, tasks: Sequence[Task], metric: Metric) -> dict[str, float]:
    """The share of right answers by task; an attempt without a verdict does not count."""
    fit = fitted(session, tasks)
    if fit.note:
        print_message(name, fit.note)
    with progress_display(session.config.samples) as display:
        experience = sampled_once(session, fit, tasks, metric, [display])
    if experience.stopped in ("interrupted", "failed", "budget"):
        raise LMUnavailable(f"{experience.message}; nothing was measured")
    return {task.name: _rate(experience.attempts, task.name) for task in tasks}


def _rate(attempts: Sequence[Attempt], task: str) -> float:
    scored = [attempt.passed for attempt in attempts if attempt.task_key == task and attempt.scored]
    return fmean(scored) if scored else 0.0


def exit_code(measured: Measured | None) -> Exit:
    """1 for a skill without a measured gain."""
    return Exit.OK if measured is None or measured.gains else Exit.NO
