"""The small proposer: its programs are well-typed, it sees types and likenesses only, and demonstrations change it."""

from __future__ import annotations

import re

import pytest

from pipeline.lms.embedded import SmallProposer, engine_named
from pipeline.lms.embedded.prompt.parsing import SolvedExample
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.language.parser import parse
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import dump_task
from step_runtime.verification.check import check_affine, check_outputs, infer_types
from step_runtime.verification.verify import Verifier
from tests.support.benchmark_tasks import EXAMPLES, oracle, task_named


def proposals(name: str, count: int, demonstrations: tuple[SolvedExample, ...] = ()) -> list[str]:
    view, read = TaskView(task_named(name)), (EXAMPLES, demonstrations)
    found = (SmallProposer().propose(view, read, seed, 0.7) for seed in range(count))
    return [program for program in found if program is not None]


@pytest.mark.parametrize("name", ["attn/0", "expert/1", "index/3", "norm/2", "rope/2"])
def test_every_proposal_is_well_typed_and_affine(name: str) -> None:
    """What comes to an end parses, type-checks, uses each stream once and returns what is declared."""
    view = TaskView(task_named(name))
    found = proposals(name, 12)
    for text in found:
        program, wrong = parse(text, view.scope)
        types, broken = infer_types(program, view.scope)
        assert [*wrong, *broken, *check_affine(program), *check_outputs(program, types, view.scope)] == []


def test_the_same_seed_gives_the_same_proposals() -> None:
    """Nothing but the request and its seed decides."""
    assert proposals("index/0", 8) == proposals("index/0", 8)


def test_it_asks_for_no_reading_of_the_reference() -> None:
    """The task's code is not even looked at: what reads it is worked out when first asked for, and never was."""
    view = TaskView(task_named("index/0"))
    SmallProposer().propose(view, (EXAMPLES, ()), 0, 0.7)
    assert not {"interpretation", "interpretations", "context"} & vars(view).keys()


def test_demonstrations_make_it_better() -> None:
    """With solutions of other tasks, some of its kind and some not, more of its programs are right."""
    shown = tuple(map(oracle, ("attn/0", "bmm/1", "etoe/0", "expert/0", "gemm/1", "index/1", "norm/2", "rope/0")))
    correct = []
    for demonstrations in ((), shown):
        verifiers = {name: Verifier(task_named(name)) for name in ("etoe/1", "expert/1", "gemm/2")}
        drawn = [(name, text) for name in verifiers for text in proposals(name, 8, demonstrations)]
        correct.append(sum(verifiers[name].verify(text).passed for name, text in drawn))
    assert correct[1] > correct[0] + 4


def test_demonstrations_of_other_kinds_do_not_hurt() -> None:
    """With solutions of unlike tasks only, about as many of its programs are right as without any."""
    shown = tuple(map(oracle, ("attn/1", "etoe/0", "expert/1", "norm/1", "norm/2")))
    correct = []
    for demonstrations in ((), shown):
        verifiers = {name: Verifier(task_named(name)) for name in ("index/0", "index/3", "rope/0")}
        drawn = [(name, text) for name in verifiers for text in proposals(name, 8, demonstrations)]
        correct.append(sum(verifiers[name].verify(text).passed for name, text in drawn))
    assert correct[1] >= correct[0] - 3


def test_names_of_functions_mean_nothing() -> None:
    """A demonstration whose functions are called otherwise teaches the same."""
    shown = oracle("expert/1")
    text = dump_task(shown.task)
    program = shown.program
    for spec in shown.task.fns:
        text, program = (re.sub(rf"{spec.func_name}\b", f"{spec.func_name[3:]}_f", part) for part in (text, program))
    other = SolvedExample(loads_task(text, "renamed"), program)
    assert proposals("etoe/1", 4, (shown,)) == proposals("etoe/1", 4, (other,))


def test_engines_go_by_their_names() -> None:
    """A size may stand with its version or without; the name that an engine gives itself names it again."""
    names = [engine_named(name).model for name in ("embedded", "embedded/small", "embedded/0")]
    assert names[0] == names[2] != names[1] and names[1].startswith("embedded/small-")
    assert [engine_named(name).model for name in names] == names
