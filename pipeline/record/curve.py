"""What a recorded run had solved after each of its iterations, and what it had spent by then."""

from __future__ import annotations

from typing import Any


def solved_curve(client: Any, run: Any) -> list[dict[str, float]]:
    """Samples and tokens so far, and tasks solved: before the run, after each iteration, and at the end of the run.

    The end includes an iteration that a limit cut short.
    """
    history = {
        name: {point.step: point.value for point in _points(client, run, name)}
        for name in ("solved", "samples", "tokens_prompt", "tokens_completion")
    }
    points, samples, tokens = [_point(0, 0, 0)], 0.0, 0.0
    for step, solved in sorted(history["solved"].items()):
        samples += history["samples"].get(step, 0)
        tokens += history["tokens_prompt"].get(step, 0) + history["tokens_completion"].get(step, 0)
        points.append(_point(samples, tokens, solved))
    total = run.data.metrics
    if "total_solved" in total:
        end = _point(total.get("total_samples", samples), total["total_tokens"], total["total_solved"])
        points += [end] if end != points[-1] else []
    return points


def _points(client: Any, run: Any, name: str) -> list[Any]:
    """A curve's points; earlier versions recorded all curves without a group."""
    grouped = f"iteration/{name}"
    found: list[Any] = client.get_metric_history(run.info.run_id, grouped if grouped in run.data.metrics else name)
    return found


def _point(samples: float, tokens: float, solved: float) -> dict[str, float]:
    return {"samples": samples, "tokens": tokens, "solved": solved}
