"""The solved tasks and spent tokens of a recorded run after each iteration, and of its control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.base.choices import RESAMPLE

_ALIKE = ("lm", "temperatures", "guardian", "refine", "no_ir", "prompt", "proposer", "objective")
"""The params that a run and its control have in common, besides the tasks."""
_GROUPED = ("samples", "tokens_prompt", "tokens_completion")


@dataclass(frozen=True)
class Control:
    """A finished run of the same tasks, LM and temperatures that shows no demonstrations, and its curve."""

    run_id: str
    points: Sequence[dict[str, float]]

    def solved_at(self, samples: float) -> float | None:
        """Tasks solved with at most so many samples; None if it took fewer, as what more would bring is unknown."""
        if samples > self.points[-1]["samples"]:
            return None
        return max(point["solved"] for point in self.points if point["samples"] <= samples)


def control_of(client: Any, experiment: str, run_id: str) -> Control | None:
    """The control of a run: of those on record, the one with the same seed, and the latest of equals."""
    own = client.get_run(run_id).data.params
    if "task_set_digest" not in own:
        return None
    found_by = f"params.task_set_digest = '{own['task_set_digest']}' and attributes.status = 'FINISHED'"
    runs = client.search_runs([experiment], found_by, order_by=["attributes.start_time DESC"])
    controls = [run for run in runs if run.info.run_id != run_id and _is_control(run.data.params, own)]
    if not controls:
        return None
    nearest = min(controls, key=lambda run: bool(run.data.params.get("seed") != own.get("seed")))
    return Control(str(nearest.info.run_id), solved_curve(client, nearest))


def _is_control(params: dict[str, str], own: dict[str, str]) -> bool:
    shows_nothing = params.get("optimizer") == "none" or params.get("selection") == RESAMPLE
    return shows_nothing and all(params.get(name) == own.get(name) for name in _ALIKE)


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
