"""Languages of packages that tests install for themselves: a module, and the metadata that declares it."""

import sys
from pathlib import Path

import pytest

from pipeline.languages import registry


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> None:
    """Installs a package with one module, `NAME_language`, whose `LANGUAGE` is the language of a name."""
    module = f"{name.replace('-', '_')}_language"
    (folder / f"{module}.py").write_text(code + "\n", encoding="utf-8")
    declare(folder, monkeypatch, name, f"{module}:LANGUAGE")


def declare(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Installs the metadata of a package in a folder, whose entry point names a language."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    entry = f"[adaptive_step.languages]\n{name} = {value}\n"
    (metadata / "entry_points.txt").write_text(entry, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, value.partition(":")[0], raising=False)
    registry.find.cache_clear()


COUNTER = """
from pathlib import Path

from pipeline.languages import Diagnostic, Language, Span, Verdict, read_text_task

WORDS = ("up", "down", "crash", "hang", "fail", "nothing", "nowhere", "silent", "strings")


class Counter(Language):
    name = "counter"
    version = "1"
    stages = ("parse", "run", "value")
    folder = Path(__file__).parent / "counter"

    def task(self, text, name, source):
        return read_text_task(text, name, source, {"goal": str, "want": int})

    def extract(self, answer):
        lines = [line.strip() for line in answer.splitlines()]
        return "\\n".join(line for line in lines if line in WORDS) or answer

    def check(self, task, text):
        return [
            Diagnostic("parse", "word", f"expected up or down, found {line!r}", Span(number, 1, number, 1 + len(line)))
            for number, line in enumerate(text.splitlines(), 1)
            if line not in WORDS
        ]

    def judge(self, task, text, limits):
        found = tuple(self.check(task, text))
        if found:
            return Verdict(passed=False, stage="parse", diagnostics=found)
        words = text.split()
        if "crash" in words:
            import os
            os._exit(3)
        while "hang" in words:
            pass
        if "fail" in words:
            raise RuntimeError("the counter is broken")
        if "nothing" in words:
            return None
        if "nowhere" in words:
            return Verdict(passed=False, stage="elsewhere")
        if {"silent", "strings"} & {*words}:
            return Verdict(passed=False, stage="run", diagnostics=tuple(word for word in words if word == "strings"))
        value = words.count("up") - words.count("down")
        if value == task.content["want"]:
            return Verdict(passed=True)
        found = Diagnostic("value", "value", f"expected {task.content['want']}, got {value}")
        return Verdict(passed=False, stage="value", diagnostics=(found,))

    def key(self, task, text):
        words = text.split()
        return f"{words.count('up') - words.count('down')} {sorted(set(words) - {'up', 'down'})}"

    def structures(self, task, text):
        return frozenset(("" if text is None else text).split()) | {f"want {task.content['want']}"}


LANGUAGE = Counter()
"""
"""A language of words that count up and down, and words on which its judge crashes, hangs, fails, gives no verdict."""


def install_counter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installs `COUNTER` with a task `two` and prompts; returns the folder of its data."""
    install(folder, monkeypatch, "counter", COUNTER)
    data = folder / "counter"
    for name, text in {
        "tasks/two.yaml": "goal: count to two\nwant: 2\n",
        "tasks/deep/minus.yaml": "goal: count to minus one\nwant: -1\nimpl: |\n  up\n  down\n  down\n",
        "prompts/proposer.md": "Write the words up and down, one a line.\n",
        "prompts/refiner.md": "Repair the words.\n",
    }.items():
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return data
