"""Between signatures and chat messages: values are written as YAML, programs are found in any answer.

A request is a system message (the instructions, then the fields and how they are marked), a pair of messages for each
demonstration, and the inputs. All but the demonstrations and the inputs is the same in every request of a predictor.
"""

from __future__ import annotations

import functools
import html
import json
import re
import textwrap
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from signatures.prompts import FORM, SCRIPT, format_note, render_script
from step_runtime.base.syntax import parse_python
from step_runtime.language.canonical import for_prompt, shown_program
from step_runtime.tasks import yaml_format
from step_runtime.tasks.task import Task

_DEARER = """[[ ## dearer ## ]]
This program is right, too, and costs {cost}; the answer below costs {saving}.
{impl}"""


class Propose(dspy.Signature):
    """Write the STeP program that computes the task's outputs from its inputs."""

    task: Task = dspy.InputField(desc="the operator: its inputs, the functions on offer, its outputs in PyTorch; YAML")
    impl: str = dspy.OutputField(desc="the program, and nothing beside it")


class Guard(dspy.Signature):
    """Insert Copy where the program consumes a stream more than once; else return it as it is."""

    task: Task = dspy.InputField(desc="the operator: its inputs, the functions on offer, its outputs in PyTorch; YAML")
    input_impl: str = dspy.InputField(desc="a program for the task")
    output_impl: str = dspy.OutputField(desc="the program after correction, and nothing beside it")


class Refine(dspy.Signature):
    """Repair the program, or write another, so that it computes the task's outputs from its inputs."""

    task: Task = dspy.InputField(desc="the operator: its inputs, the functions on offer, its outputs in PyTorch; YAML")
    input_impl: str = dspy.InputField(desc="a program for the task that is wrong")
    diagnostics: str = dspy.InputField(desc="what a checker found, with the lines of the program")
    output_impl: str = dspy.OutputField(desc="a program that is right, and nothing beside it")


# --- extracts the program from an LM's answer -------------------------------------------------------------------------
# Answers wrap a program in many ways: field markers, tags, code fences, YAML or JSON under `impl`, a function,
# prose before, after and in between, reasoning in front. Each wrapping has one function here, which gives what
# is inside it, or the text unchanged where it finds no program inside. They are applied from the outermost inwards.
#
# - Nothing is judged: whether the program is right, or even parses, is the verifier's decision.
# - The statements themselves are never edited; only text around and between them is removed.
# - The later of two programs counts, as LMs correct themselves; one that returns is preferred to a truncated one.
# - The work is linear in the length of any answer: no pattern reads a character more than a few times, and of repeated
#   wrappings, only the last few are tried.

ANSWERS = ("impl", "output_impl")
"""The fields that hold a program as an answer."""

MAX_CHARACTERS = 200_000
"""The number of characters, from the end of an answer, that are read; a program has 20,000 at most."""
MAX_CANDIDATES = 16
"""The number of keys, or functions, from the end of an answer, that are tried."""

MAX_MARKER_INDENT = 2_000
"""The number of characters before a field marker, on its line, that are checked."""
MAX_PARSED = 40_000
"""The number of characters that are parsed as Python."""

_ORNAMENT = r"(?:[^\w\s#\"'`()\[\]{},:=]{1,3}|\d++[ \t]*+[.):|]|(?:Step|Line|L)[ ]?\d++[.:)]|In[ ]?\[\d++\]:)[ \t]++"
_PREFIX = rf"^[ \t]*+(?:{_ORNAMENT})?(?:\*\*|[`\"'])?"
_NAME = r"[(\[*]*+\w++[)\]]*+"
_NAMES = rf"{_NAME}(?:[ \t]*+,[ \t]*+{_NAME})*+,?(?:[ \t]*+:[ \t]*+[\w.\[\], ]++)?[ \t]*+"
_STATEMENT = re.compile(
    rf"{_PREFIX}(?:{_NAMES}=(?!=)[\s\[(]*+(?:step[ \t]*+\.|[A-Z]\w*+\([^\n]*\.apply\()"
    r"|\w++\.append\([ \t]*+step\."
    r"|return\b[^\n]*\bstep\.\w++\()",
    re.MULTILINE,
)
_RETURN = re.compile(rf"{_PREFIX}return\b(?:[ \t]++[\w(\[*][^\n]*+|[ \t]*+[(\[][^\n]*+)$", re.MULTILINE)
_HEADING = re.compile(r"[ \t]*+#{2,6}[ \t]++")
_PLAIN_RETURN = re.compile(
    r"^[ \t]*+return\b[ \t]*+[(\[]?[ \t]*+\w++(?:[ \t]*+,[ \t]*+\w++)*+[ \t]*+,?[)\]]?`?[ \t]*+(?:#.*+)?$", re.MULTILINE
)
_CODE = re.compile(
    rf"{_PREFIX}(?:{_NAMES}=(?!=)|return\b|for\b.*:|\w++\.append\(|#|\"\"\"|'''|[)\]}}])|^\s*+$", re.MULTILINE
)

_THOUGHT_END = re.compile(
    r"[<◁\[]/(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reasoning|analysis|scratchpad)[>▷\]]", re.IGNORECASE
)
_MARKER = re.compile(r"(?<!\*)\**+\[\[\s*+#++\s*+(\w++)[\s#]*+\]\]\**+")
_CUT_MARKER = re.compile(r"\[\[\s*+#[^\]\n]*+\Z")
_TAG = re.compile(
    r"<(impl|output_impl|program|code|answer|solution|parameter)(?: [^<>]*)?>(.*?)(?:</\1>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]*+(?:[-*>]|\d++\.)?[ \t]*+(?:`{3,}+|~{3,}+)[ \t]*+([\w+.#-]*+)[^`\n]*+$", re.MULTILINE)
_KEY = re.compile(
    r"""^(?P<indent>[ \t]*+)(?:-[ ])?(?:.*[{,])?[ \t]*+
        ["'*`]*+(?:(?:output_)?impl(?:ementation)?|program|answer|solution|assistant)["'*`]*+[ \t]*+
        (?::|=(?=[ \t]*+(?:\"""|\'\'\')))(?P<rest>.*)$""",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_BLOCK = re.compile(r"(?:[|>][-+\d]*|\**)[ \t]*(?:#.*)?$")
_QUOTED_END = re.compile(r"\"[\s\]}]*+\Z")
_SINGLE_QUOTE = re.compile(r"(?<!')'(?!')")
_OTHER_KEY = re.compile(r"^[ \t]*[\"']?\w+[\"']?:(?:[ \t]|$)", re.MULTILINE)
_SELF = re.compile(r"\(\s*self\b\s*,?\s*")
_BULLET = re.compile(rf"^[ \t]*{_ORNAMENT}")
_QUOTED_LINE = re.compile(r"([ \t]*)(\*\*|[\"'])(.*)\2[ \t]*")
_OPENING_FENCE = re.compile(r"^([ \t]*`{3,}+)(?:python|py)?[ \t]*(?=\S.*\bstep\.|return\b)", re.MULTILINE)
_CLOSING_FENCE = re.compile(r"(?<=[^\s`#])[ \t]*(`{3,})[ \t]*$", re.MULTILINE)
_LINE_END = re.compile(r"\r\n?|[\u2028\u2029]")
_INVISIBLE = re.compile(r"[\ufeff\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\u00ad]")
_ESCAPED = re.compile(r"&(?:#\d{1,7}|#x[\da-fA-F]{1,6}|lt|gt|amp|quot);")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[\da-fA-F]{1,6}|[a-zA-Z]\w{1,30});")
_CONTROL = re.compile(r"<\|[^|>\n]*\|>|</?s>|<br[ ]*/?>\n?")
_ESCAPE = re.compile(r"\\([_()\[\]=*.,])")
_SPACE = re.compile(r"[^\S\n\t ]")
_DEF = re.compile(
    r"^(?P<indent>[ \t]*)def[ \t]+(?P<name>\w+)[ \t]*(?P<parameters>\((?:[^()]|\([^()]*\))*\))[^:\n]*:(?P<rest>.*)$",
    re.MULTILINE,
)


def extract_program(text: str) -> str:
    """The program in an LM's answer; if nothing resembles one, the answer itself, for the parser to reject."""
    answer = _tidy(text[-MAX_CHARACTERS:])
    for unwrap in (_after_thought, _section, _tagged, _fenced, _value, _function):
        answer = unwrap(answer)
    return _statements(answer) if holds_program(answer) else text


def holds_program(text: str) -> bool:
    """Whether there is a statement of the language in the text, at the beginning of a line."""
    return bool(_STATEMENT.search(text) or _PLAIN_RETURN.search(text))


def sections(text: str) -> dict[str, str]:
    """The text after each field marker `[[ ## name ## ]]`; of several with one name, the last that is not empty."""
    found: dict[str, str] = {}
    for name, content in _sections(_tidy(text[-MAX_CHARACTERS:])):
        if content.strip() or name not in found:
            found[name] = content.strip("\n")
    return found


def _sections(text: str) -> list[tuple[str, str]]:
    """The fields by their markers, with the text after each; a marker in a comment of a program is not one."""
    markers, line = [], 0
    for match in _MARKER.finditer(text):
        line = max(line, text.rfind("\n", line, match.start()) + 1)
        before = text[line : match.start()] if match.start() - line < MAX_MARKER_INDENT else ""
        if "#" not in before or _HEADING.fullmatch(f"{before} "):
            markers.append(match)
    ends = [*(match.start() for match in markers), len(text)][1:]
    return [(match[1], text[match.end() : end]) for match, end in zip(markers, ends, strict=True)]


def _best(candidates: Iterable[str], otherwise: str) -> str:
    """The last candidate that contains a complete program, else the last with a part of one, else `otherwise`.

    The last candidate comes first.
    """
    part = None
    for candidate in candidates:
        if holds_program(candidate):
            if _RETURN.search(candidate):
                return candidate
            part = candidate if part is None else part
    return otherwise if part is None else part


def _tidy(text: str) -> str:
    """Normalizes line ends, spaces and tabs to Python's; no invisible characters, no control tokens of chat models."""
    text = _LINE_END.sub("\n", text)
    text = _INVISIBLE.sub("", text)
    if _ESCAPED.search(text):
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    text = "".join(_without_control(line) for line in text.splitlines(keepends=True)) if "<" in text else text
    text = _ESCAPE.sub(r"\1", text)
    if "\n" not in text.strip():
        text = text.replace("\\n", "\n") if '"' not in text else text
    text = _SPACE.sub(" ", text).expandtabs(4)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _without_control(line: str) -> str:
    """The line with its control tokens as line ends; those in a comment are removed, as they end no line there."""
    code, mark, comment = line.partition("#")
    return _CONTROL.sub("\n", code) + mark + _CONTROL.sub("", comment.rstrip("\n")) + "\n" * comment.endswith("\n")


def _after_thought(text: str) -> str:
    """The answer after the last end of a thought, unless all of its programs stand before it."""
    *_, rest = _THOUGHT_END.split(text)
    return rest if holds_program(rest) else text


def _section(text: str) -> str:
    text = text.rstrip()
    last = text.rfind("[[")
    if last >= 0 and _CUT_MARKER.match(text, last):
        text = text[:last]
    return _best((content for name, content in reversed(_sections(text)) if name in ANSWERS), text)


def _tagged(text: str) -> str:
    return _best((match[2] for match in reversed([*_TAG.finditer(text)])), text)


def _fenced(text: str) -> str:
    """The best of the fenced blocks; a labelled fence always opens one, a bare one opens or closes."""
    # A fence may share its line with the program's first or last line.
    text = _OPENING_FENCE.sub(r"\1\n", text)
    text = _CLOSING_FENCE.sub(r"\n\1", text)
    before, *parts = _FENCE.split(text)
    inside, outside = list[str](), [before]
    is_open = False
    for label, part in zip(parts[::2], parts[1::2], strict=True):
        is_open = bool(label) or not is_open
        (inside if is_open else outside).append(_patched(part) if label in ("diff", "patch") else part)
    return _best(reversed(inside), _best(reversed(outside), text))


def _patched(patch: str) -> str:
    """The lines after a patch."""
    return "\n".join(line[1:] for line in patch.split("\n") if not line.startswith("-"))


def _value(text: str) -> str:
    """The value of the key `impl`, in any style of YAML or JSON."""
    keys = [*_KEY.finditer(text)][-MAX_CANDIDATES:]
    return _best((_value_at(key, text[key.end() + 1 :]) for key in reversed(keys)), text)


def _value_at(key: re.Match[str], following: str) -> str:
    rest = key["rest"].strip()
    if rest[:3] in ('"""', "'''"):
        return f"{rest[3:]}\n{following}".split(rest[:3])[0]
    if rest[:1] in ('"', "["):
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(f"{rest}\n{following}")
            value = "\n".join(map(str, value)) if isinstance(value, list) else str(value)
        except (ValueError, RecursionError):
            # It is truncated, or has needless escapes.
            value = _without_end(f"{rest[1:]}\n{following}").replace("\\n", "\n")
        return value if "\n" in value else value.replace("\\n", "\n")
    if rest[:1] == "'":
        return _SINGLE_QUOTE.split(f"{rest[1:]}\n{following}", maxsplit=1)[0].replace("''", "'")
    # A block that is not indented ends at the next key of the mapping.
    lines = _indented(following, len(key["indent"])) or _OTHER_KEY.split(following, maxsplit=1)[0].split("\n")
    return textwrap.dedent("\n".join(lines)) if _BLOCK.match(rest) else "\n".join([rest, *lines])


def _without_end(text: str) -> str:
    """The text without the quotation mark, brackets and braces at its end."""
    end = text.rfind('"')
    return text[:end] if end >= 0 and _QUOTED_END.match(text, end) else text


def _indented(text: str, indent: int) -> list[str]:
    """The lines before the first that is indented by no more than `indent`."""
    lines = text.split("\n")
    ends = (number for number, line in enumerate(lines) if line.strip() and _indent(line) <= indent)
    lines = lines[: next(ends, len(lines))]
    return lines if any(line.strip() for line in lines) else []


def _function(text: str) -> str:
    """The function that holds the program, under the name `body`; surrounding text is removed."""
    matches = [*_DEF.finditer(text)]
    bodies = [match for match in matches if match["name"] == "body"][-MAX_CANDIDATES:]
    for match in [*reversed(bodies), *reversed(matches[-MAX_CANDIDATES:])]:
        block = "\n".join([match["rest"], *_indented(text[match.end() + 1 :], len(match["indent"]))]).rstrip()
        if holds_program(block) if match["name"] == "body" else _STATEMENT.search(block):
            parameters = _SELF.sub("(", match["parameters"])
            return textwrap.dedent(f"{match['indent']}def body{parameters}:{block}")
    return text


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
    """The line without a bullet, number, quotation mark or backticks around the statement."""
    if not _CODE.match(line):
        return line
    bare = _BULLET.sub("", line, count=1)
    bare = bare if bare != line and _CODE.match(bare) else line
    quoted = _QUOTED_LINE.fullmatch(bare)
    bare = quoted[1] + quoted[3] if quoted else bare
    return bare.replace("`", "") if bare.strip()[:1] == "`" or bare.count("`") % 2 else bare


def _last_program(lines: list[str]) -> tuple[int, int]:
    """The start and end of the last program that returns; without a return, those of the statements."""
    begin, spans, ends = 0, [], _closing(lines)
    for number, line in enumerate(lines):
        if number >= begin and _RETURN.match(line):
            spans.append((begin, ends[number]))
            begin = ends[number]
    statements = [number for number, line in enumerate(lines) if _STATEMENT.match(line)]

    def first_in(span: tuple[int, int]) -> int | None:
        place = bisect_left(statements, span[0])
        return statements[place] if place < len(statements) and statements[place] < span[1] else None

    whole = [span for span in spans if first_in(span) is not None]
    if not whole and statements:
        # It is truncated before its return: everything after its first statement is kept.
        return _first(lines, statements[0]), len(lines)
    if not spans:  # a statement that only whole lines together make
        return 0, len(lines)
    span = (whole or spans)[-1]
    first = first_in(span)
    return _first(lines, span[1] - 1 if first is None else first, span[0]), span[1]


def _first(lines: list[str], number: int, bound: int = 0) -> int:
    """The first line of the program whose first primitive is in line `number`: lists and comments above included."""
    indent = _indent(lines[number])
    for index in range(number - 1, bound - 1, -1):
        if not _CODE.match(lines[index]) or _HEADING.match(lines[index]) or _indent(lines[index]) > indent:
            break
        number = index if lines[index].strip() else number
    return number


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _closing(lines: Sequence[str]) -> list[int]:
    """For each line, the line after the statement that begins there, whose brackets may span lines."""
    ends = [number + 1 for number in range(len(lines))]
    open_: list[tuple[int, int]] = []  # lines whose brackets are not closed yet, and how many were open before each
    depth = 0
    for number, line in enumerate(lines):
        code = line.split("#", 1)[0]
        before = depth
        depth += sum(code.count(bracket) for bracket in "([{") - sum(code.count(bracket) for bracket in ")]}")
        open_.append((number, before))
        # Those above have more open before them than those below, or are closed by the same line.
        while open_ and depth <= open_[-1][1]:
            ends[open_.pop()[0]] = number + 1
    return ends


def _without_prose(lines: list[str]) -> list[str]:
    """The lines that are code, including those inside open brackets."""
    kept: list[str] = []
    ends, number = _closing(lines), 0
    while number < len(lines):
        code = _CODE.match(lines[number])
        end = ends[number] if code else number + 1
        kept += lines[number:end] if code else []
        number = end
    return kept


def _parses(lines: list[str]) -> bool:
    text = textwrap.dedent("\n".join(lines))
    with suppress(SyntaxError, ValueError, MemoryError, RecursionError):
        return len(text) <= MAX_PARSED and bool(parse_python(text))
    return False


# --- between signatures and chat messages: values are written as YAML, programs are found in any answer ---------------


def render_task(task: Task) -> str:
    """A task as prompts show it: YAML, without its solution; with a note on formats where it names any but fp32."""
    return format_note(task) + task.statement.rstrip()


class YAMLAdapter(dspy.ChatAdapter):
    """Writes structured inputs as YAML, and finds the program in any answer that holds one.

    An answer without a program is not requested again: its text becomes the program, which the verifier rejects.
    Signatures that ask for no program are parsed as `dspy.ChatAdapter` does.

    Args:
        callbacks: As DSPy's.
        extract: The program in an answer, of which it gets the last 200,000 characters, by the language asked for.
    """

    def __init__(
        self, callbacks: list[BaseCallback] | None = None, extract: Callable[[str], str] = extract_program
    ) -> None:
        super().__init__(callbacks=callbacks, use_json_adapter_fallback=False)
        self._extract = extract

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """The instructions unchanged, then the fields."""
        return _system_message(signature)  # type: ignore[arg-type] # DSPy ships no types.

    def format_user_message_content(
        self,
        signature: type[dspy.Signature],
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,
    ) -> str:
        """The inputs below their markers, also those of a demonstration."""
        fields = signature.input_fields
        rendered = {name: _shown(_rendered(inputs[name], fields[name])) for name in fields if name in inputs}
        text: str = super().format_user_message_content(signature, rendered, prefix, suffix, main_request)
        return f"{text}\n\n{_DEARER.format(**inputs['dearer'])}" if "dearer" in inputs else text

    def format_demos(self, signature: type[dspy.Signature], demos: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Demonstrations, their programs as canonical texts."""
        messages: list[dict[str, Any]] = super().format_demos(signature, [_canonical(demo) for demo in demos])
        return messages

    def format_assistant_message_content(
        self, signature: type[dspy.Signature], outputs: dict[str, Any], missing_field_message: str | None = None
    ) -> str:
        """A demonstration's answer."""
        shown = {name: _shown(value) for name, value in outputs.items()}
        text: str = super().format_assistant_message_content(signature, shown, missing_field_message)
        return text

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """The answer's fields.

        Raises:
            AdapterParseError: The signature asks for no program, and a field is missing or of another type.
        """
        programs = [name for name in signature.output_fields if name in ANSWERS]
        if not programs:
            parsed: dict[str, Any] = super().parse(signature, completion)
            return parsed
        found = sections(completion)
        others = {name: found.get(name, "") for name in signature.output_fields}
        return others | {name: self._extract(completion[-MAX_CHARACTERS:]) for name in programs}


@functools.cache
def _system_message(signature: type[dspy.Signature]) -> str:
    # DSPy cleans the instructions whenever they are read, which takes longer than everything else in a request.
    adapter = YAMLAdapter()
    fields = adapter.format_field_description(signature)
    return f"{signature.instructions}\n\n{fields}\n{adapter.format_field_structure(signature)}"


def _canonical(demo: Mapping[str, Any]) -> dict[str, Any]:
    task = demo.get("task")
    statement = str(task if isinstance(task, Mapping) else getattr(task, "statement", ""))
    shown = {name: shown_program(str(value), statement) if name in ANSWERS else value for name, value in demo.items()}
    return shown | ({"dearer": _canonical({**demo["dearer"], "task": task})} if "dearer" in demo else {})


def _shown(value: Any) -> Any:
    """A field's value as a request shows it: nothing in it divides the request."""
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    return for_prompt(value) if isinstance(value, str) else value


def _rendered(value: Any, field: FieldInfo) -> Any:
    """Structured values as YAML, or in the field's format; text, and other values that DSPy can write, unchanged."""
    if field.annotation is Task and isinstance(value, Mapping):
        # Demonstrations that were stored as JSON.
        value = Task.model_validate(value)
    if isinstance(value, Task):
        extra = field.json_schema_extra
        bare = isinstance(extra, Mapping) and extra.get(FORM) == SCRIPT
        return render_script(value) if bare else render_task(value)
    if (statement := getattr(value, "statement", None)) is not None:
        return str(statement).rstrip()  # a task of another language
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    return yaml_format.dump(value).rstrip() if isinstance(value, dict) else value
