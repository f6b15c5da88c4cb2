"""`pipeline.generate` with all it has: the LM, then classical synthesis and repairs of the LM's nearest failures."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dspy

from optimizers import Attempt, Budget, Sampling
from optimizers.sampling import Sampler
from optimizers.sampling_loop import sample_until_solved
from pipeline.actions.advice import Advice, advise
from pipeline.actions.generate_programs import clean_answers, how, preferred, search_clean
from pipeline.actions.offers import (
    NO_OFFER,
    Generated,
    Offer,
    Offering,
    Solution,
    WrittenOffer,
    findings_of,
    write_offer,
)
from pipeline.actions.split_tasks import SPLIT, as_json, detail, headline, split_tasks
from pipeline.agent.splitter import Splitter
from pipeline.base.choices import Objective, ProposerKind, is_embedded
from pipeline.base.config import ProgramConfig
from pipeline.base.errors import ClusterUnavailable, Exit, UsageError, print_message
from pipeline.base.text import counted
from pipeline.cli.progress import sampling_lines
from pipeline.cluster.cluster import open_workers
from pipeline.reporting.failures import nearest_failures, summarize
from pipeline.running.session import ProgramSession, budget, fitted, lm_session, open_program
from pipeline.splitting.outcomes import SplitOutcome
from pipeline.splitting.plan import Splitting
from pipeline.synthesis import SearchOutcome
from pipeline.synthesis.parallel_search import solve_all
from pipeline.synthesis.results import programs_of, why
from pipeline.synthesis.search_budget import RepairOutcome, search_budget
from pipeline.verification.workers import Workers
from step_runtime.base.errors import TaskError
from step_runtime.tasks.task import Task

MINUTES = 2.0
"""Limit for one task, unless another is given."""

LM_SHARE = 0.25
"""The most of a task's time for the LM."""
SEARCH_SHARE = 0.7
"""The search's share of what is left, where it does not run beside the repairs."""

MOST_REPAIRED = 12
"""Failed programs around which repairs are searched."""


@dataclass
class Progress:
    """The programs that the stages have found so far, by the task's name."""

    solutions: dict[str, list[Solution]] = field(default_factory=dict)
    offers: dict[str, Offer] = field(default_factory=dict)
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    repairs: dict[str, RepairOutcome] = field(default_factory=dict)
    searches: dict[str, SearchOutcome] = field(default_factory=dict)
    splits: dict[str, SplitOutcome] = field(default_factory=dict)
    proposer: ProposerKind | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each task was worked on, by the clock."""
    stopped: str = ""
    _earlier: dict[str, float] = field(default_factory=dict)
    """The same without the present stage."""

    def offer(self, name: str) -> Offer:
        """The offer for a solved task."""
        return self.offers.get(name) or Offer.unpriced(self.solutions[name])

    def advice(self, task: Task) -> Advice:
        """Advice on an unsolved task."""
        search = self.searches.get(task.name)
        missed, exhausted = (search.missed, search.reason == "exhausted") if search else (None, False)
        return advise(task, self.attempts.get(task.name, ()), missed, exhausted=exhausted, proposer=self.proposer)

    def begin(self) -> float:
        """The time, at which a stage begins."""
        self._earlier = dict(self.seconds)
        return time.monotonic()

    def spent(self, name: str, seconds: float, start: float) -> None:
        """Adds the time of a part of a stage that began at `start`; parts that run side by side are counted once."""
        before = self.seconds.get(name, 0.0)
        self.seconds[name] = max(before, min(before + seconds, time.monotonic() - start + self._earlier.get(name, 0.0)))

    def unsolved(self, tasks: Iterable[Task]) -> list[Task]:
        """The tasks without a solution."""
        return [task for task in tasks if task.name not in self.solutions]


@dataclass(frozen=True)
class Stages:
    """One call of the command.

    Attributes:
        name: The command's, for messages.
        tasks: The tasks to solve.
        config: The program to sample and its settings.
        minutes: The limit for one task.
        candidates: The search's limit, None for the default.
        objective: What is preferred among verified programs; but for `correctness`, solved tasks are searched, too.
        splitting: When and how tasks are split.
    """

    name: str
    tasks: Sequence[Task]
    config: ProgramConfig
    minutes: float
    candidates: int | None = None
    objective: Objective = "correctness"
    splitting: Splitting = field(default_factory=Splitting)

    def run(self) -> Progress:
        """The LM first, then search and repairs side by side; an interrupt ends them and keeps the programs found."""
        progress = Progress()
        try:
            with open_workers(self.config, self.name) as workers:
                self._run_on(workers, progress)
        except TaskError as error:
            raise UsageError(str(error)) from None
        except ClusterUnavailable as error:
            if not progress.solutions:
                raise
            progress.stopped = str(error)
        except KeyboardInterrupt:
            progress.stopped = "interrupted"
        return progress

    def _run_on(self, workers: Workers, progress: Progress) -> None:
        session = open_program(self.config, workers, partial(print_message, self.name))
        stages = f"{session.lm.model}, then search and repairs"
        limit = f"up to {self.minutes:g} min per task"
        print_message(self.name, f"{counted(len(self.tasks), 'task')}, {stages}, {limit}")
        with lm_session(session.lm, self.config.verdict_cache, workers) as metric:
            progress.proposer = None if is_embedded(session.lm.model) else session.config.proposer
            session.agent.verifier.metric, session.agent.verifier.tasks = metric, list(self.tasks)
            offering = Offering(self.objective, metric)
            start, turns = time.monotonic(), math.ceil(len(self.tasks) / workers.count)
            limits = budget(self.config.model_copy(update={"max_minutes": LM_SHARE * self.minutes * turns}))
            self._sample(session, limits, offering, progress)
            if not progress.stopped:
                left = 60 * self.minutes - (time.monotonic() - start) / turns
                left = max(left, 60 * self.minutes * (1 - LM_SHARE))
                searching = self.splitting.search_seconds(left)
                self._pursue(offering, workers, progress, searching)
                self._split(offering, workers, progress, left - searching, session.lm.model)
                self._improve(offering, workers, progress)
            for task in self.tasks if not progress.stopped else ():
                if task.name in progress.solutions:
                    progress.offers[task.name] = offering.offer(task, progress.solutions[task.name])

    def _sample(self, session: ProgramSession, limits: Budget, offering: Offering, progress: Progress) -> None:
        config, lm = self.config, session.lm.model.partition("/")[0]
        sampling = Sampling(config.samples, config.temperatures, session.threads, config.seed)
        examples = {task.name: dspy.Example(task=task).with_inputs("task") for task in self.tasks}
        watch = sampling_lines(len(self.tasks), config.samples * len(config.temperatures))
        sampler, suffices = Sampler(offering.metric, sampling), clean_answers(self.tasks, offering)
        start = progress.begin()
        fit = fitted(session, self.tasks)
        if fit.note:
            print_message(self.name, fit.note)
        found = sample_until_solved(
            fit.agent, examples, sampler,
            budget=limits, watch=watch, suffices=suffices, own_programs=fit.shown.own_programs,
        )  # fmt: skip
        progress.attempts |= found.attempts
        for task in self.tasks:
            taken = sum(each.seconds + each.metric_seconds for each in found.attempts[task.name])
            progress.spent(task.name, taken, start)
            answer = preferred(task, found, offering)
            if answer is not None:
                source = lm, how(answer, found.attempts[task.name])
                self._keep(task, str(answer.outputs["impl"]), source, offering, progress)
        if found.stopped in ("interrupted", "failed"):
            progress.stopped = found.message if found.stopped == "failed" else found.stopped

    def _split(self, offering: Offering, workers: Workers, progress: Progress, left: float, model: str) -> None:
        """Splits what is unsolved, with so many seconds left for each task; an LM that writes text says where."""
        splitter = None if is_embedded(model) else Splitter()
        unsolved = progress.unsolved(self.tasks)
        start, budget = progress.begin(), search_budget(left, self.candidates, thorough=self.objective != "correctness")
        for task, outcome in split_tasks(self.name, unsolved, self.splitting, budget, workers, splitter):
            progress.spent(task.name, outcome.seconds, start)
            progress.splits[task.name] = outcome
            for draft in (outcome.impl, *outcome.variants):
                if draft is not None:
                    self._keep(task, draft, (SPLIT, detail(outcome)), offering, progress)

    def _pursue(self, offering: Offering, workers: Workers, progress: Progress, left: float) -> None:
        """Searches and repairs side by side, with so many seconds left for each task."""
        thorough = self.objective != "correctness"
        repaired = progress.unsolved(self.tasks)
        searched = list(self.tasks) if thorough else repaired
        if not searched or not left:
            return
        print_message(self.name, f"search and repairs: {counted(len(searched), 'task')}")
        share = 1.0 if len(searched) + len(repaired) <= workers.count else SEARCH_SHARE
        limits = search_budget(share * left, self.candidates, thorough=thorough)
        nearest = {task.name: nearest_failures(progress.attempts.get(task.name, ())) for task in searched}
        drafts = {name: [failure.impl for failure in found[:MOST_REPAIRED]] for name, found in nearest.items()}
        seconds = left if share == 1 else left - share * left
        start = progress.begin()
        for task, outcome in solve_all(searched, limits, repaired, seconds, drafts, workers):
            progress.spent(task.name, outcome.seconds, start)
            if isinstance(outcome, SearchOutcome):
                progress.searches[task.name] = outcome
                for draft in programs_of(outcome):
                    self._keep(task, draft, ("search", counted(outcome.candidates, "candidate")), offering, progress)
            else:
                progress.repairs[task.name] = outcome
                if outcome.impl is not None:
                    detail = f"{'; '.join(outcome.edits)}; {counted(outcome.tried, 'program')} tried"
                    self._keep(task, outcome.impl, ("repair", detail), offering, progress)

    def _improve(self, offering: Offering, workers: Workers, progress: Progress) -> None:
        """Searches on for a while where all programs of a task have findings."""
        found = {
            name: [(each.impl, each.by, each.detail) for each in solutions]
            for name, solutions in progress.solutions.items()
        }
        limits = search_budget(60 * self.minutes, self.candidates, thorough=False)
        start = progress.begin()
        for task, outcome in search_clean(self.tasks, found, limits, workers, offering):
            progress.spent(task.name, outcome.seconds, start)
            for draft in programs_of(outcome):
                self._keep(task, draft, ("search", counted(outcome.candidates, "candidate")), offering, progress)

    def _keep(self, task: Task, draft: str, source: tuple[str, str], offering: Offering, progress: Progress) -> None:
        known = progress.solutions.setdefault(task.name, [])
        solution = offering.solution(task, draft, *source)
        if solution.impl in [each.impl for each in known]:
            return
        known.append(solution)
        if len(known) == 1:
            verified = f"{len(progress.solutions)} of {counted(len(self.tasks), 'task')} verified"
            print_message(self.name, f"{verified}, the last by {source[0]}")


def generate_in_stages(stages: Stages, files: Mapping[str, Sequence[Path]], texts: Mapping[str, str]) -> Generated:
    """Runs the stages, and writes the programs to each task's files; comments in the task files' `texts` are kept.

    Raises:
        UsageError: The program can't be used, a task's own code fails, or a file can't be written.
        LMUnavailable: The LM can't be used.
        ClusterUnavailable: The cluster can't be used.
    """
    start = time.monotonic()
    progress = stages.run()
    written = {
        task.name: write_offer(task, progress.offer(task.name), files[task.name], texts.get(task.name))
        for task in stages.tasks
        if task.name in progress.solutions
    }
    advice = {task.name: progress.advice(task) for task in progress.unsolved(stages.tasks)}
    result = {
        "proposer": "all",
        "solved": [task.name for task in stages.tasks if task.name in progress.solutions],
        "unsolved": list(advice),
        "tasks": {task.name: _task_json(task.name, progress, written.get(task.name), advice) for task in stages.tasks},
        "warnings": findings_of(written),
        "seconds": round(time.monotonic() - start, 3),
    }
    text = "\n\n".join(
        "\n".join(_task_text(task.name, progress, written.get(task.name), advice)) for task in stages.tasks
    )
    if progress.stopped:
        code = Exit.INTERRUPTED if progress.stopped == "interrupted" else Exit.LM
        return Generated(result, text, code, f"{progress.stopped}; verified programs are kept, see above")
    return Generated(result, text, Exit.NO if advice else Exit.OK)


def _task_json(
    name: str, progress: Progress, written: WrittenOffer | None, advice: Mapping[str, Advice]
) -> Mapping[str, Any]:
    attempts = progress.attempts.get(name, [])
    repair, search, split = progress.repairs.get(name), progress.searches.get(name), progress.splits.get(name)
    return {
        "passed": written is not None,
        **(written.to_dict() if written else NO_OFFER),
        "seconds": round(progress.seconds.get(name, 0.0), 3),
        "answers": sum(attempt.scored for attempt in attempts),
        **summarize(attempts).to_dict(),
        "repair": repair and asdict(repair),
        "search": search and asdict(search),
        "split": split and as_json(split),
        "advice": advice[name].to_dict() if name in advice else None,
    }


def _task_text(
    name: str, progress: Progress, written: WrittenOffer | None, advice: Mapping[str, Advice]
) -> Iterator[str]:
    if written is not None:
        yield f"{name}: verified, found by {written.offer.best.by} ({written.offer.best.detail})"
        yield from (f"  {line}" for line in written.lines())
        return
    yield f"{name}: no verified program"
    failures = summarize(progress.attempts.get(name, []))
    yield from failures.counted()
    repair, search = progress.repairs.get(name), progress.searches.get(name)
    if repair is not None:
        yield f"  repairs: {counted(repair.tried, 'program')} in {repair.seconds:.1f} s: {why(repair)}"
    if search is not None:
        yield f"  search: {counted(search.candidates, 'candidate')} in {search.seconds:.1f} s: {why(search)}"
    if name in progress.splits:
        yield f"  {headline(name, progress.splits[name]).removeprefix(f'{name}: ')}"
    yield from advice[name].lines()
    yield from failures.shown(1)
