"""A program of TT-Lang in the functional simulator, whose words become findings at lines of the program."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from ttl.sim import diagnostics, greenlet_scheduler, program, ttl, ttnn
from ttl.sim.context import cleanup_run_context
from ttl.sim.dfb import DataflowBuffer

from pipeline.languages import Diagnostic
from pipeline.tensors.allowed import BUILTINS, printed
from pipeline.tensors.judging import FILE, Runner, chain
from step_runtime.base.syntax import compile_python

# The simulator's import makes both names mean float32 in the whole process; its own names keep their meaning.
torch.float16, torch.bfloat16 = ttnn.float16, ttnn.bfloat16

_BUFFER = re.compile(r"node\d+\.(\w+): ")
_WAITS: list[tuple[str, int]] = []
"""Of a deadlock: for what kernels wait, and where."""


def _note(name: str, message: str, source_file: str, source_line: int, source_col: int = 1) -> None:
    """Keeps what the simulator would print by a module that its wheel lacks."""
    if name == "deadlock":
        _WAITS.append((message, source_line if source_file == FILE else 0))


_checked = DataflowBuffer.validate_no_pending_blocks


def _validated(buffer: DataflowBuffer) -> None:
    """As the simulator's own check at the end, and no block may be left that nothing waited for."""
    _checked(buffer)
    if left := buffer._state.visible:
        raise RuntimeError(f"{left} of its blocks were pushed, and nothing waited for them")


greenlet_scheduler.print_diagnostic_error = program.print_diagnostic_error = _note
diagnostics.print_diagnostic_warning = lambda *_, **__: None
DataflowBuffer.validate_no_pending_blocks = _validated


class Simulation(Runner):
    """An operation that the simulator runs."""

    def __init__(self, tree: ast.Module, text: str) -> None:
        super().__init__(tree, text)
        self._code = compile_python(printed(tree), FILE)
        self._name = next(node.name for node in tree.body if isinstance(node, ast.FunctionDef))

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs that the operation fills."""
        given = [ttnn.from_torch(each, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT) for each in (*inputs, *outputs)]
        try:
            space: dict[str, Any] = {"__builtins__": {name: getattr(builtins, name) for name in BUILTINS}, "ttl": ttl}
            exec(self._code, space)
            space[self._name](*given)
        finally:
            cleanup_run_context()
        return [ttnn.to_torch(each) for each in given[len(inputs) :]]

    def failed(self, error: Exception) -> Diagnostic:
        """A deadlock at the lines that wait, a leak at the buffer's own, or what else was refused."""
        if _WAITS:
            waits = tuple(f"line {line}: {message}" for message, line in _WAITS)
            message = (
                "all kernels wait: a block that a kernel waits for is never pushed, or a full buffer is never popped"
            )
            return Diagnostic("run", "deadlock", message, self.span(_WAITS[0][1]), waits)
        cause = [*chain(error)][-1]
        if found := _BUFFER.search(str(cause)):
            made = re.search(rf"^\s*{found[1]}\s*=", self.text, re.MULTILINE)
            line = self.text[: made.end()].count("\n") + 1 if made else 0
            left = " ".join(str(cause).split()).partition(f"{found[1]}: ")[2]
            return Diagnostic("run", "leak", f"{found[1]}: {left}", self.span(line))
        return super().failed(error)
