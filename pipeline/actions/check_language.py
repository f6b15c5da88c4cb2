"""The conformance kit of a language: what the core relies on, tried with the language's own tasks and programs."""

from __future__ import annotations

import io
import pickle
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pipeline.actions.shown_programs import Program, Shown, read_shown
from pipeline.agent.speaking import instructions_in
from pipeline.base.errors import UsageError
from pipeline.base.files import write_text
from pipeline.base.language_outputs import ConformanceCase, LanguageCheckOutput
from pipeline.base.languages import DEFAULT
from pipeline.base.machine import cores
from pipeline.base.outputs import ProgramVerdict
from pipeline.base.text import visible
from pipeline.languages import registry
from pipeline.languages.language import Task
from pipeline.verification import probes, sandbox
from pipeline.verification.isolation.confinement import Means
from pipeline.verification.judge import Request, judge, verdict_in
from pipeline.verification.limits import MEMORY, ProgramLimits, checking_pool, verification_pool
from pipeline.verification.pool import WorkerLost, WorkerPool
from step_runtime.base.errors import TaskError, describe_error

_Asked = tuple[Request, Future[ProgramVerdict]]
Outcome = Literal["held", "broken", "skipped"]
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_SECRET = "the content of a file of the user's"
_HOSTILE = {
    "nothing": "", "a space": " ", "a null character": "\0", "words": "I am sorry, but I can't help with that.",
    "brackets": "(" * 20_000, "a long line": "x" * 200_000, "lone surrogates": "\ud800\udfff",
    "bidirectional marks": "\u202e\u2066x\u2069", "many lines": "\n" * 20_000,
}  # fmt: skip
_WRAPPINGS: dict[str, Callable[[str, str], str]] = {
    "bare": lambda text, name: text,
    "spaces around": lambda text, name: f"\n\n{text}\n\n",
    "a fence": lambda text, name: f"```\n{text.rstrip()}\n```",
    "a fence with the language's name": lambda text, name: f"```{name}\n{text.rstrip()}\n```\n",
    "words and a fence": lambda text, name: f"Here is the program.\n\n```\n{text.rstrip()}\n```\n\nThat is it.",
    "line ends of Windows": lambda text, name: f"```\n{text.rstrip()}\n```\n".replace("\n", "\r\n"),
    "a fence that is not closed": lambda text, name: f"The program:\n```\n{text.rstrip()}\n",
}
_BANNED = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect", "ctypes.dlopen")
"""Audit events that nothing causes in the caller's process while it reads a program."""


class Kit:
    """One check of a language, within so many seconds of processor time a verdict."""

    def __init__(self, name: str, seconds: float) -> None:
        self.language = registry.find(name)
        self._own = None if self.language.name == DEFAULT else self.language.name
        self._seconds = seconds
        self.cases: list[ConformanceCase] = []
        self._cold: float | None = None
        self._warm: list[float] = []

    def run(self) -> LanguageCheckOutput:
        """Tries all properties.

        Raises:
            UsageError: There is no such language.
        """
        self._members()
        shown = read_shown(self.language)
        for place, message in shown.wrong:
            self._add("files", place, message)
        self._tasks(shown)
        with tempfile.TemporaryDirectory() as folder, self._pool() as pool:
            canary = Path(folder, "canary")
            write_text(canary, _SECRET)
            self._verdicts(shown, pool)
            self._reading(shown)
            self._hostile(shown, pool)
            self._keys(shown, pool)
            self._attacks(shown, canary, pool)
            self._cells(shown, canary, pool)
        self._limits(shown)
        self._host(shown)
        return self._output()

    def _pool(self) -> WorkerPool:
        return verification_pool(min(4, cores()), seconds=self._seconds, language=self._own)

    def _add(
        self, kind: str, name: str, wrong: str | bool | None, *, skipped: bool = False, seconds: float = 0
    ) -> None:
        """Notes a case; `wrong` says what is wrong with it, if anything is."""
        outcome: Outcome = "skipped" if skipped else "broken" if wrong else "held"
        about = {"message": visible(str(wrong or "")), "seconds": round(seconds, 3)}
        self.cases.append(ConformanceCase(property=kind, name=name, outcome=outcome, **about))

    def _try(self, kind: str, name: str, found: Callable[[], str | bool | None]) -> None:
        """Notes a case that calls members of the language in this process, where they may raise."""
        try:
            wrong = found()
        except Exception as error:
            wrong = _raised(error)
        self._add(kind, name, wrong)

    def _submit(self, pool: WorkerPool, task: Task, text: str, limits: ProgramLimits | None = None) -> _Asked:
        request = Request(task=task.name, statement=task.statement, text=text, language=self._own, limits=limits)
        return request, pool.submit(judge, request)

    def _verdict(self, asked: _Asked) -> ProgramVerdict | str:
        """The verdict, or what went wrong instead."""
        try:
            return verdict_in(self.language.stages, *asked)
        except (TaskError, WorkerLost, MemoryError) as error:
            return f"{type(error).__name__}: {error}"

    # --- properties ---------------------------------------------------------------------------------------------------

    def _members(self) -> None:
        language, stages = self.language, [*self.language.stages]
        wrong_name = not _NAME.fullmatch(language.name) and "expected lower-case letters, digits and hyphens"
        self._add("members", "name", wrong_name)
        version = registry.version(self._own)
        self._add("members", "version", not re.fullmatch(r"\S.*", str(version)) and "expected a text, not empty")
        distinct = len(stages) >= 2 and len(set(stages)) == len(stages) and all(isinstance(s, str) for s in stages)
        self._add("members", "stages", not distinct and f"expected two distinct names or more, found {stages}")
        self._add("members", "executes", None if type(language.executes) is bool else "expected True or False")
        for role in ("proposer", "refiner"):
            self._try("prompts", role, partial(self._no_prompt, role))

    def _tasks(self, shown: Shown) -> None:
        with_oracle = {program.task.name for program in shown.oracles}
        for place, task in shown.tasks.items():
            self._try("tasks", place, partial(self._wrong_task, task))
            if task.name not in with_oracle:
                self._add("oracles", place, "no oracle is shown for it", skipped=True)
        for kind, programs in (("oracles", shown.oracles), ("near-misses", shown.near_misses)):
            if not programs:
                self._add(kind, f"{kind}/", "expected a program at least; the kit judges none")

    def _no_prompt(self, role: str) -> str | bool:
        return not instructions_in(self._own, role, True, "full") and "it is empty"

    def _wrong_task(self, task: Task) -> str | bool:
        """What the core relies on and this task does not keep."""
        again = self.language.task(task.statement, task.name, task.name)
        if again.statement != task.statement or again != task:
            return "its statement does not read back as the same task"
        if pickle.loads(pickle.dumps(task)) != task:
            return "it is not the same after pickling"
        solved = self.language.task(task.text_with("a\nb\n"), task.name, task.name)
        if (solved.impl or "").strip() != "a\nb" or solved.without_impl() != task:
            return "`text_with` gives no task file that reads back with the solution"
        shows = task.impl is not None or "\nimpl:" in task.statement
        return shows and "its statement shows a solution"

    def _verdicts(self, shown: Shown, pool: WorkerPool) -> None:
        judged = [*shown.oracles, *shown.near_misses, *shown.same]
        if judged:
            start = time.monotonic()
            self._verdict(self._submit(pool, judged[0].task, judged[0].text))
            self._cold = time.monotonic() - start
        first = [self._submit(pool, each.task, each.text) for each in judged]
        with self._pool() as others:
            for program, asked in zip(judged, first, strict=True):
                known, kind = self._verdict(asked), program.place.partition("/")[0]
                self._add(kind, program.place, _unlike(known, program.stage), seconds=_seconds(known))
                start = time.monotonic()
                again = self._verdict(self._submit(pool, program.task, program.text))
                self._warm.append(time.monotonic() - start)
                elsewhere = self._verdict(self._submit(others, program.task, program.text))
                same = _timeless(known) == _timeless(again) == _timeless(elsewhere)
                message = f"{_shown(known)}, then {_shown(again)}, and in another process {_shown(elsewhere)}"
                self._add("repeatable", program.place, not same and message)
                passed = isinstance(known, ProgramVerdict) and known.passed
                self._try("check", program.place, partial(self._wrong_check, program, passed))

    def _wrong_check(self, program: Program, passed: bool) -> str | bool:
        found = self.language.check(program.task, program.text)
        if strange := [each.stage for each in found if each.stage not in self.language.stages]:
            return f"a diagnostic of the stage {strange[0]!r}, which the language does not have"
        return passed and bool(found) and f"`check` refuses it, and `judge` passes it: {found[0].message}"

    def _reading(self, shown: Shown) -> None:
        """Every wrapping of an answer is read, and what is read once is read again as itself."""
        for name, wrap in _WRAPPINGS.items():
            self._try("answers", name, partial(self._unread, shown.oracles, wrap))

    def _unread(self, programs: Sequence[Program], wrap: Callable[[str, str], str]) -> str | None:
        language = self.language
        for program in programs:
            found = language.extract(wrap(program.text, language.name))
            if language.key(program.task, found) != language.key(program.task, program.text):
                return f"{program.place}: {found[:60]!r} is read, whose key is not that of {program.text[:60]!r}"
            if language.extract(found) != found:
                return f"{program.place}: the read program, read again, differs"
        return None

    def _hostile(self, shown: Shown, pool: WorkerPool) -> None:
        """No text is right by accident, breaks the language, or reaches anything but a verdict."""
        for task in [*shown.tasks.values()][:1]:
            for name, text in _HOSTILE.items():
                self._try("any text", name, partial(self._breaks, task, text, pool))

    def _breaks(self, task: Task, text: str, pool: WorkerPool) -> str | bool:
        self.language.key(None, self.language.extract(text))
        self._read(Program(task, "", text))
        verdict = self._verdict(self._submit(pool, task, text))
        if isinstance(verdict, ProgramVerdict) and any(each.code == "internal" for each in verdict.diagnostics):
            return verdict.diagnostics[0].message
        return _no_refusal(verdict)

    def _read(self, program: Program) -> None:
        """All that the caller's process does with a program."""
        self.language.key(program.task, program.text)
        self.language.check(program.task, program.text)
        self.language.structures(program.task, program.text)

    def _keys(self, shown: Shown, pool: WorkerPool) -> None:
        oracles = {program.task.name: program for program in shown.oracles}
        if not shown.same:
            self._add("keys", "same/", "no program is shown that means the same as an oracle", skipped=True)
        for program in (each for each in (*shown.same, *shown.near_misses) if each.task.name in oracles):
            self._try("keys", program.place, partial(self._wrong_key, program, oracles[program.task.name]))
        for program in shown.oracles:
            about = program.task.name, program.task.statement, program.text, self.language.name
            there = pool.submit(probes.key_of, *about)
            self._try("keys", program.place, partial(self._differs, program, there))

    def _wrong_key(self, program: Program, oracle: Program) -> str | bool:
        alike = self.language.key(program.task, program.text) == self.language.key(oracle.task, oracle.text)
        if program.stage:
            return alike and "its key is the oracle's, and it is wrong"
        return not alike and "its key is not the oracle's"

    def _differs(self, program: Program, there: Future[str]) -> str | bool:
        same = there.result() == self.language.key(program.task, program.text)
        return not same and "its key is another in another process"

    def _attacks(self, shown: Shown, canary: Path, pool: WorkerPool) -> None:
        if self.language.executes and not shown.attacks:
            self._add("attacks", "attacks/", "the language executes programs, and shows none that tries to escape")
        for program in shown.attacks:
            verdict = self._verdict(self._submit(pool, program.task, program.text.replace("CANARY", str(canary))))
            told = _SECRET in repr(verdict) and "its verdict holds the content of a file of the user"
            self._add("attacks", program.place, told or _no_refusal(verdict) or _changed(canary))

    def _cells(self, shown: Shown, canary: Path, pool: WorkerPool) -> None:
        """The cells that judge this language keep files from it."""
        missing = "the sandbox is off" if sandbox.current().mode == "off" else Means.here().missing
        for task in [*shown.tasks.values()][:1]:
            about = task.name, task.statement, str(canary)
            written = pool.submit(probes.write, *about).result()
            wrong = missing or (_changed(canary) and f"a cell writes a file of the user's: {written}")
            self._add("cells", "files are not written", wrong, skipped=bool(missing))
            read = pool.submit(probes.read, *about).result() == _SECRET
            wrong = missing or (read and "a cell reads a file of the user's")
            self._add("cells", "files are not read", wrong, skipped=bool(missing))

    def _limits(self, shown: Shown) -> None:
        """The limits of a command line hold, of whatever `judge` makes of them."""
        limits = ProgramLimits(limit_seconds=1.0, limit_bytes=2**28, limit_characters=1)
        for program in shown.oracles[:1]:
            about = program.task.name, program.task.statement
            with checking_pool(1, limits, self._own) as pool:
                self._add("limits", "time", _not_lost(pool.submit(probes.spin, *about), "time-limit"))
                wrong = _not_lost(pool.submit(probes.allocate, *about, MEMORY + 2**28), "memory-limit")
                self._add("limits", "memory", wrong)
                asked = self._submit(pool, program.task, program.text, limits)
                self._add("limits", "characters", _no_refusal(self._verdict(asked)))

    def _host(self, shown: Shown) -> None:
        """The caller's process reads programs, and runs nothing of them."""
        for warm_up in (True, False):
            for program in shown.programs:
                with _audited() as events, redirect_stdout(io.StringIO()) as out, suppress(Exception):  # reported above
                    text = self.language.extract(f"```\n{program.text}\n```")
                    self._read(replace(program, text=text))
                if not warm_up:
                    found = events or (["words on the standard output"] if out.getvalue() else [])
                    self._add("nothing runs here", program.place, bool(found) and f"it caused {found[0]}")

    def _output(self) -> LanguageCheckOutput:
        language, warm, counts = self.language, sorted(self._warm), Counter(case.outcome for case in self.cases)
        return LanguageCheckOutput(
            language=language.name,
            version=registry.version(self._own),
            stages=tuple(language.stages),
            executes=language.executes,
            passed=not counts["broken"],
            **{outcome: counts[outcome] for outcome in ("held", "broken", "skipped")},
            cold_seconds=None if self._cold is None else round(self._cold, 4),
            warm_seconds=round(warm[len(warm) // 2], 4) if warm else None,
            cases=tuple(self.cases),
        )


def _raised(error: Exception) -> str:
    """An error with the place of the language's code that it comes from."""
    if isinstance(error, UsageError | TaskError):
        return str(error)
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename != __file__]
    place = f"`{frames[0].name}` ({Path(frames[0].filename).name}:{frames[0].lineno}): " if frames else ""
    return f"{place}{describe_error(error)}"


def _no_refusal(verdict: ProgramVerdict | str) -> str | bool:
    """What is wrong with a verdict on a program that must not pass."""
    return verdict if isinstance(verdict, str) else verdict.passed and "it passes"


def _changed(canary: Path) -> str | bool:
    """Whether the user's file was changed, which is undone."""
    changed = not canary.is_file() or canary.read_text(encoding="utf-8") != _SECRET
    write_text(canary, _SECRET)
    return changed and "a file of the user's was changed"


def _unlike(verdict: ProgramVerdict | str, stage: str) -> str | None:
    """How a verdict differs from what is expected: that it passes, or fails at a stage."""
    if isinstance(verdict, str):
        return verdict
    expected = f"failed at {stage}" if stage else "passed"
    right = not verdict.unknown and (verdict.stage == stage if stage else verdict.passed)
    return None if right else f"expected: {expected}; got: {_shown(verdict)}"


def _shown(verdict: ProgramVerdict | str) -> str:
    if isinstance(verdict, str) or verdict.passed:
        return verdict if isinstance(verdict, str) else "passed"
    first = verdict.diagnostics[0] if verdict.diagnostics else None
    word = "unknown at" if verdict.unknown else "failed at"
    return f"{word} {verdict.stage}" + (f" ({first.code}: {first.message})" if first else "")


def _timeless(verdict: ProgramVerdict | str) -> object:
    return verdict if isinstance(verdict, str) else (verdict.passed, verdict.stage, verdict.diagnostics)


def _seconds(verdict: ProgramVerdict | str) -> float:
    return 0.0 if isinstance(verdict, str) else verdict.seconds


def _not_lost(future: Future[Any], code: str) -> str | None:
    error = future.exception()
    if isinstance(error, WorkerLost) and error.code == code:
        return None
    if code == "memory-limit" and isinstance(error, MemoryError):
        return None
    return f"expected {code}, got {error!r}" if error else f"the cell went on: {future.result()}"


_EVENTS: list[list[str]] = []
"""Where events are noted, while a program is read."""


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _EVENTS:
        return
    if event == "exec" and not Path(str(getattr(arguments[0], "co_filename", ""))).is_file():
        _EVENTS[-1].append("code that is run")
    elif event.startswith(_BANNED):
        _EVENTS[-1].append(event)
    elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa+"):
        _EVENTS[-1].append(f"a file that is written: {arguments[0]}")


@contextmanager
def _audited() -> Iterator[Sequence[str]]:
    """The events that a program must not cause, noted within the context."""
    if not _hooked:
        sys.addaudithook(_note)  # none can be removed again
        _hooked.append(True)
    _EVENTS.append([])
    try:
        yield _EVENTS[-1]
    finally:
        _EVENTS.pop()


_hooked: list[bool] = []
