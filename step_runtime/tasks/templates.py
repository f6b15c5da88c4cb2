"""Functions of a catalogue with open dims and numbers, which a task gives: `fn_matvec(D, F)`, `fn_scale(N, 0.5)`.

    dims: [a, b]
    numbers: [c]
    fns:
    - name: Matvec
      apply: |
        return [input[1] @ input[0]]
      input_dtype: ["Buffer(fp32, [a])", "Buffer(fp32, [a, b])"]
      output_dtype: Buffer(fp32, [b])
      func_name: fn_matvec

An instance gives a template's dims in the order in which the file lists them, then its numbers.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from step_runtime.base.errors import quantity
from step_runtime.base.syntax import parse_expression, parse_python

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Template:
    """A function, and the names of its open dims and numbers; without any it is a function as it stands."""

    spec: Mapping[str, Any]
    dims: tuple[str, ...]
    numbers: tuple[str, ...]

    def instance(self, arguments: Sequence[str]) -> Mapping[str, Any]:
        """The function with these dims and numbers, which its name then has.

        Raises:
            ValueError: There are more arguments, or fewer.
        """
        expected = (*self.dims, *self.numbers)
        if len(arguments) != len(expected):
            signature = f"{self.spec['func_name']}({', '.join(expected)})"
            raise ValueError(f"expected {quantity(len(expected), 'argument')}, {signature}; found {len(arguments)}")
        if not expected:
            return self.spec
        dims = dict(zip(self.dims, arguments, strict=False))
        name = named(f"{self.spec['func_name']}({', '.join(arguments)})")
        code = _sizes(dims) | dict(zip(self.numbers, arguments[len(self.dims) :], strict=True))
        found = {**self.spec, "func_name": name, "apply": _replaced(str(self.spec["apply"]), code)}
        for key in ("input_dtype", "output_dtype"):
            types = self.spec[key]
            found[key] = (
                [_replaced(each, dims) for each in types] if isinstance(types, list) else _replaced(types, dims)
            )
        return found

    def matching(self, taken: Sequence[str], given: str, apply: str) -> str | None:
        """The instance that takes and gives these types, and has this code; None if there is none."""
        if "init" in self.spec:
            return None
        own = self.spec["input_dtype"]
        types = [*(own if isinstance(own, list) else [own]), self.spec["output_dtype"]]
        dims = _matched(
            "|".join(types).replace(" ", ""), "|".join([*taken, given]).replace(" ", ""), self.dims, r"[^],|]+"
        )
        if dims is None:
            return None
        code = ast.unparse(parse_python(textwrap.dedent(_replaced(str(self.spec["apply"]), _sizes(dims)))))
        numbers = _matched(code, ast.unparse(parse_python(apply)), self.numbers, r"(?:(?!input)[^\]])+")
        if numbers is None:
            return None
        arguments = ", ".join([*(dims[dim] for dim in self.dims), *(numbers[name] for name in self.numbers)])
        return f"{self.spec['func_name']}({arguments})" if arguments else str(self.spec["func_name"])


def template_of(spec: Mapping[str, Any], dims: Sequence[str], numbers: Sequence[str]) -> Template:
    """The function of a catalogue with those of the open names that it uses."""
    types = {*_WORD.findall(f"{spec.get('input_dtype')} {spec.get('output_dtype')}")}
    words = {*_WORD.findall(str(spec.get("apply")))}
    return Template(spec, tuple(dim for dim in dims if dim in types), tuple(each for each in numbers if each in words))


def parsed_instance(entry: str) -> tuple[str, list[str]]:
    """The template's name and the arguments of an instance such as `fn_scale(N, 0.5)`.

    Raises:
        ValueError: It is no such call.
    """
    try:
        tree = parse_expression(entry)
    except SyntaxError:
        tree = None
    match tree:
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return name, [ast.unparse(each) for each in arguments]
    raise ValueError(f"expected a function's name, or an instance such as fn_matvec(D, F); found {entry!r}")


def named(entry: str) -> str:
    """The name that programs use for an instance: `fn_scale(N, 0.5)` is `fn_scale_N_0_5`."""
    text = entry.replace("-", " m").replace("//", "o").replace("*", "x")
    return re.sub(r"\W+", "_", re.sub(r"_value\b", "", text)).strip("_")


def _matched(own: str, other: str, names: Sequence[str], may_be: str) -> dict[str, str] | None:
    """What stands in the other text where this one has the names; None if the texts differ elsewhere."""
    pattern, left = "", [*names]
    for part in re.split(r"(\w+)", own):
        known = f"(?P={part})" if part in names else re.escape(part)
        pattern += f"(?P<{part}>{may_be})" if part in left else known
        left = [name for name in left if name != part]
    found = re.fullmatch(pattern, other)
    return None if found is None else found.groupdict()


def _sizes(dims: Mapping[str, str]) -> dict[str, str]:
    """The code for the sizes of open dims."""
    coded = {dim: _WORD.sub(lambda word: f"{word[0]}_value", text) for dim, text in dims.items()}
    return {f"{dim}_value": text if text.isidentifier() else f"({text})" for dim, text in coded.items()}


def _replaced(text: str, values: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: values.get(word[0], word[0]), text)
