"""The MLflow record of a run of any DSPy program; `recorder` is the one of STeP's agent, which can be resumed.

One parent run, whose metrics are curves with the iteration as step, and one nested run per iteration, named `03 HM`.
Artifacts of the parent:

    iterations/03_HM/program.json     the state of the program that was sampled: its demonstrations and instructions
    iterations/03_HM/attempts.jsonl   every sample with its verdict, one JSON object per line
    experience.json                   the record of the run without its attempts, to continue from
    compiled.json                     the compiled program, if `log_program` is called
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from optimizers import Attempt, BaseObserver, Experience, IterationResult, IterationStarted, RunStarted
from pipeline.base.files import open_growing, write_text
from pipeline.record.mlflow_metrics import STATUS, describe, iteration_metrics, predictor_metrics, run_metrics

UNNAMEABLE = re.compile(r"[^\w\-. /]")
"""Characters that MLflow accepts in no metric's name, such as the brackets of `steps[0]`."""
LONGEST = 6000
"""Characters of a param."""


class MLflowObserver(BaseObserver):
    """Records every run that it observes, of any program, in the store that MLflow's settings name.

    As a context manager it marks a run that an exception ends as failed.

    Args:
        run_name: The name of the runs; None for one that MLflow makes.
        client: The client; None for one of MLflow's current settings.

    Attributes:
        run_id: The id of the latest parent run; None before it.
    """

    def __init__(self, experiment: str, run_name: str | None = None, client: MlflowClient | None = None) -> None:
        self._client = client or MlflowClient()
        known = self._client.get_experiment_by_name(experiment)
        self._experiment = known.experiment_id if known else self._client.create_experiment(experiment)
        self._run_name = run_name
        self.run_id: str | None = None
        self._open: list[str] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._place = Path()

    def __enter__(self) -> MLflowObserver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._close("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")

    def run_started(self, event: RunStarted) -> None:
        """Starts the parent run, with the settings as its params."""
        self._close("FAILED")
        self._folder = tempfile.TemporaryDirectory(prefix="mlflow-observer-")
        settings = {**event.settings, "tasks": ", ".join(event.tasks), "solved_earlier": len(event.solved)}
        self.run_id = self._start(self._run_name, {}, settings)

    def iteration_started(self, event: IterationStarted) -> None:
        """Starts the nested run and records the program."""
        name = f"{event.index + 1:02} {event.label.partition('_')[0]}" if event.index >= 0 else f"valset {event.label}"
        self._place = self._root / "iterations" / name.replace(" ", "_")
        self._place.mkdir(parents=True, exist_ok=True)
        state = json.dumps(event.program.dump_state(), indent=1, default=str)
        write_text(self._place / "program.json", state)
        demos = ", ".join(event.demos) or "none"
        params = {"label": event.label, "cycle": event.cycle, "demonstrations": demos, "tasks": len(event.tasks)}
        if event.index >= 0:
            self._start(name, {"mlflow.parentRunId": self.run_id}, params)

    def sample_done(self, attempt: Attempt) -> None:
        """Writes the attempt to a file of this process."""
        with open_growing(self._place / "attempts.jsonl") as file:
            file.write(json.dumps(attempt.to_dict()) + "\n")

    def iteration_finished(self, result: IterationResult) -> None:
        """Logs the metrics, uploads the attempts, and ends the nested run."""
        metrics = iteration_metrics(result)
        self._log(self._open[0], metrics, result.index + 1)
        self._log(self._open[-1], metrics | predictor_metrics(result), 0)
        self._upload()
        self._client.set_terminated(self._open.pop(), "FINISHED" if result.complete else "KILLED")

    def run_finished(self, experience: Experience) -> None:
        """Records the experience and a description, and ends the run."""
        experience.dump(self._root / "experience.json", attempts=False)
        self._upload()
        self._log(self._open[0], run_metrics(experience), len(experience.attempts))
        self._client.set_tag(self._open[0], "mlflow.note.content", describe(experience))
        self._client.set_tag(self._open[0], "stopped", experience.stopped)
        self._close(STATUS.get(experience.stopped, "FINISHED"))

    def log_program(self, program: Any) -> None:
        """Adds the compiled program's state to the latest run as `compiled.json`.

        Raises:
            ValueError: No run has started.
        """
        if self.run_id is None:
            raise ValueError("no run has started")
        state = json.dumps(program.dump_state(), indent=1, default=str, ensure_ascii=False)
        self._client.log_text(self.run_id, state + "\n", "compiled.json")

    @property
    def _root(self) -> Path:
        if self._folder is None:
            raise ValueError("no run has started")
        return Path(self._folder.name)

    def _start(self, name: str | None, tags: dict[str, Any], params: dict[str, Any]) -> str:
        run_id = str(self._client.create_run(self._experiment, run_name=name, tags=tags).info.run_id)
        self._open.append(run_id)
        self._client.log_batch(run_id, params=[Param(key, str(value)[:LONGEST]) for key, value in params.items()])
        return run_id

    def _log(self, run_id: str, metrics: dict[str, float], step: int) -> None:
        now = int(1000 * time.time())
        named = {UNNAMEABLE.sub("_", name): value for name, value in metrics.items()}
        self._client.log_batch(run_id, [Metric(name, value, now, step) for name, value in named.items()])

    def _upload(self) -> None:
        self._client.log_artifacts(self._open[0], str(self._root))
        for path in [path for path in self._root.rglob("*") if path.is_file()]:
            path.unlink()

    def _close(self, status: str) -> None:
        """Ends the runs that are open, what is not uploaded yet included."""
        if self._open and self._folder:
            self._upload()
        while self._open:
            self._client.set_terminated(self._open.pop(), status)
        if self._folder:
            self._folder.cleanup()
        self._folder = None
