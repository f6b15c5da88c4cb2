"""The MLflow record of a run of any DSPy program; `recorder` is the one of STeP's agent, which can be resumed.

One parent run, whose metrics are curves with the iteration as step, and one nested run per iteration, named `03 HM`.
Beside them the tasks as a dataset, the compiled program as a model, and notable attempts as traces. Artifacts of the
parent:

    iterations/03_HM/program.json       the state of the program that was sampled: its demonstrations and instructions
    iterations/03_HM/attempts.jsonl.gz  every sample with its verdict, one JSON object per line
    learning_curve.png, pass_at_k.png   the tasks solved over the tokens spent, and over the samples
    experience.json                     the record of the run without its attempts, to continue from
    compiled.json                       the state of the compiled program
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
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
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric

from optimizers import Attempt, BaseObserver, Experience, IterationResult, IterationStarted, RunStarted
from optimizers.errors import one_line
from optimizers.jsonable import to_jsonable
from pipeline.base.addresses import registered_name
from pipeline.base.files import write_text
from pipeline.charts.plots import draw_run
from pipeline.record import logged_models, registration
from pipeline.record.attempts import AttemptWriter
from pipeline.record.mlflow_metrics import (
    STATUS,
    curves,
    describe,
    iteration_metrics,
    predictor_metrics,
    run_metrics,
)
from pipeline.record.registration import in_store
from pipeline.record.run_tree import log_params, run_name
from pipeline.record.traces import log_traces, notable_attempts

logger = logging.getLogger(__name__)

UNNAMEABLE = re.compile(r"[^\w\-. /]")
"""Characters that MLflow accepts in no metric's name, such as the brackets of `steps[0]`."""


class MLflowObserver(BaseObserver):
    """Records every run that it observes, of any program, in the store that MLflow's settings name.

    A run that is active in MLflow becomes the parent, and stays open; else a new one is, which ends when the run does,
    as failed if an exception ends it. What cannot be recorded of model, dataset and traces is logged and left out.

    Args:
        experiment: The experiment of new runs.
        run_name: The name of the runs; None for one that MLflow makes.
        client: The client; None for one of MLflow's current settings.
        traces: Whether the attempts that solve tasks, and nearest misses, become traces.
        register_as: The name, or `NAME@ALIAS`, under which the registry gets the compiled program and its prompts.

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
        self._client = client or MlflowClient()
        self._name, self._run_name, self._traces = experiment, run_name, traces
        self._outer = mlflow.active_run()  # the one of this thread; another may compile
        self.run_id: str | None = None
        self._experiment = ""
        self._open: list[str] = []
        self._known: set[str] = set()
        self._iterations: list[IterationResult] = []
        self._examples: Mapping[str, dspy.Example] = {}
        self._program: dspy.Module | None = None
        self._answer: Mapping[str, Any] = {}
        self._samples = 1
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._attempts: AttemptWriter | None = None

    def __enter__(self) -> MLflowObserver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._close("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")

    def run_started(self, event: RunStarted) -> None:
        """Starts the parent run, with the settings as its params and the tasks as its dataset."""
        self._close("FAILED")
        self._folder = tempfile.TemporaryDirectory(prefix="mlflow-observer-")
        self._known, self._iterations, self._answer, self._program = set(), [], {}, None
        self._examples, self._samples = event.examples, event.settings["num_samples"]
        limits = {f"budget_{key}": value for key, value in event.settings["budget"].items() if value is not None}
        own = {key: value for key, value in event.settings.items() if key != "budget"}
        settings = {**own, **limits, "tasks": ", ".join(event.tasks), "solved_earlier": len(event.solved)}
        if active := self._active_run():
            self.run_id, self._experiment = active.info.run_id, active.info.experiment_id
            log_params(
                self._client, self.run_id, {key: settings[key] for key in settings if key not in active.data.params}
            )
        else:
            known = self._client.get_experiment_by_name(self._name)
            self._experiment = known.experiment_id if known else self._client.create_experiment(self._name)
            self.run_id = self._start(self._run_name, {}, settings)
        self._optionally("the tasks", self._log_dataset)

    def iteration_started(self, event: IterationStarted) -> None:
        """Starts the nested run and records the program."""
        self._end_attempts()
        name = run_name(event) if event.index >= 0 else f"valset {event.label}"
        place = self._root / "iterations" / name.replace(" ", "_")
        write_text(place / "program.json", json.dumps(event.program.dump_state(), indent=1, default=str))
        self._attempts = AttemptWriter(place)
        demos = ", ".join(event.demos) or "none"
        params = {"label": event.label, "cycle": event.cycle, "demonstrations": demos, "tasks": len(event.tasks)}
        if event.index >= 0:
            self._start(name, {"mlflow.parentRunId": self.run_id}, params)

    def sample_done(self, attempt: Attempt) -> None:
        """Writes the attempt to a file of this process."""
        self._answer = self._answer or attempt.outputs
        if self._attempts:
            self._attempts.write(attempt)

    def iteration_finished(self, result: IterationResult) -> None:
        """Logs the metrics, uploads the attempts, and ends the nested run."""
        self._iterations.append(result)
        metrics = iteration_metrics(result)
        own = {name: value for name, value in (metrics | predictor_metrics(result)).items() if value}
        self._log(self._parent, curves(metrics, self._known), result.index + 1)
        self._log(self._open[-1], own, 0)
        self._upload()
        self._client.set_terminated(self._open.pop(), "FINISHED" if result.complete else "KILLED")

    def program_compiled(self, program: dspy.Module) -> None:
        """Records the program's state, and the program as a model."""
        self._program = program
        self.log_program(program)
        self._optionally("the program as a model", self._log_model)

    def run_finished(self, experience: Experience) -> None:
        """Records the experience, its curves, traces and a description, and ends the run."""
        experience.dump(self._root / "experience.json", attempts=False)
        if self._iterations:
            draw_run(self._iterations, len(experience.tasks), self._samples, self._root)
        self._upload()
        self._log(self._parent, run_metrics(experience), len(experience.attempts))
        self._client.set_tag(self._parent, "mlflow.note.content", describe(experience))
        self._client.set_tag(self._parent, "stopped", experience.stopped)
        if self._traces:
            self._optionally("traces", partial(self._log_traces, experience))
        self._close(STATUS.get(experience.stopped, "FINISHED"))

    def run_failed(self, experience: Experience, error: BaseException) -> None:
        """Records the samples and the reason of the end, and ends the run as failed."""
        if self.run_id is None or self._folder is None:
            return
        experience.dump(self._root / "experience.json", attempts=False)
        self._client.set_tag(self._parent, "mlflow.note.content", f"**Failed**: {one_line(error)}")
        self._client.set_tag(self._parent, "stopped", experience.stopped)
        self._close("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")

    def log_program(self, program: Any) -> None:
        """Adds a program's state to the latest run as `compiled.json`; that of the result is there already.

        Raises:
            ValueError: No run has started.
        """
        state = json.dumps(program.dump_state(), indent=1, default=str, ensure_ascii=False)
        text = state.encode(errors="backslashreplace").decode()  # as in `Experience.dump`
        self._client.log_text(self._parent, text + "\n", "compiled.json")

    @property
    def _root(self) -> Path:
        if self._folder is None:
            raise ValueError("no run has started")
        return Path(self._folder.name)

    @property
    def _parent(self) -> str:
        if self.run_id is None:
            raise ValueError("no run has started")
        return self.run_id

    def _active_run(self) -> Any:
        """MLflow's active run of this thread, or the one in which this was made, if it is still open."""
        active = mlflow.active_run() or self._outer
        if active is None or mlflow.get_tracking_uri() != self._client.tracking_uri:
            return None
        run = self._client.get_run(active.info.run_id)
        return run if run.info.status == "RUNNING" else None

    def _start(self, name: str | None, tags: dict[str, Any], params: dict[str, Any]) -> str:
        run_id = str(self._client.create_run(self._experiment, run_name=name, tags=tags).info.run_id)
        self._open.append(run_id)
        log_params(self._client, run_id, params)
        return run_id

    def _log(self, run_id: str, metrics: dict[str, float], step: int) -> None:
        now = int(1000 * time.time())
        named = {UNNAMEABLE.sub("_", name): value for name, value in metrics.items()}
        self._client.log_batch(run_id, [Metric(name, value, now, step) for name, value in named.items()])
        self._known |= named.keys() if run_id == self.run_id else set()

    def _log_dataset(self) -> None:
        import pandas as pd
        from mlflow.data import from_pandas  # type: ignore[attr-defined]

        rows = [to_jsonable(dict(example.items())) for example in self._examples.values()]
        frame = pd.DataFrame([{name: str(value) for name, value in row.items()} for row in rows])
        described = from_pandas(frame, name="trainset").to_dict()
        fields = {key: value for key, value in described.items() if key not in ("tags", "dataset_source_type")}
        inputs = DatasetInput(Dataset(**fields), [InputTag("mlflow.data.context", "training")])
        self._client.log_inputs(self._parent, datasets=[inputs])

    def _log_model(self) -> None:
        program = self._program
        assert program is not None
        inputs = next(({**example.inputs()} for example in self._examples.values()), {})
        digest = hashlib.sha256(json.dumps(program.dump_state(), default=str).encode()).hexdigest()[:16]

        def save(folder: Path, model: Any) -> None:
            logged_models.save_program(program, folder, model, inputs, self._answer)

        model_id = logged_models.log_model(self._client, self._experiment, self._parent, digest, {}, save)
        if self._register_as is not None:
            with in_store(self._client.tracking_uri):
                registration.register(self._client, self._parent, model_id, program, self._register_as)

    def _log_traces(self, experience: Experience) -> None:
        with in_store(self._client.tracking_uri):
            log_traces(self._experiment, self._parent, notable_attempts(experience), self._examples)

    def _optionally(self, what: str, log: Callable[[], None]) -> None:
        """Logs what a run can do without; a failure is logged and ends nothing."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those of MLflow about pandas
                log()
        except Exception as error:
            logger.warning("%s cannot be recorded in MLflow: %s", what, one_line(error))

    def _end_attempts(self) -> None:
        if self._attempts:
            self._attempts.close()
            self._attempts = None

    def _upload(self) -> None:
        self._end_attempts()
        self._client.log_artifacts(self._parent, str(self._root))
        for path in [path for path in self._root.rglob("*") if path.is_file()]:
            path.unlink()

    def _close(self, status: str) -> None:
        """Ends the runs that are open and were started here, what is not uploaded yet included."""
        if self._folder and self.run_id is not None:
            self._upload()
        while self._open:
            self._client.set_terminated(self._open.pop(), status)
        if self._folder:
            self._folder.cleanup()
        self._folder = None
