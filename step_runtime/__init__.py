"""Streaming Tensor Programs (STeP): tasks, programs, checks, simulation, verification.

    import step_runtime as step
    verdict = step.verify(step.load_task("task.yaml"), impl_text)

Every name that a program may use after `step.` is exported too, for programs written in Python and run eagerly.
"""

# Before torch, whose C code would import NumPy and mistake any exception during that, even Ctrl-C, for a missing NumPy.
import numpy  # noqa: F401

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
from step_runtime.primitives import arithmetic, routing, structural
from step_runtime.primitives.arithmetic import *  # noqa: F403
from step_runtime.primitives.routing import *  # noqa: F403
from step_runtime.primitives.structural import *  # noqa: F403
from step_runtime.program.limits import Limits
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task, dump_task
from step_runtime.verification.loading import load_task
from step_runtime.verification.verify import Verdict, Verifier, verify

__all__ = [
    "Buffer",
    "Diagnostic",
    "Fn",
    "Limits",
    "Multihot",
    "RuleError",
    "RunError",
    "STuple",
    "Scalar",
    "Span",
    "StepError",
    "Stream",
    "Task",
    "TaskCodeError",
    "TaskError",
    "TaskWarning",
    "Verdict",
    "Verifier",
    "affine",
    "dump_task",
    "load_task",
    "loads_task",
    "verify",
]
__all__ += arithmetic.__all__
__all__ += routing.__all__
__all__ += structural.__all__
__all__.sort()
