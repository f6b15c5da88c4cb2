"""`pipeline.generate`: solvers try each task in turn, until one has a program that passes."""

from __future__ import annotations

import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dspy

from optimizers import Attempt, Sampling, TokenCount
from optimizers.sampling import Sampler
from optimizers.sampling_loop import sample_until_solved
from pipeline.actions.advice import Advice, advise
from pipeline.base.config import ClusterConfig, ProgramConfig
from pipeline.base.errors import ClusterUnavailable, Exit, UsageError, print_message
from pipeline.base.files import shown, write_text
from pipeline.base.languages import DEFAULT
from pipeline.base.outputs import brief, warnings_json
from pipeline.base.settings import SEARCH, Figure, Objective, ProposerKind, is_embedded
from pipeline.base.text import counted, exact_number
from pipeline.cli.progress import SamplingLines
from pipeline.cluster.cluster import open_workers
from pipeline.languages import registry
from pipeline.languages.language import Task
from pipeline.reporting.failures import MAX_FAILURES, summarize
from pipeline.rewriting.simplification import annotated, simplified
from pipeline.running.plan import RERUN, Plan, budget, trusted
from pipeline.splitting.split_search import SplitOutcome, split_all
from pipeline.synthesis import SearchBudget, SearchOutcome
from pipeline.synthesis.parallel_search import search_all
from pipeline.synthesis.search_budget import LIMITS, SEVERAL
from pipeline.verification.limits import verification_settings
from pipeline.verification.metric import Metric
from pipeline.verification.pool import Workers
from pipeline.verification.pricing import Pricing
from step_runtime.base.errors import Diagnostic, TaskError
from step_runtime.base.units import TRADED, figures_key
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.rewriting.optimizing import Explored
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task as StepTask

# --- the program that is offered: simplified, the cheapest where a figure is asked for --------------------------------

PRICED = 60
"""Programs that are priced around a verified one, where a figure is asked for."""
_VERIFIED = 8
"""Rewritten programs that are verified, the cheapest first, at most."""


class Found(NamedTuple):
    """A program that passed: its text, what found it, and how, in words."""

    text: str
    by: str
    detail: str


@dataclass(frozen=True)
class Solution:
    """A verified program.

    `draft` is what was found, `impl` what became of it; `figures` are what that costs on the default chip, if it was
    priced, and `findings` what `pipeline.verify` warns of in it.
    """

    impl: str
    draft: str
    by: str
    detail: str
    rewrites: tuple[str, ...] = ()
    figures: Mapping[Figure, float] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()


class Solutions:
    """Makes solutions of programs that passed; with an objective other than `correctness`, cheap ones."""

    def __init__(self, objective: Objective, metric: Metric) -> None:
        self.figure: Figure | None = None if objective == "correctness" else objective
        self.metric = metric

    def of(self, task: Any, found: Found) -> Solution:
        """The program, simplified where the language does that, or the cheapest rewrite that passes as it does."""
        is_step, impl = self.metric.language.name == DEFAULT, found.text
        if is_step:
            impl = simplified(task, impl, self.metric.replaces(task, impl))
        solution = Solution(impl, *found, findings=self.metric.findings(task, impl))
        if self.figure is None or not is_step:
            return solution
        try:
            explored = Pricing(task, DEFAULT_CHIP, self.metric.executor).explored(impl, self.figure, PRICED)
        except UsageError:
            return solution
        if not isinstance(explored, Explored):
            return solution
        own = next(each for each in explored.variants if not each.rewrites)
        costs = [(figures_key(each.cost.figures(), self.figure), each) for each in explored.variants]
        least = figures_key(own.cost.figures(), self.figure)
        cheaper = sorted((pair for pair in costs if pair[0] < least), key=lambda pair: pair[0])
        passes = self.metric.replaces(task, found.text)
        for _, variant in cheaper[:_VERIFIED]:
            text, figures = annotated(task, variant.text), dict(variant.cost.figures())
            if passes(text):
                findings = self.metric.findings(task, text)
                return replace(solution, impl=text, rewrites=variant.rewrites, figures=figures, findings=findings)
        return replace(solution, figures=dict(own.cost.figures()))

    def better(self, one: Solution | None, other: Solution) -> Solution:
        """The one without findings, else the cheaper, else the first."""
        return other if one is None else min(one, other, key=self._rank)

    def _rank(self, solution: Solution) -> tuple[object, ...]:
        cost = figures_key(solution.figures, self.figure) if self.figure and solution.figures else ()
        return bool(solution.findings), not cost, cost


def write_solution(task: Task, impl: str, files: Sequence[Path], text: str | None = None) -> None:
    """Writes a task's program, alone or with its task by the file's suffix.

    Comments and layout of the task file's `text` are kept.
    """
    for path in files:
        write_text(path, solved_text(task, impl, text) if path.suffix == ".yaml" else impl.rstrip() + "\n")


def solved_text(task: Task, impl: str, text: str | None = None) -> str:
    """The task with its program as `impl`, as YAML: the task's own text where that is possible."""
    if text is not None and isinstance(task, StepTask):
        text = re.sub(r"^impl:.*\n(?:(?:[ \t].*)?\n)*", "", f"{text.rstrip()}\n", flags=re.MULTILINE)
        own = f"{text.rstrip()}\n\nimpl: |\n{textwrap.indent(impl.rstrip(), '  ')}\n"
        try:
            found = loads_task(own, task.name)
        except TaskError:  # its layout leaves no place for a program
            return task.text_with(impl)
        if found.without_impl() == task.without_impl() and (found.impl or "").strip() == impl.strip():
            return own
    return task.text_with(impl)


# --- solvers try each task in turn ------------------------------------------------------------------------------------

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
        stages = []
        if plan is not None:
            most = len(plan.config.temperatures) * plan.config.samples
            stages.append(f"up to {counted(most, 'answer')} of {plan.lm.model}, program {plan.config.program}")
        if self.searching is not None:
            limit = f"{counted(self.searching.candidates, 'candidate')} or {self.searching.minutes:g} min"
            stages.append(f"search, up to {limit} of processor time")
        print_message(self.name, f"{counted(len(self.tasks), 'task')}, each: {'; then '.join(stages)}")
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


# --- files and reports ------------------------------------------------------------------------------------------------

Files = Mapping[str, Sequence[Path]]
Doubts = Mapping[str, Sequence[Diagnostic]]
"""Files, and warnings, by the name of their task."""


def output_files(
    tasks: Sequence[Task], output: str | None, form: str, language: str | None = None, *, force: bool
) -> Files:
    """The files for each task's program in the folder `output`; none if no folder is named.

    `form` is `yaml`, `text`, a file whose suffix is the language's name, or `both`; `force` says whether existing files
    may be overwritten.

    Raises:
        UsageError: A file exists and may not be overwritten.
    """
    if output is None:
        return {task.name: [] for task in tasks}
    own = registry.suffix(language)
    endings = {"yaml": (".yaml",), "text": (own,), "both": (".yaml", own)}[form]
    files = {task.name: [Path(output, f"{task.name}{ending}") for ending in endings] for task in tasks}
    existing = [path for paths in files.values() for path in paths if path.exists()]
    if existing and not force:
        more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
        raise UsageError(f"{existing[0]} exists{more}; use --force to overwrite, or another folder for -o")
    return files


def write(run: Generation, files: Files, texts: Mapping[str, str]) -> None:
    """Writes the programs found to each task's files, in which comments of the task files' `texts` are kept.

    Raises:
        UsageError: A file can't be written.
    """
    for task in run.tasks:
        if (solution := run.results[task.name].solution) is not None:
            write_solution(task, solution.impl, files[task.name], texts.get(task.name))


def as_json(run: Generation, files: Files, doubts: Doubts) -> dict[str, Any]:
    """The results for machines; `doubts` are warnings about the tasks themselves."""
    found = {name: own.solution.findings if own.solution else () for name, own in run.results.items()}
    return {
        "solved": [name for name, own in run.results.items() if own.solution],
        "unsolved": [name for name, own in run.results.items() if not own.solution],
        "tasks": {task.name: _as_json(task, run, files[task.name]) for task in run.tasks},
        "warnings": warnings_json({name: [*doubts.get(name, ()), *own] for name, own in found.items()}),
        **(_asked(run) if run.lm is not None else {}),
    }


def text(run: Generation, files: Files, doubts: Doubts) -> str:
    """The results for people."""
    texts = ["\n".join(_lines(task, run, files[task.name])) for task in run.tasks]
    doubtful = [f"{name}: warning: {brief(each)}" for name, found in doubts.items() for each in found]
    return "\n\n".join([*texts, *(["\n".join(doubtful)] if doubtful else [])])


def exit_code(name: str, run: Generation) -> Exit:
    """The exit code; what ended the command early is reported on stderr."""
    if run.stopped:
        ended = run.stopped != "budget" and run.lm is not None
        message = f"{run.message}; verified programs are kept, see above"
        print_message(name, f"{message}. {RERUN}" if ended else message)
    if run.stopped in ("interrupted", "failed"):
        return Exit.INTERRUPTED if run.stopped == "interrupted" else Exit.LM
    return Exit.OK if all(own.solution for own in run.results.values()) else Exit.NO


def _asked(run: Generation) -> dict[str, Any]:
    """The program that was sampled, its LM, and the tokens."""
    attempts = [attempt for result in run.results.values() for attempt in result.attempts]
    tokens = TokenCount.sum(count for attempt in attempts for count in attempt.tokens.values())
    return {
        "program": run.lm and run.lm.program,
        "lm": run.asked,
        "tokens": {"prompt": tokens.prompt, "completion": tokens.completion, "cached": tokens.cached},
        "tokens_estimated": tokens.estimated,
        "cost_usd": tokens.cost,
    }


def _advice(task: Task, run: Generation, result: Result) -> Advice | None:
    """Advice on an unsolved task; None for a task of another language."""
    if not isinstance(task, StepTask) or result.solution is not None:
        return None
    return advise(task, result.attempts, run.proposer, result.search, result.split)


def _as_json(task: Task, run: Generation, files: Sequence[Path]) -> dict[str, Any]:
    result, advice = run.results[task.name], _advice(task, run, run.results[task.name])
    solution, attempts = result.solution, result.attempts
    return {
        "passed": solution is not None,
        "impl": solution and solution.impl,
        "draft": solution and solution.draft,
        "found_by": solution and solution.by,
        "detail": solution and solution.detail,
        "rewrites": solution and list(solution.rewrites),
        "cost": solution and (dict(solution.figures) or None),
        "files": [str(file) for file in files] if solution else [],
        "answers": sum(attempt.scored for attempt in attempts),
        "temperature": next((attempt.temperature for attempt in attempts if attempt.passed), None),
        **summarize(attempts, run.lm.language if run.lm else None).to_dict(),
        "search": result.search and asdict(result.search),
        "split": result.split and result.split.to_dict(),
        "advice": advice and advice.to_dict(),
        **({"demonstrations": result.shown} if result.shown is not None else {}),
    }


def _lines(task: Task, run: Generation, files: Sequence[Path]) -> Iterator[str]:
    """The program of a task or the files that it was written to, or why there is none and what to do."""
    result, name = run.results[task.name], task.name
    if (solution := result.solution) is not None:
        yield f"{name}: verified, found by {solution.by} ({', '.join([solution.detail, *solution.rewrites])})"
        yield from (f"  {line}" for line in [shown(file) for file in files] or solution.impl.strip().splitlines())
        if solution.figures:
            yield f"  cost: {', '.join(f'{each} {exact_number(solution.figures[each])}' for each in TRADED)}"
        yield from (f"  warning: {brief(finding)}" for finding in solution.findings)
        return
    yield f"{name}: no verified program"
    failures = summarize(result.attempts, run.lm.language if run.lm else None)
    if run.lm is not None:
        yield from failures.counted()
    if result.search is not None:
        yield f"  search: {result.search.headline}"
    if result.split is not None:
        yield f"  splitting: {result.split.headline}"
        if result.split.reached is not None:
            reached, program = result.split.reached
            yield f"  as far as `{reached}`, the last value made:"
            yield from (f"    {line}" for line in program.strip().splitlines())
    if (advice := _advice(task, run, result)) is not None:
        yield from advice.lines()
    yield from failures.shown(MAX_FAILURES if run.searching is None else 1)
