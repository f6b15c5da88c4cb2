"""Makes comments and string statements of a program safe to show to an LM.

A comment stays unchanged unless it could steer its reader: it

- is longer than 120 characters,
- holds a field marker (`[[ … ]]`) or a chat model's control token (`<|…|>`),
- speaks in a role (`SYSTEM:`, `assistant:` and so on) or asks to ignore earlier text,
- holds an address (`http://…`), or
- holds a character that is not printable, such as an escape or a directional mark.

Such a comment is replaced by `REMOVED`. Code and line numbers stay unchanged, unless a string statement, an annotation
or a name that the program binds could steer: then the program is printed from its tree, without strings and
annotations, and with another name.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import textwrap
import tokenize
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from step_runtime.language.evaluator import is_text
from step_runtime.language.parser import LINE_END, Source, read

_MARKER = re.compile(r"\[\[(?=\s*#)")
LONGEST_COMMENT = 120
LONGEST_NAME = 40
"""Characters of a name, or of an annotation, beyond which it could be a sentence."""
REMOVED = "# (comment removed)"

_STEERING = re.compile(
    r"\[\[|\]\]|<\||\|>|https?:|www\.|```|~~~"
    r"|\b(?:system|assistant|user|human|developer|tool|instructions?)\s*(?:prompt|message)?\s*[:>\]]"
    r"|\b(?:ignore|disregard|forget)\b.{0,40}\b(?:previous|prior|above|earlier|all|instructions?|rules?)\b",
    re.IGNORECASE,
)


def printable(text: str) -> str:
    """A program's text with comments that could steer a reader removed, and no character that is not printable."""
    text = "\n".join(_escaped(line) for line in LINE_END.split(text))
    source = read(text)
    if source.diagnostics:
        # Not a program: its text is shown, without markers that divide a request or an answer.
        return text.replace("[[", "[ [").replace("]]", "] ]").replace("<|", "< |")
    nodes = [node for statement in source.statements for node in ast.walk(statement)]
    strings = (line for node in nodes if isinstance(node, ast.stmt) and is_text(node) for line in _words(node))
    names = _steering_names(nodes, source)
    if names or any(map(steers, strings)) or not all(map(_is_plain, source.annotations)):
        return _code_alone(source, names)
    lines = text.split("\n")
    for number, comment in _comments(source.lines):
        if steers(comment):
            code = lines[number].removesuffix(comment).rstrip()
            lines[number] = f"{code}  {REMOVED}" if code.strip() else code + REMOVED
    return _MARKER.sub("[ [", "\n".join(lines))


def undivided(text: str) -> str:
    """A text without what divides a request: field markers and control tokens."""
    return _MARKER.sub("[ [", text).replace("<|", "< |")


def quoted(text: str) -> str:
    """A text that quotes lines of a program, such as a verdict's: `undivided`, without comments that could steer."""
    return undivided("\n".join(map(_without_steering_comment, text.split("\n"))))


def _without_steering_comment(line: str) -> str:
    code, mark, comment = line.partition("#")
    return f"{code}{REMOVED}" if mark and steers(mark + comment) else line


def steers(comment: str) -> bool:
    """Whether a comment could steer its reader; see the module."""
    plain = unicodedata.normalize("NFKC", comment)
    return len(plain) > LONGEST_COMMENT or not comment.isprintable() or bool(_STEERING.search(plain))


def _steering_names(nodes: Sequence[ast.AST], source: Source) -> dict[str, str]:
    """Other names for those that the program binds and that could steer."""
    bound = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    bound += [parameter.arg for parameter in source.parameters or ()]
    steering = [name for name in dict.fromkeys(bound) if not _is_harmless(name)]
    taken = {node.id for node in nodes if isinstance(node, ast.Name)} | {*bound}
    free = (name for number in itertools.count(1) if (name := f"name_{number}") not in taken)
    return dict(zip(steering, free, strict=False))


def _is_harmless(name: str) -> bool:
    return len(name) <= LONGEST_NAME and not steers(re.sub(r"[\W_]+", " ", name))


def _is_plain(annotation: ast.expr) -> bool:
    """Whether an annotation is a short name, such as `step.Stream`."""
    node = annotation
    while isinstance(node, ast.Attribute):
        node = node.value
    length = (annotation.end_col_offset or 0) - annotation.col_offset
    short = annotation.lineno == annotation.end_lineno and length <= LONGEST_NAME
    return isinstance(node, ast.Name) and short and _is_harmless(ast.unparse(annotation))


def _escaped(line: str) -> str:
    return "".join(char if char.isprintable() or char in "\t\u00a0" else ascii(char)[1:-1] for char in line)


def _words(node: ast.stmt) -> list[str]:
    """The lines of a string statement."""
    return str(ast.literal_eval(node.value)).split("\n") if isinstance(node, ast.Expr) else []


def _code_alone(source: Source, names: Mapping[str, str]) -> str:
    """The program printed from its tree, without comments, string statements and annotations, with other names."""
    bare = (_Bare(names).visit(statement) for statement in source.statements)
    code = ast.unparse(ast.Module([statement for statement in bare if statement is not None], []))
    if source.parameters is None:
        return f"{REMOVED}\n{code}"
    parameters = ", ".join(names.get(parameter.arg, parameter.arg) for parameter in source.parameters)
    return f"{REMOVED}\ndef body({parameters}):\n{textwrap.indent(code, '    ')}"


class _Bare(ast.NodeTransformer):
    """Removes string statements and changes names; each text gets its own tree, so no other user of it is affected."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if is_text(node) else node


def _comments(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The comments of a text that parses, each with its line's index."""
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0] - 1, token.string
