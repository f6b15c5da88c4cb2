"""Pages whose commands are run: the text below a command is what it prints.

A page shows files in blocks titled with their names, commands in blocks of `sh`, and what a command prints in the block
of `text` that follows it. Commands of the pipeline run in this process, in a temporary folder with the files shown so
far. A command that no block of `text` follows is not run.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

PAGES = ("start/first-operator.md",)
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
PREFIX = "python -m pipeline."


def files(docs: Path) -> dict[Path, str]:
    """The pages by path, with the outputs that their commands have now."""
    return {docs / name: renewed((docs / name).read_text(encoding="utf-8")) for name in PAGES}


def renewed(page: str) -> str:
    """The page with each command's output replaced by what it prints.

    Raises:
        ValueError: A block of `text` follows none of commands.
    """
    with tempfile.TemporaryDirectory() as scratch, _inside(Path(scratch)):
        parts, end, commands = [], 0, ""
        for block in BLOCK.finditer(page):
            language, title, content = block.groups()
            parts.append(page[end : block.start(3)])
            end = block.start(3)
            if title:
                Path(title).write_text(content, encoding="utf-8")
            elif language == "sh":
                commands = content
            elif language == "text":
                if not commands:
                    raise ValueError(f"a block of text without a command before it:\n{content}")
                parts.append("".join(_run(line) for line in commands.splitlines()))
                commands, end = "", block.end(3)
        return "".join([*parts, page[end:]])


def _run(command: str) -> str:
    """What a command of the pipeline prints, errors included."""
    words = shlex.split(command, comments=True)
    if not command.startswith(PREFIX):
        raise ValueError(f"{command}: expected a command that starts with `{PREFIX}`")
    module = importlib.import_module(words[2])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        importlib.import_module("pipeline.base.errors").run_command(module.NAME, module.main, words[3:])
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines()) + "\n"


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
