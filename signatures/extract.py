"""From an LM's answer to the program in it.

Answers hold a program in many wrappings: field markers, tags, code fences, YAML or JSON under `impl`, a function,
prose before, after and in between, reasoning in front. Each wrapping has one function here, which gives what
is inside it, or the text unchanged where it finds no program inside. They are applied from the outermost inwards.

- Nothing is judged: whether the program is right, or even parses, is left to the verifier.
- The statements themselves are never edited; only what stands around and between them goes.
- The later of two programs counts, as LMs correct themselves; one that returns goes before one that is cut off.
"""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Iterable

from step_runtime.base.syntax import parse_python

ANSWERS = ("impl", "output_impl")
"""The fields that hold a program as an answer."""

_ORNAMENT = r"(?:[^\w\s#\"'`()\[\]{},:=]{1,3}|\d+[ \t]*[.):|]|(?:Step|Line|L)[ ]?\d+[.:)]|In[ ]?\[\d+\]:)[ \t]+"
_PREFIX = rf"^[ \t]*+(?:{_ORNAMENT})?(?:\*\*|[`\"'])?"
_NAME = r"[(\[*]*\w+[)\]]*"
_NAMES = rf"{_NAME}(?:[ \t]*,[ \t]*{_NAME})*,?(?:[ \t]*:[ \t]*[\w.\[\], ]+)?[ \t]*"
_STATEMENT = re.compile(
    rf"{_PREFIX}(?:{_NAMES}=(?!=)[\s\[(]*(?:step[ \t]*\.|[A-Z]\w*\([^\n]*\.apply\()"
    r"|\w+\.append\([ \t]*step\."
    r"|return\b[^\n]*\bstep\.\w+\()",
    re.MULTILINE,
)
_RETURN = re.compile(rf"{_PREFIX}return\b(?:[ \t]+[\w(\[*][^\n]*|[ \t]*[(\[][^\n]*)$", re.MULTILINE)
_HEADING = re.compile(r"[ \t]*#{2,6}[ \t]")
_PLAIN_RETURN = re.compile(
    r"^[ \t]*+return\b[ \t]*[(\[]?[ \t]*\w+(?:[ \t]*,[ \t]*\w+)*[ \t]*,?[)\]]?`?[ \t]*(?:#.*)?$", re.MULTILINE
)
_CODE = re.compile(
    rf"{_PREFIX}(?:{_NAMES}=(?!=)|return\b|for\b.*:|\w+\.append\(|#|\"\"\"|'''|[)\]}}])|^\s*$", re.MULTILINE
)

_THOUGHT = r"[<◁\[](?P<tag>(?:\w+:)?think(?:ing)?|thoughts?|reasoning|analysis|scratchpad)[>▷\]]"
_THOUGHT_END = re.compile(_THOUGHT.replace("(?P<tag>", "/(?:"), re.IGNORECASE)
_MARKER = re.compile(r"\**\[\[\s*#+\s*(\w+)\s*#*\s*\]\]\**")
_TAG = re.compile(
    r"<(impl|output_impl|program|code|answer|solution|parameter)(?: [^<>]*)?>(.*?)(?:</\1>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]*(?:[-*>]|\d+\.)?[ \t]*(?:`{3,}|~{3,})[ \t]*([\w+.#-]*)[^`\n]*$")
_KEY = re.compile(
    r"""^(?P<indent>[ \t]*+)(?:-[ ])?(?:.*[{,])?[ \t]*
        ["'*`]*(?:(?:output_)?impl(?:ementation)?|program|answer|solution|assistant)["'*`]*[ \t]*
        (?::|=(?=[ \t]*(?:\"""|\'\'\')))(?P<rest>.*)$""",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_BLOCK = re.compile(r"(?:[|>][-+\d]*|\**)[ \t]*(?:#.*)?$")
_DEF = re.compile(
    r"^(?P<indent>[ \t]*)def[ \t]+(?P<name>\w+)[ \t]*(?P<parameters>\((?:[^()]|\([^()]*\))*\))[^:\n]*:(?P<rest>.*)$",
    re.MULTILINE,
)


def extract_program(text: str) -> str:
    """The program in an LM's answer; where nothing looks like one, the answer itself, for the parser to refuse."""
    answer = _tidy(text)
    for unwrap in (_after_thought, _section, _tagged, _fenced, _value, _function):
        answer = unwrap(answer)
    return _statements(answer) if holds_program(answer) else text


def holds_program(text: str) -> bool:
    """Whether there is a statement of the language in the text, at the beginning of a line."""
    return bool(_STATEMENT.search(text) or _PLAIN_RETURN.search(text))


def sections(text: str) -> dict[str, str]:
    """What follows each field marker `[[ ## name ## ]]`; of several of one name, the last that is not empty."""
    parts = _MARKER.split(_tidy(text))
    found: dict[str, str] = {}
    for name, content in zip(parts[1::2], parts[2::2], strict=True):
        if content.strip() or name not in found:
            found[name] = content.strip("\n")
    return found


def _best(candidates: Iterable[str], otherwise: str) -> str:
    """The last candidate that holds a whole program, else the last with a part of one."""
    parts = [candidate for candidate in candidates if holds_program(candidate)]
    wholes = [part for part in parts if _RETURN.search(part)]
    return (wholes or parts or [otherwise])[-1]


def _tidy(text: str) -> str:
    """Line ends, spaces and tabs as Python knows them; no invisible characters, no control tokens of chat models."""
    text = re.sub(r"\r\n?|[\u2028\u2029]", "\n", text)
    text = re.sub(r"[\ufeff\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\u00ad]", "", text)
    text = html.unescape(text) if re.search(r"&(?:#\d+|#x[\da-fA-F]+|lt|gt|amp|quot);", text) else text
    text = re.sub(r"<\|[^|>\n]*\|>|</?s>|<br[ ]*/?>\n?", "\n", text)
    text = re.sub(r"\\([_()\[\]=*.,])", r"\1", text)
    if "\n" not in text.strip():
        text = text.replace("\\n", "\n") if '"' not in text else text
    text = re.sub(r"[^\S\n\t ]", " ", text).expandtabs(4)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _after_thought(text: str) -> str:
    """The answer without the reasoning, unless the only program is in there."""
    ends = [match.end() for match in _THOUGHT_END.finditer(text)]
    if not ends:
        return text
    # Beyond the last end there is none to look for, which would take long where many thoughts begin.
    thoughts = re.sub(rf"{_THOUGHT}.*?[<◁\[]/(?P=tag)[>▷\]]", "\n", text[: ends[-1]], flags=re.DOTALL | re.IGNORECASE)
    after = _THOUGHT_END.split(thoughts + text[ends[-1] :])[-1]
    return after if holds_program(after) else text


def _section(text: str) -> str:
    parts = _MARKER.split(re.sub(r"\[\[\s*#[^\]\n]*\Z", "", text.rstrip()))
    return _best((content for name, content in zip(parts[1::2], parts[2::2], strict=True) if name in ANSWERS), text)


def _tagged(text: str) -> str:
    return _best((match[2] for match in _TAG.finditer(text)), text)


def _fenced(text: str) -> str:
    """The best of the fenced blocks; a labelled fence always opens one, a bare one opens or closes."""
    # A fence may share its line with the program's first or last line.
    text = re.sub(r"^([ \t]*`{3,}+)(?:python|py)?[ \t]*(?=\S.*\bstep\.|return\b)", r"\1\n", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=[^\s`])[ \t]*(`{3,})[ \t]*$", r"\n\1", text, flags=re.MULTILINE)
    inside, outside = [], [""]
    block: list[str] | None = None
    patch = False
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if fence is None:
            if block is None:
                outside[-1] += line + "\n"
            else:
                block += [line] if not patch else [line[1:]] if line[:1] != "-" else []
            continue
        if block is not None:
            inside.append("\n".join(block))
        outside.append("")
        block = [] if block is None or fence[1] else None
        patch = fence[1] in ("diff", "patch")
    inside += ["\n".join(block)] if block is not None else []
    return _best(inside, _best(outside, text))


def _value(text: str) -> str:
    """What stands under the key `impl`, in any style of YAML, or of JSON."""
    return _best((_value_at(match, text[match.end() + 1 :]) for match in _KEY.finditer(text)), text)


def _value_at(key: re.Match[str], following: str) -> str:
    rest = key["rest"].strip()
    if rest[:3] in ('"""', "'''"):
        return f"{rest[3:]}\n{following}".split(rest[:3])[0]
    if rest[:1] in ('"', "["):
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(f"{rest}\n{following}")
        except (ValueError, RecursionError):
            # It is cut off, or escapes what needs no escape.
            value = re.sub(r"\"\s*[\]}]*\s*\Z", "", f"{rest[1:]}\n{following}").replace("\\n", "\n")
        value = "\n".join(map(str, value)) if isinstance(value, list) else str(value)
        return value if "\n" in value else value.replace("\\n", "\n")
    if rest[:1] == "'":
        return re.split(r"(?<!')'(?!')", f"{rest[1:]}\n{following}")[0].replace("''", "'")
    lines = _indented(following, len(key["indent"])) or _until_key(following)
    return textwrap.dedent("\n".join(lines)) if _BLOCK.match(rest) else "\n".join([rest, *lines])


def _indented(text: str, indent: int) -> list[str]:
    """The lines before the first that is indented by no more than `indent`."""
    lines = text.split("\n")
    ends = (number for number, line in enumerate(lines) if line.strip() and _indent(line) <= indent)
    lines = lines[: next(ends, len(lines))]
    return lines if any(line.strip() for line in lines) else []


def _until_key(text: str) -> list[str]:
    """The lines before the next key of a mapping: a block that its writer forgot to indent."""
    return re.split(r"^[ \t]*[\"']?\w+[\"']?:(?:[ \t]|$)", text, maxsplit=1, flags=re.MULTILINE)[0].split("\n")


def _function(text: str) -> str:
    """The function that holds the program, under the name `body`; what stands around it goes."""
    bodies, others = [], []
    for match in _DEF.finditer(text):
        block = "\n".join([match["rest"], *_indented(text[match.end() + 1 :], len(match["indent"]))]).rstrip()
        parameters = re.sub(r"\(\s*self\b\s*,?\s*", "(", match["parameters"])
        function = textwrap.dedent(f"{match['indent']}def body{parameters}:{block}")
        if match["name"] == "body" and holds_program(block):
            bodies.append(function)
        elif _STATEMENT.search(block):
            others.append(function)
    return (bodies or others or [text])[-1]


def _statements(text: str) -> str:
    """The program's own lines: from its first statement to its `return`, without prose in between."""
    if _DEF.match(text):
        return text
    lines = [_plain(line) for line in text.split("\n")]
    start, stop = _last_program(lines)
    chosen = lines[start:stop]
    kept = _without_prose(chosen)
    flat = [line.strip() for line in kept]
    for candidate in (chosen, kept, flat):
        if _parses(candidate):
            chosen = candidate
            break
    return textwrap.dedent("\n".join(chosen)).strip("\n")


def _plain(line: str) -> str:
    """The line without the bullet, number, quotation mark or backticks that a statement may be set in."""
    if not _CODE.match(line):
        return line
    bare = re.sub(rf"^[ \t]*{_ORNAMENT}", "", line)
    bare = bare if bare != line and _CODE.match(bare) else line
    quoted = re.fullmatch(r"([ \t]*)(\*\*|[\"'])(.*)\2[ \t]*", bare)
    bare = quoted[1] + quoted[3] if quoted else bare
    return bare.replace("`", "") if bare.strip()[:1] == "`" or bare.count("`") % 2 else bare


def _last_program(lines: list[str]) -> tuple[int, int]:
    """Where the last program that returns begins and ends; without a return, where the statements do."""
    begin, spans = 0, []
    for number, line in enumerate(lines):
        if number >= begin and _RETURN.match(line):
            end = _closing(lines, number)
            spans.append((begin, end))
            begin = end
    statements = [number for number, line in enumerate(lines) if _STATEMENT.match(line)]
    whole = [span for span in spans if any(span[0] <= number < span[1] for number in statements)]
    if not whole and statements:
        # It is cut off before its return: everything after its first statement is kept.
        return _first(lines, statements[0]), len(lines)
    start, stop = (whole or spans)[-1]
    return _first(lines, next((number for number in statements if start <= number < stop), stop - 1), start), stop


def _first(lines: list[str], number: int, bound: int = 0) -> int:
    """Where the program begins whose first primitive stands in line `number`: lists and comments above belong to it."""
    indent = _indent(lines[number])
    for index in range(number - 1, bound - 1, -1):
        if not _CODE.match(lines[index]) or _HEADING.match(lines[index]) or _indent(lines[index]) > indent:
            break
        number = index if lines[index].strip() else number
    return number


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _closing(lines: list[str], number: int) -> int:
    """The line after the statement that begins in line `number`, whose brackets may close further down."""
    depth = 0
    for index in range(number, len(lines)):
        code = lines[index].split("#")[0]
        depth += sum(code.count(bracket) for bracket in "([{") - sum(code.count(bracket) for bracket in ")]}")
        if depth <= 0:
            return index + 1
    return number + 1


def _without_prose(lines: list[str]) -> list[str]:
    """The lines that are code, those inside of open brackets included."""
    kept: list[str] = []
    number = 0
    while number < len(lines):
        end = _closing(lines, number) if _CODE.match(lines[number]) else number + 1
        kept += lines[number:end] if _CODE.match(lines[number]) else []
        number = end
    return kept


def _parses(lines: list[str]) -> bool:
    try:
        parse_python(textwrap.dedent("\n".join(lines)))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True
