"""The MLflow record of a run, written while the run goes on: a run that dies leaves all that it had done.

One parent run, whose metrics are curves with the iteration as step, and one nested run an iteration, named `03 HM`.
Artifacts of the parent:

    request.json                            what the run was asked to do: whatever `--resume` needs, and first of all
    tasks/GROUP/NAME.yaml                   the tasks
    iterations/03_HM/demonstrations.yaml    what the proposer was shown
    iterations/03_HM/prompt.yaml            every predictor's messages, the task at their end left out
    iterations/03_HM/attempts.jsonl.gz      every sample with its verdict, one JSON object a line
    overhead.json                           tokens that one of DSPy's optimizers took before, per predictor
    tuned.json                              the program that it made
    solutions/GROUP/NAME.yaml               the solved tasks, each with its program
    learning_curve.png, pass_at_k.png       drawn at the end, and now and then in a long run
    experience.json, compiled.json          the record that a run can go on from, and the compiled program

The program is logged as a model, too. An iteration's metrics are logged once, when it is whole;
those called `total_…` are the run's at its end; their step is the number of its samples, and of the requests of one of
DSPy's optimizers before them. A run that broke off is gone on with in the same run: what is on record already is
neither logged nor written again. Where the store fails, the run ends, and what was sampled waits in a folder of the
run's own until a command puts it on record (`pipeline.record.store`).
"""

from __future__ import annotations

import getpass
import json
import logging
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from optimizers import Attempt, BaseObserver, Experience, IterationResult, IterationStarted, RunStarted, TokenCount
from pipeline.agent.compiled import save_program
from pipeline.base.errors import RecordError, UsageError
from pipeline.base.paths import shown
from pipeline.charts import plots
from pipeline.charts.curves import final_counts, learning_points, pass_at_k_curve, title
from pipeline.record import models, resume, store
from pipeline.record.metrics import describe, of_iteration, of_predictors, of_run
from pipeline.record.persistent_ledger import KeptLedger
from pipeline.record.request import Request
from pipeline.record.transcript import as_yaml, demonstrations, messages

if TYPE_CHECKING:
    from step_runtime.tasks.task import Task

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_PICTURES = 30.0
ENDED = {"interrupted": "KILLED", "failed": "FAILED"}
AS_TAGS = ("command",)
"""Of the parameters those that are every run's own: as tags, they are no axis of the UI's plots."""


@contextmanager
def recorded(
    name: str,
    params: Mapping[str, object],
    tasks: Sequence[Task],
    request: Request | None = None,
    resumed: str | None = None,
) -> Iterator[Recorder]:
    """A run in the store, and its recorder; the run's status says how the context was left.

    Args:
        name: the run's name for people.
        params: everything needed to run it again.
        tasks: the run's tasks.
        request: what the run is asked to do, if it is to be gone on with should it break off.
        resumed: the id of the run to go on with; None: a new one.

    Raises:
        UsageError: the store can't be opened, or the run to go on with is at work.
        RecordError: the record can't be written any longer; what was sampled waits in the run's folder.
    """
    opened, experiment = store.open_store()
    client: Any = store.Steady(opened)
    run_id = resumed or _new_run(client, experiment, name, params)
    with store.run_at_work(run_id) as folder:
        journal = resume.attempts(client, run_id)
        if resumed:
            client.update_run(run_id, status="RUNNING")
        elif request:
            client.log_text(run_id, request.to_json(), "request.json")
        recorder = Recorder(client, experiment, run_id, folder, tasks, journal, name.partition(" ")[0].rstrip(","))
        try:
            yield recorder
            recorder.close()
        except BaseException as error:
            try:
                recorder.close("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
                if not isinstance(error, RecordError):
                    raise
                failure = error
            except RecordError as again:
                failure = again
            raise RecordError(f"{failure}. {_where_it_is(folder, run_id, request)}") from error


def _where_it_is(folder: Path, run_id: str, request: Request | None) -> str:
    """What a person is told whose store has failed."""
    kept = "All answers until then are on record"
    if any(folder.rglob("attempts.*")):
        kept = f"The last answers are kept in {shown(folder)}, and the next command puts them on record once it can"
    return kept + (f"; to go on then: python -m pipeline.compile --resume {run_id[:8]}" if request else "")


def _new_run(client: Any, experiment: str, name: str, params: Mapping[str, object]) -> str:
    from mlflow.entities import Param

    tags = {
        "mlflow.source.name": Path(sys.argv[0]).name,
        "mlflow.source.type": "LOCAL",
        "mlflow.user": _user(),
        **{key: str(params[key])[:5000] for key in AS_TAGS if key in params},
    }
    run_id: str = client.create_run(experiment, run_name=name, tags=tags).info.run_id
    plain = {key: str(value)[:6000] for key, value in sorted(params.items()) if key not in AS_TAGS}
    client.log_batch(run_id, params=[Param(key, value) for key, value in plain.items()])
    return run_id


class Recorder(BaseObserver):
    """Listens to one run and writes it down; use `recorded`.

    Args:
        client: of the store, a `store.Steady` one.
        experiment: id of the run's experiment.
        run_id: of the parent run.
        folder: where files lie until they are uploaded, kept if the process is killed.
        tasks: the run's tasks.
        journal: attempts on record already, of a run that broke off.
        label: of the learning curve.

    Attributes:
        answers: how many of the journal's attempts have one.
        overhead: what one of DSPy's optimizers has spent, by all processes that worked at the run.
        tuned: the program that it had made before the run broke off.
    """

    def __init__(
        self,
        client: Any,
        experiment: str,
        run_id: str,
        folder: Path,
        tasks: Sequence[Task],
        journal: Sequence[Attempt] = (),
        label: str = "adaptive",
    ) -> None:
        self.run_id = run_id
        self._label = label
        self.journal = journal
        self.answers = 0
        self._places: dict[int, array[int]] = {}  # in the journal, of every iteration's attempts
        for place, attempt in enumerate(journal):
            self.answers += attempt.scored
            self._places.setdefault(attempt.iteration, array("Q")).append(place)
        self.overhead = KeptLedger(folder / "overhead.json", resume.overhead(client, run_id))
        self.tuned = resume.tuned(client, run_id)
        self._known = store.known_metrics(client, run_id)
        self._known_runs = store.nested_runs(client, experiment, run_id)
        self._client = client
        self._experiment = experiment
        self._folder = folder
        self._tasks = {task.name: task for task in tasks}
        self._samples = 0
        self._temperatures: Sequence[float] = ()
        self._iterations: list[IterationResult] = []
        self._nested: str | None = None
        self._attempts: IO[str] | None = None
        self._status = "FINISHED"
        self._drawn = time.monotonic()

    def run_started(self, event: RunStarted) -> None:
        """Writes the tasks down."""
        from step_runtime.tasks.task import dump_task

        self._samples = event.settings["num_samples"]
        self._temperatures = event.settings["temperatures"]
        for name, task in self._tasks.items():
            self._client.log_text(self.run_id, dump_task(task), f"tasks/{name}.yaml")

    def iteration_started(self, event: IterationStarted) -> None:
        """Opens the nested run, writes its demonstrations and prompt down, and a file for its attempts."""
        self._end_iteration("FINISHED")
        name = run_name(event.index, event.label)
        place = _place(name, event.index)
        if event.index >= 0:
            self._nested = self._start_nested(name, event)
        earned = {count.task_key: count for count in final_counts(self._iterations)}
        if event.overhead:
            with _written():
                save_program(event.program, self._folder / "tuned.json")
        demos = demonstrations(event.program, event.demos, earned)
        self._client.log_text(self.run_id, as_yaml(demos), f"{place}/demonstrations.yaml")
        self._client.log_text(self.run_id, as_yaml(messages(event.program)), f"{place}/prompt.yaml")
        path = self._folder / place / "attempts.jsonl"
        with _written():
            path.parent.mkdir(parents=True)
            partial = path.with_suffix(".partial")
            with partial.open("w", encoding="ascii") as file:
                file.writelines(_line(self.journal[place]) for place in self._places.get(event.index, ()))
            partial.replace(path)  # at once, as this file will take the place of what is on record
            self._attempts = path.open("a", encoding="ascii", buffering=1)

    def sample_done(self, attempt: Attempt) -> None:
        """Writes the attempt down at once; one that is on record takes its own place."""
        if self._attempts:
            with _written():
                self._attempts.write(_line(attempt))

    def iteration_finished(self, result: IterationResult) -> None:
        """Uploads the attempts, logs the metrics and draws the pictures anew."""
        self._iterations.append(result)
        if result.complete:
            metrics = of_iteration(result)
            self._log_metrics(self.run_id, metrics, step=result.index + 1)
            if self._nested:
                self._log_metrics(self._nested, metrics | of_predictors(result), step=0)
        self._end_iteration("FINISHED" if result.complete else "KILLED")
        if time.monotonic() - self._drawn > SECONDS_BETWEEN_PICTURES:
            self._draw()

    def run_finished(self, experience: Experience) -> None:
        """Writes the solutions, the experience and a description down."""
        from step_runtime.tasks.task import dump_task

        for entry in experience.entries:
            task = self._tasks.get(entry.task_key)
            if task is not None:
                solved = task.model_copy(update={"impl": entry.outputs["impl"]})
                self._client.log_text(self.run_id, dump_task(solved), f"solutions/{entry.task_key}.yaml")
        text = json.dumps(experience.to_dict(attempts=False), indent=1)
        self._client.log_text(self.run_id, text, "experience.json")
        before = TokenCount.sum(experience.overhead.values()).calls
        self._log_metrics(self.run_id, of_run(experience), step=before + len(experience.attempts))
        self._client.set_tag(self.run_id, "mlflow.note.content", describe(experience))
        self._client.set_tag(self.run_id, "stopped", experience.stopped)
        self._status = ENDED.get(experience.stopped, "FINISHED")

    def log_program(self, path: Path) -> None:
        """Uploads the compiled program as `compiled.json`, and logs it as a model."""
        self._client.log_text(self.run_id, path.read_text(encoding="utf-8"), "compiled.json")
        try:
            models.log(self._client, self._experiment, self.run_id, path)
        except RecordError as error:  # the program itself is on record
            logger.warning("the program is not logged as a model: %s", error)

    def close(self, status: str | None = None) -> None:
        """Ends the run with an MLflow status; None: the one that follows from what ended the experience."""
        status = status or self._status
        self._end_iteration(status)
        for path in sorted(self._folder.glob("*.json")):
            self._client.log_artifact(self.run_id, str(path))
        if self._iterations:
            self._draw()
        self._client.set_terminated(self.run_id, status)

    def _start_nested(self, name: str, event: IterationStarted) -> str:
        from mlflow.entities import Param

        if run_id := self._known_runs.get(name):
            self._client.update_run(run_id, status="RUNNING")
            self._known |= store.known_metrics(self._client, run_id)
            if self._client.get_run(run_id).data.params:
                return run_id
        else:
            tags = {"mlflow.parentRunId": self.run_id, "mlflow.user": _user()}
            run_id = str(self._client.create_run(self._experiment, run_name=name, tags=tags).info.run_id)
        params = {
            "iteration": event.index + 1,
            "label": event.label,
            "cycle": event.cycle,
            "demonstrations": ", ".join(event.demos) or "none",
            "tasks": ", ".join(event.tasks),
        }
        self._client.log_batch(run_id, params=[Param(key, str(value)[:6000]) for key, value in params.items()])
        return run_id

    def _end_iteration(self, status: str) -> None:
        if self._attempts:
            attempts, self._attempts = self._attempts, None
            with _written():
                attempts.close()
                compressed = store.compress(Path(attempts.name), key=self._order)
            self._client.log_artifact(self.run_id, str(compressed), str(compressed.parent.relative_to(self._folder)))
            compressed.unlink()
        if self._nested:
            self._client.set_terminated(self._nested, status)
            self._nested = None

    def _order(self, attempt: Mapping[str, Any]) -> tuple[int, int, int]:
        """The algorithm's order of an iteration's attempts, where the file has that of completion."""
        return attempt["task"], self._temperatures.index(attempt["temperature"]), attempt["sample"]

    def _log_metrics(self, run_id: str, metrics: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        new = [Metric(name, value, now, step) for name, value in metrics.items()]
        if new := [metric for metric in new if (run_id, metric.key, step) not in self._known]:
            self._client.log_batch(run_id, new)

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        total = len(self._tasks)
        curves = {title(it.index, it.label): final_counts([it]) for it in self._iterations[:1]}
        if len(self._iterations) > 1:
            curves["all iterations"] = final_counts(self._iterations)
        with tempfile.TemporaryDirectory() as scratch:
            curve, at_k = Path(scratch, "learning_curve.png"), Path(scratch, "pass_at_k.png")
            plots.learning_curve({self._label: learning_points(self._iterations)}, self._samples, curve)
            drawn = {name: pass_at_k_curve(counts, total, self._samples) for name, counts in curves.items()}
            plots.pass_at_k(drawn, at_k)
            self._client.log_artifacts(self.run_id, scratch)


@contextmanager
def _written() -> Iterator[None]:
    """A full disk ends the run as a store that fails does."""
    try:
        yield
    except (OSError, UsageError) as error:
        raise RecordError(f"can't write the record of the run: {store.first_line(error)}") from error


def _line(attempt: Attempt) -> str:
    return json.dumps(attempt.to_dict()) + "\n"


def run_name(index: int, label: str) -> str:
    """A nested run's name, `03 HM`, `01 bootstrap`: its iteration, counted from 1, and what it tries."""
    levels = label.partition("_")[0]
    return f"{index + 1:02d} {levels}" if index >= 0 else levels


def _place(name: str, index: int) -> str:
    return f"{'iterations' if index >= 0 else 'validation'}/{name.replace(' ', '_')}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container that runs under a number without a name
        return "unknown"
