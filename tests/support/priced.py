"""Programs with the cost of each function given, checked against a scope of declared functions."""

from collections.abc import Mapping
from typing import NamedTuple

from step_runtime.base.types import StreamType
from step_runtime.cost.chip import Chip
from step_runtime.cost.model import Cost, estimate
from step_runtime.language.parser import parse
from step_runtime.program.graph import Program
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import check_affine, infer_types


class Checked(NamedTuple):
    """A program that passes the checks, and the type of each stream."""

    program: Program
    types: list[StreamType]


def checked(task: str, text: str) -> Checked:
    """A program of a task, which is given as YAML."""
    scope = static_scope(loads_task(task, "priced"))
    program, found = parse(text, scope)
    types, typed = infer_types(program, scope)
    problems = [*found, *typed, *check_affine(program)]
    assert not problems, problems
    return Checked(program, [kind for kind in types if kind is not None])


def priced(task: str, text: str, sizes: Mapping[str, int], chip: Chip, operations: int = 1) -> Cost:
    """What a program costs if each call of a function takes so many operations."""
    program, types = checked(task, text)
    return estimate(program, types, sizes, lambda fn: operations, chip)
