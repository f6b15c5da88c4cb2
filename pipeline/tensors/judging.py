"""Programs run on a task's inputs, and compared with its PyTorch reference.

To be called in a worker process only. A program runs in a process of its own (`pipeline.verification.apart`), which
never has what is expected, and is gone when the two are compared. Outputs begin as NaN, so that what a program does not
write is no value of the reference's.
"""

from __future__ import annotations

import ast
import re
import textwrap
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from pipeline.languages import Diagnostic, Span, TaskError, TextTask, Verdict
from pipeline.verification.apart import Crashed, apart
from step_runtime.base.errors import describe_error, out_of_memory
from step_runtime.base.formats import FORMATS, Format
from step_runtime.base.syntax import compile_python

if TYPE_CHECKING:
    from pipeline.tensors.language import TensorLanguage

FILE = "<program>"
VARIANTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "100 times as large": lambda x: 100 * x,
    "a 10,000th as large": lambda x: 1e-4 * x,
    "all negative": lambda x: -10 * x.abs() - 1e-3,
    "shifted by 1,000": lambda x: x + 1000,
    "all zero": torch.zeros_like,
    "all equal": torch.ones_like,
}
"""What stress inputs make of standard normal ones."""
_SMALL = ("a 10,000th as large", "all zero", "all equal")
"""Variants of which rounding loses nothing, so that a large error is another function's."""
_FACTOR, _ERROR, _OTHER, _LEAST = 100.0, 1e-3, 0.1, 1e-5
"""How far an error may exceed the reference's own, the relative errors that count at all and as another function's, and
the least number that errors are relative to."""
_DRAWN, _DRAWS = 2, 16
"""Held-out sets of sizes, and how often one is drawn until the reference has numbers there."""
_ROOM = 10.0
"""The multiple of tolerances within which held-out outputs are, as rounding differs with sizes and data."""
_LONGEST_MESSAGE = 400
_FORMATS = {each.name: each for each in FORMATS.values()}
_FOUND = TypeAdapter(list[Diagnostic])


class Runner(ABC):
    """A program that is ready to run: made in the judge's process, and run in one of its own."""

    @abstractmethod
    def __init__(self, tree: ast.Module, text: str) -> None:
        """Compiles what was checked, `printed`, and never the text.

        Raises:
            SyntaxError, ValueError, RecursionError: It does not compile.
        """
        self.text = text

    @abstractmethod
    def run(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs, on the processor; whatever it raises is a finding at the stage `run`."""

    def line(self, number: int) -> int:
        """The line of the program's text for one of the code that runs."""
        return number

    def failed(self, error: Exception) -> Diagnostic:
        """The finding for an error: the last cause of it that has a line of the program, at that line."""
        cause = [*chain(error)][-1]
        message = " ".join(str(cause).partition("\n\nDetails:")[0].split())[:_LONGEST_MESSAGE]
        code = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(cause).__name__).lower().removesuffix("-error")
        lines = [self.line(frame.lineno or 0) for frame in _frames(cause)]
        return Diagnostic("run", code, message or type(cause).__name__, self.span(lines[-1] if lines else 0))

    def span(self, number: int) -> Span | None:
        """A line of the program's text, without its indentation."""
        lines = self.text.splitlines()
        if not 0 < number <= len(lines):
            return None
        line = lines[number - 1]
        return Span(number, len(line) - len(line.lstrip()) + 1, number, len(line) + 1)


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, down to the last that has a line of the program."""
    yield error
    seen = error.__cause__ or error.__context__
    if seen is not None and _frames(seen):
        yield from chain(seen)


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]


@dataclass(frozen=True)
class Case:
    """A task at one set of sizes, with data of a seed, changed to stress inputs by a variant."""

    task: TextTask
    seed: int
    sizes: Mapping[str, int]
    variant: str = ""

    def __str__(self) -> str:
        place = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"where {place}{f', with inputs {self.variant}' if self.variant else ''}"

    def shapes(self, kind: str) -> dict[str, tuple[int, ...]]:
        """Those of the `inputs` or the `outputs`."""
        content = self.task.content[kind]
        return {name: tuple(self.sizes.get(dim, dim) for dim in dims) for name, dims in content.items()}

    def format(self, name: str) -> Format:
        """That of a tensor."""
        return _FORMATS[(self.task.content.get("formats") or {}).get(name, "fp32")]

    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs in the order of the arguments, standard normal unless the task says otherwise.

        Raises:
            TaskError: An expression of the task's fails.
        """
        data, found = self.task.content.get("data") or {}, list[Tensor]()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(self.seed)
            for name, shape in self.shapes("inputs").items():
                if name in data:
                    try:
                        code = compile(str(data[name]), f"<data of {name}>", "eval")
                        value = torch.as_tensor(eval(code, {"torch": torch, "shape": shape, **self.sizes}))
                        value = value.expand(shape).clone()
                    except Exception as error:
                        why = describe_error(error)
                        raise TaskError(f"{self.task.name}: its data of {name} failed: {why}") from error
                else:
                    value = torch.randn(shape)
                    value = VARIANTS[self.variant](value) if self.variant else value
                found.append(value.to(_dtype(self.format(name))))
        return tuple(found)

    def outputs(self) -> tuple[Tensor, ...]:
        """Tensors for a program to write, with nothing in them that a reference gives."""
        return tuple(
            torch.full(shape, torch.nan if used.kind == "float" else used.least, dtype=_dtype(used))
            for name, shape in self.shapes("outputs").items()
            for used in [self.format(name)]
        )


class Trials:
    """The programs of a task run in its cases, and their outputs compared.

    Raises:
        TaskError: By each method, if the task's reference or data fails.
    """

    def __init__(self, language: TensorLanguage, task: TextTask) -> None:
        self._language, self._task = language, task

    def verdict(self, text: str) -> Verdict:
        """The verdict at the task's own sizes."""
        found = self._found(text, self._own(0))
        return Verdict(passed=not found, stage=found[0].stage if found else None, diagnostics=found)

    def stress(self, text: str) -> tuple[Diagnostic, ...]:
        """How a program that passes differs on stress inputs, where the reference has numbers."""
        cases = [Case(self._task, 0, self._task.content["sizes"][0], variant) for variant in VARIANTS]
        cases = [case for case in cases if self._defined(case)]
        found, outputs = self._ran(text, cases)
        findings = {each.code: replace(each, stage="stress", code="stress-run") for each in found}
        for case, results in zip(cases, outputs, strict=False):
            precise = self._expected(case, torch.float64)
            for (name, single), result in zip(self._expected(case).items(), results, strict=True):
                tensors = (each.double() for each in (result, single, precise[name]))
                for code, message in _troubles(*tensors, small=case.variant in _SMALL):
                    findings.setdefault(code, Diagnostic("stress", code, f"{name} {message}", None, (str(case),)))
        return tuple(findings.values())

    def hold_out(self, text: str, seed: int) -> Verdict:
        """The verdict at the task's sizes and at others, with data that is drawn, and on stress inputs."""
        start, random = time.process_time(), Random(f"{seed}\n{self._task.statement}")
        own = self._own(random.randrange(2**16, 2**31))
        drawn = [*islice(self._drawn(random), _DRAWN)]
        stressed: tuple[Diagnostic, ...] = ()
        for cases in (own, *([case] for case in drawn)):
            if found := self._found(text, cases, _ROOM)[:1]:
                break
        else:
            stressed = self.stress(text)
            found = tuple(each for each in stressed if each.code in ("stress-run", "stress-value"))[:1]
        return Verdict(
            passed=not found,
            stage=found[0].stage if found else None,
            diagnostics=found,
            warnings=() if found else stressed,
            held_out=tuple(str(case).removeprefix("where ") for case in drawn),
            seconds=time.process_time() - start,
        )

    def _own(self, seed: int) -> list[Case]:
        sets = self._task.content["sizes"]
        return [Case(self._task, seed + number, sizes) for number, sizes in enumerate(sets)]

    def _drawn(self, random: Random) -> Iterator[Case]:
        """Held-out sets of sizes: up to the task's largest of each dim and two steps further."""
        own, step = self._task.content["sizes"], self._language.multiple
        most = {name: max(sizes[name] for sizes in own) // step + 2 for name in own[0]}
        for _ in range(_DRAWS if most else 0):
            sizes = {name: step * random.randint(1, size) for name, size in most.items()}
            case = Case(self._task, random.randrange(2**31), sizes)
            if sizes not in own and self._defined(case):
                yield case

    def _found(self, text: str, cases: Sequence[Case], room: float = 1) -> tuple[Diagnostic, ...]:
        if found := self._language.check(self._task, text):
            return tuple(found)
        failed, outputs = self._ran(text, cases)
        for case, results in zip(cases, outputs, strict=False):
            for (name, expected), result in zip(self._expected(case).items(), results, strict=True):
                if wrong := self._difference(case.format(name), result, expected.double(), room):
                    return (Diagnostic("value", "value", f"{name}: {wrong}", None, (str(case),)),)
        return failed

    def _ran(self, text: str, cases: Sequence[Case]) -> tuple[tuple[Diagnostic, ...], list[list[Tensor]]]:
        """What failed as a checked program ran, and its outputs in the cases before."""
        tree, _ = self._language.allowed.checked(text)
        assert tree is not None
        try:
            runner = self._language.runner()(tree, text)
        except (SyntaxError, ValueError, RecursionError) as error:
            return (Diagnostic("parse", "syntax", str(error)),), []
        tensors = [(str(case), case.inputs(), case.outputs()) for case in cases]
        try:
            head, _, data = apart(_run, runner, tensors, confined=self._language.confined).partition(b"\n")
            found = tuple(_FOUND.validate_json(head, strict=True))
            left = torch.frombuffer(bytearray(data + bytes(8)), dtype=torch.float64)[:-1]
            outputs: list[list[Tensor]] = []
            for _, _, blank in tensors[: None if not found else -1]:
                if found and not len(left):
                    break
                outputs.append([])
                for each in blank:
                    outputs[-1].append(left[: each.numel()].view(each.shape))
                    left = left[each.numel() :]
        except (Crashed, ValueError, RuntimeError) as error:
            return (Diagnostic("run", "crashed", f"the program's process ended without its outputs: {error}"),), []
        return found, outputs

    def _difference(self, used: Format, found: Tensor, expected: Tensor, room: float) -> str | None:
        rtol, atol = self._language.tolerances.get(used.name, (used.rtol, used.atol))
        wrong = ~torch.isclose(found, expected, rtol=room * rtol, atol=room * atol)
        if not wrong.any():
            return None
        first = tuple(torch.nonzero(wrong)[0].tolist())
        value = "nothing that was written" if found[first].isnan() else f"{found[first].item():.6g}"
        count = f"{int(wrong.sum()):,} of {wrong.numel():,} elements"
        return f"{count} differ; at {list(first)} expected {expected[first].item():.6g}, got {value}"

    def _defined(self, case: Case) -> bool:
        """Whether the reference has numbers there."""
        try:
            return all(bool(value.double().isfinite().all()) for value in self._expected(case, torch.float64).values())
        except TaskError:
            return False

    def _expected(self, case: Case, precise: torch.dtype | None = None) -> Mapping[str, Tensor]:
        """What the reference makes of the inputs, in their own formats or in a more precise one."""
        try:
            inputs = case.inputs()
            if precise is not None:
                inputs = tuple(value.to(precise) if value.is_floating_point() else value for value in inputs)
            results = self._reference()(*inputs)
            given = results if isinstance(results, tuple) else (results,)
            shapes = case.shapes("outputs")
            expected: dict[str, Tensor] = dict(zip(shapes, given, strict=True))
            for name, shape in shapes.items():
                if tuple(expected[name].shape) != shape:
                    raise ValueError(f"{name}: expected {shape}, got {tuple(expected[name].shape)}")
        except Exception as error:
            raise TaskError(f"{self._task.name}: its reference failed: {describe_error(error)}") from error
        return expected

    def _reference(self) -> Callable[..., Any]:
        content = self._task.content
        source = f"def reference({', '.join(content['inputs'])}):\n{textwrap.indent(content['reference'], '    ')}"
        space: dict[str, Any] = {"torch": torch}
        exec(compile_python(ast.parse(source), f"<reference of {self._task.name}>"), space)
        found: Callable[..., Any] = space["reference"]
        return found


def _dtype(used: Format) -> torch.dtype:
    found: torch.dtype = getattr(torch, used.torch)
    return found


def _run(runner: Runner, cases: Sequence[tuple[str, Sequence[Tensor], Sequence[Tensor]]]) -> bytes:
    """Runs a program, apart: what failed, as JSON, and the numbers of its outputs in the cases before that."""
    found, data = list[Diagnostic](), b""
    for case, inputs, outputs in cases:
        try:
            data += b"".join(each.double().numpy().tobytes() for each in runner.run(inputs, outputs))
        except Exception as error:
            if any(map(out_of_memory, chain(error))):
                raise MemoryError(str(error)) from None
            failed = runner.failed(error)
            found = [replace(failed, details=(*failed.details, case))]
            break
    return _FOUND.dump_json(found) + b"\n" + data


def _troubles(found: Tensor, single: Tensor, precise: Tensor, *, small: bool) -> Iterator[tuple[str, str]]:
    """Codes and words for outputs on stress inputs, beside those of the reference in its format and in fp64."""
    scale = max(float(precise.abs().max()), _LEAST)
    error, own = (float((each - precise).abs().max()) / scale for each in (found, single))
    if not found.isfinite().all() and single.isfinite().all():
        yield "stress-overflow", "is not finite, and the reference is"
    elif error > max(_ERROR, _FACTOR * own):
        code = "stress-value" if small and error > _OTHER else "stress-accuracy"
        yield code, f"has a relative error of {error:.1g}, the reference one of {own:.1g}"
