"""A compiled program as one readable JSON file: what the agent is told, what it is shown, and where it comes from.

A program behaves as when it was compiled: its instructions and demonstrations are in the file, whatever has become of
`data/prompts` since. It works with any LM. Loading runs no code of the file's, and checks all that it says.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.base.choices import GuardianMode, ProposerKind
from pipeline.base.errors import UsageError
from pipeline.base.files import write_text
from pipeline.base.paths import shown
from pipeline.record import models
from step_runtime.base.syntax import parse_python

if TYPE_CHECKING:
    import dspy

    from pipeline.agent.agent import Agent
    from step_runtime.tasks.scope import Scope
    from step_runtime.tasks.task import Task

OPTIONAL = {"reasoning", "trajectory"}
"""Fields that a demonstration may lack."""

Lines = list[str]
"""A text of several lines, which JSON would write on one."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SavedDemonstration(_Strict):
    """A solved example: the task as YAML, and the other fields of the predictor's signature."""

    name: str
    task: Lines
    fields: dict[str, Lines]


class SavedPredictor(_Strict):
    """What one predictor is told and shown; `prompt` tells the instructions from others (`signatures.digest`)."""

    prompt: str
    demonstrations: list[SavedDemonstration]
    instructions: Lines


class SavedProgram(_Strict):
    """The file's content; `lm` is the model that the program was compiled with."""

    format: Literal["adaptive-step"] = "adaptive-step"
    version: Literal[1] = 1
    lm: str | None
    guardian: GuardianMode
    proposer: ProposerKind = "predict"
    refine: int = Field(default=0, ge=0)
    ir: bool = True
    metadata: dict[str, Any] = Field(default_factory=dict)
    predictors: dict[str, SavedPredictor]


def save_program(program: Agent, path: str | Path, metadata: Mapping[str, Any] | None = None) -> None:
    """Writes a program, replacing an earlier file at once or not at all.

    Args:
        program: an agent.
        path: of the JSON file.
        metadata: whatever is worth knowing of how it was made; JSON.

    Raises:
        UsageError: the file can't be written.
    """
    import dspy

    lms = [predictor.lm or dspy.settings.lm for predictor in program.predictors()]
    saved = SavedProgram(
        lm=next((lm.model for lm in lms if lm is not None), None),
        guardian=program.guardian.mode,
        proposer=program.proposer.kind,
        refine=program.refine,
        ir=program.ir,
        metadata=dict(metadata or {}),
        predictors={name: _saved(predictor) for name, predictor in program.named_predictors()},
    )
    write_text(Path(path), json.dumps(saved.model_dump(), indent=1, ensure_ascii=False) + "\n")


def read_program(path: str | Path) -> SavedProgram:
    """What a program's file says, its demonstrations unchecked; arguments and errors as for `load_program`."""
    where = _shown(path)
    try:
        with _file(path) as file:
            content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{where}: cannot read the program: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: expected a compiled program in JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != "adaptive-step":
        raise UsageError(f'{where}: expected a compiled program, with "format": "adaptive-step"')
    if content.get("version") != 1:
        raise UsageError(f"{where}: the file is of version {content.get('version')!r}; this code reads version 1")
    try:
        return SavedProgram.model_validate(content)
    except ValidationError as error:
        told = (f"{'.'.join(map(str, item['loc']))}: {item['msg'].lower()}" for item in error.errors())
        raise UsageError("\n".join(f"{where}: {line}" for line in told)) from None


def load_program(path: str | Path, lm: dspy.LM | str | None = None) -> Agent:
    """The program in a file: `load_program("compiled.json")(task=load_task("task.yaml")).impl`.

    Args:
        path: of the JSON file, or the address of a model in the project's MLflow store, such as `models:/m-1a2b3c` or
            `runs:/RUN/program`.
        lm: an LM or a model string; None for the one that DSPy is configured to, or else the one that the program was
            compiled with.

    Raises:
        UsageError: the file can't be read, is no compiled program, or has a demonstration that is wrong.
        LMUnavailable: a model string names an LM that can't be used.
    """
    import dspy

    from pipeline.lms.factory import make_lm

    saved = read_program(path)
    agent = _agent(saved, _shown(path))
    if lm is None and dspy.settings.lm is None and saved.lm is not None:
        lm = saved.lm
    if lm is not None:
        agent.set_lm(make_lm(lm, probed=False) if isinstance(lm, str) else lm)
    return agent


def unbound(path: str | Path) -> Agent:
    """The program in a file, without an LM; arguments and errors as for `load_program`."""
    return _agent(read_program(path), _shown(path))


def _agent(saved: SavedProgram, where: str) -> Agent:
    from pipeline.agent.agent import Agent

    agent = Agent(
        saved.guardian,
        proposer=saved.proposer,
        refine=saved.refine,
        ir=saved.ir,
        proposer_prompt="",
        guardian_prompt="",
        refiner_prompt="",
    )
    expected = [name for name, _ in agent.named_predictors()]
    if sorted(saved.predictors) != sorted(expected):
        found = ", ".join(saved.predictors) or "none"
        raise UsageError(f"{where}: predictors: expected {' and '.join(expected)}, found {found}")
    for name, predictor in agent.named_predictors():
        known = saved.predictors[name]
        predictor.signature = predictor.signature.with_instructions("\n".join(known.instructions))
        place = f"{where}: predictors.{name}.demonstrations"
        predictor.demos = [
            _loaded(demo, f"{place}[{index}]", predictor.signature) for index, demo in enumerate(known.demonstrations)
        ]
    return agent


@contextmanager
def _file(path: str | Path) -> Iterator[Path]:
    """The file that a path, or a model's address, stands for."""
    if str(path).startswith(models.ADDRESSES):
        with models.fetched(str(path)) as file:
            yield file
    else:
        yield Path(path)


def _shown(path: str | Path) -> str:
    return str(path) if str(path).startswith(models.ADDRESSES) else shown(Path(path))


def _saved(predictor: dspy.Predict) -> SavedPredictor:
    from signatures import digest

    signature = predictor.signature
    return SavedPredictor(
        prompt=digest(signature.instructions),
        demonstrations=[_saved_demonstration(demo, list(signature.fields)) for demo in predictor.demos],
        instructions=signature.instructions.split("\n"),
    )


def _saved_demonstration(demo: Mapping[str, Any], names: list[str]) -> SavedDemonstration:
    from step_runtime.tasks.task import Task

    task = demo["task"]
    if not isinstance(task, Task):
        # Kept as JSON, as by DSPy's own `load`.
        task = Task.model_validate(task)
    fields = {name: str(demo[name]).split("\n") for name in names if name != "task" and name in demo}
    return SavedDemonstration(name=task.name, task=task.statement.split("\n"), fields=fields)


def _loaded(saved: SavedDemonstration, where: str, signature: type[dspy.Signature]) -> dspy.Example:
    """A demonstration whose task is valid, and whose answer is a program that parses and is well-typed.

    Raises:
        UsageError: they are not.
    """
    import dspy

    from signatures import ANSWERS
    from step_runtime.base.errors import TaskError
    from step_runtime.tasks.reader import loads_task

    wanted = [name for name in signature.fields if name != "task"]
    if not set(wanted) - OPTIONAL <= saved.fields.keys() <= set(wanted):
        raise UsageError(f"{where}: fields: expected {', '.join(wanted)}, found {', '.join(saved.fields) or 'none'}")
    try:
        task = loads_task("\n".join(saved.task), saved.name, source=f"{where}.task")
    except TaskError as error:
        raise UsageError(str(error)) from None
    texts = {name: "\n".join(lines) for name, lines in saved.fields.items()}
    for name, text in texts.items():
        if name not in ANSWERS:
            continue
        problems = list(_problems(task, text, f"{where}.fields.{name}"))
        if problems:
            raise UsageError("\n".join(problems))
    return dspy.Example(task=task, **texts)


def _problems(task: Task, text: str, where: str) -> Iterator[str]:
    from step_runtime.language.parser import parse
    from step_runtime.tasks.scope import static_scope
    from step_runtime.verification.check import infer_types

    scope = static_scope(task)
    if not _tells_all(task, scope, text):
        return
    program, findings = parse(text, scope)
    for finding in findings or infer_types(program, scope)[1]:
        yield finding.render(text, where)


def _tells_all(task: Task, scope: Scope, text: str) -> bool:
    """Whether the task's text alone tells what a program's names and sizes are.

    What `global` computes only running it would tell, and no code of a file is run to load it.
    """
    nodes = list(ast.walk(parse_python(textwrap.dedent(task.global_ or ""))))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    sized = {name.removesuffix("_value") for name in bound if name.endswith("_value")}
    sized |= {node.slice.id for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name)}
    known = {*scope.inputs, *scope.fns, *scope.lists, *(f"{name}_value" for name in scope.sizes)}
    return sized <= scope.sizes.keys() and not (bound - known) & set(re.findall(r"\w+", text))
