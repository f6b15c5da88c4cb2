"""Programs run by the functional simulator, on a task's inputs, and compared with its PyTorch reference.

To be called in a worker process only: what it runs has passed `allowed`, and is what its tree prints. It runs in a
process of its own, which never has what is expected, and is gone when the two are compared.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import textwrap
import traceback
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any
from zipfile import BadZipFile

import numpy
import torch
from pydantic import TypeAdapter
from ttl.sim import diagnostics, greenlet_scheduler, program, ttl, ttnn
from ttl.sim.context import cleanup_run_context
from ttl.sim.dfb import DataflowBuffer

from pipeline.languages import Diagnostic, Span, TaskError, TextTask, Verdict
from pipeline.verification.apart import Crashed, apart
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
_FOUND = TypeAdapter(list[Diagnostic])


class _Case:
    """A task at one set of sizes."""

    def __init__(self, content: Mapping[str, Any], seed: int, sizes: Mapping[str, int]) -> None:
        self._seed, self._sizes = seed, sizes
        self._inputs, self.outputs = (
            {name: tuple(sizes.get(dim, dim) for dim in dims) for name, dims in content[kind].items()}
            for kind in ("inputs", "outputs")
        )

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self._sizes.items())

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """The inputs in the order of the arguments, standard normal."""
        generator = torch.Generator().manual_seed(self._seed)
        return tuple(torch.randn(shape, generator=generator) for shape in self._inputs.values())


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


def judge(task: TextTask, text: str) -> Verdict:
    """The verdict on a program.

    Raises:
        TaskError: The task's reference fails.
    """
    found = _found(task, text)
    return Verdict(not found, found[0].stage if found else None, found)


def _found(task: TextTask, text: str) -> tuple[Diagnostic, ...]:
    checked = allowed.checked(text)
    if checked.found or checked.tree is None:
        return checked.found
    content = task.content
    operation = next(node for node in checked.tree.body if isinstance(node, ast.FunctionDef))
    wanted = len(content["inputs"]) + len(content["outputs"])
    if (given := len(operation.args.args)) != wanted:
        message = f"expected {wanted} arguments, the inputs and then the outputs in the task's order, found {given}"
        return (Diagnostic("static", "arguments", message, _line(text, operation.lineno)),)
    try:
        code = compile_python(allowed.printed(checked.tree), FILE)
    except (SyntaxError, ValueError, RecursionError) as error:
        return (Diagnostic("parse", "syntax", str(error)),)
    cases = [_Case(content, seed, sizes) for seed, sizes in enumerate(content["sizes"])]
    try:
        head, _, data = apart(_run, code, operation.name, text, cases).partition(b"\n")
        found = tuple(_FOUND.validate_json(head, strict=True))
        values = numpy.load(io.BytesIO(data), allow_pickle=False)
        # What is expected is computed here and now, when the process that ran the program is gone.
        for case in cases if not found else cases[: len(values) // len(content["outputs"])]:
            for name, expected in _expected(task, case).items():
                if wrong := _difference(name, torch.from_numpy(values[f"{case} {name}"]), expected):
                    return (Diagnostic("value", "value", wrong, None, (f"where {case}",)),)
    except (Crashed, KeyError, ValueError, TypeError, BadZipFile) as error:
        return (Diagnostic("run", "crashed", f"the program's process ended without its outputs: {error}"),)
    return found


def _run(code: CodeType, operation: str, text: str, cases: Sequence[_Case]) -> bytes:
    """Runs a program, apart: what the simulator refuses, as JSON, and the outputs of the cases before that."""
    found: list[Diagnostic] = []
    values: dict[str, Any] = {}
    for case in cases:
        outputs = {name: _on_device(torch.full(shape, torch.nan)) for name, shape in case.outputs.items()}
        try:
            space: dict[str, Any] = {"__builtins__": _BUILTINS, "ttl": ttl}
            exec(code, space)
            space[operation](*map(_on_device, case.inputs()), *outputs.values())
        except Exception as error:
            if any(map(out_of_memory, _chain(error))):
                raise MemoryError(str(error)) from None
            found.append(_of_error(error, case, text))
            break
        finally:
            cleanup_run_context()
        values |= {f"{case} {name}": ttnn.to_torch(value).numpy() for name, value in outputs.items()}
    file = io.BytesIO()
    numpy.savez(file, **values)
    return _FOUND.dump_json(found) + b"\n" + file.getvalue()


_BUILTINS = {name: getattr(builtins, name) for name in allowed.BUILTINS}


def _on_device(value: torch.Tensor) -> Any:
    return ttnn.from_torch(value.clone(), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT)


def _difference(name: str, found: torch.Tensor, expected: torch.Tensor) -> str | None:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise ValueError(f"{name} is no tensor of the task's")
    if torch.allclose(found, expected, rtol=RTOL, atol=ATOL):
        return None
    wrong = ~torch.isclose(found, expected, rtol=RTOL, atol=ATOL)
    first = tuple(torch.nonzero(wrong)[0].tolist())
    value = "nothing that was written" if found[first].isnan() else f"{found[first].item():.6g}"
    count = f"{int(wrong.sum()):,} of {wrong.numel():,} elements"
    return f"{name}: {count} differ; at {list(first)} expected {expected[first].item():.6g}, got {value}"


def _of_error(error: Exception, case: _Case, text: str) -> Diagnostic:
    """What the simulator refused, at the line of the program."""
    sizes = (f"where {case}",)
    if _WAITS:
        waits = tuple(f"line {line}: {message}" for message, line in _WAITS)
        message = "all kernels wait: a block that a kernel waits for is never pushed, or a full buffer is never popped"
        return Diagnostic("run", "deadlock", message, _line(text, _WAITS[0][1]), (*waits, *sizes))
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


def _expected(task: TextTask, case: _Case) -> Mapping[str, torch.Tensor]:
    """What the reference makes of the inputs.

    Raises:
        TaskError: It fails.
    """
    content = task.content
    source = f"def reference({', '.join(content['inputs'])}):\n{textwrap.indent(content['reference'], '    ')}"
    space: dict[str, Any] = {"torch": torch}
    try:
        exec(compile_python(ast.parse(source), f"<reference of {task.name}>"), space)
        given = space["reference"](*case.inputs())
        results = given if isinstance(given, tuple) else (given,)
        expected = dict(zip(content["outputs"], results, strict=True))
        for name, shape in case.outputs.items():
            if tuple(expected[name].shape) != shape:
                raise ValueError(f"{name}: expected {shape}, got {tuple(expected[name].shape)}")
    except Exception as error:
        raise TaskError(f"{task.name}: its reference failed: {describe_error(error)}") from error
    return expected
