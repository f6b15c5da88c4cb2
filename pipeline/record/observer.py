"""The MLflow record of a run of any DSPy program, written while it runs; `recorder` adds what commands have.

One parent run, whose metrics are curves with the iteration as step, and one nested run per iteration, named `03 HM`.
Beside them the tasks as a dataset, the compiled program as a model, and notable attempts as traces. Artifacts of the
parent:

    tasks.json                              a table: what became of each task in each iteration, and why
    iterations/03_HM/demonstrations.yaml    the program's demonstrations, and the success rates of their tasks
    iterations/03_HM/selection.yaml         by task, what it alone is shown and why, where it is chosen per task
    iterations/03_HM/prompt.yaml            every predictor's messages, without the task at their end
    iterations/03_HM/attempts.jsonl.gz      every sample with its verdict, one JSON object per line
    validation/H_2/…                        the same of a level that a validation set was tried on
    subtasks.json, subtasks/NAME.yaml       which sub-task was solved when, and which task it served; their programs
    solutions/NAME.yaml                     the solved tasks, each with its answer
    held_out.json                           what each solution is at sizes and inputs that the run never used
    learning_curve.png, pass_at_k.png       written at the end, and from time to time in a long run
    experience.json                         the record of the run without its attempts, to continue from
    compiled.json                           the compiled program

An iteration's metrics are logged once, when it is complete; those called `total_…` are the run's at its end, and their
step is the number of its requests or samples.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import dspy
import mlflow
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag

from optimizers import (
    Attempt,
    BaseObserver,
    Experience,
    IterationResult,
    IterationStarted,
    RunStarted,
    TaskCount,
    TokenCount,
)
from optimizers.attempt import to_jsonable
from optimizers.errors import one_line
from pipeline.base.config import registered_name
from pipeline.base.text import path_of
from pipeline.charts.plots import draw_run, final_counts
from pipeline.record import logged_models, task_table
from pipeline.record.logged_models import in_store, register
from pipeline.record.mlflow_metrics import (
    STATUS,
    cost_metrics,
    curves,
    describe,
    describe_iteration,
    held_out_metrics,
    held_out_record,
    iteration_metrics,
    predictor_metrics,
    run_metrics,
)
from pipeline.record.run_tree import RunRecord, log_params, run_name
from pipeline.record.subtasks import Subtasks
from pipeline.record.traces import log_traces, notable_attempts
from pipeline.record.transcript import as_yaml, demonstrations, messages

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_PICTURES = 30.0


class MLflowObserver(BaseObserver):
    """Records every run that it observes, of any program, in the store that MLflow's settings name.

    A run that is active in MLflow becomes the parent, and stays open; else a new one is, which ends when the run does,
    as failed if an exception ends it. What cannot be recorded of model, dataset and traces is logged and left out.

    Args:
        experiment: The experiment of new runs.
        run_name: The name of the runs; None for one that MLflow makes.
        client: The client; None for one of MLflow's current settings.
        traces: Whether the attempts that solve tasks, and nearest misses, become traces.
        register_as: The name, or `NAME@ALIAS`, under which the registry gets the compiled program.

    Raises:
        ValueError: It is no such name.

    Attributes:
        run_id: The id of the latest parent run; None before it.
    """

    def __init__(
        self,
        experiment: str,
        run_name: str | None = None,
        client: MlflowClient | None = None,
        *,
        traces: bool = True,
        register_as: str | None = None,
    ) -> None:
        self._register_as = None if register_as is None else registered_name(register_as)
        self._mlflow = client or MlflowClient()
        self._name, self._run_name, self._traces = experiment, run_name, traces
        self._outer = mlflow.active_run()  # the one of this thread; another may compile
        self.run_id: str | None = None
        self._record: RunRecord | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._ends_parent = True
        self._reset()

    def _reset(self) -> None:
        self._iterations: list[IterationResult] = []
        self._carried: dict[str, TaskCount] = {}
        self._examples: Mapping[str, dspy.Example] = {}
        self._answer: Mapping[str, Any] = {}
        self._samples = 1
        self._table = task_table.TaskTable()
        self._subtasks = Subtasks()
        self._drawn = time.monotonic()
        self._model_id: str | None = None

    def __enter__(self) -> MLflowObserver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._close("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")

    @property
    def _run(self) -> RunRecord:
        """The run that is being recorded, or was the last.

        Raises:
            ValueError: No run has started.
        """
        if self._record is None:
            raise ValueError("no run has started")
        return self._record

    def run_started(self, event: RunStarted) -> None:
        """Starts the parent run, with the settings as its params and the tasks as its dataset."""
        self._begin(event)
        self._examples, self._samples = event.examples, event.settings["num_samples"]
        self._run.tag(task_table.TAG, task_table.shown(task_table.FILE, Subtasks.FILE))
        self._optionally("the tasks", self._log_dataset)

    def iteration_started(self, event: IterationStarted) -> None:
        """Starts the nested run, records its demonstrations and prompt, and opens the file of its attempts."""
        record = self._run
        record.end_attempts()
        record.end_nested("FINISHED")
        place = f"{'iterations' if event.index >= 0 else 'validation'}/{run_name(event).replace(' ', '_')}"
        earned = self._carried | {count.task_key: count for count in final_counts(self._iterations)}
        record.write(f"{place}/demonstrations.yaml", as_yaml(demonstrations(event.program, event.demos, earned)))
        if event.reasons:
            record.write(f"{place}/selection.yaml", as_yaml(event.reasons))
        record.write(f"{place}/prompt.yaml", as_yaml(messages(event.program)))
        record.copy()
        if event.index >= 0:
            record.start_nested(event)
        record.start_attempts(place)
        self._table.start(event)

    def sample_done(self, attempt: Attempt) -> None:
        """Writes the attempt at once; it replaces a recorded one without an answer at the same sample."""
        self._answer = self._answer or attempt.outputs
        self._table.add(attempt)
        self._run.write_attempt(attempt)

    def iteration_finished(self, result: IterationResult) -> None:
        """Copies the attempts, logs the metrics and updates the pictures."""
        record = self._run
        self._iterations.append(result)
        self._subtasks.finish(result)
        self._end_attempts()
        if result.complete:
            metrics = iteration_metrics(result) | self._table.stage_metrics() | cost_metrics(self._iterations)
            metrics |= self._subtasks.metrics()
            record.log_metrics(curves(metrics, record.curves), result.index + 1)
            own = {name: value for name, value in (metrics | predictor_metrics(result)).items() if value}
            record.log_metrics(own, 0, record.nested)
        record.tag("mlflow.note.content", describe_iteration(result), record.nested)
        record.end_nested("FINISHED" if result.complete else "KILLED")
        if time.monotonic() - self._drawn > SECONDS_BETWEEN_PICTURES:
            self._draw()

    def parts_entered(self, parts: Mapping[str, Mapping[str, dspy.Example]]) -> None:
        """Records the sub-tasks that enter."""
        self._subtasks.enter(parts, len(self._iterations) + 1)
        self._write_subtasks()

    def program_compiled(self, program: dspy.Module) -> None:
        """Records the program's state, and the program as a model."""
        self.log_program(program)
        self._optionally("the program as a model", partial(self._log_model, program))

    def run_finished(self, experience: Experience) -> None:
        """Records the solutions, the experience, traces and a description, and ends the run."""
        record = self._run
        self._end_attempts()
        self._log_solutions({entry.task_key: entry.outputs for entry in experience.entries})
        record.write("experience.json", json.dumps(experience.to_dict(attempts=False), indent=1))
        if metrics := held_out_metrics(experience):
            record.write("held_out.json", json.dumps(held_out_record(experience), indent=1))
        metrics |= {f"validation/{level.label}": level.score for level in experience.validation}
        record.log_metrics(metrics, len(experience.attempts))
        before = TokenCount.sum(experience.overhead.values()).calls
        record.log_metrics(run_metrics(experience), before + len(experience.attempts))
        record.tag("mlflow.note.content", describe(experience))
        record.tag("stopped", experience.stopped)
        if self._model_id is not None:
            record.link(self._model_id)
        if self._traces:
            self._optionally("traces", partial(self._log_traces, experience))
        self._close(STATUS.get(experience.stopped, "FINISHED"))

    def run_failed(self, experience: Experience, error: BaseException) -> None:
        """Records the samples and the reason of the end, and ends the run as failed."""
        if self._record is None:
            return
        self._record.write("experience.json", json.dumps(experience.to_dict(attempts=False), indent=1))
        self._record.tag("mlflow.note.content", f"**Failed**: {one_line(error)}")
        self._record.tag("stopped", experience.stopped)
        self._close("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")

    def log_program(self, program: Any) -> None:
        """Adds a program's state to the latest run as `compiled.json`; that of the result is there already.

        Raises:
            ValueError: No run has started.
        """
        state = json.dumps(program.dump_state(), indent=1, default=str, ensure_ascii=False)
        text = state.encode(errors="backslashreplace").decode()
        self._run.client.log_text(self._run.run_id, text + "\n", "compiled.json")

    def _log_solutions(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Records answers by task as the run's solutions in place of earlier ones, without those of other tasks."""
        for name in (name for name in answers if name in self._examples):
            self._run.write(f"solutions/{path_of(name)}.yaml", _solved(self._examples[name], answers[name]))
        self._subtasks.solve(answers)
        self._write_subtasks()

    def _begin(self, event: RunStarted) -> None:
        """Opens the record of a new run."""
        self._close("FAILED")
        self._reset()
        limits = {f"budget_{key}": value for key, value in event.settings["budget"].items() if value is not None}
        own = {key: value for key, value in event.settings.items() if key != "budget"}
        settings = {**own, **limits, "tasks": ", ".join(event.tasks), "solved_earlier": len(event.solved)}
        client, active = self._mlflow, self._active_run()
        self._ends_parent = active is None
        if active:
            self.run_id, experiment = active.info.run_id, active.info.experiment_id
            settings = {key: value for key, value in settings.items() if key not in active.data.params}
        else:
            known = client.get_experiment_by_name(self._name)
            experiment = known.experiment_id if known else client.create_experiment(self._name)
            self.run_id = str(client.create_run(experiment, run_name=self._run_name).info.run_id)
        log_params(client, self.run_id, settings)
        self._scratch = tempfile.TemporaryDirectory(prefix="mlflow-observer-")
        self._record = RunRecord(client, experiment, self.run_id, Path(self._scratch.name))

    def _active_run(self) -> Any:
        """MLflow's active run of this thread, or the one in which this was made, if it is still open."""
        active = mlflow.active_run() or self._outer
        if active is None or mlflow.get_tracking_uri() != self._mlflow.tracking_uri:
            return None
        run = self._mlflow.get_run(active.info.run_id)
        return run if run.info.status == "RUNNING" else None

    def _close(self, status: str) -> None:
        """Ends what is open and was started here, with what is not copied yet."""
        if self._scratch is not None and self._record is not None:
            if self._iterations:
                self._draw()
            self._end_attempts()
            self._record.end_nested(status)
            if self._ends_parent:
                self._record.client.set_terminated(self._record.run_id, status)
            self._scratch.cleanup()
        self._scratch = None

    def _end_attempts(self) -> None:
        self._run.end_attempts()
        self._run.write(task_table.FILE, self._table.to_json())
        self._run.copy()

    def _write_subtasks(self) -> None:
        for place, text in self._subtasks.files().items():
            self._run.write(place, text)

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        draw_run(self._iterations, len(self._examples), self._samples, self._run.folder)

    def _log_dataset(self) -> None:
        import pandas as pd
        from mlflow.data import from_pandas  # type: ignore[attr-defined]

        client, run_id = self._run.client, self._run.run_id
        if client.get_run(run_id).inputs.dataset_inputs:
            return
        rows = [{name: str(value) for name, value in _fields(example).items()} for example in self._examples.values()]
        described = from_pandas(pd.DataFrame(rows), name="trainset").to_dict()
        fields = {key: value for key, value in described.items() if key not in ("tags", "dataset_source_type")}
        inputs = DatasetInput(Dataset(**fields), [InputTag("mlflow.data.context", "training")])
        client.log_inputs(run_id, datasets=[inputs])

    def _log_model(self, program: dspy.Module) -> None:
        inputs = next(({**example.inputs()} for example in self._examples.values()), {})
        digest = hashlib.sha256(json.dumps(program.dump_state(), default=str).encode()).hexdigest()[:16]

        def save(folder: Path, model: Any) -> None:
            logged_models.save_program(program, folder, model, inputs, self._answer)

        record = self._run
        self._model_id = logged_models.log_model(record.client, record.experiment, record.run_id, digest, {}, save)
        if self._register_as is not None:
            register(record.client, self._mlflow.tracking_uri, record.run_id, self._model_id, self._register_as)

    def _log_traces(self, experience: Experience) -> None:
        with in_store(self._mlflow.tracking_uri):
            shown = {key: _fields(example) for key, example in self._examples.items()}
            log_traces(self._run.experiment, self._run.run_id, notable_attempts(experience), shown)

    def _optionally(self, what: str, log: Callable[[], None]) -> None:
        """Logs what a run can do without; a failure is logged and ends nothing."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those of MLflow about pandas
                log()
        except Exception as error:
            logger.warning("%s cannot be recorded in MLflow: %s", what, one_line(error))


def _fields(example: dspy.Example) -> dict[str, Any]:
    """An example's inputs as JSON data; of a task of a language its name and its statement."""
    found: dict[str, Any] = {}
    for name, value in example.inputs().items():
        statement = getattr(value, "statement", None)
        found |= {"name": value.name, "statement": statement} if statement else {name: to_jsonable(value)}
    return found


def _solved(example: dspy.Example, answer: Mapping[str, Any]) -> str:
    """A solved task as YAML; a task of a language as a task file with its program."""
    task = example.get("task")
    if hasattr(task, "text_with"):
        return str(task.text_with(answer["impl"]))
    return as_yaml({**to_jsonable(dict(example.inputs().items())), **to_jsonable(dict(answer))})
