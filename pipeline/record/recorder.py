"""The MLflow record of a command's run, which can be resumed.

Beside what `observer` lists, it has these artifacts:

    request.json       the run's request, which is all `--resume` needs; written first
    tasks/NAME.yaml    the tasks
    overhead.json      tokens that one of DSPy's optimizers spent first, per predictor
    tuned.json         the program that it made
    probe.json         tokens of the request by which the LM was found usable
    costs.json         what the best answers cost, beside what any program of the task costs at least

An interrupted run is resumed in the same MLflow run. Its folder gets the recorded attempts, and what is recorded is not
logged or written again. If the store fails, the run ends, and its folder stays until a later command uploads it
(`pipeline.record.store`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import mlflow
from mlflow import MlflowClient

from optimizers import Attempt, Entry, Experience, IterationStarted, RunStarted, TaskCount
from pipeline.agent.compiled import save_program
from pipeline.base.errors import RecordError, RunLost
from pipeline.base.files import shown, write_text
from pipeline.base.text import path_of
from pipeline.languages.language import Task
from pipeline.record import models, resume, store
from pipeline.record.attempts import read_attempts, reported
from pipeline.record.logged_models import register
from pipeline.record.mlflow_metrics import within_bounds
from pipeline.record.observer import MLflowObserver
from pipeline.record.request import Request
from pipeline.record.resume import PersistentLedger
from pipeline.record.run_tree import SANDBOX, RunRecord, create_parent
from pipeline.record.task_table import TaskTable
from pipeline.verification.isolation.confinement import applied
from step_runtime.base.errors import STAGES

logger = logging.getLogger(__name__)


@contextmanager
def recorded(
    name: str,
    params: Mapping[str, object],
    tasks: Sequence[Task],
    request: Request | None = None,
    resumed: str | None = None,
    force: bool = False,
) -> Iterator[Recorder]:
    """A run in the store, and its recorder; how the context exits decides the run's status.

    `params` are everything needed to run it again. Without a `request` it cannot be resumed; `resumed` is the id of a
    run to resume, and `force` takes over one that is running.

    Raises:
        UsageError: The store cannot be opened.
        RunLive: The run to resume is still running.
        RecordError: The record can no longer be written; its files are kept in the run's folder.
    """
    opened, experiment = store.open_store()
    client = store.RetryingClient(opened)
    writer = store.this_process()
    run_id = resumed or create_parent(client, experiment, name, params, writer)
    with store.locked_run_folder(run_id) as folder:
        if resumed:
            writer = store.claim(client, run_id, force)
            client.update_run(run_id, status="RUNNING")
            client.set_tag(run_id, SANDBOX, applied())
        write_text(folder / store.WRITER, writer)
        journal = read_attempts(opened, run_id, folder)
        recorder = Recorder(opened, RunRecord(client, experiment, run_id, folder), tasks, journal, request)
        with _closed(recorder, f"--resume {run_id[:8]}" if request else ""):
            yield recorder


@contextmanager
def _closed(recorder: Recorder, again: str) -> Iterator[None]:
    """Ends the run, as failed or killed where the context raises; a `RecordError` says where the answers are."""
    try:
        yield
        recorder.close()
    except RunLost:
        recorder.record.end_attempts()
        raise
    except BaseException as error:
        failure = error
        try:
            recorder.close("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        except RunLost:
            raise
        except RecordError as further:
            failure = error if isinstance(error, RecordError) else further
        if not isinstance(failure, RecordError):
            raise
        kept = f"All answers are kept in {shown(recorder.record.folder)}; the next command that reaches the store"
        then = f". Then resume: python -m pipeline.compile {again}" if again else ""
        raise RecordError(f"{failure}. {kept} uploads them{then}") from error


class Recorder(MLflowObserver):
    """Observes one run of a command and records it; use `recorded`.

    Attributes:
        journal: The recorded attempts of an interrupted run.
        answers: How many of the journal's attempts have an answer.
        overhead: Tokens spent by one of DSPy's optimizers, in all processes of the run.
        probe: Tokens of the request by which each process of the run found the LM usable.
        tuned: The program that the optimizer had made before the run was interrupted.
    """

    def __init__(
        self,
        client: MlflowClient,
        record: RunRecord,
        tasks: Sequence[Task],
        journal: Sequence[Attempt] = (),
        request: Request | None = None,
    ) -> None:
        super().__init__(store.EXPERIMENT, client=client)
        carried: Sequence[Entry] = request.experience.entries if request and request.experience else ()
        self.record = self._record = record
        self.run_id, run_id, folder = record.run_id, record.run_id, record.folder
        self._carried = {e.task_key: TaskCount(e.task_key, e.temperature, e.successes, e.samples) for e in carried}
        self._tasks = tasks
        self.journal = journal
        self.answers = sum(attempt.scored for attempt in journal)
        self.overhead = PersistentLedger(folder / "overhead.json", resume.overhead(client, run_id))
        self.probe = PersistentLedger(folder / "probe.json", resume.overhead(client, run_id, "probe.json"))
        self.tuned = resume.tuned(client, run_id)
        self._table = TaskTable(STAGES)
        self._status = "FINISHED"
        if request is not None:
            record.write("request.json", request.to_json())
            record.copy()

    def iteration_started(self, event: IterationStarted) -> None:
        """Records the program that an optimizer made first, too."""
        if event.overhead:
            with reported():
                save_program(event.program, self.record.folder / "tuned.json")
        super().iteration_started(event)

    def program_compiled(self, program: object) -> None:
        """The command records the program when it has written it; see `log_file`."""

    def run_finished(self, experience: Experience) -> None:
        """Records the tokens of the probe, too."""
        if self.probe.total.calls:
            self.record.log_metrics({"total_tokens_probe": self.probe.total.total}, len(experience.attempts))
        super().run_finished(experience)

    def run_failed(self, experience: Experience, error: BaseException) -> None:
        """The run ends with the context of `recorded`."""

    def log_solutions(self, programs: Mapping[str, str]) -> None:
        """Records programs by task as the run's solutions in place of earlier ones, without those of other tasks."""
        self._log_solutions({name: {"impl": program} for name, program in programs.items()})

    def log_costs(self, objective: str, experience: Experience, bounds: Mapping[str, float]) -> None:
        """Records the costs of the best answers, and the numbers of tasks within some multiples of the bound.

        `bounds` has what any program of each task costs at least; it is empty for a figure without a bound.
        """
        within = within_bounds(experience.costs, bounds, len(experience.tasks))
        costs = {task: {"cost": cost, "at_least": bounds.get(task)} for task, cost in experience.costs.items()}
        content = {"objective": objective, "tasks": costs, "within": within}
        self.record.write("costs.json", json.dumps(content, indent=1))
        self.record.log_metrics(within, len(experience.attempts))

    def log_file(self, path: Path, register_as: str | None = None) -> None:
        """Records the compiled program as `compiled.json`, and as a model; see `logged_models.register`."""
        record = self.record
        record.write("compiled.json", path.read_text(encoding="utf-8"))
        record.copy()
        try:
            model_id = models.log_model(record.client, record.experiment, record.run_id, path)
            record.link(model_id)
            if register_as is not None:
                register(record.client, store.store_uri(), record.run_id, model_id, register_as)
        except RecordError as error:  # the program itself is recorded
            logger.warning("the program is not logged as a model: %s", error)

    def close(self, status: str | None = None) -> None:
        """Ends the run, with a status of MLflow's; None: the one that follows from what stopped it."""
        record, status = self.record, status or self._status
        self._end_attempts()
        record.end_nested(status)
        if self._iterations:
            self._draw()
        record.copy()
        record.client.set_terminated(record.run_id, status)

    def _begin(self, event: RunStarted) -> None:
        for task in self._tasks:
            self.record.write(f"tasks/{path_of(task.name)}.yaml", task.statement)

    def _close(self, status: str) -> None:
        self._status = status  # the run ends with the context of `recorded`

    def _log_traces(self, experience: Experience) -> None:
        mlflow.tracing.reset()  # type: ignore[no-untyped-call] # else it remembers another store that this process has opened
        super()._log_traces(experience)
