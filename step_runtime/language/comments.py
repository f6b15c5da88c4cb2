"""Makes foreign text safe to show to an LM, by one rule for programs, tasks and messages about them.

A comment, a string, an annotation or a name is shown as it is unless it could steer its reader: it

- is longer than 120 characters, a name or an annotation longer than 40,
- holds a field marker (`[[ … ]]`), a code fence or a chat model's control token (`<|…|>`),
- speaks in a role (`SYSTEM:`, `assistant:` and so on), asks to ignore earlier text, or addresses its reader,
- holds an address (`http://…`), or
- holds a character that is not printable, such as an escape or a directional mark, or a word of several scripts.

Comments and strings are also read together, as a sentence may be spread over them.

A comment that steers is replaced by `REMOVED`; code and line numbers stay unchanged. Where anything else steers, the
code is printed from its tree: strings are replaced by `REMOVED_TEXT`, names by `harmless_name`, annotations left out.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import re
import textwrap
import tokenize
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from step_runtime.base.syntax import parse_python
from step_runtime.language.parser import LINE_END, Source, read

LONGEST_COMMENT = 120
LONGEST_NAME = 40
"""Characters of a name, or of an annotation, beyond which it could be a sentence."""
MOST_WORDS = 4
"""Words of a title, such as a function's, beyond which it could be a sentence."""
REMOVED = "# (comment removed)"
REMOVED_TEXT = "(text removed)"
REMOVED_CODE = "(code removed)"

_MARKER = re.compile(r"\[\[(?=\s*#)")
_ROLE = r"(?:system|assistant|user|human|developer|tool|instructions?)"
_ORDERS = re.compile(
    rf"\b{_ROLE}\s*(?:prompt|message)?\s*[:>\]]"
    r"|\b(?:ignore|disregard|forget)\b.{0,40}\b(?:previous|prior|above|earlier|all|instructions?|rules?)\b"
    r"|(?:ignore|disregard|forget)(?:all|any|the|your)*(?:previous|prior|above|earlier)",
    re.IGNORECASE | re.DOTALL,
)
_MARKS = re.compile(r"\[\[|\]\]|<\||\|>|https?:|www\.|```|~~~")
_DEMANDS = re.compile(
    r"\byou\b|\bfrom now on\b|\b(?:always|must|only|instead|just|simply)\s+(?:return|output|write|say|answer)\b"
    r"|\b(?:return|output|write|say|answer)\b.{0,40}\b(?:always|whatever|regardless|no matter)\b",
    re.IGNORECASE | re.DOTALL,
)
_ADDRESSES = re.compile(
    r"\byou(?:r|rs|rself)\b|\b(?:assistant|chatbot|prompts?|instructions?|llms?|chatgpt|claude)\b|\bas an ai\b"
    r"|\b(?:answer|respond|reply|comply|obey)\b|\bnew task\b",
    re.IGNORECASE,
)
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that Python counts as printable and that show nothing: any text can be written in them."""
_IDENTIFIER = re.compile(r"[^\W\d]\w*…?")
_STRING = re.compile(r"'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


# --- the rule ---------------------------------------------------------------------------------------------------------


def steers(comment: str) -> bool:
    """Whether a comment or another piece of text could steer its reader; see the module."""
    plain = unicodedata.normalize("NFKC", comment)
    patterns = (_MARKS, _ORDERS, _DEMANDS, _ADDRESSES)
    spoken = any(pattern.search(plain) for pattern in patterns) or _mixes_scripts(plain)
    return spoken or len(plain) > LONGEST_COMMENT or not comment.isprintable() or bool(_INVISIBLE.search(comment))


def _mixes_scripts(text: str) -> bool:
    """Whether a word has letters of several scripts, of which some pass for others."""
    if text.isascii():
        return False
    words = (re.sub(r"[\W\d_]", "", word) for word in text.split())
    return any(len({unicodedata.name(letter, "?").split()[0] for letter in word}) > 1 for word in words)


def harmless_name(name: str) -> str:
    """The name, or another one in its place if it could steer: the same one wherever it stands."""
    if _is_harmless(name):
        return name
    return f"name_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _is_harmless(name: str) -> bool:
    plain = unicodedata.normalize("NFKC", name)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", re.sub(r"[\W_]+", " ", plain))
    spoken = any(pattern.search(text) for pattern in (_ORDERS, _DEMANDS) for text in (plain, words))
    hidden = not name.isprintable() or _INVISIBLE.search(name)
    return len(name) <= LONGEST_NAME and not hidden and not spoken and not _mixes_scripts(plain)


def harmless_title(title: str, most_words: int = MOST_WORDS) -> str:
    """A name of words, such as that of a task, or another one in its place if it could steer or be a sentence."""
    plain = len(title.split()) <= most_words and not steers(title) and _is_harmless(title)
    return title if plain else harmless_name(f"{title} {'_' * LONGEST_NAME}")


# --- programs and code ------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)  # the same demonstrations stand in thousands of requests
def printable(text: str) -> str:
    """A program's text without parts that could steer a reader, and with printable characters only."""
    text = _all_escaped(text)
    source = read(text)
    if source.diagnostics:
        # Not a program: its text is shown, without markers that divide a request or an answer.
        return text.replace("[[", "[ [").replace("]]", "] ]").replace("<|", "< |")
    return _printed(
        text,
        source.lines,
        [*source.statements],
        lambda harmless, code: _program(source, harmless, code),
        any(not _is_plain(annotation) for annotation in source.annotations)
        or any(not _is_harmless(parameter.arg) for parameter in source.parameters or ()),
    )


def printable_code(text: str) -> str:
    """A piece of a task's Python without parts that could steer a reader, and with printable characters only."""
    text = _all_escaped(text)
    lines = textwrap.dedent(text).split("\n")
    try:
        tree = parse_python("\n".join(lines))
        return _printed(text, lines, tree.body, lambda _, code: code, False)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return REMOVED_CODE if steers(text) else undivided(text)


def _printed(
    text: str,
    lines: Sequence[str],
    statements: list[ast.stmt],
    whole: Callable[[_Harmless, str], str],
    steered: bool,
) -> str:
    """The text with other comments, or its code without any, which `whole` completes."""
    comments = [*_comments(lines)]
    harmless = _Harmless(_spoken(_strings(statements)))
    bare = [harmless.visit(statement) for statement in statements]
    if harmless.changed or steered:
        return whole(harmless, ast.unparse(ast.fix_missing_locations(ast.Module(bare, []))))
    together, shown = _spoken(comment.lstrip("#") for _, comment in comments), text.split("\n")
    for number, comment in comments:
        if together or steers(comment):
            code = shown[number].removesuffix(comment).rstrip()
            shown[number] = f"{code}  {REMOVED}" if code.strip() else code + REMOVED
    return _MARKER.sub("[ [", "\n".join(shown))


def _program(source: Source, harmless: _Harmless, code: str) -> str:
    """A program from its code, with the `def body` that it had."""
    if source.parameters is None:
        return f"{REMOVED}\n{code}"
    parameters = ", ".join(harmless_name(parameter.arg) for parameter in source.parameters)
    return f"{REMOVED}\ndef body({parameters}):\n{textwrap.indent(code, '    ')}"


def _strings(statements: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.isidentifier():
                yield node.value


def _spoken(pieces: Iterator[str]) -> bool:
    """Whether pieces of text, none of which steers alone, do if they are read in one go."""
    found = [unicodedata.normalize("NFKC", piece) for piece in pieces if not steers(piece)]
    read = ("".join(found), " ".join(found))
    return any(pattern.search(text) for pattern in (_MARKS, _ORDERS, _DEMANDS) for text in read)


def _is_plain(annotation: ast.expr) -> bool:
    """Whether an annotation is a short name, such as `step.Stream`."""
    node = annotation
    while isinstance(node, ast.Attribute):
        node = node.value
    length = (annotation.end_col_offset or 0) - annotation.col_offset
    short = annotation.lineno == annotation.end_lineno and length <= LONGEST_NAME
    return isinstance(node, ast.Name) and short and _is_harmless(ast.unparse(annotation))


class _Harmless(ast.NodeTransformer):
    """Replaces what could steer in a tree; each text gets its own tree, so no other user of it is affected.

    Attributes:
        changed: Whether there was anything.
    """

    def __init__(self, all_strings: bool) -> None:
        self._all_strings = all_strings
        self.changed = False

    def _name(self, name: str) -> str:
        shown = harmless_name(name)
        self.changed |= shown != name
        return shown

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Names of all kinds: of functions, parameters, keywords, modules, patterns and exceptions."""
        for field in ("id", "arg", "attr", "name", "asname", "rest"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                setattr(node, field, ".".join(map(self._name, name.split("."))))
        if isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [*map(self._name, node.names)]
        for field in ("annotation", "returns"):
            annotation = getattr(node, field, None)
            if isinstance(annotation, ast.expr) and not _is_plain(annotation):
                self.changed = True
                setattr(node, field, ast.Name("object") if isinstance(node, ast.AnnAssign) else None)
        return super().generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        words = re.sub(r"[\W_]+", " ", ast.unparse(node)) if isinstance(node.value, ast.Attribute) else ""
        if _ORDERS.search(words):
            self.changed = True
            return ast.Name(harmless_name(words + "_" * LONGEST_NAME), node.ctx)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, str | bytes):
            return node
        text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        if text.isidentifier():
            shown: str | None = harmless_name(text)
        else:
            pieces = text.split("\n")
            shown = REMOVED_TEXT if self._all_strings or any(map(steers, pieces)) or _spoken(iter(pieces)) else None
        if shown is None or shown == text:
            return node
        self.changed = True
        return ast.Constant(shown if isinstance(node.value, str) else shown.encode())


def _comments(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The comments of a text that parses, each with its line's index."""
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0] - 1, token.string


def _all_escaped(text: str) -> str:
    return "\n".join(
        "".join(char if char.isprintable() or char in "\t\u00a0" else ascii(char)[1:-1] for char in line)
        for line in LINE_END.split(text)
    )


# --- words ------------------------------------------------------------------------------------------------------------


def undivided(text: str) -> str:
    """A text without field markers and control tokens, which divide a request."""
    return _MARKER.sub("[ [", text).replace("<|", "< |")


def unordered(text: str) -> str:
    """Words of others, such as reasoning: `undivided`, without lines that speak in a role or ask to ignore others."""
    lines = undivided(text).split("\n")
    return "\n".join(REMOVED_TEXT if _ORDERS.search(unicodedata.normalize("NFKC", line)) else line for line in lines)


def quoted(text: str) -> str:
    """A text that quotes a program or a task, such as a verdict's, without parts that could steer a reader."""
    return unordered("\n".join(map(_quoted_line, text.split("\n"))))


def _quoted_line(line: str) -> str:
    line = _all_escaped(line)
    code, mark, comment = line.partition("#")
    if mark and steers(mark + comment):
        line = f"{code}{REMOVED}"
    line = _header(line)
    line = _STRING.sub(lambda found: found[0] if not steers(found[0]) else repr(REMOVED_TEXT), line)
    return _IDENTIFIER.sub(lambda found: _quoted_name(found[0]), line)


def _quoted_name(name: str) -> str:
    """A name in a message, which may be cut."""
    if name.endswith("…"):
        return (
            name if len(name) < LONGEST_NAME // 2 and _is_harmless(name[:-1]) else f"{harmless_name('_' * 99 + name)}…"
        )
    return harmless_name(name)


def _header(line: str) -> str:
    """A line of a program with the annotations of a `def` left out unless they are plain."""
    start = re.search(r"\bdef\s+\w+\s*\(", line)
    if start is None:
        return line
    before, header = line[: start.start()], line[start.start() :]
    try:
        (function,) = parse_python(f"{header.rstrip()} pass").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return f"{before}{start[0]}…" if ":" in header.rstrip().removesuffix(":") or "->" in header else line
    found = [node.annotation for node in ast.walk(function) if isinstance(node, ast.arg) and node.annotation]
    if isinstance(function, ast.FunctionDef) and function.returns is not None:
        found.append(function.returns)
    if all(map(_is_plain, found)):
        return line
    harmless = _Harmless(False)
    return before + ast.unparse(harmless.visit(function)).split("\n")[0]
