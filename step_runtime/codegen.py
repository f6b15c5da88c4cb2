"""Task and program to a self-contained pytest script (paper, Section 4.2 and Figure 19).

The script needs only this package: it runs the program eagerly at every set of sizes and seed, and passes or fails as
the verifier does, which its last test asks. Nothing of the program's text becomes code: `body` is printed from its
graph, one primitive a line; else it is quoted as a string, as is the task. The author's code is copied unchanged.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

import torch

from step_runtime.base.errors import Diagnostic
from step_runtime.base.shapes import Dim, format_dim
from step_runtime.base.syntax import parse_expression, parse_python
from step_runtime.base.types import Buffer, DType, Element, Multihot, StreamType, STuple, components_of, layout
from step_runtime.execution.number_formats import element_type
from step_runtime.language.parser import evaluate, read
from step_runtime.program.graph import Program
from step_runtime.program.limits import Limits, check_size
from step_runtime.program.printer import print_program
from step_runtime.tasks.generators import PLAIN, expression
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.snippets import widened, widening
from step_runtime.tasks.task import FnSpec, OutputSpec, Task, TensorSpec
from step_runtime.verification.check import infer_types
from step_runtime.verification.compare import TOLERANCES
from step_runtime.verification.verify import SEEDS, Verifier

_INDENT = "    "
OPEN_BODY = "...  # the program"
"""The placeholder in a script for the program to write."""


def generate_test(task: Task, program: str, *, dtype: str = "float64", scopes: Sequence[Scope] | None = None) -> str:
    """The script's text.

    Args:
        task: The task.
        program: The program's text.
        dtype: Torch's name of the floating type to compute in; the author's snippets are widened for float64.
        scopes: Those of `Verifier(task)`; None to run the task's `global` here.

    Raises:
        TaskError: The task cannot be used.
    """
    scopes = scopes or Verifier(task).scopes
    source = read(program)
    bodies: list[str] = []
    for scope in scopes:
        graph, found = evaluate(source, scope)
        found = found or _limits(graph, scope, getattr(torch, dtype).itemsize)
        if found:
            return _rejected(task, program, "\n".join(diagnostic.render(program, task.name) for diagnostic in found))
        bodies.append(print_program(graph))
    sizes = [dict(scope.sizes) for scope in scopes]
    body = _bodies([spec.name for spec in task.inputs], sizes, bodies)
    title = f"Unit test of {task.name}: a program in STeP against its PyTorch reference."
    tests = _format_tests(task, dtype) if task.names_formats else _TESTS
    lines = [_docstring(title), "", *_head(sizes), *_case(task, sizes, body, dtype), *tests]
    return "\n".join([*lines, *_verdict_test(task, program)]) + "\n"


def _verdict_test(task: Task, program: str) -> list[str]:
    """A test of what the others do not run: stress inputs, limits on cost, functions that keep state between calls.

    It holds task and program as text, and has the verifier judge them.
    """
    return [
        "",
        "",
        *_text("TASK", task.statement),
        *_text("PROGRAM", program),
        "",
        "",
        "def test_verdict():",
        f"{_INDENT}verdict = step.Verifier(step.loads_task(TASK, {task.name!a}), dtype=DTYPE).verify(PROGRAM)",
        f"{_INDENT}assert verdict.passed, verdict.render(PROGRAM)",
    ]


def _text(name: str, text: str) -> list[str]:
    """A name bound to a text, a line of it on each."""
    return [f"{name} = (", *(f"{_INDENT}{line!a}" for line in text.splitlines(keepends=True) or [""]), ")"]


def _limits(program: Program, scope: Scope, itemsize: int) -> list[Diagnostic]:
    """What the verifier rejects before it runs a program, and a run alone would not."""
    types, found = infer_types(program, scope)
    # A program that breaks a rule also breaks it in the script.
    return [] if found else check_size(program, types, scope.sizes, Limits(), itemsize)


def _bodies(inputs: Sequence[str], sizes: Sequence[Mapping[str, int]], texts: Sequence[str]) -> list[str]:
    """`body`; if the graph depends on the sizes, one per set of sizes and a choice between them."""
    if len(set(texts)) == 1:
        return _function_of("body", inputs, texts[0])
    lines = []
    for index, text in enumerate(texts):
        lines += [*_function_of(f"body_{index}", inputs, text), ""]
    lines.append("body = {")
    for index, one in enumerate(sizes):
        lines.append(f"{_INDENT}({', '.join(map(str, one.values()))},): body_{index},")
    return [*lines, f"}}[({', '.join(f'{name}_value' for name in sizes[0])},)]"]


def _function_of(name: str, inputs: Sequence[str], text: str) -> list[str]:
    return [f"def {name}({', '.join(inputs)}):", *_indented(text.rstrip("\n").split("\n"))]


def _docstring(title: str) -> str:
    """A script's first line; a task's name may hold anything."""
    return f'"""{title}"""' if re.fullmatch(r"[\w ./:,-]+", title, re.ASCII) else ascii(title)


def generate_prompt(task: Task, program: str | None = None) -> str:
    """The script up to its tests, as shown to an LM without the structural IR; see `prompt_tests`.

    The task's code is copied unchanged, and none of it is run. Without a program `body` is left open.
    """
    sizes = [static_scope(task, index).sizes for index in range(len(task.size_sets()))]
    statements = [OPEN_BODY] if program is None else program.strip("\n").split("\n")
    body = [f"def body({', '.join(spec.name for spec in task.inputs)}):", *_indented(statements)]
    return "\n".join([*_head(sizes), *_case(task, sizes, body, "float32")]).rstrip()


def prompt_tests() -> str:
    """The tests that every script ends with; the same for all tasks, so that a prompt shows them only once."""
    return "\n".join(_TESTS)


def _head(sizes: Sequence[Mapping[str, int]]) -> list[str]:
    return [
        "import pytest",
        "import torch",
        "from sympy import Symbol",
        "",
        "import step_runtime as step",
        "",
        *(f'{name} = Symbol("{name}")' for name in sizes[0]),
        "SIZES = [",
        *(f"{_INDENT}{json.dumps({f'{name}_value': size for name, size in one.items()})}," for one in sizes),
        "]",
        f"SEEDS = {list(SEEDS)}",
        "",
        "",
    ]


def _case(task: Task, sizes: Sequence[Mapping[str, int]], body: Sequence[str], dtype: str) -> list[str]:
    return [*_Writer(task, float64=dtype == "float64").case(list(sizes[0]), body, dtype), "", ""]


_TESTS = """\
@pytest.fixture(params=SIZES, ids=str)
def sizes(request):
    return request.param


@pytest.fixture(params=SEEDS, ids="seed={}".format)
def case(request, sizes):
    before = torch.get_default_dtype()
    torch.set_default_dtype(DTYPE)
    torch.manual_seed(request.param)
    yield make_case(**sizes)
    torch.set_default_dtype(before)


def run(case):
    prepare, body, _, _ = case
    result = body(*prepare())
    return list(result) if isinstance(result, (list, tuple)) else [result]


def test_affine(case):
    with step.affine():
        run(case)


def test_shape(case):
    _, _, outputs, _ = case
    results = run(case)
    assert len(results) == len(outputs)
    for result, (name, dtype, shape) in zip(results, outputs):
        assert result.dtype == dtype, f"{name}: element type {result.dtype}, expected {dtype}"
        assert result.shape == shape, f"{name}: shape {result.shape}, expected {shape}"


def test_data(case):
    _, _, _, reference = case
    for result, expected in zip(run(case), reference(), strict=True):
        for data, value in zip(result.data, expected, strict=True):
            torch.testing.assert_close(data.to(DTYPE), value.to(DTYPE), equal_nan=True)""".splitlines()


def _format_tests(task: Task, dtype: str) -> list[str]:
    """The tests of a task with formats: every component is compared in its own, with the verifier's tolerances."""
    lines = ["# The type of each component of each output, with the relative and absolute tolerance.", "TYPES = ["]
    for stream in task.output_types:
        kinds = [element_type(element, getattr(torch, dtype)) for element in components_of(stream.dtype)]
        shown = ", ".join(f"({kind}, {TOLERANCES[kind]})" for kind in kinds)
        lines.append(f"{_INDENT}[{shown}],")
    start = _TESTS.index("def test_data(case):")
    return [*lines, "]", "", "", *_TESTS[:start], *_TEST_FORMATS]


_TEST_FORMATS = """\
def test_data(case):
    _, _, _, reference = case
    for result, expected, types in zip(run(case), reference(), TYPES, strict=True):
        for data, value, (dtype, (rtol, atol)) in zip(result.data, expected, types, strict=True):
            found, wanted = (part.to(dtype).to(torch.float64) for part in (data, value))
            torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol, equal_nan=True)""".splitlines()


class _Writer:
    """Writes the parts of one task's script."""

    def __init__(self, task: Task, *, float64: bool) -> None:
        self._task = task
        self._widen = widening(float64=float64, formats=task.names_formats)

    def case(self, symbols: Sequence[str], body: Sequence[str], dtype: str) -> list[str]:
        """`make_case`: everything that depends on the sizes."""
        task = self._task
        inner = [
            f"ctx = {{{', '.join(f'{name}: {name}_value' for name in symbols)}}}",
            *(["", *self._code(task.global_)] if task.global_ else []),
            "",
            "input_data = {",
            *(f"{_INDENT}{spec.name!r}: {self._data(spec, type_)}," for _, spec, type_ in task.tensors()),
            "}",
            *(line for typed in zip(task.fns, task.fn_types, strict=True) for line in ["", *self._function(*typed)]),
            "",
            *self._prepare(),
            "",
            *body,
            "",
            *self._outputs(),
            "",
            *self._reference(),
            "",
            "return prepare, body, outputs, reference",
        ]
        values = ", ".join(f"{name}_value" for name in symbols)
        return [f"DTYPE = torch.{dtype}", "", "", f"def make_case({values}):", *_indented(inner)]

    def _code(self, source: str) -> list[str]:
        """An author's snippet unchanged, unless a narrower float type in it must be widened."""
        plain = textwrap.dedent(source).strip("\n")
        if self._widen:
            tree = parse_python(plain)
            before = ast.dump(tree)
            wide = widened(tree, self._widen)
            if ast.dump(wide) != before:
                plain = ast.unparse(wide)
        return plain.splitlines()

    def _data(self, spec: TensorSpec, stream: StreamType) -> str:
        parts = [self._tensor(spec, stream, element) for element in components_of(stream.dtype)]
        return parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"

    def _tensor(self, spec: TensorSpec, stream: StreamType, element: Element) -> str:
        kind = _type(element) or "DTYPE"
        dims = [*reversed(stream.shape), *layout(element)]
        shape = ", ".join(_size(dim) for dim in dims)
        if isinstance(element, Multihot):
            length = _size(element.length)
            least, most = spec.min or 0, length if spec.max is None else f"min({spec.max}, {length})"
            outer = ", ".join(_size(dim) for dim in dims[:-1])
            ones = f"torch.randint({least}, {most} + 1, ({outer},)).unsqueeze(-1)"
            return f"(torch.rand({shape}).argsort(-1).argsort(-1) < {ones}).to({kind})"
        if spec.data_gen is not None and spec.data_gen not in PLAIN:
            return f"(lambda shape: {expression(spec.data_gen, self._task.symbols())})(({shape},)).to({kind})"
        if spec.data_gen == "binary":
            return f"(torch.rand({shape}) < 0.5).to({kind})"
        return f"{spec.data_gen}({shape})" if element.format.wide else f"{spec.data_gen}({shape}).to({kind})"

    def _function(self, fn: FnSpec, dtypes: tuple[DType, DType]) -> Iterator[str]:
        input_dtype, output_dtype = dtypes
        names = [each.name for each in self._task.fns]
        name = f"{fn.name}_{fn.func_name}" if names.count(fn.name) > 1 else fn.name
        if not name.isidentifier() or keyword.iskeyword(name):
            name = f"Fn_{fn.func_name}"  # a function's own name may be any text
        yield f"class {name}(step.Fn):"
        if fn.init is not None:
            parts = zip(fn.init, components_of(output_dtype), strict=True)
            states = ", ".join(_filled(value, element) for value, element in parts)
            yield from _indented(["def getInit(self):", f"{_INDENT}return [{states}]", ""])
        parameters = "self, state, input" if fn.init is not None else "self, input"
        yield from _indented([f"def apply({parameters}):", *_indented(self._code(fn.apply))])
        yield ""
        yield f"{fn.func_name} = {name}({fn.name!r}, {_dtype(input_dtype)}, {_dtype(output_dtype)})"

    def _prepare(self) -> Iterator[str]:
        yield "def prepare():"
        for spec, stream in zip(self._task.inputs, self._task.input_types, strict=True):
            shape = ", ".join(format_dim(dim) for dim in stream.shape)
            yield from _indented([
                f'{spec.name} = step.Stream("{spec.name}", {_dtype(stream.dtype)}, {stream.rank}, [{shape}])',
                f"{spec.name}.ctx = ctx",
                f"{spec.name}.data = [{_clones(spec.name, stream.dtype)}]",
            ])  # fmt: skip
        yield f"{_INDENT}return {', '.join(spec.name for spec in self._task.inputs)},"

    def _outputs(self) -> Iterator[str]:
        yield "outputs = ["
        for spec, stream in zip(self._task.outputs, self._task.output_types, strict=True):
            shape = ", ".join(format_dim(dim) for dim in stream.shape)
            yield f'{_INDENT}("{spec.name}", {_dtype(stream.dtype)}, [{shape}]),'
        yield "]"

    def _reference(self) -> Iterator[str]:
        yield "def reference():"
        for spec in self._task.outputs:
            yield from _indented(self._snippets(spec))
        values = (
            f"[{', '.join(f'{spec.name}_data_{i}' for i in range(len(spec.data_transform)))}]"
            for spec in self._task.outputs
        )
        yield f"{_INDENT}return [{', '.join(values)}]"

    def _snippets(self, spec: OutputSpec) -> Iterator[str]:
        for index, snippet in enumerate(spec.data_transform):
            lines = self._code(snippet)
            last = parse_python("\n".join(lines)).body[-1].lineno - 1
            yield from lines[:last]
            yield f"{spec.name}_data_{index} = {lines[last]}"
            yield from lines[last + 1 :]


def _rejected(task: Task, program: str, reasons: str) -> str:
    return "\n".join([
        _docstring(f"Unit test of {task.name}, for a program that the verifier refuses without running it."),
        "",
        "import pytest",
        "",
        f"PROGRAM = {program!a}",
        f"REASONS = {reasons!a}",
        "",
        "",
        "def test_parse():",
        f"{_INDENT}pytest.fail(REASONS)",
        "",
    ])  # fmt: skip


def _clones(name: str, dtype: DType) -> str:
    if len(components_of(dtype)) == 1:
        return f"input_data[{name!r}].clone()"
    return f"part.clone() for part in input_data[{name!r}]"


def _indented(lines: Sequence[str] | Iterator[str]) -> list[str]:
    return [f"{_INDENT}{line}" if line else line for line in lines]


def _size(dim: Dim) -> str:
    """A dim's size as an expression of the script, such as `M_value * N_value`."""
    tree = parse_expression(format_dim(dim))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = f"{node.id}_value"
    return ast.unparse(tree)


def _filled(value: float, element: Element) -> str:
    shape = ", ".join(_size(dim) for dim in layout(element))
    number = f'float("{value}")' if value in (float("inf"), float("-inf")) else f"{float(value)}"
    kind = _type(element)
    if kind is not None:
        return f"torch.full(({shape}{',' if shape else ''}), {number}, dtype={kind})"
    return f"torch.full(({shape},), {number})" if shape else f"torch.tensor({number})"


def _type(element: Element) -> str | None:
    """Torch's type of an element's format, as code; None for fp32, which is computed in the script's own type."""
    return None if element.format.wide else f"torch.{element.format.torch}"


def _dtype(dtype: DType) -> str:
    """An element type as Python code."""
    if isinstance(dtype, STuple):
        return f"step.STuple(({', '.join(map(_dtype, dtype.components))}))"
    if isinstance(dtype, Buffer):
        return f"step.Buffer({_dtype(dtype.elem)}, [{', '.join(format_dim(dim) for dim in dtype.dims)}])"
    if isinstance(dtype, Multihot):
        return f'step.Multihot("{dtype.name}", {format_dim(dtype.length)})'
    return f'step.Scalar("{dtype.name}")'
