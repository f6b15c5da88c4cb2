"""The conformance kit of a language: what the core relies on, tried with the language's own tasks and programs.

A language shows the kit, below its folder, programs at the path of their task and with any suffix:

    oracles/TASK                right programs, one for every task
    near-misses/STAGE/TASK      wrong programs, by the stage at which they fail
    same/TASK                   programs that mean the same as the oracle, written otherwise
    attacks/WHAT/TASK           programs that try what they must not; CANARY stands for the path of a file of the user's
"""

from __future__ import annotations

import pickle
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pipeline.agent.speaking import instructions_in
from pipeline.base.errors import UsageError
from pipeline.base.files import write_text
from pipeline.base.languages import DEFAULT
from pipeline.base.machine import cores
from pipeline.base.outputs import ConformanceCase, LanguageCheckOutput
from pipeline.base.text import counted, visible
from pipeline.languages import language as protocols
from pipeline.languages import registry
from pipeline.languages.language import Language, Task
from pipeline.verification import probes, sandbox
from pipeline.verification.isolation.confinement import Means
from pipeline.verification.judging import judging_of
from pipeline.verification.limits import MEMORY, verification_pool
from pipeline.verification.pool import WorkerLost, WorkerPool
from pipeline.verification.task_files import find, read_in
from pipeline.verification.worker import verdict_of
from step_runtime.base.errors import TaskError
from step_runtime.verification.verify import Verdict

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
_MEMBERS = [each for each in vars(protocols).values() if getattr(each, "_is_protocol", False)]


@dataclass(frozen=True)
class Program:
    """A program that the language shows: for a task, at a place below its folder."""

    task: Task
    place: str
    text: str
    stage: str = ""


@dataclass
class Shown:
    """What a language shows the kit; files that no task has, and tasks that can't be read, are in `wrong`."""

    tasks: dict[str, Task] = field(default_factory=dict)
    oracles: list[Program] = field(default_factory=list)
    near_misses: list[Program] = field(default_factory=list)
    same: list[Program] = field(default_factory=list)
    attacks: list[Program] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)

    @property
    def programs(self) -> list[Program]:
        """All of them."""
        return [*self.oracles, *self.near_misses, *self.same, *self.attacks]


def read_shown(language: Language) -> Shown:
    """The tasks and programs in a language's folder."""
    shown, root = Shown(), language.folder / "tasks"
    try:
        paths = find(str(root), root)
    except UsageError as error:
        shown.wrong.append(("tasks", str(error)))
        return shown
    for path in paths:
        place = path.relative_to(root.absolute()).with_suffix("").as_posix()
        try:
            shown.tasks[place] = read_in(language.name, path).without_impl()
        except UsageError as error:
            shown.wrong.append((f"tasks/{place}", str(error)))
    shown.oracles = [*_programs(language, "oracles", "", shown)]
    shown.same = [*_programs(language, "same", "", shown)]
    for kind, programs in (("near-misses", shown.near_misses), ("attacks", shown.attacks)):
        for folder in sorted(path for path in (language.folder / kind).glob("*") if path.is_dir()):
            if kind == "near-misses" and folder.name not in language.stages:
                message = f"expected a stage ({', '.join(language.stages)})"
                shown.wrong.append((f"{kind}/{folder.name}", message))
                continue
            programs.extend(_programs(language, f"{kind}/{folder.name}", folder.name, shown))
    return shown


def _programs(language: Language, place: str, stage: str, shown: Shown) -> Iterator[Program]:
    root = language.folder / place
    for path in sorted(path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")):
        task = shown.tasks.get(path.relative_to(root).with_suffix("").as_posix())
        name = f"{place}/{path.relative_to(root).as_posix()}"
        if task is None:
            shown.wrong.append((name, "there is no task of this path below tasks/"))
        else:
            yield Program(task, name, path.read_text(encoding="utf-8"), stage)


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
        self._host(shown)
        return self._output()

    def _pool(self) -> WorkerPool:
        return verification_pool(min(4, cores()), seconds=self._seconds, language=self._own)

    def _add(self, kind: str, name: str, broken: str | None, skipped: bool = False, seconds: float = 0.0) -> None:
        outcome: Outcome = "skipped" if skipped else "broken" if broken else "held"
        case = ConformanceCase(
            property=kind, name=name, outcome=outcome, message=visible(broken or ""), seconds=round(seconds, 3)
        )
        self.cases.append(case)

    def _submit(self, pool: WorkerPool, task: Task, text: str) -> Future[Any]:
        function, arguments = judging_of(self.language)
        return pool.submit(function, task.name, task.statement, text, *arguments)

    def _verdict(self, future: Future[Any]) -> Verdict | str:
        """The verdict, or what went wrong instead."""
        try:
            return verdict_of(future, self.language.stages)
        except (TaskError, MemoryError) as error:
            return f"{type(error).__name__}: {error}"

    # --- properties ---------------------------------------------------------------------------------------------------

    def _members(self) -> None:
        language = self.language
        right = _NAME.fullmatch(language.name) is not None
        self._add("members", "name", None if right else "expected lower-case letters, digits and hyphens")
        version = isinstance(language.version, str) and bool(language.version)
        self._add("members", "version", None if version else "expected a text that is not empty")
        stages = [*language.stages]
        distinct = len(stages) >= 2 and len(set(stages)) == len(stages) and all(isinstance(s, str) for s in stages)
        self._add("members", "stages", None if distinct else f"expected two distinct names or more, found {stages}")
        self._add("members", "executes", None if isinstance(language.executes, bool) else "expected True or False")
        for role in ("proposer", "refiner"):
            try:
                text = instructions_in(self._own, role, True, "full")
                self._add("prompts", role, None if text else "it is empty")
            except UsageError as error:
                self._add("prompts", role, str(error))

    def _tasks(self, shown: Shown) -> None:
        with_oracle = {program.task.name for program in shown.oracles}
        for place, task in shown.tasks.items():
            self._add("tasks", place, self._wrong_task(task) or (None if task.name in with_oracle else "no oracle"))
        if not shown.near_misses:
            self._add("near-misses", "near-misses/", "expected a wrong program at least; the kit judges none")

    def _wrong_task(self, task: Task) -> str | None:
        """What the core relies on and this task does not keep."""
        again = self.language.task(task.statement, task.name, task.name)
        if again.statement != task.statement or again != task:
            return "its statement does not read back as the same task"
        if pickle.loads(pickle.dumps(task)) != task:
            return "it is not the same after pickling"
        solved = self.language.task(task.text_with("a\nb\n"), task.name, task.name)
        if (solved.impl or "").strip() != "a\nb" or solved.without_impl() != task:
            return "`text_with` gives no task file that reads back with the solution"
        if task.impl is not None or "\nimpl:" in task.statement:
            return "its statement shows a solution"
        return None

    def _verdicts(self, shown: Shown, pool: WorkerPool) -> None:
        judged = [*shown.oracles, *shown.near_misses, *shown.same]
        if judged:
            start = time.monotonic()
            self._verdict(self._submit(pool, judged[0].task, judged[0].text))
            self._cold = time.monotonic() - start
        first = [self._submit(pool, each.task, each.text) for each in judged]
        for program, future in zip(judged, first, strict=True):
            kind = program.place.partition("/")[0]
            self._add(kind, program.place, _unlike(self._verdict(future), program.stage), seconds=_seconds(future))
        with self._pool() as others:
            for program, future in zip(judged, first, strict=True):
                start = time.monotonic()
                again = self._verdict(self._submit(pool, program.task, program.text))
                self._warm.append(time.monotonic() - start)
                elsewhere = self._verdict(self._submit(others, program.task, program.text))
                known = self._verdict(future)
                same = _timeless(known) == _timeless(again) == _timeless(elsewhere)
                message = f"{_shown(known)}, then {_shown(again)}, and in another process {_shown(elsewhere)}"
                self._add("repeatable", program.place, None if same else message)
        for program, future in zip(judged, first, strict=True):
            found, verdict = self.language.check(program.task, program.text), self._verdict(future)
            wrong = None
            if strange := [each.stage for each in found if each.stage not in self.language.stages]:
                wrong = f"a diagnostic of the stage {strange[0]!r}, which the language does not have"
            elif found and isinstance(verdict, Verdict) and verdict.passed:
                wrong = f"`check` refuses it, and `judge` passes it: {found[0].message}"
            self._add("check", program.place, wrong)

    def _reading(self, shown: Shown) -> None:
        """Every wrapping of an answer is read, and what is read once is read again as itself."""
        language = self.language
        for name, wrap in _WRAPPINGS.items():
            wrong = []
            for program in shown.oracles:
                found = language.extract(wrap(program.text, language.name))
                if language.key(program.task, found) != language.key(program.task, program.text):
                    wrong.append(f"{program.place} is read as {found[:60]!r}")
                elif language.extract(found) != found:
                    wrong.append(f"{program.place}: what was read is not read again as itself")
            self._add("answers", name, f"{counted(len(wrong), 'program')}: {wrong[0]}" if wrong else None)

    def _hostile(self, shown: Shown, pool: WorkerPool) -> None:
        """No text is right by accident, breaks the language, or reaches anything but a verdict."""
        for task in [*shown.tasks.values()][:1]:
            for name, text in _HOSTILE.items():
                try:
                    read = self.language.extract(text)
                    self.language.key(None, read)
                    self.language.key(task, text)
                    self.language.check(task, text)
                    self.language.structures(task, text)
                except Exception as error:
                    self._add("any text", name, f"in the caller's process: {type(error).__name__}: {error}")
                    continue
                verdict = self._verdict(self._submit(pool, task, text))
                wrong = verdict if isinstance(verdict, str) else "it passes" if verdict.passed else None
                if isinstance(verdict, Verdict) and any(each.code == "internal" for each in verdict.diagnostics):
                    wrong = verdict.diagnostics[0].message
                self._add("any text", name, wrong)

    def _keys(self, shown: Shown, pool: WorkerPool) -> None:
        language = self.language
        oracles = {program.task.name: program for program in shown.oracles}
        for program in shown.same:
            oracle = oracles.get(program.task.name)
            equal = oracle is not None and language.key(program.task, program.text) == language.key(
                program.task, oracle.text
            )
            self._add("keys", program.place, None if equal else "its key is not the oracle's")
        if not shown.same:
            self._add("keys", "same/", "no program is shown that means the same as an oracle", skipped=True)
        for program in shown.near_misses:
            oracle = oracles.get(program.task.name)
            differs = oracle is None or language.key(program.task, program.text) != language.key(
                program.task, oracle.text
            )
            self._add("keys", program.place, None if differs else "its key is the oracle's, and it is wrong")
        for program in [*oracles.values()]:
            about = program.task.name, program.task.statement, program.text, language.name
            there = pool.submit(probes.key_of, *about).result()
            same = there == language.key(program.task, program.text)
            self._add("keys", program.place, None if same else "its key is another in another process")

    def _attacks(self, shown: Shown, canary: Path, pool: WorkerPool) -> None:
        if self.language.executes and not shown.attacks:
            self._add("attacks", "attacks/", "the language executes programs, and shows none that tries to escape")
        for program in shown.attacks:
            verdict = self._verdict(self._submit(pool, program.task, program.text.replace("CANARY", str(canary))))
            wrong = verdict if isinstance(verdict, str) else "it passes" if verdict.passed else None
            if _SECRET in repr(verdict):
                wrong = "its verdict holds what a file of the user's says"
            self._add("attacks", program.place, wrong or self._changed(canary))

    def _changed(self, canary: Path) -> str | None:
        changed = not canary.is_file() or canary.read_text(encoding="utf-8") != _SECRET
        write_text(canary, _SECRET)
        return "a file of the user's was changed" if changed else None

    def _cells(self, shown: Shown, canary: Path, pool: WorkerPool) -> None:
        """The cells that judge this language keep their limits."""
        for task in [*shown.tasks.values()][:1]:
            about = task.name, task.statement
            self._add("cells", "time", _not_lost(pool.submit(probes.spin, *about), "time-limit"))
            self._add(
                "cells", "memory", _not_lost(pool.submit(probes.allocate, *about, MEMORY + 2**28), "memory-limit")
            )
            missing = "the sandbox is off" if sandbox.current().mode == "off" else Means.here().missing
            written = pool.submit(probes.write, *about, str(canary)).result()
            wrong = f"a cell writes a file of the user's: {written}" if self._changed(canary) else None
            self._add("cells", "files are not written", missing or wrong, skipped=bool(missing))
            read = pool.submit(probes.read, *about, str(canary)).result()
            wrong = "a cell reads a file of the user's" if read == _SECRET else None
            self._add("cells", "files are not read", missing or wrong, skipped=bool(missing))

    def _host(self, shown: Shown) -> None:
        """The caller's process reads programs, and runs nothing of them."""
        for warm_up in (False, True):
            for program in shown.programs:
                with _audited() as events:
                    text = self.language.extract(f"```\n{program.text}\n```")
                    self.language.check(program.task, text)
                    self.language.key(program.task, text)
                    self.language.structures(program.task, text)
                if warm_up:
                    self._add("nothing runs here", program.place, f"it caused {events[0]}" if events else None)

    def _output(self) -> LanguageCheckOutput:
        language, warm = self.language, sorted(self._warm)
        counts = {outcome: sum(case.outcome == outcome for case in self.cases) for outcome in ("held", "broken")}
        return LanguageCheckOutput(
            language=language.name,
            version=language.version,
            stages=tuple(language.stages),
            executes=language.executes,
            offers=tuple(each.__name__ for each in _MEMBERS if _is_offer(each) and isinstance(language, each)),
            passed=not counts["broken"],
            held=counts["held"],
            broken=counts["broken"],
            skipped=len(self.cases) - sum(counts.values()),
            cold_seconds=None if self._cold is None else round(self._cold, 4),
            warm_seconds=round(warm[len(warm) // 2], 4) if warm else None,
            cases=tuple(self.cases),
        )


def _is_offer(protocol: type) -> bool:
    return protocol not in (Task, Language) and protocol.__module__ == protocols.__name__


def _unlike(verdict: Verdict | str, stage: str) -> str | None:
    """How a verdict differs from what is expected: that it passes, or fails at a stage."""
    if isinstance(verdict, str):
        return verdict
    expected = f"failed at {stage}" if stage else "passed"
    right = not verdict.unknown and (verdict.stage == stage if stage else verdict.passed)
    return None if right else f"expected: {expected}; got: {_shown(verdict)}"


def _shown(verdict: Verdict | str) -> str:
    if isinstance(verdict, str) or verdict.passed:
        return verdict if isinstance(verdict, str) else "passed"
    first = verdict.diagnostics[0] if verdict.diagnostics else None
    word = "unknown at" if verdict.unknown else "failed at"
    return f"{word} {verdict.stage}" + (f" ({first.code}: {first.message})" if first else "")


def _timeless(verdict: Verdict | str) -> object:
    return verdict if isinstance(verdict, str) else (verdict.passed, verdict.stage, verdict.diagnostics)


def _seconds(future: Future[Any]) -> float:
    found = None if future.exception() else future.result()
    return float(found.seconds) if isinstance(found, Verdict) else 0.0


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
