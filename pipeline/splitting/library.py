"""A library of solved sub-tasks: a folder of task files with programs, found again by what they compute.

A file's name begins with the key of its task: a digest of the types of inputs, parameters and outputs, of what
generates data, of the sizes, and of the reference's values for fixed seeds. Names of inputs and of functions don't
count. A program serves where every function that it uses is offered with the same code; it is verified again before.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from pipeline.base.files import write_text
from pipeline.synthesis.parallel_search import SearchPool
from pipeline.verification import worker
from pipeline.verification.pool import WorkerLost
from step_runtime.base.errors import TaskError
from step_runtime.language.parser import parse
from step_runtime.program.printer import print_program
from step_runtime.tasks.reader import loads_task, read_task
from step_runtime.tasks.scope import declared, static_scope
from step_runtime.tasks.task import FnSpec, SolvedTask, Task, TensorSpec, dump_task
from step_runtime.verification.instance import TaskInstance, instances

_SEED = 0
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

    def programs(self, task: Task, pool: SearchPool) -> Iterator[str]:
        """Verified programs for a task, in its own names; its code runs in the pool's workers.

        Files that are no solved tasks are passed over.
        """
        key = _key_in(pool, task)
        for path in sorted(self.folder.glob(f"{key}-*.yaml")) if key else ():
            try:
                solved = read_task(path).solved()
            except TaskError:
                continue
            text = solved and in_names_of(task, solved)
            if text and worker.verdict_of(pool.run(worker.judge, task, text)).passed:
                self.found += 1
                yield text

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
    for spec in known.task.fns:
        number = next((at for at, own in enumerate(task.fns) if _same_function(own, spec)), None)
        if number is None:
            return None
        fns[spec.func_name] = declared(task, number)
    scope = replace(static_scope(known.task), fns=fns)
    program, wrong = parse(known.program, scope)
    if wrong or len(task.inputs) != len(known.task.inputs):
        return None
    return print_program(replace(program, inputs=tuple(spec.name for spec in task.inputs), names={}))


def task_key(name: str, content: str) -> str:
    """The key of a task given by its name and its YAML; its code runs in this process: call it in a worker.

    Raises:
        TaskError: The task can't be used, or its reference fails.
    """
    task = loads_task(content, name)
    words = [*map(_described, task.inputs), *(f"{spec.name} {_described(spec)}" for spec in task.parameters)]
    words += [f"{spec.dtype} {spec.dims}" for spec in task.outputs]
    found = instances(task)
    shown = {str(symbol) for type_ in (*task.input_types, *task.output_types) for symbol in _symbols(type_)}
    words += [repr(sorted((name, size) for name, size in each.sizes.items() if name in shown)) for each in found]
    words += [_digest(instance) for instance in found]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def _symbols(type_: object) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", str(type_))


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


def _same_function(one: FnSpec, other: FnSpec) -> bool:
    def content(spec: FnSpec) -> tuple[object, ...]:
        return spec.apply.strip(), spec.init, str(spec.input_dtype), str(spec.output_dtype)

    return content(one) == content(other)


def _uses(program: str, fn: FnSpec) -> bool:
    return re.search(rf"\b{re.escape(fn.func_name)}\b", program) is not None
