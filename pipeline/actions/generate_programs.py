"""The stages of `pipeline.generate`: an LM, then classical synthesis, then splitting."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import dspy

from optimizers import Attempt, Sampling
from optimizers.sampling import Sampler
from optimizers.sampling_loop import UntilSolved, sample_until_solved
from pipeline.actions.advice import Advice, advise
from pipeline.actions.offers import Offer, Offering, Solution
from pipeline.actions.split_tasks import SPLIT, detail, split_tasks
from pipeline.base.choices import SEARCH, Objective, ProposerKind, is_embedded
from pipeline.base.config import ClusterConfig, ProgramConfig
from pipeline.base.errors import ClusterUnavailable, UsageError, print_message
from pipeline.base.text import counted
from pipeline.cli.progress import sampling_lines
from pipeline.cluster.cluster import open_workers
from pipeline.languages.language import Task
from pipeline.running.session import ProgramSession, budget, fitted, lm_session, open_program, trusted
from pipeline.splitting.outcomes import SplitOutcome
from pipeline.splitting.plan import When, search_seconds
from pipeline.synthesis import SearchBudget, SearchOutcome
from pipeline.synthesis.parallel_search import search_all
from pipeline.synthesis.results import programs_of
from pipeline.synthesis.search_budget import search_budget
from pipeline.verification.limits import verification_settings
from pipeline.verification.metric import Metric
from pipeline.verification.pool import Workers
from step_runtime.base.errors import TaskError
from step_runtime.tasks.task import Task as StepTask

MINUTES = 2.0
"""Limit for one task of a search, unless another is given."""
LM_SHARE = 0.25
"""The most of a task's time for the LM, where a search follows."""
CLEAN_SECONDS = 20.0
"""How long a task is searched for a program without findings, at most, where all that were found have some."""
UNSTRESSED = "stress-run: the command ended before the program ran on stress inputs; pipeline.verify runs it on them"
"""What is to be said of programs that are kept when a command is interrupted."""


class Draft(NamedTuple):
    """A verified program: its text, what found it, and how, in words."""

    text: str
    by: str
    detail: str


@dataclass
class Progress:
    """What the stages have found so far, by the task's name.

    Attributes:
        proposer: How the LM was asked; None for none, and for the embedded LM.
        lm: The name of the LM; empty for none.
        demonstrations: What a task alone was shown, and why.
        seconds: How long each task was worked on, by the clock.
        stopped: What ended the stages early: `interrupted`, `failed`, or `budget` where nothing follows the LM.
        message: The same for people.
    """

    drafts: dict[str, list[Draft]] = field(default_factory=dict)
    offers: dict[str, Offer] = field(default_factory=dict)
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    searches: dict[str, SearchOutcome] = field(default_factory=dict)
    splits: dict[str, SplitOutcome] = field(default_factory=dict)
    proposer: ProposerKind | None = None
    lm: str = ""
    demonstrations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    stopped: str = ""
    message: str = ""
    _earlier: dict[str, float] = field(default_factory=dict)
    """`seconds` without the present stage."""

    def advice(self, task: Task) -> Advice | None:
        """Advice on an unsolved task; None for a task of another language."""
        if not isinstance(task, StepTask):
            return None
        search = self.searches.get(task.name)
        missed, exhausted = (search.missed, search.reason == "exhausted") if search else (None, False)
        return advise(task, self.attempts.get(task.name), missed, exhausted=exhausted, proposer=self.proposer)

    def begin(self) -> float:
        """The time, at which a stage begins."""
        self._earlier = dict(self.seconds)
        return time.monotonic()

    def spent(self, name: str, seconds: float, start: float) -> None:
        """Adds the time of a part of a stage that began at `start`; parts that run side by side are counted once."""
        before = self.seconds.get(name, 0.0)
        self.seconds[name] = max(before, min(before + seconds, time.monotonic() - start + self._earlier.get(name, 0.0)))

    def unsolved(self, tasks: Iterable[Task]) -> list[Any]:
        """The tasks without a program."""
        return [task for task in tasks if task.name not in self.drafts]


@dataclass(frozen=True)
class Searching:
    """The limits of a search for one task, None for the default number of candidates; when and how it is split."""

    minutes: float
    candidates: int | None = None
    split: When = "late"


@dataclass(frozen=True)
class Stages:
    """One call of the command: what is sampled, what is searched, or both.

    Attributes:
        name: The command's, for messages.
        tasks: The tasks to solve.
        cluster: Where the stages run.
        lm: The program to sample and its settings; None to ask no LM.
        searching: How tasks are searched and split; None to ask the LM alone.
        objective: What is preferred among verified programs; but for `correctness`, solved tasks are searched, too.
    """

    name: str
    tasks: Sequence[Any]
    cluster: ClusterConfig
    lm: ProgramConfig | None
    searching: Searching | None
    objective: Objective = "correctness"

    def run(self) -> Progress:
        """The LM first, then search, then splitting; an interrupt ends them and keeps the programs found."""
        progress = Progress()
        try:
            with open_workers(self.cluster, self.name) as workers:
                if self.lm is None:
                    with workers.pool(verification_settings()) as judges:
                        self._run_on(workers, Metric(judges), None, progress)
                else:
                    session = open_program(self.lm, workers, partial(print_message, self.name))
                    language = self.lm.language
                    with lm_session(session.lm, workers, language) as metric:
                        self._run_on(workers, metric, session, progress)
        except TaskError as error:
            raise UsageError(str(error)) from None
        except ClusterUnavailable as error:
            if not progress.drafts:
                raise
            progress.stopped, progress.message = "failed", str(error)
        except KeyboardInterrupt:
            progress.stopped = progress.message = "interrupted"
        for name, drafts in progress.drafts.items():
            unchanged = [Solution(each.text, *each, findings=(UNSTRESSED,)) for each in drafts]
            progress.offers.setdefault(name, Offer.unpriced(unchanged))
        return progress

    def _run_on(self, workers: Workers, metric: Metric, session: ProgramSession | None, progress: Progress) -> None:
        offering = Offering(self.objective, metric)
        start, turns = time.monotonic(), math.ceil(len(self.tasks) / workers.count)
        self._announce(session)
        if session is not None:
            self._sample(session, turns, offering, progress)
        if self.searching is not None and not progress.stopped:
            left = 60 * self.searching.minutes
            if session is not None:
                left = max(left - (time.monotonic() - start) / turns, left * (1 - LM_SHARE))
            whole = search_seconds(self.searching.split, left)
            self._pursue(workers, progress, whole)
            self._split(workers, progress, left - whole)
            self._improve(offering, workers, progress)
        for task in self.tasks if progress.stopped != "interrupted" else ():
            if task.name in progress.drafts:
                solutions: dict[str, Solution] = {}
                for draft in progress.drafts[task.name]:
                    solution = offering.solution(task, *draft)
                    solutions.setdefault(solution.impl, solution)
                progress.offers[task.name] = offering.offer(task, [*solutions.values()])

    def _announce(self, session: ProgramSession | None) -> None:
        stages = []
        if session is not None:
            most = len(session.config.temperatures) * session.config.samples
            stages.append(f"up to {counted(most, 'answer')} of {session.lm.model}, program {session.config.program}")
        if self.searching is not None:
            stages.append(f"search, {self.searching.minutes:g} min")
        print_message(self.name, f"{counted(len(self.tasks), 'task')}, each: {'; then '.join(stages)}")

    def _sample(self, session: ProgramSession, turns: int, offering: Offering, progress: Progress) -> None:
        config, lm = session.config, session.lm.model
        progress.lm, progress.proposer = lm, None if is_embedded(lm) else config.proposer
        sampling = Sampling(config.samples, config.temperatures, session.threads, config.seed)
        limited = {"max_minutes": LM_SHARE * self.searching.minutes * turns} if self.searching else {}
        start = progress.begin()
        fit = fitted(session, self.tasks)
        if fit.note:
            print_message(self.name, fit.note)
        fit.agent.verifier.metric, fit.agent.verifier.tasks = offering.metric, list(self.tasks)
        progress.demonstrations = fit.shown.reasons
        found = sample_until_solved(
            fit.agent,
            {task.name: dspy.Example(task=task).with_inputs("task") for task in self.tasks},
            Sampler(trusted(offering.metric), sampling),
            partial(self._verified, set()),
            budget(config.model_copy(update=limited)),
            sampling_lines(len(self.tasks), config.samples * len(config.temperatures)),
            clean_answers(self.tasks, offering),
            fit.shown.own_programs,
        )
        progress.attempts |= found.attempts
        for task in self.tasks:
            attempts = found.attempts[task.name]
            progress.spent(task.name, sum(each.seconds + each.metric_seconds for each in attempts), start)
            if (answer := preferred(task, found, offering)) is not None:
                how = f"answer {attempts.index(answer) + 1}, temperature {answer.temperature}"
                progress.drafts[task.name] = [Draft(str(answer.outputs["impl"]), lm.partition("/")[0], how)]
        if found.stopped in ("interrupted", "failed") or (found.stopped and self.searching is None):
            progress.stopped, progress.message = found.stopped, found.message

    def _pursue(self, workers: Workers, progress: Progress, left: float) -> None:
        """Searches, with so many seconds left for each task."""
        thorough = self.objective != "correctness"
        unsolved = progress.unsolved(self.tasks)
        searched = list(self.tasks) if thorough else unsolved
        if not searched or not left:
            return
        start = progress.begin()
        for task, outcome in search_all(searched, self._limits(left), workers):
            progress.spent(task.name, outcome.seconds, start)
            progress.searches[task.name] = outcome
            print_message(self.name, f"{len(progress.searches)} of {counted(len(searched), 'task')} searched")
            self._keep(task, _drafts_of(outcome), progress)

    def _split(self, workers: Workers, progress: Progress, left: float) -> None:
        """Splits what is unsolved, with so many seconds left for each task."""
        assert self.searching is not None
        unsolved, when = progress.unsolved(self.tasks), self.searching.split
        start = progress.begin()
        for task, outcome in split_tasks(self.name, unsolved, when, self._limits(left), workers):
            progress.spent(task.name, outcome.seconds, start)
            progress.splits[task.name] = outcome
            if outcome.impl is not None:
                self._keep(task, [Draft(outcome.impl, SPLIT, detail(outcome))], progress)

    def _improve(self, offering: Offering, workers: Workers, progress: Progress) -> None:
        """Searches on for a while where all programs of a task have findings."""
        start = progress.begin()
        for task, outcome in search_clean(self.tasks, progress.drafts, self._limits(CLEAN_SECONDS), workers, offering):
            progress.spent(task.name, outcome.seconds, start)
            self._keep(task, _drafts_of(outcome), progress)

    def _limits(self, seconds: float) -> SearchBudget:
        """The budget of a search of at most so many seconds."""
        assert self.searching is not None
        limit, thorough = min(seconds, 60 * self.searching.minutes), self.objective != "correctness"
        return search_budget(limit, self.searching.candidates, thorough=thorough)

    def _verified(self, verified: set[str], task: str) -> None:
        """Says how many tasks have a right answer of the LM, with one more."""
        verified.add(task)
        print_message(self.name, f"{len(verified)} of {counted(len(self.tasks), 'task')} verified")

    def _keep(self, task: StepTask, drafts: Sequence[Draft], progress: Progress) -> None:
        """Adds programs of a task, and says so of the first one."""
        if drafts and task.name not in progress.drafts:
            done = f"{len(progress.drafts) + 1} of {counted(len(self.tasks), 'task')}"
            print_message(self.name, f"{done} verified, the last by {drafts[0].by}")
        if drafts:
            progress.drafts.setdefault(task.name, []).extend(drafts)


def _drafts_of(outcome: SearchOutcome) -> list[Draft]:
    return [Draft(text, SEARCH, counted(outcome.candidates, "candidate")) for text in programs_of(outcome)]


def clean_answers(tasks: Sequence[Task], offering: Offering) -> Callable[[Attempt], bool]:
    """Whether a right answer to one of the tasks is without findings."""
    by_name = {task.name: task for task in tasks}
    return lambda answer: offering.is_clean(by_name[answer.task_key], str(answer.outputs["impl"]))


def preferred(task: Task, found: UntilSolved, offering: Offering) -> Attempt | None:
    """The first right answer without findings, else the first right one; None without one."""
    clean = clean_answers([task], offering)
    return next(filter(clean, found.right(task.name)), found.found(task.name))


def search_clean(
    tasks: Sequence[StepTask],
    found: Mapping[str, Sequence[Draft]],
    limits: SearchBudget,
    workers: Workers,
    offering: Offering,
) -> Iterator[tuple[StepTask, SearchOutcome]]:
    """Searches for programs that pass under stress, for solved tasks without such a program; yields its findings.

    Raises:
        TaskError: A task's own code fails.
    """
    doubted = {
        task.name: task
        for task in tasks
        if task.name in found and not any(offering.is_clean(task, each.text) for each in found[task.name])
    }
    strict = [task.model_copy(update={"stress": True}) for task in doubted.values() if not task.stress]
    limits = replace(limits, programs=1, thorough=False)
    for task, outcome in search_all(strict, limits, workers) if strict else ():
        if outcome.impl is not None:
            yield doubted[task.name], outcome
