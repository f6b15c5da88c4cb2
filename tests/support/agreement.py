"""Whether the simulator computes what a program means on tokens."""

from collections.abc import Mapping

import torch

from step_runtime.base.errors import RunError
from step_runtime.base.shapes import Sizes
from step_runtime.execution.applier import Applier
from step_runtime.execution.invocation import default_dtype
from step_runtime.program.graph import Program
from step_runtime.verification.check import Types, check_affine, infer_types
from step_runtime.verification.simulate import NodeError, simulate
from tests.support.random_programs import Case
from tests.support.tokens import Value, run_tokens
from tests.support.truth import close


def disagreement(case: Case) -> str | None:
    """What the check or the simulator make otherwise of a well-typed program than its meaning; None for nothing."""
    types, found = infer_types(case.program, case.scope)
    found += check_affine(case.program)
    if found:
        return f"the check refuses it: {found[0].message} {found[0].details}"
    inferred = [types[stream] for stream in case.program.results]
    if inferred != list(case.scope.outputs):
        return f"its types differ: {inferred}"
    return compare(case.program, types, case.data, case.scope.sizes)


def compare(program: Program, types: Types, data: Mapping[str, Value], sizes: Sizes) -> str | None:
    """Where a run on tokens and the simulator part on one input; None where they agree, on a refusal too."""
    expected: list[Value] | str
    simulated: list[Value] | str
    with default_dtype(torch.float64):
        try:
            expected = run_tokens(program, types, data, sizes)
        except RunError as error:
            expected = error.code
        try:
            simulated = simulate(program, types, data, sizes, Applier(torch.float64))
        except NodeError as error:
            if not isinstance(error.cause, RunError):
                raise
            simulated = error.cause.code
    if isinstance(expected, str) or isinstance(simulated, str):
        return None if expected == simulated else f"tokens: {expected}; simulated: {simulated}"
    for stream, one, other in zip(program.results, expected, simulated, strict=True):
        for right, found in zip(one, other, strict=True):
            if not close(found, right):
                return f"stream {stream}: {right} on tokens, {found} simulated"
    return None
