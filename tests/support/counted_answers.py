"""Answers for `tests.support.lm_server` that keep both modules busy: programs that reuse a stream, and no programs."""

from typing import Any

REUSING = "E1 = step.Map(fn=fn).apply(E0)\nE2 = step.Map(fn=fn).apply(E0)\nreturn E1"
RIGHT = "E1 = step.Map(fn=fn).apply(E0)\nreturn E1"


def asks_guardian(body: dict[str, Any]) -> bool:
    """Whether a request is the guardian's, which has a field of its own for its answer."""
    return "[[ ## output_impl ## ]]" in body["messages"][-1]["content"]


def answer(body: dict[str, Any], index: int) -> str:
    """By its seed: of four proposals one right, one no program at all, and two that reuse a stream for the guardian."""
    seed = (body.get("seed") or 0) + index
    field = "output_impl" if asks_guardian(body) else "impl"
    if field == "output_impl":
        text = RIGHT if seed % 3 else REUSING
    elif seed % 4 == 0:
        return "I would rather not say."
    else:
        text = RIGHT if seed % 4 == 1 else REUSING
    return f"[[ ## {field} ## ]]\n{text}\n\n[[ ## completed ## ]]"
