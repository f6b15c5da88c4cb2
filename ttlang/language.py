"""TT-Lang behind the seam of `pipeline.languages`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.languages import Diagnostic, Language, TaskError, TextTask, Verdict, fenced_blocks, read_text_task
from ttlang import allowed

REVISION = "1"
"""Of this adapter; a new one voids verdicts that are kept."""
TILE = 32
_KEYS: Mapping[str, type] = {"goal": str, "inputs": dict, "outputs": dict, "sizes": list, "reference": str}


class TTLang(Language):
    """See `pipeline.languages.language` for the members.

    Programs are run as Python, in confined cells only, after `allowed` has refused all but a part of the language.
    """

    name = "ttlang"
    stages: Sequence[str] = ("parse", "static", "run", "value")
    executes = True
    folder = Path(__file__).parent
    preload: Sequence[str] = ("ttlang.simulation",)

    @cached_property
    def version(self) -> str:
        """Of the adapter, the simulator and Python, on which the simulator's implicit waits depend."""
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"{REVISION}, tt-lang-sim {version('tt-lang-sim')}, python {python}"

    def task(self, text: str, name: str, source: str) -> TextTask:
        """A task names inputs and outputs with their dims, sets of sizes in multiples of 32, and a reference.

        Raises:
            TaskError: It is none.
        """
        task = read_text_task(text, name, source, _KEYS)
        for wrong in _wrong(task.content):
            raise TaskError(f"{source}:1: {wrong}")
        return task

    def extract(self, answer: str) -> str:
        """The last fenced block with an operation, else the last one; without a fence, the text from an import on."""
        answer = answer.replace("\r\n", "\n")
        if fenced := fenced_blocks(answer):
            return next((each for each in reversed(fenced) if "ttl.operation" in each), fenced[-1]).strip() + "\n"
        start = re.search(r"^(?:import ttl\b|@ttl\.operation)", answer, re.MULTILINE)
        return answer[start.start() if start else 0 :].strip() + "\n"

    def check(self, task: TextTask, text: str) -> Sequence[Diagnostic]:
        """What the allow-list refuses."""
        return allowed.checked(text).found

    def judge(self, task: TextTask, text: str, limits: Any) -> Verdict:
        """The verdict of the simulator, in a worker."""
        from ttlang import simulation

        return simulation.judge(task, text)

    def key(self, task: TextTask | None, text: str) -> str:
        """The syntax tree up to renaming."""
        return allowed.key(text)

    def structures(self, task: TextTask, text: str | None) -> frozenset[str]:
        """The reference's functions, the number of inputs, and what of the language a program uses."""
        words = re.findall(r"\.(\w+)\(|(@|\*\*)", task.content["reference"])
        found = {f"ref {name or operator}" for name, operator in words}
        found.add(f"{len(task.content['inputs'])} inputs")
        tree = None if text is None else allowed.checked(text).tree
        return frozenset(found if tree is None else found | allowed.paths(tree))


def _wrong(content: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a task's content."""
    inputs, outputs = content["inputs"], content["outputs"]
    shapes = {**inputs, **outputs}
    if not inputs or not outputs or len(shapes) < len(inputs) + len(outputs):
        yield "inputs, outputs: expected names, each once, with lists of dims"
    for name, dims in shapes.items():
        if not str(name).isidentifier() or not isinstance(dims, list) or len(dims) != 2:
            yield f"{name}: expected a name with a list of two dims, found {dims!r}"
            return
    named = {dim for dims in shapes.values() for dim in dims if isinstance(dim, str)}
    if not content["sizes"]:
        yield "sizes: expected one set of sizes or more, such as {R: 64, C: 96}"
    for sizes in content["sizes"]:
        if not isinstance(sizes, dict) or set(sizes) != named:
            yield f"sizes: expected a size for each of {', '.join(sorted(named))}, found {sizes!r}"
        elif not all(isinstance(size, int) and size > 0 and size % TILE == 0 for size in sizes.values()):
            yield f"sizes: expected multiples of {TILE}, found {sizes!r}"


if find_spec("ttl") is None:
    raise UsageError("--language ttlang: tt-lang-sim is not installed; pip install 'adaptive-step[ttlang]'")
TTLANG = TTLang()
