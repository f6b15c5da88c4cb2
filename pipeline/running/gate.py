"""The one gate for programs from elsewhere: experiences, compiled programs and records pass it before they are used.

What passes has been judged in the cells; what does not is left out and named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import dspy

from optimizers import Entry, Experience
from pipeline.agent.agent import Agent
from pipeline.agent.compiled import make_agent
from pipeline.agent.domain import in_project_words
from pipeline.base.text import visible
from pipeline.languages.language import Task
from pipeline.record.models import fetch_program
from pipeline.record.request import Request
from pipeline.verification.claims import Claim, judged, message
from pipeline.verification.pool import LocalWorkers, Workers
from signatures import ANSWERS
from step_runtime.tasks.task import SolvedTask


@dataclass
class Gate:
    """Judges claims on workers.

    Attributes:
        tell: Is given messages for people: progress, and what is refused.
        refused: All that has been refused so far.
    """

    workers: Workers
    tell: Callable[[str], None]
    refused: list[Claim] = field(default_factory=list)

    def request(self, request: Request) -> Request:
        """The request with what its experience shows to be right, without what fell when it was judged once more."""
        if request.experience is None:
            return request
        right = self.experience(self._unfallen(request.experience), request.tasks, language=request.config.language)
        return replace(request, experience=right)

    def experience(
        self,
        experience: Experience,
        tasks: Sequence[Task],
        source: str = "the experience",
        *,
        language: str | None = None,
    ) -> Experience:
        """The experience with the entries whose program passes; those of `tasks`, by name, are judged by these.

        An entry keeps its task and its program; a task that is not among `tasks` is in the project's words. Calls of
        predictors and other words are dropped, and the verdict on inputs drawn anew, which is not judged again.
        """
        own = {task.name: task for task in tasks}
        entries = [_with_task(entry, own.get(entry.task_key)) for entry in experience.entries]
        claims = [
            Claim(f"entries.{number} ({entry.task_key})", entry.inputs["task"], str(entry.outputs["impl"]))
            for number, entry in enumerate(entries)
        ]
        found = self._judged(claims, source, language)
        right = tuple(entry for entry, claim in zip(entries, found, strict=True) if not claim.reason)
        return replace(experience, entries=right)

    def _unfallen(self, experience: Experience) -> Experience:
        fallen = [entry.task_key for entry in experience.entries if entry.fallen]
        if fallen:
            self.tell(f"not shown, because the programs fail on held-out data: {', '.join(map(visible, fallen))}")
        return replace(experience, entries=tuple(entry for entry in experience.entries if not entry.fallen))

    def agent(self, agent: Agent, source: str) -> None:
        """Removes from an agent, and from its pool, the demonstrations whose program fails their task."""
        shown = [(name, predictor) for name, predictor in agent.named_predictors() if predictor.demos]
        places = [
            (predictor, demo, Claim(f"{name}, demonstration {number} ({demo['task'].name})", demo["task"], demo[field]))
            for name, predictor in shown
            for number, demo in enumerate(predictor.demos)
            for field in ANSWERS
            if field in demo
        ]
        solved = agent.pool.entries if agent.pool else ()
        claims = [claim for _, _, claim in places] + [
            Claim(f"pool, solution {number} ({each.task_key})", each.inputs["task"], str(each.outputs["impl"]))
            for number, each in enumerate(solved)
        ]
        found = self._judged(claims, source, agent.language)
        wrong = [id(demo) for (_, demo, _), claim in zip(places, found, strict=False) if claim.reason]
        for _, predictor in shown:
            predictor.demos = [demo for demo in predictor.demos if id(demo) not in wrong]
        if agent.pool:
            kept = zip(solved, found[len(places) :], strict=True)
            agent.pool = replace(agent.pool, entries=tuple(each for each, claim in kept if not claim.reason))

    def _judged(self, claims: Sequence[Claim], source: str, language: str | None) -> list[Claim]:
        if not claims:
            return []
        found = judged(claims, self.workers, self.tell, language)
        refused = [claim for claim in found if claim.reason]
        self.refused += refused
        if refused:
            self.tell(message(refused, len(claims), source))
        return found


def _with_task(entry: Entry, own: Task | None) -> Entry:
    given = entry.inputs["task"], str(entry.outputs["impl"])
    task, program = in_project_words(*given) if own is None else (own, given[1])
    return replace(entry, inputs={"task": task}, outputs={"impl": program}, calls={}, held_out=None)


def learned_agent(source: str, tell: Callable[[str], None]) -> Agent:
    """The agent of a compiled program, named by its file or its address; `tell` gets the refusals.

    Raises:
        UsageError: It is not a compiled program.
    """
    agent = make_agent(fetch_program(source), source)
    Gate(LocalWorkers(), tell).agent(agent, source)
    return agent


def solved_examples(agent: Agent) -> dict[str, SolvedTask]:
    """The tasks of an agent's demonstrations, or of its pool, with their programs, by name."""
    demos = [demo for predictor in agent.predictors() for demo in predictor.demos if "impl" in demo]
    if agent.pool:
        demos = [dspy.Example(**each.inputs, **each.outputs) for each in agent.pool.entries]
    return {demo["task"].name: SolvedTask(demo["task"].without_impl(), demo["impl"]) for demo in demos}
