"""A program as text for people: streams named after their functions, types as comments, chains on one line."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence

from step_runtime.primitives import Accum, Copy, Map, Merge, Primitive, Repeat, RepeatRef, Scan, Zip
from step_runtime.program.graph import Node, Program, StreamId
from step_runtime.program.printer import print_primitive
from step_runtime.tasks.scope import Scope
from step_runtime.verification.check import infer_types

_SUFFIXES = {
    "Promote": "promoted",
    "Flatten": "flat",
    "Reshape": "split",
    "Repeat": "repeated",
    "RepeatRef": "repeated",
    "Bufferize": "buffered",
    "Streamify": "streamed",
    "Partition": "parts",
    "Copy": "copy",
    "Zip": "zipped",
    "Identity": "same",
}
_LONGEST_NAME = 24
_WIDTH = 120


def readable_text(program: Program, scope: Scope) -> str:
    """The text of a program that type-checks; a stream that only a chain of structural primitives uses has no name."""
    return _Writer(program, scope).text()


class _Writer:
    def __init__(self, program: Program, scope: Scope) -> None:
        self._program = program
        self._types = infer_types(program, scope)[0]
        self._taken = {*scope.inputs, *scope.fns, *scope.dims, *scope.lists, *keyword.kwlist, "step"}
        self._taken |= {f"{name}_value" for name in scope.dims}
        self._texts: dict[StreamId, str] = dict(enumerate(program.inputs))
        self._stems: dict[StreamId, str] = dict(enumerate(program.inputs))
        self._consumers = program.consumers()

    def text(self) -> str:
        """All of it."""
        lines = []
        for node in self._program.nodes:
            applied = (
                f"{print_primitive(node.op)}.apply("
                f"{node.op.print_argument([self._texts[stream] for stream in node.inputs])})"
            )
            if self._inlined(node, applied):
                self._texts[node.outputs[0]] = applied
                self._stems[node.outputs[0]] = self._stems[node.inputs[0]]
                continue
            names = self._named(node)
            lines.append((f"{', '.join(names)} = {applied}", self._types_of(node)))
        results = ", ".join(self._texts[stream] for stream in self._program.results)
        return "\n".join([*_aligned(lines), f"return {results}"]) + "\n"

    def _inlined(self, node: Node, applied: str) -> bool:
        """Whether the stream is written where it is used: within a chain of structural primitives, or in one Map."""
        if isinstance(node.op, Map | Accum | Scan | Merge) or len(node.outputs) > 1 or node.op.lists_results:
            return False
        users = self._consumers.get(node.outputs[0], [])
        if len(users) != 1 or node.outputs[0] in self._program.results:
            return False
        user = users[0].op
        chained = type(user).__name__ in _SUFFIXES and not isinstance(user, Copy)
        zipped = isinstance(node.op, Zip) and isinstance(user, Accum | Scan)
        return (chained or zipped) and not isinstance(node.op, RepeatRef) and len(applied) < _WIDTH // 2

    def _named(self, node: Node) -> list[str]:
        if node.op.lists_results:
            name = self._free(self._stem(node))
            self._texts |= {stream: f"{name}[{place}]" for place, stream in enumerate(node.outputs)}
            self._stems |= dict.fromkeys(node.outputs, name)
            return [name]
        names = []
        for stream in node.outputs:
            names.append(self._free(self._stem(node)))
            self._texts[stream] = names[-1]
            self._stems[stream] = self._stem(node) if _function(node.op) else self._stems[node.inputs[0]]
        return names

    def _stem(self, node: Node) -> str:
        function = _function(node.op)
        if function:
            return re.sub(r"\W", "_", function).removeprefix("fn_")[:_LONGEST_NAME].lower() or "made"
        kind = type(node.op).__name__
        origin = self._stems[node.inputs[0]]
        if isinstance(node.op, Zip):
            return self._zip_stem(node)
        if isinstance(node.op, Copy):
            return origin[:_LONGEST_NAME]
        suffix = f"per_{node.op.n}" if isinstance(node.op, Repeat) and str(node.op.n).isidentifier() else None
        return f"{origin[:_LONGEST_NAME]}_{suffix or _SUFFIXES.get(kind, kind.lower())}"

    def _zip_stem(self, node: Node) -> str:
        """What the streams are zipped for, if for one function; else what they are."""
        users = self._consumers.get(node.outputs[0], [])
        while len(users) == 1 and isinstance(users[0].op, Zip):
            users = self._consumers.get(users[0].outputs[0], [])
        if len(users) == 1 and _function(users[0].op):
            return f"{self._stem(users[0])}_operands"
        return f"{'_'.join(self._stems[stream] for stream in node.inputs)[:_LONGEST_NAME]}_zipped"

    def _free(self, stem: str) -> str:
        """A name not taken yet, nor one of Python's own; numbered from 2 on."""
        stem = stem if stem.isidentifier() else f"s_{stem}"
        stem = f"{stem}_" if hasattr(builtins, stem) else stem
        number, name = 1, stem
        while name in self._taken:
            number += 1
            name = f"{stem}{number}" if not stem[-1].isdigit() else f"{stem}_{number}"
        self._taken.add(name)
        return name

    def _types_of(self, node: Node) -> str:
        types = dict.fromkeys(str(self._types[stream]) for stream in node.outputs)
        return f"{len(node.outputs)} of {next(iter(types))}" if node.op.lists_results and types else "; ".join(types)


def _function(op: Primitive) -> str | None:
    functions = op.functions()
    return functions[0].label if functions else None


def _aligned(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Code with its comment, in one column where the lines are short enough; above a line that is too long."""
    fitting = [(code, comment) for code, comment in lines if len(code) + len(comment) + 4 <= _WIDTH]
    widest = max((len(comment) for _, comment in fitting), default=0)
    column = min(max((len(code) for code, _ in fitting), default=0), _WIDTH - 4 - widest)
    found = []
    for code, comment in lines:
        found += [f"{code:<{column}}  # {comment}"] if (code, comment) in fitting else [f"# {comment}", code]
    return found
