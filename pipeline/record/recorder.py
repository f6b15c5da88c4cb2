"""The MLflow record of a run, written while it runs, so that a killed run leaves everything done so far.

One parent run, whose metrics are curves with the iteration as step, and one nested run per iteration, named `03 HM`.
Artifacts of the parent:

    request.json                            the run's request, which is all `--resume` needs; written first
    tasks/GROUP/NAME.yaml                   the tasks
    iterations/03_HM/demonstrations.yaml    the proposer's demonstrations
    iterations/03_HM/selection.yaml         by task, what it alone is shown and why, where it is chosen per task
    iterations/03_HM/prompt.yaml            every predictor's messages, without the task at their end
    iterations/03_HM/attempts.jsonl.gz      every sample with its verdict, one JSON object per line
    iterations/03_HM/attempts.json          the same shortened, as a table that the UI shows
    subtasks/GROUP/NAME.yaml                sub-tasks of unsolved tasks, each with its program once it is solved
    subtasks.json                           a table: which sub-task was solved when, and which task it served
    overhead.json                           tokens that one of DSPy's optimizers spent first, per predictor
    tuned.json                              the program that it made
    probe.json                              tokens of the request by which the LM was found usable
    held_out.json                           what each solution is at sizes and inputs that the run never used
    solutions/GROUP/NAME.yaml               the solved tasks, each with its program, simplified if the run was completed
    learning_curve.png, pass_at_k.png       written at the end, and from time to time in a long run
    solved.png                              the solved tasks over samples, beside those of a run that shows nothing
    experience.json, compiled.json          the record that another run can start from, with the programs as they were
                                            sampled, and the compiled program

The program is logged as a model, too. An iteration's metrics are logged once, when it is complete; those called
`total_…` are the run's at its end; their step is the number of its samples, and of the requests of one of DSPy's
optimizers before them. An interrupted run is resumed in the same MLflow run: what is recorded is not logged or written
again. If the store fails, the run ends, and the new samples stay in a folder of the run until a later command
uploads them (`pipeline.record.store`).
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import dspy

from optimizers import (
    Attempt,
    BaseObserver,
    Entry,
    Experience,
    InFlight,
    IterationResult,
    IterationStarted,
    RunStarted,
    TaskCount,
    TokenCount,
)
from pipeline.agent.agent import Agent
from pipeline.agent.compiled import save_program
from pipeline.base.errors import RecordError, RunLost
from pipeline.base.paths import shown
from pipeline.base.text import path_of
from pipeline.charts.curves import draw_solved
from pipeline.charts.plots import draw_run, final_counts
from pipeline.languages.language import Task
from pipeline.record import models, ownership, registration, resume, store
from pipeline.record.attempt_table import FILE, TAG, stage_metrics, tag_value, write_table
from pipeline.record.attempts import AttemptWriter, read_attempts, read_iteration, reported
from pipeline.record.curve import Control, control_of
from pipeline.record.heartbeat import Heartbeat
from pipeline.record.mlflow_metrics import (
    STATUS,
    cost_metrics,
    costs_record,
    curves,
    describe,
    held_out_metrics,
    held_out_record,
    iteration_metrics,
    predictor_metrics,
    run_metrics,
    within_bounds,
)
from pipeline.record.request import Request
from pipeline.record.resume import PersistentLedger
from pipeline.record.run_tree import SANDBOX, NestedRuns, create_parent, recorded_points, run_name
from pipeline.record.subtasks import Subtasks
from pipeline.record.transcript import as_yaml, demonstrations, messages
from pipeline.verification.sandbox import applied

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_PICTURES = 30.0


@contextmanager
def recorded(
    name: str,
    params: Mapping[str, object],
    tasks: Sequence[Task],
    request: Request | None = None,
    resumed: str | None = None,
) -> Iterator[Recorder]:
    """A run in the store, and its recorder; how the context exits decides the run's status.

    `params` are everything needed to run it again. Without a `request` it cannot be resumed; `resumed` is the id of a
    run to resume.

    Raises:
        UsageError: The store cannot be opened.
        RunLive: The run to resume is still running.
        RecordError: The record can no longer be written; new samples are kept in the run's folder.
    """
    opened, experiment = store.open_store()
    client: Any = store.RetryingClient(opened)
    owner = ownership.Owner.of_this_process()
    run_id = resumed or create_parent(client, experiment, name, params, owner)
    with store.locked_run_folder(run_id) as folder:
        claim = ownership.take_over(client, run_id, owner) if resumed else ownership.Claim(client, run_id, owner)
        store.record_owner(claim)
        with ownership.held(claim), Heartbeat(opened, claim, folder) as heartbeat:
            journal = read_attempts(opened, run_id)
            if resumed:
                client.update_run(run_id, status="RUNNING")
                client.set_tag(run_id, SANDBOX, applied())
            elif request:
                client.log_text(run_id, request.to_json(), "request.json")
            carried = request.experience.entries if request and request.experience else ()
            recorder = Recorder(client, experiment, heartbeat, tasks, journal, carried)
            with _closed(recorder, folder, request):
                yield recorder


@contextmanager
def _closed(recorder: Recorder, folder: Path, request: Request | None) -> Iterator[None]:
    """Ends the run, as failed or killed where the context raises; a `RecordError` says where the answers are."""
    try:
        yield
        recorder.close()
    except RunLost:
        recorder.abandon()
        raise
    except BaseException as error:
        try:
            recorder.close("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
            if not isinstance(error, RecordError):
                raise
            failure = error
        except RunLost:
            raise
        except RecordError as again:
            failure = error if isinstance(error, RecordError) else again
        raise RecordError(f"{failure}. {_where_it_is(folder, recorder.run_id, request)}") from error


def _where_it_is(folder: Path, run_id: str, request: Request | None) -> str:
    """Where the answers are if the store fails, and how to resume the run."""
    kept = "All answers up to then are on record"
    if any(folder.rglob("attempts.*")):
        kept = f"The latest answers are kept in {shown(folder)}; the next command that reaches the store uploads them"
    return kept + (f". Then resume: python -m pipeline.compile --resume {run_id[:8]}" if request else "")


class Recorder(BaseObserver):
    """Observes one run and records it; use `recorded`.

    Args:
        heartbeat: The thread that keeps the ownership of the run, in whose folder are the files that are not uploaded
            yet; the folder outlives a killed process.
        carried: What an earlier run solved.

    Attributes:
        journal: The recorded attempts of an interrupted run.
        answers: How many of the journal's attempts have an answer.
        overhead: Tokens spent by one of DSPy's optimizers, in all processes of the run.
        probe: Tokens of the request by which each process of the run found the LM usable.
        tuned: The program that it had made before the run was interrupted.
    """

    def __init__(
        self,
        client: Any,
        experiment: str,
        heartbeat: Heartbeat,
        tasks: Sequence[Task],
        journal: Sequence[Attempt] = (),
        carried: Sequence[Entry] = (),
    ) -> None:
        run_id, folder = heartbeat.run_id, heartbeat.folder
        self.run_id = run_id
        self.journal = journal
        self.answers = 0
        self._places: dict[int, array[int]] = {}  # in the journal, of every iteration's attempts
        for place, attempt in enumerate(journal):
            self.answers += attempt.scored
            self._places.setdefault(attempt.iteration, array("Q")).append(place)
        self.overhead = PersistentLedger(folder / "overhead.json", resume.overhead(client, run_id))
        self.probe = PersistentLedger(folder / "probe.json", resume.overhead(client, run_id, "probe.json"))
        self.tuned = resume.tuned(client, run_id)
        self._points = recorded_points(client, run_id)
        self._nested_runs = NestedRuns(client, experiment, run_id)
        self._client = client
        self._experiment = experiment
        self._heartbeat = heartbeat
        self._folder = folder
        self._tasks = {task.name: task for task in tasks}
        self._subtasks = Subtasks(client, run_id)
        self._samples = 0
        self._carried = {e.task_key: TaskCount(e.task_key, e.temperature, e.successes, e.samples) for e in carried}
        self._iterations: list[IterationResult] = []
        self._nested: str | None = None
        self._attempts: AttemptWriter | None = None
        self._tables: dict[str, None] = {}  # an ordered set of paths
        self._status = "FINISHED"
        self._drawn = time.monotonic()

    @cached_property
    def control(self) -> Control | None:
        """The run on record that shows nothing and is otherwise like this one."""
        return control_of(self._client, self._experiment, self.run_id)

    def run_started(self, event: RunStarted) -> None:
        """Records the tasks."""
        self._samples = event.settings["num_samples"]
        for name, task in self._tasks.items():
            self._client.log_text(self.run_id, task.statement, f"tasks/{path_of(name)}.yaml")

    def iteration_started(self, event: IterationStarted) -> None:
        """Starts the nested run, records its demonstrations and prompt, and opens the file of its attempts."""
        self._end_attempts()
        self._end_iteration("FINISHED")
        self._heartbeat.check()
        place = f"{'iterations' if event.index >= 0 else 'validation'}/{run_name(event).replace(' ', '_')}"
        if event.index >= 0:
            self._nested = self._nested_runs.start(event)
            self._points |= recorded_points(self._client, self._nested)
        earned = self._carried | {count.task_key: count for count in final_counts(self._iterations)}
        if event.overhead:
            with reported():
                save_program(event.program, self._folder / "tuned.json")
        demos = demonstrations(event.program, event.demos, earned)
        self._client.log_text(self.run_id, as_yaml(demos), f"{place}/demonstrations.yaml")
        if event.reasons:
            self._client.log_text(self.run_id, as_yaml(event.reasons), f"{place}/selection.yaml")
        self._client.log_text(self.run_id, as_yaml(messages(event.program)), f"{place}/prompt.yaml")
        recorded = (self.journal[place] for place in self._places.get(event.index, ()))
        with reported():
            self._attempts = AttemptWriter(self._folder / place, recorded)
        self._heartbeat.start_attempts(self._attempts, place)

    def sample_done(self, attempt: Attempt) -> None:
        """Writes the attempt at once; it replaces a recorded one without an answer at the same sample."""
        self._heartbeat.require_owned()
        if self._attempts:
            with reported():
                self._attempts.write(attempt)

    def in_flight(self, samples: tuple[InFlight, ...]) -> None:
        """Ends a run that was taken over."""
        self._heartbeat.require_owned()

    def iteration_finished(self, result: IterationResult) -> None:
        """Uploads the attempts, logs the metrics and updates the pictures."""
        self._iterations.append(result)
        self._subtasks.finish(result)
        stages = self._end_attempts()
        if result.complete:
            metrics = iteration_metrics(result) | stage_metrics(stages) | cost_metrics(result)
            metrics |= self._subtasks.metrics()
            known = {name for run_id, name, _ in self._points if run_id == self.run_id}
            self._log_metrics(self.run_id, curves(metrics, known), step=result.index + 1)
            if self._nested:
                self._log_metrics(self._nested, metrics | predictor_metrics(result), step=0)
        self._end_iteration("FINISHED" if result.complete else "KILLED")
        if time.monotonic() - self._drawn > SECONDS_BETWEEN_PICTURES:
            self._draw()

    def parts_entered(self, parts: Mapping[str, Mapping[str, dspy.Example]]) -> None:
        """Records the sub-tasks that enter."""
        self._subtasks.enter(parts, len(self._iterations) + 1)
        self._show_table(Subtasks.FILE)

    def run_finished(self, experience: Experience) -> None:
        """Records the solutions, the experience and a description."""
        self._heartbeat.check()
        self.log_solutions({entry.task_key: entry.outputs["impl"] for entry in experience.entries})
        text = json.dumps(experience.to_dict(attempts=False), indent=1)
        self._client.log_text(self.run_id, text, "experience.json")
        if metrics := held_out_metrics(experience):
            self._client.log_text(self.run_id, json.dumps(held_out_record(experience), indent=1), "held_out.json")
        self._log_metrics(self.run_id, metrics, step=len(experience.attempts))
        before = TokenCount.sum(experience.overhead.values()).calls
        metrics = run_metrics(experience)
        if self.probe.total.calls:
            metrics["total_tokens_probe"] = self.probe.total.total
        self._log_metrics(self.run_id, metrics, step=before + len(experience.attempts))
        self._client.set_tag(self.run_id, "mlflow.note.content", describe(experience))
        self._client.set_tag(self.run_id, "stopped", experience.stopped)
        self._status = STATUS.get(experience.stopped, "FINISHED")

    def log_solutions(self, programs: Mapping[str, str]) -> None:
        """Records programs by task as the run's solutions in place of earlier ones, without those of other tasks."""
        self._heartbeat.check()
        for name in (name for name in programs if name in self._tasks):
            solved = self._tasks[name].text_with(programs[name])
            self._client.log_text(self.run_id, solved, f"solutions/{path_of(name)}.yaml")
        self._subtasks.solve(programs)

    def log_costs(self, objective: str, experience: Experience, bounds: Mapping[str, float]) -> None:
        """Records the costs of the best answers, and the numbers of tasks within some multiples of the bound.

        `bounds` has what any program of each task costs at least; it is empty for a figure without a bound.
        """
        within = within_bounds(experience.costs, bounds, len(experience.tasks))
        content = {"objective": objective, "tasks": costs_record(experience.costs, bounds), "within": within}
        self._client.log_text(self.run_id, json.dumps(content, indent=1), "costs.json")
        self._log_metrics(self.run_id, within, step=len(experience.attempts))

    def log_program(self, path: Path, program: Agent, register_as: str | None = None) -> None:
        """Uploads the compiled program as `compiled.json`, and logs it as a model; see `registration.register`."""
        self._heartbeat.check()
        self._client.log_text(self.run_id, path.read_text(encoding="utf-8"), "compiled.json")
        try:
            model_id = models.log_model(self._client, self._experiment, self.run_id, path)
            if register_as is not None:
                with registration.in_store(store.store_uri()):
                    registration.register(self._client, self.run_id, model_id, program, register_as)
        except RecordError as error:  # the program itself is recorded
            logger.warning("the program is not logged as a model: %s", error)

    def close(self, status: str | None = None) -> None:
        """Ends the run, with a status of MLflow's; None: the one that follows from what stopped it."""
        status = status or self._status
        self._end_attempts()
        self._heartbeat.check()
        self._end_iteration(status)
        for path in sorted(self._folder.glob("*.json")):
            self._client.log_artifact(self.run_id, str(path))
        if self._iterations:
            self._draw()
        self._client.set_terminated(self.run_id, status)

    def abandon(self) -> None:
        """Ends the recording of a run that is lost: its files on this machine are closed, the store stays as it is."""
        if self._attempts:
            self._heartbeat.end_attempts()
            self._attempts.close()

    def _end_attempts(self) -> Mapping[str, int]:
        """Uploads the attempts of the iteration, also as a table; returns its wrong answers by stage."""
        if not self._attempts:
            return {}
        attempts, self._attempts = self._attempts, None
        self._heartbeat.end_attempts()
        with reported():
            attempts.close()
            table = attempts.path.with_name(FILE)
            stages = write_table(read_iteration(table.parent), table)
        self._heartbeat.check()
        place = str(table.parent.relative_to(self._folder))
        for path in (attempts.path, table):
            self._client.log_artifact(self.run_id, str(path), place)
            path.unlink()
        self._heartbeat.delete_parts(place)
        self._show_table(f"{place}/{FILE}")
        return stages

    def _show_table(self, path: str) -> None:
        """Has the UI show a file as a table."""
        self._tables[path] = None
        self._client.set_tag(self.run_id, TAG, tag_value(self._tables))

    def _end_iteration(self, status: str) -> None:
        if self._nested:
            self._client.set_terminated(self._nested, status)
            self._nested = None

    def _log_metrics(self, run_id: str, metrics: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        new = [Metric(name, value, now, step) for name, value in metrics.items()]
        if new := [metric for metric in new if (run_id, metric.key, step) not in self._points]:
            self._client.log_batch(run_id, new)
            self._points |= {(run_id, metric.key, step) for metric in new}

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            draw_run(self._iterations, len(self._tasks), self._samples, Path(scratch))
            control = self.control and [(point["samples"], point["solved"]) for point in self.control.points]
            draw_solved(self._iterations, control or (), len(self._tasks), Path(scratch) / "solved.png")
            self._client.log_artifacts(self.run_id, scratch)
