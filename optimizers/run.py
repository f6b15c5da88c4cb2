"""The loop of Algorithm 1 (paper, Section 3): what a run knows, and the iterations by which it learns more.

Invariants: a task leaves the unsolved ones in the iteration that gives it an entry, and never comes back; entries are
in task order; with costs an answer never becomes dearer; attempts are in the order of the algorithm, regardless of
threads; everything sampled is in the record, no matter how the run ends; the selection strategy decides what an
iteration shows and what it is called. A sub-task enters once, is sampled while neither it nor its task is solved, and
counts in no figure of the run's tasks but tokens; its answer is a demonstration like others.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import dspy

from optimizers.attempt import Attempt, TaskExample
from optimizers.budget import Spending
from optimizers.demonstrations import (
    DemoFitter,
    ShownDemos,
    copy_program,
    demonstrated_tasks,
    entry_keys,
    prompt_room,
    trimmed,
)
from optimizers.domain import Division, Domain, Outputs
from optimizers.errors import RunStopped
from optimizers.experience import Entry, Experience, IterationResult, LevelScore, TaskCount
from optimizers.ledger import TokenCount
from optimizers.observer import IterationStarted, Observer, RunStarted
from optimizers.requests import derive_seed
from optimizers.sampling import Sampler, demo_count
from optimizers.sampling_loop import IterationCounts, SamplingLoop
from optimizers.state import State
from optimizers.strategies import DemoSet, Selection

logger = logging.getLogger(__name__)
T = TypeVar("T")

MOST_REFUSED = 32
"""Answers that were refused that are judged once more at a run's end: a fixed number, so that a run can be repeated."""


# --- the function sigma (paper, Section 3.1): which right answer represents a solved task -----------------------------
# Invariants: the choice is one of the candidates; the same candidates, keys, lengths and random state give the same
# choice; how often an answer is sampled affects only which answer represents its group, not which group wins.


def choose_answer(
    candidates: Sequence[T],
    key: Callable[[T], Hashable],
    length: Callable[[T], Any],
    rng: random.Random,
) -> T:
    """One answer at random from each group of `key`; the shortest of these; among equals the first sampled.

    Args:
        candidates: Correct answers to one task, in the order of sampling; at least one.
        key: Equal for answers that mean the same; a candidate with the key None forms its own group.
        length: The length of a candidate, compared by `<`.
        rng: Chooses the representatives.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, candidate in enumerate(candidates):
        name = key(candidate)
        groups.setdefault(("alone", index) if name is None else ("group", name), []).append(index)
    chosen = [rng.choice(group) for group in groups.values()]
    return candidates[min(chosen, key=lambda index: (length(candidates[index]), index))]


def representative(
    domain: Domain, place: tuple[int, int], task: TaskExample, correct: Sequence[Attempt]
) -> Attempt | None:
    """The right answer that sigma chooses, of those that the domain confirms.

    `place` is the run's seed and the iteration.
    """
    candidates = list(correct)
    while candidates:
        answer = choose_answer(
            candidates,
            lambda each: domain.grouping_key(each.outputs),
            lambda each: rank(domain, task, each.outputs),
            random.Random(derive_seed("sigma", *place, task.key)),
        )
        if domain.confirm is None or domain.confirm(task.example, answer.outputs):
            return answer
        logger.warning("%s: an answer that had passed does not pass alone; another answer is chosen", task.key)
        candidates.remove(answer)
    return None


def rank(domain: Domain, task: TaskExample, outputs: Outputs) -> tuple[float, Any]:
    """The order of right answers, lower is better: the cost, if the domain has any, then the length."""
    cost = 0.0 if domain.cost is None else domain.cost(task.example, outputs)
    return math.inf if cost is None else cost, domain.length(outputs)


def choose(
    domain: Domain,
    place: tuple[int, int],
    task: TaskExample,
    correct: Sequence[Attempt],
    best: TaskCount,
    pooled: tuple[int, int],
    spent: TokenCount,
    known: Entry | None,
) -> Entry | None:
    """The task's entry after an iteration: sigma of its correct attempts, or the one that it has if it is better.

    Args:
        domain: What is preferred.
        place: The run's seed and the iteration.
        task: The task.
        correct: Its correct attempts in the iteration, in order; None is the result if there are none.
        best: The count at the temperature where most of its attempts were correct.
        pooled: Correct and scored attempts at all temperatures together.
        spent: Tokens spent on the task so far.
        known: The entry that it has.
    """
    answer = representative(domain, place, task, correct)
    if answer is None:
        return None
    new = Entry(
        task_key=task.key,
        inputs=dict(task.example.inputs().items()),
        outputs=answer.outputs,
        successes=best.successes,
        samples=best.samples,
        temperature=best.temperature,
        iteration=place[1],
        answer_temperature=answer.temperature,
        answer_sample=answer.sample,
        tokens=spent,
        calls=answer.calls,
        cost=None if domain.cost is None else domain.cost(task.example, answer.outputs),
        pooled_successes=pooled[0],
        pooled_samples=pooled[1],
    )
    if known is None or rank(domain, task, new.outputs) >= rank(domain, task, known.outputs):
        chosen = known or new
    elif known.composed_from:
        chosen = new
    else:
        chosen = replace(
            known,
            outputs=new.outputs,
            calls=new.calls,
            cost=new.cost,
            answer_temperature=new.answer_temperature,
            answer_sample=new.answer_sample,
            answer_iteration=new.iteration,
            held_out=new.held_out,
        )
    return _with_dearest(domain, task, chosen, [each.outputs for each in (*correct, *([known] if known else ()))])


def _with_dearest(domain: Domain, task: TaskExample, entry: Entry, right: Sequence[Outputs]) -> Entry:
    if domain.cost is None or entry.cost is None:
        return entry
    cost, dearest = max(((domain.cost(task.example, each) or 0.0, each) for each in right), key=lambda pair: pair[0])
    known = entry.cost if entry.dearer is None else entry.dearer[0]
    return replace(entry, dearer=(cost, dearest)) if cost > known else entry


def composed(
    domain: Domain, index: int, task: TaskExample, found: Division, entries: Mapping[str, Entry], spent: TokenCount
) -> Entry:
    """The entry of a task whose answer is composed of those of sub-tasks, with the counts of the hardest."""
    hardest, answer = min((entries[key] for key in found.origins), key=lambda entry: entry.rate), found.answer or {}
    return replace(
        hardest, task_key=task.key, inputs=dict(task.example.inputs().items()), outputs=answer, calls={},
        iteration=index, tokens=spent, cost=None if domain.cost is None else domain.cost(task.example, answer),
        answer_iteration=None, held_out=None, composed_from=tuple(found.origins),
    )  # fmt: skip


# --- the loop of Algorithm 1 ------------------------------------------------------------------------------------------


@dataclass
class Run:
    """How a run samples, chooses and reports.

    Attributes:
        program: The working copy; its demonstrations are those of the current iteration.
        granularity: m, for the record.
        max_errors: Failures that end the run, as for `AdaptiveFewShot`.
        stop_at_score: Percentage of solved tasks that ends it.
    """

    program: dspy.Module
    fitter: DemoFitter
    sampler: Sampler
    selection: Selection
    domain: Domain
    spending: Spending
    granularity: int
    observers: Sequence[Observer]
    max_errors: int | None = None
    stop_at_score: float | None = None

    @property
    def room(self) -> int | None:
        """Tokens that a prompt may have; None: no limit."""
        return prompt_room(dspy.settings.lm, self.spending.budget.context)

    @property
    def settings(self) -> dict[str, Any]:
        """The run's settings, for the record."""
        sampling, budget = asdict(self.sampler.sampling), asdict(self.spending.budget)
        others = {"granularity": self.granularity, "selection": self.selection.name, "threshold": self.domain.threshold}
        return {**sampling, **others, "budget": budget}

    def tell(self, event: str, *payload: Any) -> None:
        """Tells every observer that has a method for it of an event."""
        for observer in self.observers:
            if (heard := getattr(observer, event, None)) is not None:
                heard(*payload)

    def fit(self, state: State, demos: Sequence[Entry]) -> Sequence[Entry]:
        """The demonstrations within the limits for prompts with any of the tasks."""
        tasks = [task for key, task in state.tasks.items() if key not in state.too_long]
        return self.fitter.fit(self.program, demos, tasks, self.room, state.most_demos).demos

    def program_with(self, demos: Sequence[Entry]) -> dspy.Module:
        """A copy of the program that carries these demonstrations."""
        program = copy_program(self.program)
        self.fitter.set(program, demos)
        return program

    def adopt(self, state: State, program: dspy.Module) -> None:
        """Adopts the demonstrations and the instructions of another optimizer's program."""
        made, tasks = dict(program.named_predictors()), state.tasks.values()
        for name, predictor in self.program.named_predictors():
            predictor.demos, predictor.signature = made[name].demos, made[name].signature
        examples = [task.example for task in tasks]
        self.program = trimmed(self.program, examples, self.room, self.spending.budget.demos)
        state.carried = demonstrated_tasks(self.program, tasks)

    def record(self, state: State, stopped: str, message: str, demos: Sequence[Entry] = ()) -> Experience:
        """The record of the run."""
        return Experience(
            tasks=tuple(state.tasks),
            entries=tuple(state.solved.values()),
            iterations=tuple(state.iterations),
            attempts=state.attempts,
            stopped=stopped,
            message=message,
            demos=state.carried + entry_keys(demos),
            validation=tuple(state.validation),
            refused=state.refused,
            tokens=self.spending.tokens,
            overhead=self.spending.overhead.counts,
            seconds=self.spending.seconds,
            settings=self.settings,
        )


def start(state: State, run: Run) -> None:
    """Announces the run."""
    solved = tuple(key for key in state.tasks if key in state.entries)
    examples = {key: task.example for key, task in state.tasks.items()}
    run.tell("run_started", RunStarted(tuple(state.tasks), solved, run.settings, examples))


def learn(state: State, run: Run) -> str:
    """Runs the strategy's iterations while a task is open; returns why they ended.

    The strategy starts over where sub-tasks have entered; and where answers have costs, until the budget is reached or
    none got cheaper.
    """
    demo_sets, first = run.selection.demo_sets(state), 0
    while state.open:
        demo_set = next(demo_sets, None)
        if demo_set is None:
            cheaper = any(result.improved for result in state.iterations[first:])
            improving = run.domain.cost is not None and (run.spending.budget.limited or cheaper)
            if improving or state.fresh:
                demo_sets, first = run.selection.demo_sets(state), len(state.iterations)
                demo_set = next(demo_sets, None)
        if demo_set is None:
            break
        iterate(state, run, demo_set)
        percent = 100 * state.solved_total / len(state.tasks)
        if state.unsolved and run.stop_at_score is not None and percent >= run.stop_at_score:
            return "score"
    return "exhausted" if state.unsolved else "solved"


def iterate(state: State, run: Run, demo_set: DemoSet) -> State:
    """One iteration over all open tasks (Algorithm 1, lines 6 to 17); returns the state, which has learned from it.

    Raises:
        RunStopped: A budget is reached, the LM fails, or the user interrupts; everything sampled until then is in
            the record, and tasks solved by it are solved.
    """
    reached, most, done = run.spending.reached(), run.spending.budget.iterations, len(state.iterations)
    if most is not None and done >= most:
        reached = f"{done} iteration{'' if done == 1 else 's'} of {most}"
    if reached:
        raise RunStopped("budget", f"budget reached: {reached}")
    if run.domain.learn is not None:
        run.domain.learn(state.entries, state.attempts)
    started, index, tasks = time.monotonic(), len(state.iterations), state.open
    shown = run.fitter.show(run.program, demo_set, tasks, run.room, state.most_demos)
    counts, stop = _sample(state, run, index, demo_set, shown, tasks)
    earned = _earned(state, run, index, tasks, counts, shown, complete=stop is None)
    learned, improved = state.extend(earned)
    compositions, entered = _divide(state, index)
    solved = [key for key in state.tasks if key in (*learned, *compositions)]
    costs = {key: state.solved[key].cost for key in state.tasks if key in state.solved}
    read = run.spending.overhead_input + sum(count.input for count in state.spent.values())
    result = IterationResult(
        index=index, label=demo_set.label, cycle=demo_set.cycle, level=demo_set.level,
        demos=state.carried + entry_keys(shown.demos), left_out=entry_keys(shown.left_out),
        tasks=tuple(task.key for task in tasks), reasons=shown.reasons,
        counts=tuple(count for task in tasks for count in counts.counts(task)),
        solved=tuple(solved), solved_total=state.solved_total,
        solved_parts=tuple(key for key in learned if key not in state.tasks), composed=compositions,
        pass_at_1=state.pass_at(1), pass_at_8=state.pass_at(8), pass_at_n=state.pass_at(None),
        pass_at_1_pooled=state.pass_at(1, pooled=True), pass_at_8_pooled=state.pass_at(8, pooled=True),
        tokens=counts.tokens, tokens_prompt_per_task=read / len(state.tasks),
        samples=counts.samples, failures=counts.failures, unknown=counts.unknown,
        seconds=time.monotonic() - started, seconds_sampling=counts.seconds, seconds_verifying=counts.metric_seconds,
        complete=stop is None, improved=improved,
        costs={key: cost for key, cost in costs.items() if cost is not None},
    )  # fmt: skip
    _warn_of_unanswered(state, result)
    state.iterations.append(result)
    run.tell("iteration_finished", result)
    if entered:
        run.tell("parts_entered", entered)
    if stop is not None:
        raise stop
    return state


def choose_demos(state: State, run: Run, validation: Sequence[TaskExample] = ()) -> Sequence[Entry]:
    """The demonstrations of the compiled program: of the strategy's candidates the best on the validation set."""
    candidates = run.selection.candidates(state)
    if not candidates:
        return ()
    chosen = _validate(state, run, candidates, validation) if validation and len(candidates) > 1 else 0
    return run.fit(state, candidates[chosen].demos)


def hold_out(state: State) -> None:
    """Marks the entries of the run's tasks, each once, with the held-out verdicts on their answers."""
    if state.domain.hold_out is None:
        return
    own = [key for key in state.tasks if key in state.solved and state.solved[key].held_out is None]
    others = [key for key in state.tasks if key in state.nearest_misses][:MOST_REFUSED]
    right = [(state.tasks[key].example, state.solved[key].outputs) for key in own]
    wrong = [(state.tasks[key].example, state.nearest_misses[key]) for key in others]
    found = state.domain.hold_out(right, wrong)
    for key, verdict in zip(own, found, strict=False):
        state.solved[key] = replace(state.solved[key], held_out=verdict)
        if verdict is not None and verdict.answer == "failed":
            logger.warning("%s: its answer fails on held-out data: %s", key, verdict.reason)
    judged = zip(others, found[len(own) :], strict=True)
    state.refused = {key: verdict for key, verdict in judged if verdict is not None}


def _sample(
    state: State, run: Run, index: int, demo_set: DemoSet, shown: ShownDemos, tasks: Sequence[TaskExample]
) -> tuple[IterationCounts, RunStopped | None]:
    """Announces and samples an iteration; returns its counts, and why it ended early, if it did."""
    sampling, counts, before = run.sampler.sampling, IterationCounts(run.sampler.sampling), len(state.attempts)
    total = len(tasks) * len(sampling.temperatures) * sampling.num_samples
    event = IterationStarted(
        index, demo_set.label, demo_set.cycle, state.carried + entry_keys(shown.demos), entry_keys(shown.left_out),
        tuple(task.key for task in tasks), total, run.program, run.spending.overhead.counts, shown.reasons,
    )  # fmt: skip
    run.tell("iteration_started", event)

    def take(attempt: Attempt) -> None:
        state.attempts.append(attempt)
        counts.add(attempt)
        run.spending.add(attempt.tokens)
        run.tell("sample_done", attempt)

    left = None if run.max_errors is None else run.max_errors - sum(each.failures for each in state.iterations)
    worked = any(each.samples > each.failures for each in state.iterations)
    loop = SamplingLoop(run.sampler, run.spending, take, state.unanswered, left, partial(run.tell, "in_flight"), worked)
    taught = run.fitter.names if run.domain.traced_demos and index >= 0 else ()
    try:
        all_jobs = run.sampler.jobs(index, tasks)
        jobs = (job for job in all_jobs if not counts.enough(job[0].task.index, job[0].temperature))
        stop = loop.run(run.program, jobs, counts, total, taught, shown.own_programs)
    finally:
        state.attempts.arrange(before, counts.places)
    if stop is not None and stop.stopped == "interrupted":
        stop = RunStopped(stop.stopped, f"interrupted in iteration {demo_set.label}")
    return counts, stop


def _earned(
    state: State,
    run: Run,
    index: int,
    tasks: Sequence[TaskExample],
    counts: IterationCounts,
    shown: ShownDemos,
    *,
    complete: bool,
) -> dict[str, Entry]:
    """The entries that sigma chooses, by task; the state knows what was spent, refused and nearly right."""
    for task in tasks:
        state.spent[task.key] = state.spent.get(task.key, TokenCount()) + counts.spent(task.index)
    by_index, earned = {task.index: task for task in tasks}, dict[str, Entry]()
    sampled = (state.attempts[place] for place in range(len(state.attempts) - counts.samples, len(state.attempts)))
    for number, attempts in groupby(sampled, key=lambda attempt: attempt.task):
        task, correct, refused = by_index[number], list[Attempt](), complete
        program = shown.own_programs.get(task.key, run.program)
        nearest: tuple[tuple[float, float, int], Mapping[str, Any]] | None = None
        right, most = Counter[float](), run.sampler.sampling.stop_after or math.inf
        for attempt in attempts:  # of which most are wrong, and not kept in memory
            if right[attempt.temperature] >= most:  # it was in flight, and may not have been in another run
                continue
            right[attempt.temperature] += attempt.passed
            refused &= attempt.too_long
            if attempt.passed:
                correct.append(attempt)
            elif attempt.scored and attempt.outputs:
                rank = run.domain.closeness(attempt), -attempt.temperature, -attempt.sample
                nearest = (rank, attempt.outputs) if nearest is None or rank > nearest[0] else nearest
            if complete and attempt.left_out and not attempt.too_long:
                kept = demo_count(program) - attempt.left_out
                state.most_demos = kept if state.most_demos is None else min(state.most_demos, kept)
        if refused:
            state.too_long.add(task.key)
        if nearest is not None and nearest[0][0] >= state.closest.get(task.key, nearest[0][0]):
            state.closest[task.key], state.nearest_misses[task.key] = nearest[0][0], nearest[1]
        place, spent, known = (run.sampler.sampling.seed, index), state.spent[task.key], state.solved.get(task.key)
        best, pooled = counts.best(task), counts.pooled(task)
        if entry := choose(run.domain, place, task, correct, best, pooled, spent, known):
            earned[task.key] = entry
    return earned


def _divide(state: State, index: int) -> tuple[dict[str, tuple[str, ...]], dict[str, dict[str, dspy.Example]]]:
    """Solves tasks by composing answers to sub-tasks, and adds sub-tasks of the others.

    Returns:
        By task, the sub-tasks of whose answers its own is composed, and the sub-tasks that enter.
    """
    made, entered = dict[str, tuple[str, ...]](), dict[str, dict[str, dspy.Example]]()
    if (divide := state.domain.divide) is None:
        return made, entered
    for task in state.unsolved:
        own = [key for key, (_, whole) in state.parts.items() if whole == task.key and key in state.solved]
        found = divide(task.example, {key: state.solved[key].outputs for key in own})
        if found.answer is not None:
            entry = composed(state.domain, index, task, found, state.solved, state.spent.get(task.key, TokenCount()))
            state.extend({task.key: entry})
            made[task.key] = found.origins
            continue
        for key, example in found.parts.items():
            if key not in state.parts:
                state.parts[key] = TaskExample(len(state.tasks) + len(state.parts), key, example), task.key
                entered.setdefault(task.key, {})[key] = example
    state.fresh = bool(entered)
    return made, entered


def _validate(state: State, run: Run, candidates: Sequence[DemoSet], tasks: Sequence[TaskExample]) -> int:
    """Index of the candidate whose demonstrations solve the validation tasks best; the first of equals."""
    scores: dict[int, float] = {}
    for place, candidate in enumerate(candidates):
        if place and entry_keys(candidate.demos) == entry_keys(candidates[place - 1].demos):
            continue  # measuring the same demonstrations twice is useless
        # The compiled program shows every task the same.
        shown = run.fitter.show(run.program, replace(candidate, select=None), tasks, run.room, state.most_demos)
        counts, stop = _sample(state, run, -1 - place, candidate, shown, tasks)
        if stop is not None:
            raise stop
        best = [counts.best(task) for task in tasks]
        scores[place] = sum(count.successes / count.samples for count in best if count.samples) / len(tasks)
        state.validation.append(LevelScore(candidate.level, candidate.label, entry_keys(shown.demos), scores[place]))
    return max(scores, key=lambda place: (scores[place], -place))


def _warn_of_unanswered(state: State, result: IterationResult) -> None:
    again = "it is tried again, but no longer counts among the failures that end the run"
    for key in (key for key in state.tasks if key in {*result.unanswered} - state.unanswered):
        consequence = "its prompt is too long for the LM" if key in state.too_long else again
        logger.warning("%s: no sample got an answer that was scored; %s", key, consequence)
