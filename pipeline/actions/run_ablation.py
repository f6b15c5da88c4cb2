"""`pipeline.ablate`: the runs of an ablation, and the page that compares them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import dspy
from rich.table import Table

from optimizers import Experience
from pipeline.actions import dry_run
from pipeline.actions.compile_agent import ended_early
from pipeline.base.choices import RESAMPLE
from pipeline.base.config import AblationConfig, PlanOptions, RunConfig
from pipeline.base.errors import Exit, UsageError, print_message
from pipeline.base.files import file_errors
from pipeline.base.outputs import DryRunBounds
from pipeline.base.paths import shown
from pipeline.base.terminal import console, figures_table, print_lines
from pipeline.base.text import counted
from pipeline.cli.progress import progress_display
from pipeline.cluster.cluster import open_workers
from pipeline.languages.language import Task
from pipeline.record import store
from pipeline.record.request import Request
from pipeline.record.resume import Resumed, open_run
from pipeline.reporting import ablation
from pipeline.reporting.ablation import ModelRuns, overview
from pipeline.reporting.runs import read_runs
from pipeline.running.job import LMs, start_job
from pipeline.running.session import open_lm, require_price, served, temperature_note, with_context, with_temperatures
from pipeline.verification.task_files import load_tasks

METHODS: Mapping[str, Mapping[str, Any]] = {
    "Single-WS": {"optimizer": "none", "guardian": "none", "no_ir": True},
    "Single": {"optimizer": "none", "guardian": "none"},
    "Agent": {"optimizer": "none", "guardian": "paper"},
    "Agent, adaptive": {"optimizer": "adaptive", "guardian": "paper"},
}
"""The methods by the paper's names, and the settings that make each."""


@dataclass(frozen=True)
class AblationPlan:
    """An ablation.

    Attributes:
        id: Of eight characters.
        lms: The LMs as named by the user.
        temperature: Of the methods that don't learn.
    """

    id: str
    lms: tuple[str, ...]
    temperature: float
    shared: AblationConfig
    tasks: Sequence[Task]

    def config(self, lm: str, method: str) -> RunConfig:
        """The settings of one run."""
        own = dict(METHODS[method])
        if own["optimizer"] != "adaptive":
            own |= {"temperatures": (self.temperature,), "max_iterations": None}  # one pass
        return with_temperatures(RunConfig.model_validate({**dict(self.shared), **own, "lm": lm}), lm)

    def temperatures(self, lm: str) -> list[float]:
        """The temperatures at which its runs sample an LM."""
        return sorted({temperature for method in METHODS for temperature in self.config(lm, method).temperatures})

    def request(self, lm: str, method: str, model: str) -> Request:
        """The request of one run, which records the whole plan; `model` is the LM's full name."""
        unnamed = {"language"} if self.shared.language is None else None  # records do not name the default
        plan = {
            "id": self.id, "lms": self.lms, "temperature": self.temperature,
            "options": self.shared.model_dump(mode="json", exclude=unnamed),
        }  # fmt: skip
        return Request(self.config(lm, method), model, self.tasks, ablation=plan)

    @classmethod
    def of(cls, request: Request) -> AblationPlan:
        """The plan that a recorded run belongs to."""
        plan = request.ablation or {}
        shared = AblationConfig.of(plan["options"])
        return cls(plan["id"], tuple(plan["lms"]), plan["temperature"], shared, request.tasks)

    def runs(self) -> Iterator[tuple[str, str]]:
        """LM and method of each run, in order."""
        for lm in self.lms:
            for method in METHODS:
                yield lm, method


Earlier = Mapping[tuple[str, str], Resumed | None]
"""Runs that exist already, by LM and method: one to resume, or None for one that has finished."""


def new_plan(options: PlanOptions) -> AblationPlan:
    """A new ablation.

    Raises:
        UsageError: A task or the earlier run can't be used, or the language lacks what a method needs.
    """
    shared, tasks = AblationConfig.of(dict(options)), load_tasks(options.tasks, options.language)
    if shared.selection == RESAMPLE:
        raise UsageError("--selection resample: an ablation has methods that don't learn already; omit the option")
    plan = AblationPlan(uuid.uuid4().hex[:8], options.lm, options.temperature, shared, tasks)
    for lm, method in plan.runs():
        served(plan.config(lm, method), lm)
    return plan


def resume(text: str, given: Mapping[str, Any]) -> tuple[AblationPlan, Earlier]:
    """A recorded ablation and its runs, by the beginning of its id.

    Raises:
        UsageError: No such ablation exists, or an option contradicts it.
    """
    earlier: dict[tuple[str, str], Resumed | None] = {}
    plan: AblationPlan | None = None
    for run in _runs(text):
        try:
            resumed = open_run(run.info.run_id)
        except UsageError:
            continue  # it ended before its request was recorded, and is repeated
        plan = plan or AblationPlan.of(resumed.request)
        finished = run.info.status == "FINISHED"
        earlier[resumed.request.config.lm, run.data.params["method"]] = None if finished else resumed
    if plan is None:
        raise UsageError(f"--resume: no ablation {text!r} with started runs")
    recorded = PlanOptions.of({**dict(plan.shared), "lm": plan.lms, "temperature": plan.temperature})
    return replace(plan, shared=AblationConfig.of(dict(recorded.resumed(given)))), earlier


def _runs(text: str) -> list[Any]:
    """The recorded runs of the one ablation whose id begins with a text, the latest of each method last."""
    client, experiment = store.open_store()
    if not (text.isalnum() and len(text) >= 4):
        raise UsageError(f"--resume: expected the id of an ablation, such as 1a2b3c4d, found {text!r}")
    runs = client.search_runs([experiment], f"params.ablation LIKE '{text}%'", order_by=["attributes.start_time ASC"])
    ids = {run.data.params["ablation"] for run in runs}
    if len(ids) > 1:
        raise UsageError(f"--resume: {text!r} matches {len(ids)} ablations: {', '.join(sorted(ids))}")
    return list(runs)


def run(name: str, plan: AblationPlan, earlier: Earlier, command: str) -> Exit | None:
    """Makes the unfinished runs; returns the exit code if the ablation can't continue.

    Raises:
        LMUnavailable: An LM can't be used.
        ClusterUnavailable: The cluster can't be used.
        UsageError: A task's own code failed.
        RecordError: The record can't be written.
    """
    require_price(plan.shared, plan.shared.max_usd, *plan.lms)
    shared = {lm: with_context(plan.shared, lm) for lm in plan.lms}
    lms = {lm: open_lm(shared[lm], lm, plan.temperatures(lm)) for lm in plan.lms}
    tasks = counted(len(plan.tasks), "task")
    print_message(
        name, f"ablation {plan.id}: {tasks}, {', '.join(lms)}; if interrupted, resume with: {_resume_command(plan)}"
    )
    for note in filter(None, map(temperature_note, lms)):
        print_message(name, note)
    for lm, method in plan.runs():
        resumed = earlier.get((lm, method))
        if resumed is None and (lm, method) in earlier:
            continue
        context = resumed.request.config.context if resumed else shared[lm].context
        experience = _run(name, plan, (lm, method), (lms[lm], context), resumed, command)
        if code := ended_early(name, experience, _resume_command(plan)):
            return code
        if experience.stopped == "budget":
            print_message(name, f"{experience.message}; its figures cover the answers so far")
    return None


def estimate(plan: AblationPlan, earlier: Earlier) -> dict[str, tuple[int, DryRunBounds, DryRunBounds]]:
    """The least and the most that each remaining run takes, by LM and method; none for a finished run.

    Raises:
        UsageError: There is a limit in dollars, and no known price.
    """
    nothing = (0, dry_run.total([]), dry_run.total([]))
    return {
        f"{lm}, {method}": nothing
        if (lm, method) in earlier and earlier[lm, method] is None
        else (1, *dry_run.estimate(plan.request(lm, method, lm)))
        for lm, method in plan.runs()
    }


def _run(
    name: str,
    plan: AblationPlan,
    place: tuple[str, str],
    model: tuple[dspy.LM, int | None],
    resumed: Resumed | None,
    command: str,
) -> Experience:
    """Makes one run, with an LM and its context window, until it ends or is interrupted."""
    solving, context = model
    if resumed and resumed.request.lm != solving.model:
        raise UsageError(f"--resume: a run used {resumed.request.lm}, but this is {solving.model}")
    lm, method = place
    request = plan.request(lm, method, solving.model)
    request = replace(request, config=request.config.model_copy(update={"context": context}))
    params = {"ablation": plan.id, "method": method, "named": lm, "command": command}
    run_name = f"{method} {counted(len(plan.tasks), 'task')} {lm}, ablation {plan.id}"
    with (
        open_workers(request.config, name) as workers,
        start_job(request, LMs(solving), run_name, params, resumed, workers, partial(print_message, name)) as job,
    ):
        print_message(name, f"{lm}, {method}: run {job.run_id}, {job.recorder.answers:,} recorded answers")
        with progress_display(request.config.samples) as display:
            return job.run([display]).experience


def _resume_command(plan: AblationPlan) -> str:
    return f"python -m pipeline.ablate --resume {plan.id}"


def print_figures(page: Mapping[str, Any]) -> None:
    """Prints a table for each LM, and the page's path."""
    stdout = console()
    for model, methods in page["lms"].items():
        stdout.print("", _table(model, methods), sep="\n")
    print_lines(stdout, "", shown(Path(page["page"]).absolute()))


def _table(model: str, methods: Mapping[str, Mapping[str, Any]]) -> Table:
    table = figures_table("", "solved", "pass@1", "pass@n", "tokens per solved task", title=model)
    for method, row in methods.items():
        per_task = row["tokens per solved task"]
        rates = (f"{row['pass_at_1']:.3f}", f"{row['pass_at_n']:.3f}")
        tokens = "" if per_task is None else f"{per_task:,}"
        table.add_row(method, f"{row['solved']} of {row['tasks']}", *rates, tokens)
    return table


def write_page(plan: AblationPlan, output: str | None) -> dict[str, Any]:
    """Writes the page to a folder, by default next to the store; returns the command's JSON object.

    Raises:
        UsageError: It can't be written.
    """
    folder = Path(output) if output is not None else store.folder() / "ablations" / plan.id
    latest = {(run.data.params["named"], run.data.params["method"]): run.info.run_id for run in _runs(plan.id)}
    recorded = {run.run_id: run for run in read_runs(list(latest.values()))}
    studies = [ModelRuns(lm, {method: recorded[latest[lm, method]] for method in METHODS}) for lm in plan.lms]
    with file_errors(f"--output: can't write the page to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        files = ablation.write(studies, folder)
    figures = {study.name: _figures(study) for study in studies}
    return {"ablation": plan.id, "page": str(folder / files[0]), "files": files, "lms": figures}


def _figures(study: ModelRuns) -> dict[str, dict[str, Any]]:
    """An LM's overview, by method."""
    table = overview(study)
    return {str(row[0]): dict(zip(table.head[1:], row[1:], strict=True)) for row in table.rows}
