"""Tasks written as Python scripts, for prompts without the structural IR.

The script is read, never run: its syntax tree holds the same facts as the YAML, at known places. The result is the
content of a task file, so everything downstream is the same.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from step_runtime.base.formats import FORMATS
from step_runtime.base.syntax import parse_python

_SCRIPT = re.compile(r"^SIZES = \[\n.*?^    return prepare, body, outputs, reference$", re.MULTILINE | re.DOTALL)
_SCALARS = {scalar: format_.name for scalar, format_ in FORMATS.items()}
_TYPES = {f"torch.{format_.torch}": format_.name for format_ in FORMATS.values()}


def scripts(text: str) -> list[Mapping[str, Any]]:
    """The tasks given as scripts in a text, as contents of task files; `impl` is set if `body` is not open."""
    found = (_content(match[0]) for match in _SCRIPT.finditer(text))
    return [content for content in found if content is not None]


def _content(script: str) -> Mapping[str, Any] | None:
    """The content of a script; None if it is laid out differently than by the code generator."""
    try:
        return _Script(script).content()
    except (SyntaxError, ValueError, TypeError, LookupError, AttributeError):
        return None


class _Script:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        tree = parse_python(text)
        self._sizes: Any = ast.literal_eval(_assigned(tree.body)["SIZES"])
        self._case = _functions(tree.body)["make_case"].body
        self._named = _assigned(self._case)
        self._functions = _functions(self._case)

    def content(self) -> dict[str, Any]:
        generated = {ast.literal_eval(key): value for key, value in _items(self._named["input_data"])}
        streams = [call.args for call in map(_value, self._functions["prepare"].body) if _called(call) == "step.Stream"]
        inputs = [
            _spec(ast.literal_eval(name), dtype, _elements(dims)) | _generator(generated.pop(ast.literal_eval(name)))
            for name, dtype, _, dims in streams
        ]
        content = {
            "global": self._global(),
            "inputs": inputs,
            "parameters": [_parameter(name, value) for name, value in generated.items()],
            "fns": list(self._fns()),
            "outputs": list(self._outputs()),
            "impl": self._body(),
            "sizes": {name.removesuffix("_value"): [one[name] for one in self._sizes] for name in self._sizes[0]},
        }
        return {key: value for key, value in content.items() if value}

    def _global(self) -> str:
        """The statements between `ctx` and `input_data`."""
        start, end = (self._statement(name) for name in ("ctx", "input_data"))
        return self._code(start.end_lineno or start.lineno, end.lineno - 1)

    def _statement(self, name: str) -> ast.stmt:
        return next(s for s in self._case if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == name)

    def _fns(self) -> Iterator[dict[str, Any]]:
        classes = {statement.name: statement for statement in self._case if isinstance(statement, ast.ClassDef)}
        for func_name, value in self._named.items():
            if (made := classes.get(_called(value))) is None or not isinstance(value, ast.Call):
                continue
            name, input_dtype, output_dtype = value.args
            methods = _functions(made.body)
            init = methods.get("getInit")
            yield {
                "name": ast.literal_eval(name),
                "apply": self._block(methods["apply"]),
                **({} if init is None else {"init": [_number(part) for part in _elements(_value(init.body[0]))]}),
                "input_dtype": _dtype(input_dtype),
                "output_dtype": _dtype(output_dtype),
                "func_name": func_name,
            }

    def _outputs(self) -> Iterator[dict[str, Any]]:
        snippets: dict[str, list[str]] = {}
        reference = self._functions["reference"]
        start = reference.lineno
        for statement in reference.body:
            if isinstance(statement, ast.Assign) and (
                named := re.fullmatch(r"(\w+)_data_\d+", ast.unparse(statement.targets[0]))
            ):
                lines = self._code(start, statement.end_lineno or statement.lineno).split("\n")
                place = statement.lineno - start - 1
                lines[place] = lines[place].removeprefix(f"{named[0]} = ")
                snippets.setdefault(named[1], []).append("\n".join(lines))
                start = statement.end_lineno or statement.lineno
        for output in _elements(self._named["outputs"]):
            name, dtype, dims = _elements(output)
            text = ast.literal_eval(name)
            yield _spec(text, dtype, _elements(dims)) | {"data_transform": snippets[text]}

    def _body(self) -> str | None:
        body = self._functions["body"]
        first = body.body[0]
        if isinstance(first, ast.Expr) and ast.unparse(first) == "...":
            return None
        return self._block(body)

    def _block(self, function: ast.FunctionDef) -> str:
        return self._code(function.lineno, function.end_lineno or function.lineno)

    def _code(self, start: int, end: int) -> str:
        """The lines after line `start` up to line `end`, which count from 1."""
        text = textwrap.dedent("\n".join(self._lines[start:end])).strip("\n")
        return f"{text}\n" if text else ""


def _assigned(statements: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    return {ast.unparse(s.targets[0]): s.value for s in statements if isinstance(s, ast.Assign)}


def _functions(statements: Sequence[ast.stmt]) -> dict[str, ast.FunctionDef]:
    return {s.name: s for s in statements if isinstance(s, ast.FunctionDef)}


def _value(statement: ast.stmt) -> Any:
    return getattr(statement, "value", None)


def _elements(node: Any) -> list[ast.expr]:
    """The elements of a list or tuple."""
    elements: list[ast.expr] = node.elts
    return elements


def _items(node: Any) -> Iterator[tuple[ast.expr, ast.expr]]:
    return zip(node.keys, node.values, strict=True)


def _called(node: ast.expr | None) -> str:
    """The name of the called function, such as `torch.rand`; empty for anything but a call."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _spec(name: str, dtype: ast.expr, dims: Sequence[ast.expr]) -> dict[str, Any]:
    return {"name": name, "dtype": _dtype(dtype), "dims": [_dim(dim) for dim in dims]}


def _dim(node: ast.expr) -> Any:
    return node.value if isinstance(node, ast.Constant) else ast.unparse(node).replace(" ", "")


def _dtype(node: ast.expr) -> Any:
    """An element type as a task file writes it."""
    if not isinstance(node, ast.Call):
        raise ValueError(ast.unparse(node))
    match _called(node):
        case "step.STuple":
            return [_dtype(part) for part in _elements(node.args[0])]
        case "step.Buffer":
            return f"Buffer({_dtype(node.args[0])}, {ast.unparse(node.args[1])})"
        case "step.Multihot":
            return f"Multihot({_SCALARS[ast.literal_eval(node.args[0])]}, {ast.unparse(node.args[1])})"
        case "step.Scalar":
            return _SCALARS[ast.literal_eval(node.args[0])]
    raise ValueError(ast.unparse(node))


def _unconverted(value: ast.expr) -> tuple[ast.expr, str]:
    """What is converted by `.to`, and the format: fp32 for the script's own type."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[kind]):
            return inner, _TYPES.get(ast.unparse(kind), "fp32")
    return value, "fp32"


def _generator(value: ast.expr) -> dict[str, Any]:
    """How an input is generated: by a generator, as ones and zeros, or with a least and a largest number of ones."""
    value, _ = _unconverted(value)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Lambda):
        return {"data_gen": ast.unparse(value.func.body)}
    known = _called(value)
    if known in ("torch.rand", "torch.randn", "torch.ones"):
        return {"data_gen": known}
    bits = next(
        (call for call in ast.walk(value) if isinstance(call, ast.Call) and _called(call) == "torch.randint"), None
    )
    if bits is None:
        return {"data_gen": "binary"}
    least, most = bits.args[0], bits.args[1]
    bound = most.left if isinstance(most, ast.BinOp) else most
    upper = {"max": ast.literal_eval(bound.args[0])} if isinstance(bound, ast.Call) else {}
    return {"min": ast.literal_eval(least), **upper}


def _parameter(name: str, value: ast.expr) -> dict[str, Any]:
    """A tensor that only functions use; its dims are those of its shape, innermost first."""
    generator = _generator(value)
    value, dtype = _unconverted(value)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Lambda):
        shape = _elements(value.args[0])
    elif isinstance(value, ast.Call) and _called(value) in ("torch.rand", "torch.randn", "torch.ones"):
        shape = value.args
    else:
        shape = next(c for c in ast.walk(value) if isinstance(c, ast.Call) and _called(c) == "torch.rand").args
    dims = [re.sub(r"_value\b", "", ast.unparse(size)) for size in reversed(shape)]
    return {"name": name, "dtype": dtype, "dims": [int(d) if d.isdigit() else d for d in dims], **generator}


def _number(part: ast.expr) -> Any:
    """An initial value, from `torch.tensor(v)` or `torch.full(shape, v)`."""
    part, _ = _unconverted(part)
    value = part.args[-1] if isinstance(part, ast.Call) else part
    if isinstance(value, ast.Call):
        return ast.literal_eval(value.args[0])
    number = ast.literal_eval(value)
    return int(number) if number == int(number) else number
