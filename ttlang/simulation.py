"""Programs run by the functional simulator, on a task's inputs, and compared with its PyTorch reference.

To be called in a worker process only: what it runs has passed `allowed`, and a cell confines the rest.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import textwrap
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from ttl.sim import diagnostics, greenlet_scheduler, program, ttl, ttnn
from ttl.sim.context import cleanup_run_context
from ttl.sim.dfb import DataflowBuffer

from pipeline.languages import Diagnostic, Span, TaskError, TextTask, Verdict
from step_runtime.base.errors import describe_error, out_of_memory
from step_runtime.base.syntax import compile_python
from ttlang import allowed

# The simulator's import makes both names mean float32 in the whole process; its own names keep their meaning.
torch.float16, torch.bfloat16 = ttnn.float16, ttnn.bfloat16

FILE = "<program>"
RTOL = ATOL = 1e-4
"""Between results in float32 and the reference's; inputs are standard normal."""
_LONGEST_MESSAGE = 400
_BUFFER = re.compile(r"node\d+\.(\w+): ")


class Case(NamedTuple):
    """Inputs of one set of sizes, in the order of the arguments, and what is expected of the outputs."""

    sizes: Mapping[str, int]
    inputs: tuple[torch.Tensor, ...]
    expected: Mapping[str, torch.Tensor]


class _Noted(NamedTuple):
    kernel: str
    message: str
    line: int


_NOTED: list[_Noted] = []


def _note(name: str, message: str, source_file: str, source_line: int, source_col: int = 1) -> None:
    """Keeps what the simulator would print by a module that its wheel lacks."""
    _NOTED.append(_Noted(name, message, source_line if source_file == FILE else 0))


_checked = DataflowBuffer.validate_no_pending_blocks


def _validated(buffer: DataflowBuffer) -> None:
    """As the simulator's own check at the end, and no block may be left that nothing waited for."""
    _checked(buffer)
    if left := buffer._state.visible:
        raise RuntimeError(f"{left} of its blocks were pushed, and nothing waited for them")


greenlet_scheduler.print_diagnostic_error = program.print_diagnostic_error = _note
diagnostics.print_diagnostic_warning = lambda *_, **__: None
DataflowBuffer.validate_no_pending_blocks = _validated


def judge(task: TextTask, text: str) -> Verdict:
    """The verdict on a program.

    Raises:
        TaskError: The task's reference fails.
    """
    start = time.process_time()
    found = _found(task, text)
    stage = found[0].stage if found else None
    return Verdict(not found, stage, found, seconds=time.process_time() - start)


def _found(task: TextTask, text: str) -> tuple[Diagnostic, ...]:
    checked = allowed.checked(text)
    if checked.found or checked.tree is None:
        return checked.found
    cases = _cases(task)
    operation, wanted = checked.operation, len(cases[0].inputs) + len(cases[0].expected)
    if (given := len(operation.args.args)) != wanted:
        message = f"expected {wanted} arguments, the inputs and then the outputs in the task's order, found {given}"
        return (Diagnostic("static", "arguments", message, _line(text, operation.lineno)),)
    try:
        code = compile_python(checked.tree, FILE)
    except (SyntaxError, ValueError, RecursionError) as error:
        return (Diagnostic("parse", "syntax", str(error)),)
    for case in cases:
        _NOTED.clear()
        outputs = {name: _on_device(torch.full_like(each, torch.nan)) for name, each in case.expected.items()}
        try:
            space: dict[str, Any] = {"__builtins__": _BUILTINS, "ttl": ttl}
            exec(code, space)
            space[operation.name](*map(_on_device, case.inputs), *outputs.values())
        except Exception as error:
            if any(map(out_of_memory, _chain(error))):
                raise MemoryError(str(error)) from None
            return (_of_error(error, case, text),)
        finally:
            cleanup_run_context()
        for name, expected in case.expected.items():
            if (wrong := _difference(name, ttnn.to_torch(outputs[name]), expected)) is not None:
                return (Diagnostic("value", "value", wrong, None, (f"where {_sizes(case)}",)),)
    return ()


_BUILTINS = {name: getattr(builtins, name) for name in allowed.BUILTINS}


def _on_device(value: torch.Tensor) -> Any:
    return ttnn.from_torch(value.clone(), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT)


def _difference(name: str, found: torch.Tensor, expected: torch.Tensor) -> str | None:
    if torch.allclose(found, expected, rtol=RTOL, atol=ATOL):
        return None
    wrong = ~torch.isclose(found, expected, rtol=RTOL, atol=ATOL)
    first = tuple(torch.nonzero(wrong)[0].tolist())
    value = "nothing that was written" if found[first].isnan() else f"{found[first].item():.6g}"
    count = f"{int(wrong.sum()):,} of {wrong.numel():,} elements"
    return f"{name}: {count} differ; at {list(first)} expected {expected[first].item():.6g}, got {value}"


def _of_error(error: Exception, case: Case, text: str) -> Diagnostic:
    """What the simulator refused, at the line of the program."""
    sizes = (f"where {_sizes(case)}",)
    if blocked := [each for each in _NOTED if each.kernel == "deadlock"]:
        waits = tuple(f"line {each.line}: {each.message}" for each in blocked)
        message = "all kernels wait: a block that a kernel waits for is never pushed, or a full buffer is never popped"
        return Diagnostic("run", "deadlock", message, _line(text, blocked[0].line), (*waits, *sizes))
    cause = [*_chain(error)][-1]
    message = str(cause).partition("\n\nDetails:")[0]
    message = " ".join(message.split())[:_LONGEST_MESSAGE] or type(cause).__name__
    if found := _BUFFER.search(str(cause)):
        made = re.search(rf"^\s*{found[1]}\s*=", text, re.MULTILINE)
        line = text[: made.end()].count("\n") + 1 if made else 0
        left = message.partition(f"{found[1]}: ")[2] or message
        return Diagnostic("run", "leak", f"{found[1]}: {left}", _line(text, line), sizes)
    lines = [frame.lineno or 0 for frame in traceback.extract_tb(cause.__traceback__) if frame.filename == FILE]
    code = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(cause).__name__).lower().removesuffix("-error")
    return Diagnostic("run", code, message, _line(text, lines[-1] if lines else 0), sizes)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, down to the last that has a line of the program."""
    yield error
    seen = error.__cause__ or error.__context__
    if seen is not None and any(frame.filename == FILE for frame in traceback.extract_tb(seen.__traceback__)):
        yield from _chain(seen)


def _line(text: str, number: int) -> Span | None:
    lines = text.splitlines()
    if not 0 < number <= len(lines):
        return None
    line = lines[number - 1]
    return Span(number, len(line) - len(line.lstrip()) + 1, number, len(line) + 1)


def _sizes(case: Case) -> str:
    return ", ".join(f"{name}={size}" for name, size in case.sizes.items())


@functools.lru_cache(maxsize=64)
def _cases(task: TextTask) -> Sequence[Case]:
    """The inputs at every set of sizes, and what the reference makes of them."""
    content, found = task.content, []
    names = [*content["inputs"]]
    source = f"def reference({', '.join(names)}):\n{textwrap.indent(content['reference'], '    ')}"
    space: dict[str, Any] = {"torch": torch}
    try:
        exec(compile_python(ast.parse(source), f"<reference of {task.name}>"), space)
        for seed, sizes in enumerate(content["sizes"]):
            generator = torch.Generator().manual_seed(seed)
            shapes = {name: _shape(dims, sizes) for name, dims in content["inputs"].items()}
            inputs = tuple(torch.randn(shape, generator=generator) for shape in shapes.values())
            given = space["reference"](*(each.clone() for each in inputs))
            results = given if isinstance(given, tuple) else (given,)
            expected = dict(zip(content["outputs"], results, strict=True))
            for name, dims in content["outputs"].items():
                if tuple(expected[name].shape) != _shape(dims, sizes):
                    raise ValueError(f"{name}: expected {_shape(dims, sizes)}, got {tuple(expected[name].shape)}")
            found.append(Case(sizes, inputs, {name: each.contiguous() for name, each in expected.items()}))
    except Exception as error:
        raise TaskError(f"{task.name}: its reference failed: {describe_error(error)}") from error
    return found


def _shape(dims: Sequence[str | int], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in dims)
