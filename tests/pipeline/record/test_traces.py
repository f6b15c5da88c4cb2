"""The attempts that become traces are those that say most: what solved a task, and what nearly did."""

from typing import Any

import dspy
import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.tracing.provider import is_tracing_enabled

from optimizers import TokenCount
from pipeline.record import traces
from pipeline.record.traces import log_traces, notable_attempts
from tests.support.scripted_program import learn, some, tasks


def closest(example: dspy.Example, prediction: Any) -> dspy.Prediction:
    """Better the later the sample."""
    right = prediction.answer == f"right {example.task}"
    return dspy.Prediction(score=1.0 if right else 0.2, feedback="see here")


def test_notable_attempts_solve_or_nearly_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chosen answer of a solved task, the best-scored of an unsolved one; the first tasks where they are many."""
    record = learn("abxy", some, metric=closest).experience
    found = notable_attempts(record)
    assert [(attempt.task_key, attempt.score) for attempt in found] == [("a", 1.0), ("b", 1.0), ("x", 0.2), ("y", 0.2)]
    entries = {entry.task_key: entry for entry in record.entries}
    assert all(entries[each.task_key].answer_sample == each.sample for each in found[:2])
    monkeypatch.setattr(traces, "MOST", 2)
    assert [attempt.task_key for attempt in notable_attempts(record)] == ["a", "x"]


def test_traces_are_logged_although_tracing_is_off(
    store_folder: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is while an optimizer runs under MLflow's autologging; it is off again afterwards."""
    monkeypatch.delenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING")  # as for users
    client = MlflowClient()
    experiment = client.create_experiment("traces", artifact_location=str(tmp_path))
    run_id = client.create_run(experiment).info.run_id
    found = notable_attempts(learn("ax", some, metric=closest).experience)
    examples = {str(example.task): example for example in tasks("ax")}
    mlflow.tracing.reset()  # it remembers the store of an earlier test
    mlflow.tracing.disable()
    try:
        ids = log_traces(experiment, run_id, found, examples)
        assert not is_tracing_enabled()
    finally:
        mlflow.tracing.enable()
    logged = client.search_traces(locations=[experiment], run_id=run_id)
    assert sorted(trace.info.trace_id for trace in logged) == sorted(ids)
    by_task = {trace.info.tags["task"]: trace for trace in logged}
    root, *_ = by_task["a"].data.spans
    assert (root.inputs, root.outputs, root.attributes["temperature"]) == ({"task": "a"}, {"answer": "right a"}, 0.7)
    spent = {each.task_key: TokenCount.sum(each.tokens.values()) for each in found}
    assert {name: trace.info.token_usage["total_tokens"] for name, trace in by_task.items()} == {
        name: count.total for name, count in spent.items()
    }
    (right,) = [each for each in by_task["x"].info.assessments if each.name == "right"]
    assert (right.feedback.value, right.rationale) == (False, "see here")
