"""Program text to dataflow graph.

The text has Python's syntax and is parsed by Python's own grammar, but nothing of it is executed: the evaluator walks
the tree and supports only the forms of the language (`step_runtime.language.evaluator`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from step_runtime.base.errors import Diagnostic, Span
from step_runtime.base.syntax import HUGE_INT, parse_python
from step_runtime.language.evaluator import DiagnosticCollector, Evaluator, is_text
from step_runtime.language.static_values import LARGEST_INT, too_large
from step_runtime.program.graph import Program
from step_runtime.program.limits import Limits
from step_runtime.tasks.scope import Scope

LINE_END = re.compile(r"\r\n|\r|\n")
_FENCE = "```"
NO_PROGRAM = "no-program"
"""The code of an answer in words."""
_IN_WORDS = "this is no program: it binds no name and returns nothing"
_ALONE = "write the program alone, without prose: names bound to step.NAME(config).apply(stream), and a return"
_STATEMENT = re.compile(
    r"^[ \t]*(?:\w+(?:[ \t]*,[ \t]*\w+)*[ \t]*=|return\b(?!(?:[ \t]+[a-z]+){2})|(?:def|for|if|while)\b.*:[ \t]*$)",
    re.MULTILINE,
)
"""What a program's text has somewhere, however wrong it is, and an answer in words has not."""
_HUGE_INT = re.compile(r"\d[\d_]{4000,}")


@dataclass(frozen=True)
class Source:
    """A program's syntax tree, or the reasons why there is none.

    Attributes:
        lines: The parsed text: the program's lines, each without its first `indent` columns.
        statements: The program's own, without a `def body` around them.
        parameters: Those of the `def body`.
        bound: The names that the statements bind.
        indent: The columns that were removed from every line.
        diagnostics: The reasons why there is no tree.
    """

    lines: tuple[str, ...] = ()
    statements: tuple[ast.stmt, ...] = ()
    parameters: tuple[ast.arg, ...] | None = None
    bound: frozenset[str] = frozenset()
    indent: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()


def read(text: str, limits: Limits | None = None) -> Source:
    """The syntax tree of a program text: statements, with a `def body` or a code fence around them or not.

    A tree nests no deeper than the limit and holds no int beyond the largest, so that code that walks or prints it
    needs no further checks.
    """
    limits = limits or Limits()
    if len(text) > limits.characters:
        return _refused(
            "length",
            f"the program has {len(text):,} characters; {limits.stated('characters')}",
        )
    lines, indent = _plain(text)
    try:
        tree = parse_python("\n".join(lines))
    except SyntaxError as error:
        if not _STATEMENT.search(text):
            return Source(diagnostics=(Diagnostic("parse", NO_PROGRAM, _IN_WORDS, hint=_ALONE),))
        return Source(diagnostics=(_syntax_error(error, lines, indent),))
    except (ValueError, MemoryError, RecursionError) as error:
        message = f"the program is not Python syntax: {str(error) or 'it nests too deep'}"
        return Source(diagnostics=(Diagnostic("parse", "syntax", message),))
    return _bounded(_unwrapped(Source(lines, tuple(tree.body), indent=indent)), limits)


def _refused(code: str, message: str) -> Source:
    return Source(diagnostics=(Diagnostic("limits", code, message),))


def parse(text: str, scope: Scope, limits: Limits | None = None) -> tuple[Program, list[Diagnostic]]:
    """The graph of a program text in a scope, with every diagnostic.

    If something is wrong, the graph holds what could be read, so that later checks can report more.
    """
    return evaluate(read(text, limits), scope, limits)


def evaluate(source: Source, scope: Scope, limits: Limits | None = None) -> tuple[Program, list[Diagnostic]]:
    """Like `parse`, for a text that is already read."""
    if source.diagnostics:
        return Program(tuple(scope.inputs), (), ()), list(source.diagnostics)
    evaluator = Evaluator(scope, limits or Limits(), DiagnosticCollector(source.lines, source.indent))
    return evaluator.run(source.statements, source.parameters, source.bound)


def _plain(text: str) -> tuple[tuple[str, ...], int]:
    """The lines without fences and common indentation, each where it was; and that indentation."""
    lines = LINE_END.split(text.removeprefix("\ufeff").replace("\u00a0", " "))
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if len(filled) > 1 and lines[filled[0]].lstrip().startswith(_FENCE) and lines[filled[-1]].strip() == _FENCE:
        lines[filled[0]] = lines[filled[-1]] = ""
        filled = filled[1:-1]
    code = [lines[number] for number in filled if not lines[number].lstrip().startswith("#")]
    indent = min((len(line) - len(line.lstrip()) for line in code), default=0)
    return tuple(line.lstrip() if line[:indent].strip() else line[indent:] for line in lines), indent


def _syntax_error(error: SyntaxError, lines: Sequence[str], indent: int) -> Diagnostic:
    line = error.lineno or 1
    text = lines[line - 1] if line <= len(lines) else ""
    # For an int that is too long Python reports the line alone.
    huge = _HUGE_INT.search(text) if error.msg == HUGE_INT else None
    offset = huge.start() + 1 if huge else error.offset or 1
    column = max(offset, 1 + len(text) - len(text.lstrip())) + indent
    end = error.end_lineno or 0, (error.end_offset or 0) + indent
    span = Span(line, column, *max(end, (line, column + 1)))
    return Diagnostic("parse", "syntax", error.msg, span, hint=_syntax_hint(error.msg))


def _syntax_hint(message: str) -> str:
    if message == HUGE_INT:
        return "ints are sizes, counts and indices, below 2**63"
    if "indent" in message:
        return "statements of one block start in one column, with the same spaces or tabs"
    if "was never closed" in message or "EOF" in message or "unterminated" in message:
        return "close every bracket and string; the program may be cut off"
    if "positional argument follows keyword" in message:
        return "streams go into apply: step.NAME(config).apply(stream)"
    return _ALONE


def _bounded(source: Source, limits: Limits) -> Source:
    """The source with the names that it binds, in one walk without recursion.

    It is rejected if its tree is too deep or holds an int that is too large.
    """
    depth, level, bound = 2, list[ast.AST](source.statements), set[str]()
    while level:
        depth += 1
        below: list[ast.AST] = []
        for node in level:
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Store):
                    bound.add(node.id)
                continue
            if isinstance(node, ast.Constant):
                if isinstance(node.value, int) and abs(node.value) > LARGEST_INT:
                    collector = DiagnosticCollector(source.lines, source.indent)
                    collector.report("int", too_large(node.value), node, stage="limits")
                    return replace(source, diagnostics=(*source.diagnostics, *collector.diagnostics))
                continue
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    below += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST) and value._fields:
                    below.append(value)
        level = below
    if depth > limits.depth:
        return _refused("depth", f"the program's syntax nests {depth} deep; {limits.stated('depth')}")
    return replace(source, bound=frozenset(bound))


def _unwrapped(source: Source) -> Source:
    """The source without a `def body` around its statements."""
    code = [statement for statement in source.statements if not is_text(statement)]
    if len(code) != 1 or not isinstance(code[0], ast.FunctionDef) or code[0].name != "body":
        return source
    body, args = code[0], code[0].args
    if body.decorator_list or args.posonlyargs or args.vararg or args.kwonlyargs or args.kwarg or args.defaults:
        collector = DiagnosticCollector(source.lines, source.indent)
        message = "`def body` takes the inputs as plain parameters, without decorators, defaults or stars"
        collector.report("body", message, body, "write def body(E0, E1):")
        return replace(source, diagnostics=tuple(collector.diagnostics))
    return replace(source, statements=tuple(body.body), parameters=tuple(args.args))
