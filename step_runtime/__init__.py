"""Streaming Tensor Programs (STeP): tasks, programs, checks, simulation, verification.

    import step_runtime as step
    verdict = step.verify(step.load_task("task.yaml"), impl_text)

Every name that a program may use after `step.` is exported too, for programs written in Python and run eagerly. Names
are imported on first use: another language takes no more from here than the errors and the form of a verdict.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from step_runtime.base.errors import (
        Diagnostic,
        RuleError,
        RunError,
        Span,
        StepError,
        TaskCodeError,
        TaskError,
        TaskWarning,
    )
    from step_runtime.base.functions import Fn
    from step_runtime.base.stream import Stream, affine
    from step_runtime.base.types import Buffer, Multihot, Scalar, STuple
    from step_runtime.primitives.arithmetic import *  # noqa: F403
    from step_runtime.primitives.routing import *  # noqa: F403
    from step_runtime.primitives.structural import *  # noqa: F403
    from step_runtime.program.limits import Limits
    from step_runtime.tasks.reader import loads_task
    from step_runtime.tasks.task import Task, dump_task
    from step_runtime.verification.loading import load_task
    from step_runtime.verification.verdict import Verdict
    from step_runtime.verification.verify import Verifier, verify

_HOMES = {
    "base.errors": (
        "Diagnostic", "RuleError", "RunError", "Span", "StepError", "TaskCodeError", "TaskError", "TaskWarning",
    ),
    "base.functions": ("Fn",),
    "base.stream": ("Stream", "affine"),
    "base.types": ("Buffer", "Multihot", "STuple", "Scalar"),
    "program.limits": ("Limits",),
    "tasks.reader": ("loads_task",),
    "tasks.task": ("Task", "dump_task"),
    "verification.loading": ("load_task",),
    "verification.verdict": ("Verdict",),
    "verification.verify": ("Verifier", "verify"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    homes = {each: home for home, names in _HOMES.items() for each in names}
    if name not in homes and not (name.startswith("_") and name != "__all__"):
        primitives = [f"primitives.{each}" for each in ("arithmetic", "routing", "structural")]
        homes |= {each: home for home in primitives for each in import_module(f"{__name__}.{home}").__all__}
    if name == "__all__":
        return sorted(homes)
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{homes[name]}"), name)
    return found
