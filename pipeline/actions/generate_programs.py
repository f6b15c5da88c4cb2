"""`pipeline.generate`: solvers try each task in turn, until one has a program that passes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dspy

from optimizers import Attempt, Sampling
from optimizers.sampling import Sampler
from optimizers.sampling_loop import sample_until_solved
from pipeline.actions.solutions import Found, Solution, Solutions
from pipeline.base.choices import SEARCH, Objective, ProposerKind, is_embedded
from pipeline.base.config import ClusterConfig, ProgramConfig
from pipeline.base.errors import ClusterUnavailable, UsageError, print_message
from pipeline.base.text import counted
from pipeline.cli.progress import SamplingLines
from pipeline.cluster.cluster import open_workers
from pipeline.languages.language import Task
from pipeline.running.plan import Plan, budget, trusted
from pipeline.splitting.split_search import SplitOutcome, split_all
from pipeline.synthesis import SearchBudget, SearchOutcome
from pipeline.synthesis.parallel_search import search_all
from pipeline.synthesis.search_budget import LIMITS, SEVERAL
from pipeline.verification.limits import verification_settings
from pipeline.verification.metric import Metric
from pipeline.verification.pool import Workers
from step_runtime.base.errors import Diagnostic, TaskError

MINUTES = 2.0
"""Of processor time for one task, unless another limit is given."""
CANDIDATES = 1_000_000
"""Streams that searches compute for one task, unless another limit is given."""
LM_SHARE = 0.25
"""The most of a task's time for the LM, where a search follows."""
TURNS = ((5_000, 1 / 6), (50_000, 1 / 3), (sys.maxsize, 1 / 2))
"""A search of the whole and one by parts take turns: candidates of each, and the share of a task's time for both."""
MEETINGS = 2
"""Ways for operands to meet, by type, that a search looks at, for each candidate."""
CLEAN = (50_000, 20.0)
"""Candidates and seconds for a program without findings, where the one found has some."""
UNSTRESSED = Diagnostic(
    stage="stress",
    code="stress-run",
    message="the command ended before the program ran on stress inputs; pipeline.verify runs it on them",
)
"""What is to be said of programs that are kept when a command is interrupted."""


@dataclass
class Result:
    """What came of a task: a solution, or what was tried in vain.

    `shown` says what the task alone was shown in the LM's prompt, and why; None if all were shown the same.
    """

    solution: Solution | None = None
    attempts: list[Attempt] = field(default_factory=list)
    search: SearchOutcome | None = None
    split: SplitOutcome | None = None
    shown: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Solver:
    """A way to programs that pass: which tasks it tries, by what is known of them, and what it finds for them."""

    takes: Callable[[Result], bool]
    tried: Callable[[Sequence[Any]], Iterator[tuple[Any, Found]]]


@dataclass(frozen=True)
class Searching:
    """The limits of a search for one task, in minutes of processor time and candidates, and whether it is split."""

    minutes: float
    candidates: int
    split: bool


@dataclass
class Generation:
    """One call of the command.

    Attributes:
        name: The command's, for messages.
        tasks: The tasks to solve.
        cluster: Where the solvers run.
        lm: The program to sample and its settings; None to ask no LM.
        searching: How tasks are searched and split; None to ask the LM alone.
        objective: What is preferred among verified programs; but for `correctness`, solved tasks are searched, too.
        results: What came of each task, by its name.
        asked: The LM's name; empty for none.
        proposer: How it was asked; None for none, and for the embedded LM.
        stopped: What ended the solvers early: `interrupted`, `failed`, or `budget` where nothing follows the LM.
        message: The same for people.
    """

    name: str
    tasks: Sequence[Any]
    cluster: ClusterConfig
    lm: ProgramConfig | None
    searching: Searching | None
    objective: Objective
    results: dict[str, Result] = field(init=False)
    asked: str = ""
    proposer: ProposerKind | None = None
    stopped: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        self.results = {task.name: Result() for task in self.tasks}

    def run(self) -> None:
        """Solves the tasks; an interrupt ends that and keeps the programs found.

        Raises:
            UsageError: The program can't be used, or a task's own code fails.
            LMUnavailable: The LM can't be used.
            ClusterUnavailable: The cluster can't be used, and nothing was found.
        """
        try:
            with open_workers(self.cluster, self.name) as workers:
                if self.lm is None:
                    with workers.pool(verification_settings()) as judges:
                        self._solve(workers, Metric(judges), None)
                else:
                    plan = Plan.of_program(self.lm, workers, partial(print_message, self.name))
                    with plan.session(workers) as metric:
                        self._solve(workers, metric, plan)
        except TaskError as error:
            raise UsageError(str(error)) from None
        except ClusterUnavailable as error:
            if not any(result.solution for result in self.results.values()):
                raise
            self.stopped, self.message = "failed", str(error)
        except KeyboardInterrupt:
            self.stopped = self.message = "interrupted"
            for result in self.results.values():
                if result.solution is None and (right := [each for each in result.attempts if each.passed]):
                    found = self._answered(result, right[0])
                    result.solution = Solution(found.text, *found, findings=(UNSTRESSED,))

    def _solve(self, workers: Workers, metric: Metric, plan: Plan | None) -> None:
        """Has the solvers try the tasks, one after the other; a better program replaces one found before."""
        solutions = Solutions(self.objective, metric)
        self._announce(plan)
        for solver in self._solvers(workers, solutions, plan):
            taken = [task for task in self.tasks if solver.takes(self.results[task.name])]
            for task, found in solver.tried(taken) if taken else ():
                result = self.results[task.name]
                result.solution = solutions.better(result.solution, solutions.of(task, found))
            if self.stopped:
                return

    def _solvers(self, workers: Workers, solutions: Solutions, plan: Plan | None) -> Iterator[Solver]:
        def is_open(result: Result) -> bool:
            return result.solution is None

        def is_exhausted(outcome: SearchOutcome | SplitOutcome | None) -> bool:
            return outcome is not None and outcome.reason == "exhausted"

        if plan is not None:
            yield Solver(is_open, partial(self._sample, plan, solutions, workers))
        if self.searching is None:
            return
        left = self.searching.minutes * (60 if plan is None else 60 * (1 - LM_SHARE))
        splits, cheaper = self.searching.split, solutions.figure
        for most, share in TURNS if splits and not cheaper else ((sys.maxsize, 1.0),):
            limits = self._budget(most, share * left / (1 + splits))
            yield Solver(
                lambda result: bool(cheaper) or (is_open(result) and not is_exhausted(result.search)),
                partial(self._search, limits, workers),
            )
            if splits:
                yield Solver(
                    lambda result: is_open(result) and not is_exhausted(result.split),
                    partial(self._split, limits, workers),
                )
        strictly = partial(self._search, self._budget(CLEAN[0], min(CLEAN[1], left)), workers, stress=True)
        yield Solver(lambda result: result.solution is not None and bool(result.solution.findings), strictly)

    def _announce(self, plan: Plan | None) -> None:
        stages = []
        if plan is not None:
            most = len(plan.config.temperatures) * plan.config.samples
            stages.append(f"up to {counted(most, 'answer')} of {plan.lm.model}, program {plan.config.program}")
        if self.searching is not None:
            limit = f"{counted(self.searching.candidates, 'candidate')} or {self.searching.minutes:g} min"
            stages.append(f"search, up to {limit} of processor time")
        print_message(self.name, f"{counted(len(self.tasks), 'task')}, each: {'; then '.join(stages)}")

    def _sample(
        self, plan: Plan, solutions: Solutions, workers: Workers, tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, Found]]:
        """Asks the LM for all tasks; of a task's right answers the first without findings counts, else the first."""
        config, by_name = plan.config, {task.name: task for task in tasks}
        self.asked = plan.lm.model
        self.proposer = None if is_embedded(self.asked) else config.proposer
        sampling = Sampling(config.samples, config.temperatures, plan.threads(workers), config.seed)
        if self.searching is not None:
            # Answers are its limit; the clock is the last one, as a busy machine must not decide what is found.
            minutes = (
                SearchBudget(60 * LM_SHARE * self.searching.minutes).clock / 60 * math.ceil(len(tasks) / workers.count)
            )
            config = config.model_copy(update={"max_minutes": minutes})
        fit = plan.fitted(tasks)
        if fit.note:
            print_message(self.name, fit.note)
        fit.agent.verifier.metric, fit.agent.verifier.tasks = solutions.metric, list(tasks)
        verified = set[str]()

        def tell(name: str) -> None:
            verified.add(name)
            print_message(self.name, f"{len(verified)} of {counted(len(self.tasks), 'task')} verified")

        def is_clean(answer: Attempt) -> bool:
            return not solutions.metric.findings(by_name[answer.task_key], str(answer.outputs["impl"]))

        answers = sample_until_solved(
            fit.agent,
            {task.name: dspy.Example(task=task).with_inputs("task") for task in tasks},
            Sampler(trusted(solutions.metric), sampling),
            tell,
            budget(config),
            SamplingLines(len(tasks), config.samples * len(config.temperatures)),
            is_clean,
            fit.shown.own_programs,
        )
        for task in tasks:
            result = self.results[task.name]
            result.attempts, result.shown = answers.attempts[task.name], fit.shown.reasons.get(task.name)
        if answers.stopped == "interrupted":
            raise KeyboardInterrupt
        for task in tasks:
            if right := answers.right(task.name):
                yield task, self._answered(self.results[task.name], next(filter(is_clean, right), right[0]))
        if answers.stopped == "failed" or (answers.stopped == "budget" and self.searching is None):
            self.stopped, self.message = answers.stopped, answers.message
        elif answers.stopped:
            print_message(self.name, answers.message)

    def _answered(self, result: Result, right: Attempt) -> Found:
        how = f"answer {result.attempts.index(right) + 1}, temperature {right.temperature}"
        return Found(str(right.outputs["impl"]), self.asked.partition("/")[0], how)

    def _search(
        self, limits: SearchBudget, workers: Workers, tasks: Sequence[Any], *, stress: bool = False
    ) -> Iterator[tuple[Any, Found]]:
        """Searches for programs; with `stress`, for such as pass on stress inputs, too."""
        given = [task.model_copy(update={"stress": True}) for task in tasks if not task.stress] if stress else tasks
        by_name = {task.name: task for task in tasks}
        for task, outcome in search_all(given, limits, workers):
            if not stress:
                self.results[task.name].search = outcome
                self._tell(task, "search", outcome)
            for text in outcome.programs:
                yield by_name[task.name], Found(text, SEARCH, counted(outcome.candidates, "candidate"))

    def _split(self, limits: SearchBudget, workers: Workers, tasks: Sequence[Any]) -> Iterator[tuple[Any, Found]]:
        for task, outcome in split_all(tasks, limits, workers):
            self.results[task.name].split = outcome
            self._tell(task, "splitting", outcome)
            if outcome.impl is not None:
                yield task, Found(outcome.impl, "split", outcome.detail)

    def _tell(self, task: Any, name: str, outcome: SearchOutcome | SplitOutcome) -> None:
        """Says what a search spent, and what ended it."""
        effort = f"{counted(outcome.candidates, 'candidate')}, {outcome.processor:.1f} s of processor time"
        end = "verified" if outcome.impl is not None else LIMITS[outcome.reason or "exhausted"]
        print_message(self.name, f"{task.name}: {name}, {effort}: {end}")

    def _budget(self, candidates: int, seconds: float) -> SearchBudget:
        assert self.searching is not None
        several = SEVERAL if self.objective != "correctness" else 1
        most = min(candidates, self.searching.candidates)
        return SearchBudget(seconds, most, programs=several, meetings=MEETINGS * most)
