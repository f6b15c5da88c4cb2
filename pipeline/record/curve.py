"""The solved tasks and spent tokens of a recorded run after each iteration."""

from __future__ import annotations

from typing import Any

_GROUPED = ("samples", "tokens_prompt", "tokens_completion")


def solved_curve(client: Any, run: Any) -> list[dict[str, float]]:
    """Samples and tokens so far, and tasks solved: before the run, after each iteration, and at the end of the run.

    The end includes an iteration that a limit cut short.
    """
    history = {
        name: {point.step: point.value for point in client.get_metric_history(run.info.run_id, name)}
        for name in ("solved", *_GROUPED)
    }
    points, samples, tokens = [_point(0, 0, 0)], 0.0, 0.0
    for step, solved in sorted(history["solved"].items()):
        new, *new_tokens = (history[name].get(step, 0) for name in _GROUPED)
        samples, tokens = samples + new, tokens + sum(new_tokens)
        points.append(_point(samples, tokens, solved))
    total = run.data.metrics
    if "total_solved" in total:
        end = _point(total["total_samples"], total["total_tokens"], total["total_solved"])
        points += [end] if end != points[-1] else []
    return points


def _point(samples: float, tokens: float, solved: float) -> dict[str, float]:
    return {"samples": samples, "tokens": tokens, "solved": solved}
