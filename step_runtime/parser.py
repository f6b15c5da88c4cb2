"""Program text to dataflow graph.

The text has Python's syntax and is read with Python's own grammar, but nothing of it is executed: the
evaluator walks the tree and knows only the forms that the language has (`step_runtime.evaluator`).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from step_runtime.errors import Diagnostic, Span
from step_runtime.evaluator import Evaluator
from step_runtime.limits import Limits
from step_runtime.program import Program
from step_runtime.scope import Scope

_FENCE = "```"


@dataclass(frozen=True)
class Source:
    """A program's syntax tree, or why there is none.

    `statements` are the program's own, freed of a `def body` around them, whose parameters are in
    `parameters`. Columns of the tree count in a text indented by `indent` less.
    """

    text: str
    statements: tuple[ast.stmt, ...] = ()
    parameters: tuple[ast.arg, ...] | None = None
    indent: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()


def read(text: str, limits: Limits | None = None) -> Source:
    """The syntax tree of a program text: statements, with a `def body` or a code fence around them or not."""
    limits = limits or Limits()
    if len(text) > limits.characters:
        message = f"the program has {len(text):,} characters; the limit is {limits.characters:,}"
        return Source(text, diagnostics=(Diagnostic("limits", "length", message),))
    plain, indent = _plain(text)
    try:
        tree = ast.parse(plain)
    except SyntaxError as error:
        return Source(text, diagnostics=(_syntax_error(error, indent),))
    except (ValueError, MemoryError, RecursionError) as error:
        message = f"the program is no Python syntax: {str(error) or 'it nests too deep'}"
        return Source(text, diagnostics=(Diagnostic("parse", "syntax", message),))
    depth = _depth(tree)
    if depth > limits.depth:
        message = f"the program's syntax nests {depth} deep; the limit is {limits.depth}"
        return Source(text, diagnostics=(Diagnostic("limits", "depth", message),))
    return _unwrapped(text, tree, indent)


def parse(text: str, scope: Scope, limits: Limits | None = None) -> tuple[Program, list[Diagnostic]]:
    """The graph of a program text in a scope, with everything found wrong on the way.

    Where something is wrong the graph holds what could be read, so that later checks can report more.
    """
    return evaluate(read(text, limits), scope, limits)


def evaluate(source: Source, scope: Scope, limits: Limits | None = None) -> tuple[Program, list[Diagnostic]]:
    """As `parse`, for a text that was read before."""
    if source.diagnostics:
        return Program(tuple(scope.inputs), (), ()), list(source.diagnostics)
    evaluator = Evaluator(scope, limits or Limits(), source.text.splitlines(), source.indent)
    return evaluator.run(source.statements, source.parameters)


def _plain(text: str) -> tuple[str, int]:
    """The text without fences and common indentation, every line where it was; and that indentation."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ").split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if len(filled) > 1 and lines[filled[0]].lstrip().startswith(_FENCE) and lines[filled[-1]].strip() == _FENCE:
        lines[filled[0]] = lines[filled[-1]] = ""
        filled = filled[1:-1]
    code = [lines[number] for number in filled if not lines[number].lstrip().startswith("#")]
    indent = min((len(line) - len(line.lstrip()) for line in code), default=0)
    if indent:
        lines = [line[indent:] if not line[:indent].strip() else line.lstrip() for line in lines]
    return "\n".join(lines), indent


def _syntax_error(error: SyntaxError, indent: int) -> Diagnostic:
    line, column = error.lineno or 1, (error.offset or 1) + indent
    end_line, end = error.end_lineno or line, (error.end_offset or 0) + indent
    span = Span(line, column, end_line, max(end, column + 1))
    hint = None
    if "indent" in error.msg:
        hint = "statements of one block start in one column"
    elif "was never closed" in error.msg or "EOF" in error.msg:
        hint = "the program seems to be cut off; close every bracket and string"
    return Diagnostic("parse", "syntax", error.msg, span, hint=hint)


def _depth(tree: ast.AST) -> int:
    """The height of the tree, found without recursion."""
    deepest, level = 0, [tree]
    while level:
        deepest += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return deepest


def _unwrapped(text: str, tree: ast.Module, indent: int) -> Source:
    code = [s for s in tree.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if len(code) == 1 and isinstance(code[0], ast.FunctionDef) and code[0].name == "body":
        body = code[0]
        args = body.args
        if body.decorator_list or args.posonlyargs or args.vararg or args.kwonlyargs or args.kwarg or args.defaults:
            span = Span(body.lineno, body.col_offset + 1 + indent, body.lineno, body.col_offset + 9 + indent)
            message = "`def body` takes the inputs as plain parameters, without decorators, defaults or stars"
            return Source(text, diagnostics=(Diagnostic("parse", "body", message, span),))
        return Source(text, tuple(body.body), tuple(args.args), indent)
    return Source(text, tuple(tree.body), None, indent)


