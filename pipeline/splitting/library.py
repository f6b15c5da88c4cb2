"""A library of solved sub-tasks: a folder of task files with programs, found again by what they compute.

A file's name begins with the key of its task: a digest of the types of inputs, parameters and outputs, of what
generates data, and of the reference's values for fixed seeds at fixed sizes. Names of inputs, functions and dims don't
count. A program serves where every function that it uses is offered with the same code; it is verified again before.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch

from pipeline.base.files import write_text
from pipeline.synthesis.fingerprints import fingerprints_of
from pipeline.synthesis.parallel_search import SearchPool
from pipeline.synthesis.precedents import Profile, nearest
from pipeline.synthesis.transplants import programs_of
from pipeline.verification import worker
from pipeline.verification.pool import WorkerLost
from step_runtime.base.errors import StepError, TaskError
from step_runtime.language.parser import parse
from step_runtime.program.printer import print_program
from step_runtime.tasks.reader import loads_task, read_task
from step_runtime.tasks.scope import declared, static_scope
from step_runtime.tasks.task import FnSpec, OutputSpec, SolvedTask, Task, TensorSpec, dump_task
from step_runtime.verification.check import insert_copies
from step_runtime.verification.instance import TaskInstance, instances

MOST_TRIED = 50
"""Programs of one key that are judged: a folder from elsewhere may have any number."""
_SEED = 0
_MOST_DRAFTS = 3
_DIGITS = 6
"""Significant digits of values that count."""


class Library:
    """A folder of solved tasks.

    Args:
        folder: The folder, which is made when the first task is added.

    Attributes:
        found: How often a program of it served.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found = 0
        self._read: dict[Path, SolvedTask | None] = {}

    def programs(self, task: Task, pool: SearchPool) -> Iterator[str]:
        """Verified programs for a task, in its own names; its code runs in the pool's workers.

        Files that are no solved tasks are passed over, and those beyond the first `MOST_TRIED`.
        """
        key = _key_in(pool, task)
        for path in sorted(self.folder.glob(f"{key}-*.yaml"))[:MOST_TRIED] if key else ():
            try:
                solved = read_task(path).solved()
            except TaskError:
                continue
            text = solved and in_names_of(task, solved)
            if text and worker.verdict_of(pool.run(worker.judge, task, text)).passed:
                self.found += 1
                yield text

    def drafts(self, task: Task) -> list[str]:
        """Programs in a task's names that follow those of the solved tasks most like it, the most like it first.

        They are not verified; none of the task's code is run.
        """
        scope = static_scope(task)
        fingerprints = fingerprints_of(task, scope.fns)
        profile = Profile.of(task, scope, [*fingerprints.values()])
        like = nearest(self._solved(), profile, _MOST_DRAFTS)
        return [print_program(insert_copies(program)) for program, _ in programs_of(like, task, scope, fingerprints)]

    def _solved(self) -> list[SolvedTask]:
        for path in sorted(self.folder.glob("*.yaml")):
            if path not in self._read:
                with suppress(TaskError):
                    self._read[path] = read_task(path).solved()
        return [solved for solved in self._read.values() if solved is not None]

    def add(self, solved: SolvedTask, pool: SearchPool) -> Path | None:
        """Keeps a solved task, with the functions that its program uses alone; the file, None if there can't be one."""
        task = solved.task.model_copy(update={"fns": [fn for fn in solved.task.fns if _uses(solved.program, fn)]})
        key = _key_in(pool, solved.task)
        if key is None or not task.fns:
            return None
        digest = hashlib.sha256(solved.program.encode()).hexdigest()[:8]
        path = self.folder / f"{key}-{digest}.yaml"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(path, dump_task(task.model_copy(update={"impl": solved.program})))
        return path


def _key_in(pool: SearchPool, task: Task) -> str | None:
    try:
        key: str = pool.run(task_key, task).result()
    except (TaskError, WorkerLost):
        return None
    return key


def in_names_of(task: Task, known: SolvedTask) -> str | None:
    """The program of a known task in the names of another's inputs and functions; None if the other lacks some."""
    fns = {}
    dims = dict(zip(_symbols(known.task), _symbols(task), strict=False))
    for spec in known.task.fns:
        wanted = _content(spec, dims)
        number = next((at for at, own in enumerate(task.fns) if _content(own, {}) == wanted), None)
        if number is None:
            return None
        fns[spec.func_name] = declared(task, number)
    scope = replace(static_scope(known.task), fns=fns)
    program, wrong = parse(known.program, scope)
    if wrong or len(task.inputs) != len(known.task.inputs):
        return None
    text = print_program(replace(program, inputs=tuple(spec.name for spec in task.inputs), names={}))
    return _renamed(text, dims)


def task_key(name: str, content: str) -> str:
    """The key of a task given by its name and its YAML; its code runs in this process: call it in a worker.

    Raises:
        TaskError: The task can't be used, or its reference fails.
    """
    task = loads_task(content, name)
    words = [*map(_described, task.inputs), *(f"{spec.name} {_described(spec)}" for spec in task.parameters)]
    words += [f"{spec.dtype} {spec.dims}" for spec in task.outputs]
    symbols = _symbols(task)
    words = [_renamed(word, {symbol: f"dim{place}" for place, symbol in enumerate(symbols)}) for word in words]
    sizes = {symbol: [3 + place, 5 - place if place < 3 else 4 + place] for place, symbol in enumerate(symbols)}
    try:
        words += [_digest(each) for each in instances(task.model_copy(update={"sizes": {**task.sizes, **sizes}}))]
    except StepError:  # The reference holds for some sizes only.
        found = instances(task)
        words += [repr([each.sizes[symbol] for symbol in symbols]) + _digest(each) for each in found]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def _symbols(task: Task) -> list[str]:
    """The dims of a task's types by name, in the order in which these first name them."""
    specs: list[TensorSpec | OutputSpec] = [*task.inputs, *task.parameters, *task.outputs]
    names = [word for spec in specs for word in re.findall(r"\w+", f"{spec.dtype} {spec.dims}")]
    return [name for name in dict.fromkeys(names) if name in task.symbols()]


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """A text or code with dims, and their sizes in code, under other names."""
    if not names:
        return text
    words = re.compile(rf"\b({'|'.join(map(re.escape, names))})(_value)?\b")
    return words.sub(lambda found: names[found[1]] + (found[2] or ""), text)


def _described(spec: TensorSpec) -> str:
    return f"{spec.dtype} {spec.dims} {spec.data_gen} {spec.min} {spec.max}"


def _digest(instance: TaskInstance) -> str:
    """The outputs for a fixed seed, rounded: their sums with fixed weights."""
    instance.sample_inputs(_SEED)
    words = []
    for parts in instance.reference():
        for part in parts:
            flat = torch.nan_to_num(part.to(torch.float64).flatten())
            total = float((flat * torch.arange(1, len(flat) + 1, dtype=torch.float64).sin()).sum())
            words.append(f"{total:.{_DIGITS - 1}e}" if math.isfinite(total) else "none")
    return " ".join(words)


def _content(spec: FnSpec, dims: Mapping[str, str]) -> tuple[object, ...]:
    """What makes a function the same as another, with its dims under other names."""
    texts = (spec.apply.strip(), str(spec.input_dtype), str(spec.output_dtype))
    return spec.init, *(_renamed(text, dims) for text in texts)


def _uses(program: str, fn: FnSpec) -> bool:
    return re.search(rf"\b{re.escape(fn.func_name)}\b", program) is not None
