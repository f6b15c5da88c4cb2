"""Attempts worth looking at, as MLflow traces of a run, with the metric's verdict as an assessment.

They are the answer that represents each solved task, and the nearest miss of each unsolved one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from optimizers import Attempt, Experience, TokenCount
from optimizers.attempt import to_jsonable

MOST = 200
"""Traces of a run, at most: the first solved tasks and the first unsolved ones, in task order, half each."""


def notable_attempts(experience: Experience) -> list[Attempt]:
    """The attempts that solved tasks, then the best-scored wrong ones at the unsolved tasks, each in task order."""
    places = {
        entry.task_key: (
            entry.iteration if entry.answer_iteration is None else entry.answer_iteration,
            entry.answer_temperature,
            entry.answer_sample,
        )
        for entry in experience.entries
        if not entry.composed_from
    }
    solving: dict[str, Attempt] = {}
    nearest: dict[str, Attempt] = {}
    unsolved = set(experience.unsolved)
    for attempt in experience.attempts:
        key = attempt.task_key
        if attempt.iteration < 0 or attempt.failed:
            continue
        if places.get(key) == (attempt.iteration, attempt.temperature, attempt.sample):
            solving[key] = attempt
        if key in unsolved and (key not in nearest or (attempt.score or 0.0) > (nearest[key].score or 0.0)):
            nearest[key] = attempt
    groups = ([found[key] for key in experience.tasks if key in found] for found in (solving, nearest))
    return [attempt for group in groups for attempt in group[: MOST // 2]]


def log_traces(
    experiment: str, run_id: str, attempts: Sequence[Attempt], inputs: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Logs the attempts in the store of MLflow's current settings; returns the traces' ids.

    `inputs` are the tasks' by name. An attempt that is a trace of the run already is left out.
    """
    import mlflow

    client = mlflow.MlflowClient()
    logged: dict[str, Attempt] = {}
    traces = client.search_traces(locations=[experiment], run_id=run_id, max_results=2 * MOST, include_spans=False)
    known = {trace.info.tags.get("attempt") for trace in traces}
    with _tracing():
        for attempt in attempts:
            if _name(attempt) not in known:
                logged[_log(client, experiment, run_id, attempt, inputs[attempt.task_key])] = attempt
        mlflow.flush_trace_async_logging()
    for trace_id, attempt in logged.items():
        _assess(trace_id, attempt)
    return list(logged)


def _name(attempt: Attempt) -> str:
    return f"{attempt.task_key} {attempt.iteration} {attempt.temperature} {attempt.sample}"


def _log(client: Any, experiment: str, run_id: str, attempt: Attempt, inputs: Mapping[str, Any]) -> str:
    """Logs one attempt, its recorded calls as spans; returns the trace's id."""
    from mlflow.tracing.constant import SpanAttributeKey

    tokens = TokenCount.sum(attempt.tokens.values())
    usage = {"input_tokens": tokens.prompt, "output_tokens": tokens.completion, "total_tokens": tokens.total}
    attributes = {
        "iteration": attempt.iteration + 1, "temperature": attempt.temperature, "sample": attempt.sample,
        "seed": attempt.seed, "seconds": attempt.seconds, SpanAttributeKey.CHAT_USAGE: usage,
    }  # fmt: skip
    root = client.start_trace(
        attempt.task_key,
        "CHAIN",
        _written(inputs),
        attributes,
        {
            "task": attempt.task_key,
            "attempt": _name(attempt),
            "result": "right" if attempt.passed else "nearest miss",
        },
        experiment,
        run_id=run_id,
    )
    for name, calls in attempt.calls.items():
        for call in calls:
            span = client.start_span(name, root.trace_id, root.span_id, "LLM", _written(call))
            client.end_span(root.trace_id, span.span_id)
    client.end_trace(root.trace_id, _written(attempt.outputs if attempt.text is None else {"text": attempt.text}))
    return str(root.trace_id)


def _written(fields: Mapping[str, Any]) -> Any:
    """Fields as JSON data, with `?` for half of a pair of UTF-16, for which MLflow would lose the trace."""
    return json.loads(json.dumps(to_jsonable(fields), ensure_ascii=False).encode(errors="replace"))


def _assess(trace_id: str, attempt: Attempt) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    source = AssessmentSource("CODE", "metric")
    said = attempt.feedback.get("feedback") or "; ".join(
        f"{name}: {value}" for name, value in to_jsonable(attempt.feedback).items() if value
    )
    mlflow.log_feedback(trace_id=trace_id, name="right", value=attempt.passed, source=source, rationale=said or None)
    if attempt.score is not None:
        mlflow.log_feedback(trace_id=trace_id, name="score", value=attempt.score, source=source)


@contextmanager
def _tracing() -> Iterator[None]:
    """Switches MLflow's tracing on: its autologging switches it off while an optimizer runs."""
    import mlflow
    from mlflow.tracing.provider import is_tracing_enabled

    if is_tracing_enabled():
        yield
        return
    mlflow.tracing.enable()
    try:
        yield
    finally:
        mlflow.tracing.disable()
