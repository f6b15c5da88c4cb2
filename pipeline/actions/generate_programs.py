"""`pipeline.generate`: programs for new tasks, from an LM or by classical synthesis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dspy

from optimizers import Attempt, Sampling, TokenCount
from optimizers.demonstrations import ShownDemos
from optimizers.sampling import Sampler
from optimizers.sampling_loop import UntilSolved, sample_until_solved
from pipeline.actions.offers import (
    NO_OFFER,
    Generated,
    Offer,
    Offering,
    Solution,
    WrittenOffer,
    alternatives_folder,
    findings_of,
    write_offer,
)
from pipeline.actions.split_tasks import SPLIT, detail, headline, split_tasks
from pipeline.actions.split_tasks import as_json as split_json
from pipeline.base.choices import SEARCH, Objective
from pipeline.base.config import ClusterConfig, ProgramConfig
from pipeline.base.errors import ClusterUnavailable, Exit, UsageError, print_message
from pipeline.base.languages import DEFAULT
from pipeline.base.text import counted
from pipeline.cluster.cluster import open_workers
from pipeline.languages.language import Task
from pipeline.reporting.failures import summarize
from pipeline.running.session import RERUN, ProgramSession, budget, fitted, lm_session, open_program, trusted
from pipeline.splitting.outcomes import SplitOutcome
from pipeline.splitting.plan import Splitting
from pipeline.synthesis import SearchBudget, SearchOutcome, results
from pipeline.synthesis.parallel_search import search_all
from pipeline.verification.limits import verification_settings
from pipeline.verification.metric import Metric
from pipeline.verification.workers import Workers
from step_runtime.base.errors import TaskError
from step_runtime.tasks.task import Task as StepTask

UNSTRESSED = "stress-run: the command ended before the program ran on stress inputs; pipeline.verify runs it on them"
"""What is to be said of programs that are kept when a command is interrupted."""

MINUTES = 2.0
"""Limit for one task of a search without an LM, unless another is given."""

Files = Mapping[str, Sequence[Path]]
"""Files by the name of their task."""


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
    text = f".{language or DEFAULT}"
    endings = {"yaml": (".yaml",), "text": (text,), "both": (".yaml", text)}[form]
    files = {task.name: [Path(output, f"{task.name}{ending}") for ending in endings] for task in tasks}
    folders = [alternatives_folder(paths[0]) for paths in files.values()]
    existing = [path for path in (*(path for paths in files.values() for path in paths), *folders) if path.exists()]
    if existing and not force:
        more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
        raise UsageError(f"{existing[0]} exists{more}; use --force to overwrite, or another folder for -o")
    return files


def generate(name: str, tasks: Sequence[Task], files: Files, config: ProgramConfig, objective: Objective) -> Generated:
    """Samples a program until each task has a verified answer, and writes the answers.

    `name` is the command's, for messages; `objective` says what is preferred among the rewrites of the right answer.

    Raises:
        UsageError: The program can't be used, a task's own code fails, or a file can't be written.
        LMUnavailable: The LM can't be used.
        ClusterUnavailable: The cluster can't be used.
    """
    with open_workers(config, name) as workers:
        session = open_program(config, workers, partial(print_message, name))
        found, shown, offers = _sampled(name, tasks, session, workers, objective)
    written = _write(tasks, offers, files)
    result = _sampled_json(tasks, found, written, config.language) | {"program": config.program, "lm": session.lm.model}
    result["warnings"] = findings_of(written)
    for task, chosen in shown.reasons.items():
        result["tasks"][task]["demonstrations"] = chosen
    text = "\n\n".join(_sampled_text(task.name, found, written.get(task.name), config.language) for task in tasks)
    message = f"{found.message}; verified programs are kept, see above" if found.stopped else ""
    if found.stopped and found.stopped != "budget":
        code = Exit.INTERRUPTED if found.stopped == "interrupted" else Exit.LM
        return Generated(result, text, code, f"{message}. {RERUN}")
    return Generated(result, text, Exit.OK if len(written) == len(tasks) else Exit.NO, message)


def _sampled(
    name: str, tasks: Sequence[Task], session: ProgramSession, workers: Workers, objective: Objective
) -> tuple[UntilSolved, ShownDemos, dict[str, Offer]]:
    config = session.config
    most = len(config.temperatures) * config.samples
    source = f"{session.lm.model}, program {config.program}"
    print_message(name, f"{counted(len(tasks), 'task')}, {source}, up to {counted(most, 'answer')} per task")
    examples = {task.name: dspy.Example(task=task).with_inputs("task") for task in tasks}
    sampling = Sampling(config.samples, config.temperatures, session.threads, config.seed)
    fit = fitted(session, tasks)
    if fit.note:
        print_message(name, fit.note)
    with lm_session(session.lm, config.verdict_cache, workers, config.language) as metric:
        fit.agent.verifier.metric, fit.agent.verifier.tasks = metric, list(tasks)
        offering = Offering(objective, metric)
        found = sample_until_solved(
            fit.agent,
            examples,
            Sampler(trusted(metric), sampling),
            partial(_count, name, len(tasks), set()),
            budget(session.config),
            suffices=clean_answers(tasks, offering),
            own_programs=fit.shown.own_programs,
        )
        answers = _answers(tasks, found, session.lm.model, offering)
        return found, fit.shown, _offers(None if found.stopped == "interrupted" else offering, tasks, answers)


def _count(name: str, tasks: int, verified: set[str], task: str) -> None:
    """Says how many tasks are verified, with one more."""
    verified.add(task)
    print_message(name, f"{len(verified)} of {counted(tasks, 'task')} verified")


def clean_answers(tasks: Sequence[Task], offering: Offering) -> Callable[[Attempt], bool]:
    """Whether a right answer to one of the tasks is without findings."""
    by_name = {task.name: task for task in tasks}
    return lambda answer: offering.is_clean(by_name[answer.task_key], str(answer.outputs["impl"]))


def preferred(task: Task, found: UntilSolved, offering: Offering) -> Attempt | None:
    """The first right answer without findings, else the first right one; None without one."""
    clean = clean_answers([task], offering)
    return next(filter(clean, found.right(task.name)), found.found(task.name))


def _answers(
    tasks: Sequence[Task], found: UntilSolved, model: str, offering: Offering
) -> dict[str, list[tuple[str, str, str]]]:
    """For each task solved the preferred answer, what gave it, and how."""
    lm = model.partition("/")[0]
    answers = {task.name: preferred(task, found, offering) for task in tasks}
    return {
        name: [(str(answer.outputs["impl"]), lm, how(answer, found.attempts[name]))]
        for name, answer in answers.items()
        if answer is not None
    }


def how(answer: Attempt, attempts: Sequence[Attempt]) -> str:
    """Which of the attempts at a task an answer is."""
    return f"answer {attempts.index(answer) + 1}, temperature {answer.temperature}"


def _offers(
    offering: Offering | None, tasks: Sequence[Task], found: Mapping[str, Sequence[tuple[str, str, str]]]
) -> dict[str, Offer]:
    """An offer for each task solved; without `offering`, as after an interrupt, programs stay as they were found."""
    offers: dict[str, Offer] = {}
    with suppress(KeyboardInterrupt):
        for task in tasks:
            if offering is not None and task.name in found:
                solutions = [offering.solution(task, *each) for each in found[task.name]]
                offers[task.name] = offering.offer(task, list({each.impl: each for each in solutions}.values()))
    for name, drafts in found.items():
        unchanged = [Solution(draft, draft, by, detail, findings=(UNSTRESSED,)) for draft, by, detail in drafts]
        offers.setdefault(name, Offer.unpriced(unchanged))
    return offers


def _write(tasks: Sequence[Task], offers: Mapping[str, Offer], files: Files) -> dict[str, WrittenOffer]:
    return {task.name: write_offer(task, offers[task.name], files[task.name]) for task in tasks if task.name in offers}


def _sampled_json(
    tasks: Sequence[Task], found: UntilSolved, written: Mapping[str, WrittenOffer], language: str | None
) -> dict[str, Any]:
    """Solved and unsolved names, then task by task the program, or why there is none."""
    attempts = [attempt for attempts in found.attempts.values() for attempt in attempts]
    tokens = TokenCount.sum(count for attempt in attempts for count in attempt.tokens.values())
    solved = [task.name for task in tasks if found.found(task.name)]
    return {
        "solved": solved,
        "unsolved": [task.name for task in tasks if task.name not in solved],
        "tasks": {task.name: _task_json(task.name, found, written.get(task.name), language) for task in tasks},
        "tokens": {"prompt": tokens.prompt, "completion": tokens.completion, "cached": tokens.cached},
        "tokens_estimated": tokens.estimated,
        "cost_usd": tokens.cost,
    }


def _task_json(name: str, found: UntilSolved, written: WrittenOffer | None, language: str | None) -> dict[str, Any]:
    attempts, answer = found.attempts[name], found.found(name)
    return {
        "passed": answer is not None,
        **(written.to_dict() if written else NO_OFFER),
        "temperature": answer and answer.temperature,
        "answers": sum(attempt.scored for attempt in attempts),
        **summarize(attempts, language).to_dict(),
    }


def _sampled_text(name: str, found: UntilSolved, written: WrittenOffer | None, language: str | None) -> str:
    """A task's program or the files that it was written to, or why there is none."""
    if written is None:
        return f"{name}: no verified program\n{summarize(found.attempts[name], language).render()}"
    head = f"{name}: verified, {written.offer.best.detail}"
    return "\n".join([head, *(f"  {line}" for line in written.lines())])


def synthesize(
    name: str,
    tasks: Sequence[StepTask],
    files: Files,
    limits: SearchBudget,
    objective: Objective,
    cluster: ClusterConfig,
    splitting: Splitting,
) -> Generated:
    """Searches for each task's program without an LM, and writes the programs.

    `name` is the command's, for messages; `limits` are those of a task; `objective` says what is preferred among the
    programs found; `splitting` says when and how tasks are split.

    Raises:
        UsageError: A task's own code fails, or a file can't be written.
        ClusterUnavailable: The cluster can't be used.
    """
    bounds = f"up to {limits.seconds:g} s and {limits.candidates:,} candidates per task"
    print_message(name, f"classical synthesis, {counted(len(tasks), 'task')}, {bounds}")
    outcomes: dict[str, SearchOutcome] = {}
    splits: dict[str, SplitOutcome] = {}
    offers: dict[str, Offer] = {}
    stopped, code = "", Exit.OK
    searching = splitting.search_seconds(limits.seconds)
    try:
        with open_workers(cluster, name) as workers:
            for task, outcome in search_all(tasks, replace(limits, seconds=searching), workers) if searching else ():
                outcomes[task.name] = outcome
                solved = sum(each.impl is not None for each in outcomes.values())
                print_message(name, f"{len(outcomes)} of {counted(len(tasks), 'task')} searched, {solved} verified")
            unsolved = [task for task in tasks if task.name not in outcomes or outcomes[task.name].impl is None]
            rest = replace(limits, seconds=limits.seconds - searching)
            splits |= {task.name: split for task, split in split_tasks(name, unsolved, splitting, rest, workers)}
            with workers.pool(verification_settings()) as judges:
                offering = Offering(objective, Metric(judges))
                programs = _programs(outcomes, splits)
                for task, outcome in search_clean(tasks, programs, limits, workers, offering):
                    programs[task.name] += _programs({task.name: outcome})[task.name]
                offers = _offers(offering, tasks, programs)
    except TaskError as error:
        raise UsageError(str(error)) from None
    except ClusterUnavailable as error:
        if not outcomes:
            raise
        stopped, code = str(error), Exit.LM
    except KeyboardInterrupt:
        stopped, code = "interrupted", Exit.INTERRUPTED
    written = _write(tasks, offers or _offers(None, tasks, _programs(outcomes, splits)), files)
    result, text = _searched_json(tasks, outcomes, splits, written), _searched_text(tasks, outcomes, splits, written)
    if stopped:
        return Generated(result, text, code, f"{stopped}; verified programs are kept, see above")
    return Generated(result, text, Exit.OK if len(written) == len(tasks) else Exit.NO)


def _searched_text(
    tasks: Sequence[StepTask],
    outcomes: Mapping[str, SearchOutcome],
    splits: Mapping[str, SplitOutcome],
    written: Mapping[str, WrittenOffer],
) -> str:
    """Each task's program or the files that it was written to, or why there is none."""
    heads = {task.name: results.headline(task.name, outcomes.get(task.name)) for task in tasks}
    composed = {name: split for name, split in splits.items() if split.impl is not None or name not in outcomes}
    heads |= {name: headline(name, split) for name, split in composed.items()}
    bodies = {name: [headline("splitting", split)] for name, split in splits.items() if name not in composed}
    bodies |= {name: list(offer.lines()) for name, offer in written.items()}
    return "\n\n".join("\n  ".join([head, *bodies.get(name, ())]) for name, head in heads.items())


def _searched_json(
    tasks: Sequence[StepTask],
    outcomes: Mapping[str, SearchOutcome],
    splits: Mapping[str, SplitOutcome],
    written: Mapping[str, WrittenOffer],
) -> dict[str, Any]:
    """Solved and unsolved names, then task by task the program, or why there is none."""
    result = results.as_json(tasks, outcomes, {name for name, split in splits.items() if split.impl is not None})
    for name in {**outcomes, **splits}:
        own = written[name].to_dict() if name in written else NO_OFFER
        split = splits.get(name)
        searched = result["tasks"][name] or {}
        result["tasks"][name] = {**searched, "passed": name in written, **own, "split": split and split_json(split)}
    result["warnings"] = findings_of(written)
    return result


CLEAN_SECONDS = 20.0
"""How long a task is searched for a program without findings, at most, where all that were found have some."""


def search_clean(
    tasks: Sequence[StepTask],
    found: Mapping[str, Sequence[tuple[str, str, str]]],
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
        if found.get(task.name) and not any(offering.is_clean(task, text) for text, _, _ in found[task.name])
    }
    strict = [task.model_copy(update={"stress": True}) for task in doubted.values() if not task.stress]
    limits = replace(limits, seconds=min(limits.seconds, CLEAN_SECONDS), programs=1, thorough=False)
    drafts = {name: [text for text, _, _ in found[name]] for name in doubted}
    for task, outcome in search_all(strict, limits, workers, drafts) if strict else ():
        if outcome.impl is not None:
            yield doubted[task.name], outcome


def _programs(
    outcomes: Mapping[str, SearchOutcome], splits: Mapping[str, SplitOutcome] = MappingProxyType({})
) -> dict[str, list[tuple[str, str, str]]]:
    """For each task solved its programs, what gave them, and how."""
    found = {
        task: [(draft, SEARCH, counted(outcome.candidates, "candidate")) for draft in results.programs_of(outcome)]
        for task, outcome in outcomes.items()
        if outcome.impl is not None
    }
    composed = {
        task: [(text, SPLIT, detail(split)) for text in (split.impl, *split.variants)]
        for task, split in splits.items()
        if split.impl is not None
    }
    return {**found, **composed}
