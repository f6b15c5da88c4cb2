"""The conformance kit: what the commands rely on, tried by pytest with a language's own tasks and programs.

`python -m pipeline.language check NAME` runs this module's tests, whose parameters `Kit` gives.
"""

from __future__ import annotations

import io
import pickle
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.files import write_text
from pipeline.base.languages import DEFAULT
from pipeline.languages import registry
from pipeline.languages.language import Language, Task
from pipeline.verification import probes
from pipeline.verification.isolation.confinement import Means, current
from pipeline.verification.judge import Request, judge, verdict_in
from pipeline.verification.limits import MEMORY, ProgramLimits, checking_pool, verification_pool
from pipeline.verification.pool import WorkerLost, WorkerPool, cores
from pipeline.verification.shown_programs import Program, Shown, read_shown
from step_runtime.verification.verdict import Verdict

SECRET = "the content of a file of the user's"
REPEATS = 10
"""How often each near-miss is judged among oracles, in each of two orders, each in a process of its own."""
SLOWEST = 1.0
"""Seconds of processor time that the median of warm verdicts may take, and that one answer may take to be read."""
HOSTILE = {
    "nothing": "", "a space": " ", "a null character": "\0", "words": "I am sorry, but I can't help with that.",
    "brackets": "(" * 20_000, "a long line": "x" * 200_000, "lone surrogates": "\ud800\udfff",
    "bidirectional marks": "\u202e\u2066x\u2069", "many lines": "\n" * 20_000,
}  # fmt: skip
WRAPPINGS: dict[str, Callable[[str, str], str]] = {
    "bare": lambda text, name: text,
    "spaces around": lambda text, name: f"\n\n{text}\n\n",
    "a fence": lambda text, name: f"```\n{text.rstrip()}\n```",
    "a fence with the language's name": lambda text, name: f"```{name}\n{text.rstrip()}\n```\n",
    "words and a fence": lambda text, name: f"Here is the program.\n\n```\n{text.rstrip()}\n```\n\nThat is it.",
    "line ends of Windows": lambda text, name: f"```\n{text.rstrip()}\n```\n".replace("\n", "\r\n"),
    "a fence that is not closed": lambda text, name: f"The program:\n```\n{text.rstrip()}\n",
}
DOUBLING = ("```", "x", " ", "\n", "(", "```a\n", "#", "'", "def f():\n", "@")
BANNED = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect", "ctypes.dlopen")
"""Audit events that nothing causes in the caller's process while it reads a program."""


@dataclass(frozen=True)
class Subject:
    """The language under test: `name` is None for the default, `seconds` the processor time of a verdict."""

    language: Language
    name: str | None
    seconds: float
    shown: Shown

    @classmethod
    def of(cls, name: str, seconds: float) -> Subject:
        """The language of a name.

        Raises:
            UsageError: There is none.
        """
        language = registry.find(name)
        return cls(language, None if name == DEFAULT else name, seconds, read_shown(language))


SUBJECT = pytest.StashKey[Subject]()


class Kit:
    """The plugin of pytest that gives the tests below their language and their cases."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def pytest_configure(self, config: pytest.Config) -> None:
        """The fixtures below find the language there."""
        config.stash[SUBJECT] = self._subject

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """A test has a case for each value of the parameter that it names."""
        shown = self._subject.shown
        programs = {
            "oracle": shown.oracles, "near_miss": shown.near_misses, "same": shown.same, "also": shown.also,
            "attack": shown.attacks, "program": shown.programs,
        }  # fmt: skip
        values: dict[str, dict[str, Any]] = {
            "task": shown.tasks, "unread": dict(shown.wrong), "hostile": HOSTILE, "wrapping": WRAPPINGS,
            "doubled": {repr(each): each for each in DOUBLING},
            **{name: {each.place: each for each in found} for name, found in programs.items()},
        }  # fmt: skip
        for name in values.keys() & {*metafunc.fixturenames}:
            metafunc.parametrize(name, [*values[name].values()], ids=[*values[name]])


class Cells:
    """Where programs are judged."""

    def __init__(self, subject: Subject, pool: WorkerPool) -> None:
        self.language, self.pool, self._name = subject.language, pool, subject.name

    def verdict(self, task: Task, text: str, limits: ProgramLimits | None = None) -> Verdict:
        """The verdict; fails the test if the task can't be used or the cell is lost."""
        request = Request(task=task.name, statement=task.statement, text=text, language=self._name, limits=limits)
        future: Future[Verdict] = self.pool.submit(judge, request)
        return verdict_in(self.language.stages, request, future).model_copy(update={"seconds": 0.0})


@pytest.fixture(scope="session")
def subject(pytestconfig: pytest.Config) -> Subject:
    return pytestconfig.stash[SUBJECT]


@pytest.fixture(scope="session")
def language(subject: Subject) -> Language:
    return subject.language


@pytest.fixture(scope="session")
def shown(subject: Subject) -> Shown:
    return subject.shown


@pytest.fixture(scope="session")
def cells(subject: Subject) -> Iterator[Cells]:
    with verification_pool(min(4, cores()), seconds=subject.seconds, language=subject.name) as pool:
        yield Cells(subject, pool)


@pytest.fixture(scope="session")
def others(subject: Subject) -> Iterator[Cells]:
    """Cells that share no process with those above."""
    with verification_pool(1, seconds=subject.seconds, language=subject.name) as pool:
        yield Cells(subject, pool)


def in_words(verdict: Verdict) -> str:
    """A verdict in words."""
    first = next(iter(verdict.diagnostics), None)
    why = f" ({first.code}: {first.message})" if first else ""
    return "passed" if verdict.passed else f"{'unknown' if verdict.unknown else 'failed'} at {verdict.stage}{why}"


# --- the language -----------------------------------------------------------------------------------------------------


def test_members(language: Language, subject: Subject) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]*", language.name), "name: expected lower-case letters, digits and hyphens"
    stages = [*language.stages]
    assert len(stages) >= 2 and len({*stages}) == len(stages), f"stages: expected two names or more, found {stages}"
    assert re.fullmatch(r"\S.*", registry.version(subject.name)), "version: expected a text, not empty"
    assert type(language.executes) is bool, "executes: expected True or False"


@pytest.mark.parametrize("role", ["proposer", "refiner"])
def test_prompts(role: str, subject: Subject) -> None:
    assert registry.find(subject.name).instructions(role, ir=True, kind="full"), "the prompt is empty"


def test_files(unread: str) -> None:
    pytest.fail(unread)


def test_tasks(task: Task, language: Language) -> None:
    again = language.task(task.statement, task.name, task.name)
    assert again.statement == task.statement and again == task, "its statement does not read back as the same task"
    assert pickle.loads(pickle.dumps(task)) == task, "it is not the same after pickling"
    solved = language.task(task.text_with("a\nb\n"), task.name, task.name)
    reads_back = (solved.impl or "").strip() == "a\nb" and solved.without_impl() == task
    assert reads_back, "`text_with` gives no task file that reads back with the solution"
    assert task.impl is None and "\nimpl:" not in task.statement, "its statement shows a solution"


def test_programs_are_shown(shown: Shown, language: Language) -> None:
    assert shown.oracles, "oracles/: expected a program at least"
    assert shown.near_misses, "near-misses/: expected a program at least"
    assert shown.attacks or not language.executes, "attacks/: the language executes programs, and shows no attack"


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_oracles(oracle: Program, cells: Cells) -> None:
    verdict = cells.verdict(oracle.task, oracle.text)
    assert verdict.passed, f"expected: passed; got: {in_words(verdict)}"


def test_near_misses(near_miss: Program, cells: Cells) -> None:
    verdict = cells.verdict(near_miss.task, near_miss.text)
    failed = not verdict.unknown and verdict.stage == near_miss.stage
    assert failed, f"expected: failed at {near_miss.stage}; got: {in_words(verdict)}"


def test_near_misses_among_oracles(near_miss: Program, shown: Shown, cells: Cells, others: Cells) -> None:
    """A verdict depends neither on chance nor on what was judged before it, in whichever process."""
    oracle = next((each for each in shown.oracles if each.task == near_miss.task), None)
    around = [oracle] if oracle else []
    for order, place in (([near_miss, *around], cells), ([*around, near_miss], others)):
        for program in order * REPEATS:
            verdict = place.verdict(program.task, program.text)
            right = verdict.stage == near_miss.stage if program is near_miss else verdict.passed
            assert right, f"judged once more, {program.place} {in_words(verdict)}"


def test_an_empty_program(task: Task, cells: Cells) -> None:
    """Expected values that leak into the outputs would let it pass."""
    assert not cells.verdict(task, "").passed, "an empty program passes"


def test_an_oracle_without_its_last_lines(oracle: Program, cells: Cells) -> None:
    """The longest beginning of the program that can be read and has another key: without its last store, for one."""
    language, lines = cells.language, oracle.text.splitlines()
    for end in range(len(lines) - 1, 0, -1):
        text = "\n".join(lines[:end]) + "\n"
        other = language.key(oracle.task, text) != language.key(oracle.task, oracle.text)
        if other and not language.check(oracle.task, text):
            assert not cells.verdict(oracle.task, text).passed, f"it passes without its last lines:\n{text}"
            return
    pytest.skip("no beginning of it can be read")


def test_programs_of_another_form(also: Program, shown: Shown, cells: Cells) -> None:
    """A judge that knows the oracle alone refuses it."""
    assert cells.verdict(also.task, also.text).passed, (
        f"expected: passed; got: {in_words(cells.verdict(also.task, also.text))}"
    )
    keys = {cells.language.key(each.task, each.text) for each in shown.oracles if each.task == also.task}
    assert cells.language.key(also.task, also.text) not in keys, "its key is the oracle's: show it in same/"


def test_repeatable(program: Program, cells: Cells, others: Cells) -> None:
    if program.place.startswith("attacks/"):
        pytest.skip("an attack is judged once")
    first, again, elsewhere = (each.verdict(program.task, program.text) for each in (cells, cells, others))
    assert first == again == elsewhere, f"{in_words(first)}; again: {in_words(again)}; elsewhere: {in_words(elsewhere)}"


def test_check(program: Program, cells: Cells) -> None:
    found = cells.language.check(program.task, program.text)
    strange = [each.stage for each in found if each.stage not in cells.language.stages]
    assert not strange, f"a diagnostic of the stage {strange[:1]}, which the language does not have"
    if found and not program.place.startswith("attacks/"):
        passed = cells.verdict(program.task, program.text).passed
        assert not passed, f"`check` refuses it, and `judge` passes it: {found[0].message}"


def test_warm_verdicts_are_quick(shown: Shown, cells: Cells) -> None:
    seconds = []
    for program in shown.oracles:
        for _ in range(3):
            start = time.monotonic()
            cells.verdict(program.task, program.text)
            seconds.append(time.monotonic() - start)
    assert statistics.median(seconds[len(seconds) // 3 :]) <= SLOWEST, f"the median takes over {SLOWEST:g} s"


# --- answers ----------------------------------------------------------------------------------------------------------


def test_answers(wrapping: Callable[[str, str], str], shown: Shown, language: Language) -> None:
    for program in shown.oracles:
        found = language.extract(wrapping(program.text, language.name))
        same = language.key(program.task, found) == language.key(program.task, program.text)
        assert same, f"{program.place}: {found[:60]!r} is read, whose key is not that of {program.text[:60]!r}"
        assert language.extract(found) == found, f"{program.place}: the read program, read again, differs"


def test_any_text(hostile: str, shown: Shown, cells: Cells) -> None:
    """No text is right by accident, or breaks the language."""
    task = next(iter(shown.tasks.values()))
    cells.language.key(None, cells.language.extract(hostile))
    read(cells.language, Program(task, "", hostile))
    verdict = cells.verdict(task, hostile)
    assert not verdict.passed and all(each.code != "internal" for each in verdict.diagnostics), in_words(verdict)


def test_long_answers_are_read_quickly(doubled: str, language: Language) -> None:
    for power in range(10, 18):
        start = time.process_time()
        language.extract(doubled * (2**power // len(doubled)))
        spent = time.process_time() - start
        assert spent <= SLOWEST, f"`extract` takes {spent:.1f} s for {2**power:,} characters of {doubled!r}"


def read(language: Language, program: Program) -> None:
    """All that the caller's process does with a program."""
    language.key(program.task, program.text)
    language.check(program.task, program.text)
    language.structures(program.task, program.text)


# --- keys -------------------------------------------------------------------------------------------------------------


def oracle_key(language: Language, shown: Shown, program: Program) -> str:
    oracle = next((each for each in shown.oracles if each.task == program.task), None)
    if oracle is None:
        pytest.skip("no oracle is shown for its task")
    return language.key(oracle.task, oracle.text)


def test_keys_of_the_same_program(same: Program, shown: Shown, cells: Cells) -> None:
    key = cells.language.key(same.task, same.text)
    assert key == oracle_key(cells.language, shown, same), "its key is not the oracle's"
    assert cells.verdict(same.task, same.text).passed, "it does not pass"


def test_keys_of_wrong_programs(near_miss: Program, shown: Shown, language: Language) -> None:
    key = language.key(near_miss.task, near_miss.text)
    assert key != oracle_key(language, shown, near_miss), "its key is the oracle's, and it is wrong"


def test_keys_elsewhere(oracle: Program, cells: Cells) -> None:
    about = oracle.task.name, oracle.task.statement, oracle.text, cells.language.name
    there = cells.pool.submit(probes.key_of, *about).result()
    assert there == cells.language.key(oracle.task, oracle.text), "its key is another in another process"


# --- isolation --------------------------------------------------------------------------------------------------------


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    write_text(tmp_path / "canary", SECRET)
    return tmp_path / "canary"


def test_attacks(attack: Program, canary: Path, cells: Cells) -> None:
    verdict = cells.verdict(attack.task, attack.text.replace("CANARY", str(canary)))
    assert not verdict.passed, "it passes"
    assert SECRET not in repr(verdict), "its verdict holds the content of a file of the user"
    assert canary.read_text(encoding="utf-8") == SECRET, "a file of the user's was changed"


def test_cells(shown: Shown, canary: Path, cells: Cells) -> None:
    missing = "the sandbox is off" if current().mode == "off" else Means.here().missing
    if missing:
        pytest.skip(missing)
    task = next(iter(shown.tasks.values()))
    about = task.name, task.statement, str(canary)
    written = cells.pool.submit(probes.write, *about).result()
    assert canary.read_text(encoding="utf-8") == SECRET, f"a cell writes a file of the user's: {written}"
    assert cells.pool.submit(probes.read, *about).result() != SECRET, "a cell reads a file of the user's"


def test_limits(shown: Shown, subject: Subject) -> None:
    """Those of a command line hold, of whatever `judge` makes of them."""
    task = next(iter(shown.tasks.values()))
    about = task.name, task.statement
    with checking_pool(1, ProgramLimits(limit_seconds=1.0, limit_bytes=2**28), subject.name) as pool:
        lost = pool.submit(probes.spin, *about).exception()
        assert isinstance(lost, WorkerLost) and lost.code == "time-limit", f"expected time-limit, got {lost!r}"
        lost = pool.submit(probes.allocate, *about, MEMORY + 2**28).exception()
        assert isinstance(lost, WorkerLost | MemoryError), f"expected memory-limit, got {lost!r}"


def test_nothing_runs_here(program: Program, language: Language) -> None:
    """The caller's process reads programs, and runs nothing of them."""
    for _ in range(2):  # the first time, modules may be imported
        with audited() as events, redirect_stdout(io.StringIO()) as out:
            text = language.extract(f"```\n{program.text}\n```")
            read(language, Program(program.task, program.place, text))
    assert not events, f"it caused {events[0]}"
    assert not out.getvalue(), "it caused words on the standard output"


_noting: list[list[str]] = []
_hooked: list[bool] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _noting:
        return
    if event == "exec" and not Path(str(getattr(arguments[0], "co_filename", ""))).is_file():
        _noting[-1].append("code that is run")
    elif event.startswith(BANNED):
        _noting[-1].append(event)
    elif event == "open" and isinstance(arguments[1], str) and {*arguments[1]} & {*"wxa+"}:
        _noting[-1].append(f"a file that is written: {arguments[0]}")


@contextmanager
def audited() -> Iterator[Sequence[str]]:
    """The events that a program must not cause, noted within the context."""
    if not _hooked:
        sys.addaudithook(_note)  # none can be removed again
        _hooked.append(True)
    _noting.append([])
    try:
        yield _noting[-1]
    finally:
        _noting.pop()
