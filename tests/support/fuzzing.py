"""Random edits of programs, answers, task files and the like, for whatever reads them from elsewhere.

Each target takes a text and raises nothing but the error that it documents; Hypothesis shrinks a text that breaks one.
"""

import json
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from optimizers import Entry, Experience, TokenCount
from pipeline.actions.run_sweep import read_spec
from pipeline.agent.agent import Agent
from pipeline.agent.compiled import make_agent, parse_program, save_program
from pipeline.base.config import cluster_address
from pipeline.base.errors import UsageError
from pipeline.record.request import parse_experience
from signatures.adapter import extract_program, holds_program, sections
from step_runtime.base.errors import TaskError
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import dump_task
from step_runtime.verification.verify import Verifier
from tests.support.completions import BODY, DRAFT, ECHO, PROGRAM, WRAPPED
from tests.support.oracles import solved
from tests.support.samples import GENERAL_SOLUTION, general
from tests.support.text_edits import EDITS, TASK, graph_key, program

PIECES = (
    "\n", "\r", "\t", " ", "    ", "\0", "\x0b", "\x1b[2J", "\u202e", "\u2028", "\ud800", "\uff08", "\U0001d5d0", "é",
    "#", "'", '"', '"""', "\\", "(", ")", "((((((((", "[", "]", "{", "}", ",", ":", ";", "=", ":=", "*", "**",
    "-" * 50, ".", "0x" + "f" * 500, "1" * 5000, "1e999", "1_000", "10**9", "nan", "None", "True", "lambda: 0",
    "yield", "await x", "global", "return", "return E0", "for i in range(3):", "while True:", "if M:",
    "def body(E0):", "import os", "class A: pass", "step.", "step.Zip()", ".apply(", "step.Map(fn=fn)",
    "step.Copy().apply(E0)", "E0", "E1", "M", "N", "M_value", "zip(", "*E0", "f'{x}'", "[x for x in E0]",
    "[[ ## impl ## ]]", "[[ ## completed ## ]]", "```", "```python", "<think>", "</think>", "impl:", "impl: |", "- ",
    "&a ", "*a", "<<: *a", "!!python/object/apply:os.system ['x']", "---", "%YAML 9", "? ", "~", "@", "[" * 300,
    "{a: " * 100, "null", "NaN", "-Infinity", '"a": ', "&#x41;", "&lt;", "\\u0041", "\\n", "x" * 3000,
)  # fmt: skip
"""What parsers stumble over."""

RIGHT = "a = step.Map(fn=fn_inc).apply(E0)\nreturn step.Map(fn=fn_twice).apply(a)"

_edits = st.lists(
    st.tuples(
        st.sampled_from(("insert", "replace", "delete", "repeat", "swap", "cut")),
        st.floats(0, 1),
        st.floats(0, 1),
        st.one_of(st.sampled_from(PIECES), st.text(max_size=8)),
    ),
    max_size=4,
)


def edited(text: str, edits: Sequence[tuple[str, float, float, str]]) -> str:
    """The text after edits, whose places are fractions of its length."""
    for kind, one, other, piece in edits:
        start = int(one * len(text))
        end = min(len(text), start + int(other * 40))
        match kind:
            case "insert":
                text = text[:start] + piece + text[start:]
            case "replace":
                text = text[:start] + piece + text[end:]
            case "delete":
                text = text[:start] + text[end:]
            case "repeat":
                text = text[:end] + text[start:end] * 3 + text[end:]
            case "swap":
                text = text[:start] + text[end : end + 40] + text[start:end] + text[end + 40 :]
            case _:
                text = text[:end] if other < 0.5 else text[start:]
    return text


def renamed(seed: int, edits: Sequence[tuple[int, int]]) -> str:
    """One of a few small programs after edits that often leave it the same program."""
    text = program(Random(seed))
    for kind, number in edits:
        text = EDITS[kind](text, Random(number))
    return text


# --- what is read -----------------------------------------------------------------------------------------------------


@cache
def _general() -> Verifier:
    return Verifier(general())


@cache
def _pairs() -> Verifier:
    return Verifier(TASK)


def parse(text: str) -> str:
    """A verdict at one of the stages, which is no fault of the verifier."""
    verdict = _general().verify(text)
    assert not any(diagnostic.code == "internal" for diagnostic in verdict.diagnostics), verdict
    verdict.render(text)
    return verdict.stage or "passed"


def load(text: str) -> str:
    """A task, or an error that names the place."""
    try:
        task = loads_task(text)
    except TaskError as error:
        assert str(error)
        return "refused"
    assert loads_task(dump_task(task)) == task
    return "loaded"


def extract(text: str) -> str:
    """A program, which is part of the answer, or the answer."""
    program = extract_program(text)
    sections(text)
    return "program" if holds_program(program) else "text"


def make(text: str) -> str:
    """An agent, or an error that names the place."""
    try:
        make_agent(parse_program(text, "program.json"), "program.json")
    except UsageError as error:
        assert str(error).startswith("program.json")
        return "refused"
    return "made"


_VERDICTS: dict[str, tuple[str, bool]] = {}


def identify(text: str) -> str:
    """A key whose programs have all one verdict; edits of a few programs meet it often."""
    if len(_VERDICTS) > 100_000:
        _VERDICTS.clear()
    key, passed = graph_key(text, TASK), _pairs().verify(text).passed
    other, known = _VERDICTS.setdefault(key, (text, passed))
    assert passed == known, f"one key, two verdicts:\n{other}\n---\n{text}"
    return "met before" if other != text else "new"


def _programs() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.json"
        agent = Agent("none")
        save_program(agent, path)
        saved = json.loads(path.read_text(encoding="utf-8"))
    task, text = next(solved())
    demonstration = {"name": task.name, "task": task.statement.split("\n"), "fields": {"impl": text.split("\n")}}
    for predictor in saved["predictors"].values():
        predictor["demonstrations"] = [demonstration]
    return [json.dumps(saved, indent=1)]


def read_learned(text: str) -> str:
    """An experience, whose programs could be demonstrations, or an error that names the place."""
    try:
        experience = parse_experience(text, "experience.json")
    except UsageError as error:
        assert str(error).startswith("experience.json")
        return "refused"
    rates = [entry.rate for entry in experience.entries]
    assert all(0 < rate <= 1 for rate in rates)
    return "read"


def read_sweep(text: str) -> str:
    """The runs of a sweep, or an error that names file and line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            spec = read_spec(path)
        except UsageError as error:
            assert str(error).startswith(str(path))
            return "refused"
    assert spec.combinations
    assert [each.configuration for each in spec.combinations]
    return "read"


def read_address(text: str) -> str:
    """An address, which is returned as it is, or an error that says what was expected."""
    try:
        assert cluster_address(text) == text
    except ValueError as error:
        assert "expected tcp://HOST:PORT" in str(error)
        return "refused"
    assert text.isascii()
    assert text.isprintable()
    return "address"


def _experiences() -> list[str]:
    entries = [
        Entry(task.name or "", {"task": task}, {"impl": text}, 3, 8, 0.7, 0, 0.7, 1, TokenCount())
        for task, text in islice(solved(), 3)
    ]
    experience = Experience(tuple(entry.task_key for entry in entries), tuple(entries))
    return [json.dumps(experience.to_dict(), indent=1), json.dumps(experience.to_dict())]


SWEEPS = [
    "base: {optimizer: adaptive, samples: 16, lm: embedded}\nsweep:\n  seed: [0, 1]\n  selection: [random, coverage]\n",
    "name: one\nbase:\n  lm: openai/m\n  temperatures: [0.4, 0.7]\nsweep: {samples: [1, 8]}\n",
]

TARGETS: dict[str, tuple[Callable[[str], str], Callable[[], list[str]]]] = {
    "parser": (parse, lambda: [GENERAL_SOLUTION, BODY, PROGRAM, DRAFT, "return E0"]),
    "tasks": (load, lambda: [*(dump_task(task) for task, _ in islice(solved(), 6)), ECHO]),
    "extractor": (extract, lambda: [*WRAPPED.values(), ECHO, DRAFT]),
    "programs": (make, _programs),
    "experience": (read_learned, _experiences),
    "sweeps": (read_sweep, lambda: SWEEPS),
    "addresses": (read_address, lambda: ["local:4", "tcp://host.example:8786", "tls://[::1]:8786", "none"]),
    "identity": (identify, lambda: [RIGHT]),
}
"""What reads a text from elsewhere, and texts that it accepts."""


@dataclass
class Figures:
    """What came of one target's texts: `outcomes` by name, and the most seconds that one took."""

    texts: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        outcomes = ", ".join(f"{count:,} {name}" for name, count in self.outcomes.most_common())
        return f"{self.texts:,} texts in {self.seconds:,.0f} s, the slowest {self.slowest:.2f} s: {outcomes}"


def fuzz(name: str, examples: int, seed: int) -> Figures:
    """Tries that many texts on a target.

    Raises:
        Exception: What the target raises, on the shortest text that was found to break it.
    """
    target, seeds = TARGETS[name]
    figures, start = Figures(), time.perf_counter()
    texts = st.builds(edited, st.sampled_from(seeds()), _edits)
    if name == "identity":
        kinds = st.tuples(st.integers(0, len(EDITS) - 1), st.integers(0, 9))
        texts = st.one_of(texts, st.builds(renamed, st.integers(0, 99), st.lists(kinds, max_size=3)))

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(texts)
    def attempt(text: str) -> None:
        began = time.perf_counter()
        outcome = target(text)
        figures.texts += 1
        figures.outcomes[outcome] += 1
        figures.slowest = max(figures.slowest, time.perf_counter() - began)

    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        attempt()
    finally:
        logging.disable(before)
    figures.seconds = time.perf_counter() - start
    return figures
