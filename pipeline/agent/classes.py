"""Classes of STeP programs and of the benchmark's tasks (paper, Table 2)."""

from __future__ import annotations

from functools import cache

from pipeline.base.paths import DATA, TASKS
from step_runtime.language.parser import parse
from step_runtime.program.graph import Program
from step_runtime.tasks.reader import read_task
from step_runtime.tasks.scope import static_scope

ORACLES = DATA / "oracles"


def program_class(program: Program) -> str:
    """A for arithmetic only or S for shape-manipulating, then 1 for every stream used once or R for some reused.

    The program keeps the affine rule: it copies exactly the streams that it reuses.
    """
    shapes = any(node.op.reshapes for node in program.nodes)
    reuses = any(node.op.kind == "copy" for node in program.nodes)
    return ("S" if shapes else "A") + ("R" if reuses else "1")


@cache
def task_class(name: str) -> str | None:
    """A benchmark task's class, `A1`, `AR`, `S1` or `SR`, by its oracle; None for other tasks."""
    oracle = ORACLES / f"{name}.step"
    if not oracle.is_file():
        return None
    program, _ = parse(oracle.read_text(encoding="utf-8"), static_scope(read_task(TASKS / f"{name}.yaml")))
    return program_class(program)
