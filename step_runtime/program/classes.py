"""The classes of the paper's Table 2, read off a reference program's graph."""

from __future__ import annotations

from step_runtime.program.graph import Program


def program_class(program: Program) -> str:
    """A for arithmetic only or S for shape-manipulating, then 1 for every stream used once or R for some reused.

    The program keeps the affine rule: it copies exactly the streams that it reuses.
    """
    shapes = any(node.op.reshapes for node in program.nodes)
    reuses = any(node.op.kind == "copy" for node in program.nodes)
    return ("S" if shapes else "A") + ("R" if reuses else "1")
