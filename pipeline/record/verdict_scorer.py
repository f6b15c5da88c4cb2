"""The verifier as a scorer of MLflow: `mlflow.genai.evaluate(data=…, predict_fn=…, scorers=[verdict])`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dspy
from mlflow.entities import AssessmentError, AssessmentSource, Feedback
from mlflow.genai.scorers import Scorer, scorer

from pipeline.languages import registry
from pipeline.languages.language import Task
from pipeline.verification.limits import verification_pool
from pipeline.verification.metric import Metric
from pipeline.verification.pool import cores

NAME = "verdict"


@contextmanager
def verdict_scorer(tasks: Sequence[Task], language: str | None = None) -> Iterator[Scorer]:
    """The scorer `verdict`: whether a program implements its task, as worker processes, one per core, find it.

    A record's input `task` is the name of one of the `tasks`; its output is a program, or fields with one as `impl`.
    A wrong program's diagnostics are the rationale. A verdict that is unknown, as a limit ended the program's run, is
    an error, which MLflow leaves out of the mean. The workers end with the context.
    """
    named = {task.name: task for task in tasks}
    with verification_pool(cores(), language=language) as judges:
        metric = Metric(judges, language=registry.find(language))

        @scorer(name=NAME)
        def verdict(inputs: dict[str, Any], outputs: Any) -> Feedback:
            return _feedback(metric, _task(named, inputs), outputs)

        yield verdict


def _task(named: Mapping[str, Task], inputs: Mapping[str, Any]) -> Task:
    name = str(inputs.get("task"))
    if name not in named:
        raise ValueError(f"the input `task` is {name!r}, expected the name of a task: {', '.join(sorted(named))}")
    return named[name]


def _feedback(metric: Metric, task: Task, outputs: Any) -> Feedback:
    fields = dict(outputs) if isinstance(outputs, Mapping | dspy.Example) else {"impl": outputs}
    reward = metric(dspy.Example(task=task), dspy.Prediction(impl=fields.get("impl") or ""))
    details: dict[str, Any] = {"name": NAME, "source": AssessmentSource("CODE", NAME)}
    if reward.stage:
        details["metadata"] = {"stage": reward.stage, "codes": ", ".join(reward.codes)}
    if "unscored" in reward:
        return Feedback(error=AssessmentError("unknown", reward.feedback), **details)
    return Feedback(value=bool(reward), rationale=reward.feedback or None, **details)
