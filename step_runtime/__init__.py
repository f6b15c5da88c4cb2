"""Streaming Tensor Programs (STeP): tasks, programs, checks, simulation, verification.

    import step_runtime as step
    verdict = step.verify(step.load_task("task.yaml"), impl_text)

Everything a program may name after `step.` is here too, for programs written in Python and run eagerly.
"""

# Before torch, whose C code would import it, and take whatever ends that, Ctrl-C too, for a NumPy that is not there.
import numpy  # noqa: F401

from step_runtime.base.errors import Diagnostic, RuleError, RunError, Span, StepError, TaskCodeError, TaskError
from step_runtime.base.functions import Fn
from step_runtime.base.stream import Stream, affine
from step_runtime.base.types import Buffer, Multihot, Scalar, STuple
from step_runtime.primitives import (
    Accum,
    Bufferize,
    Copy,
    Flatten,
    Identity,
    Map,
    Merge,
    Partition,
    Promote,
    Repeat,
    RepeatLast,
    RepeatRef,
    Reshape,
    Scan,
    Streamify,
    Zip,
)
from step_runtime.program.limits import Limits
from step_runtime.tasks.task import Task, dump_task, loads_task
from step_runtime.verification.loading import load_task
from step_runtime.verification.verify import Verdict, Verifier, verify

__all__ = [
    "Accum",
    "Buffer",
    "Bufferize",
    "Copy",
    "Diagnostic",
    "Flatten",
    "Fn",
    "Identity",
    "Limits",
    "Map",
    "Merge",
    "Multihot",
    "Partition",
    "Promote",
    "Repeat",
    "RepeatLast",
    "RepeatRef",
    "Reshape",
    "RuleError",
    "RunError",
    "STuple",
    "Scalar",
    "Scan",
    "Span",
    "StepError",
    "Stream",
    "Streamify",
    "Task",
    "TaskCodeError",
    "TaskError",
    "Verdict",
    "Verifier",
    "Zip",
    "affine",
    "dump_task",
    "load_task",
    "loads_task",
    "verify",
]
