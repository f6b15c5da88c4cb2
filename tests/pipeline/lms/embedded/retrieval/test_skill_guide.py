"""Skills are applied as a whole, to functions of the same roles and to streams that fit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.lms.embedded.answering import OfflineProposer
from pipeline.lms.embedded.lowering import lower
from pipeline.lms.embedded.prompt.parsing import Examples, SolvedExample
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.applications import outline
from pipeline.lms.embedded.retrieval.precedents import Precedents
from pipeline.lms.embedded.retrieval.skill_guide import SkillGuide
from pipeline.lms.embedded.small.small_proposer import SmallProposer
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.draft_search import DraftSearch
from pipeline.lms.embedded.strong.strong_proposer import StrongProposer, learned_for
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.base.functions import Fn
from step_runtime.program.printer import print_program
from tests.support.habitual_tasks import VIEW as WITHOUT_ROLES
from tests.support.skilled_tasks import VIEW, shown, skilled


def guides(known: Precedents, view: TaskView = VIEW) -> Iterator[tuple[SkillGuide, list[int]]]:
    """Guides of programs that begin, each with the types of its streams."""
    for seed in range(20):
        streams = list(view.table.inputs)
        given = view.callees_given(())
        yield SkillGuide(known, given, streams, [0] * 9, SeededChoice(seed, 1.0)), streams


def test_each_step_takes_what_the_steps_before_it_made() -> None:
    """The fold of the input, then the input with its fold; no skill starts whose functions are already applied."""
    started = 0
    for guide, streams in guides(skilled()):
        applied: set[Fn] = set()
        first = guide.next(applied)
        if first is None:
            continue
        started += 1
        assert (first.callee.fn.label, first.operands.sources, first.how) == ("fn_peak", (0,), "Accum")
        streams.append(streams[0])
        guide.made(1)
        second = guide.next(applied | {first.callee.fn})
        assert second is not None
        assert (second.callee.fn.label, second.operands.sources) == ("fn_gap", (0, 1))
        guide.made(2)
        assert guide.next(set(VIEW.fns)) is None
    assert started > 2


def test_a_skill_whose_roles_a_task_lacks_is_not_applied() -> None:
    """Nor is an example that shows no skill; one that was dropped may start again."""
    (example,) = (each for each in shown() if each.part)
    task = WITHOUT_ROLES
    unfit = Precedents(task.task, task.scope, [example])
    assert all(guide.next(set()) is None for guide, _ in guides(unfit, task))
    plain = Precedents(VIEW.task, VIEW.scope, [SolvedExample(example.task, example.program)])
    assert all(guide.next(set()) is None for guide, _ in guides(plain))
    for guide, _ in guides(skilled()):
        if (first := guide.next(set())) is not None:
            guide.drop()
            again = next(step for _ in range(50) if (step := guide.next(set())) is not None)
            assert again.operands == first.operands


def suggested(program: str | None) -> bool:
    """Whether a program is what the skill suggests: the input with its fold, in this order."""
    found = None if program is None else outline(SolvedExample(VIEW.task, program))
    return found is not None and [(each.how, each.sources) for each in found.applications] == [
        ("Accum", (0,)), ("Map", (0, 1)),
    ]  # fmt: skip


class SingleDrafts(StrongProposer):
    """Each sample is one draft: what the strong proposer chooses from, beam searches aside."""

    def propose(self, view: TaskView, read: Examples, seed: int, temperature: float) -> str | None:
        """The draft's program."""
        draft = DraftSearch(view, learned_for(view, read), SeededChoice(seed, 1.0), StepLimit(1_000_000)).sample()
        return None if draft is None else print_program(lower(view.table, draft, lambda: False)[0])


@pytest.mark.parametrize("proposer", [SingleDrafts(), SmallProposer()])
def test_both_proposers_apply_skills(proposer: OfflineProposer) -> None:
    """With the skill, more samples are the program that it suggests."""
    (skilled_example,) = (each for each in shown() if each.part)
    plain = SolvedExample(skilled_example.task, skilled_example.program)
    counts = [
        sum(suggested(proposer.propose(VIEW, ((example,), ()), seed, 1.0)) for seed in range(24))
        for example in (plain, skilled_example)
    ]
    assert counts[0] < counts[1]
