"""What the strong proposer learns from: demonstrations and the base prompt's examples."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.lowering import tidy
from pipeline.lms.embedded.prompt.parsing import solved_examples
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepsExhausted
from pipeline.lms.embedded.strong.beam_search import BeamSearch
from pipeline.lms.embedded.strong.draft_search import DraftSearch
from pipeline.lms.embedded.strong.strong_proposer import Effort, _Found, _Sample, learned_for, propose
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from tests.support.beams import VIEW
from tests.support.benchmark_tasks import ROOT
from tests.support.renamed_tasks import SCANNED, demo, drafts, names, taught


def test_a_demonstration_counts_more_than_an_example() -> None:
    """The same program weighs more as a demonstration than as a reference example."""
    program, types, view = next(d for d in drafts(taught((), ())) if names(d[0]) == ["Map", "Scan"])
    as_example, as_demonstration = taught(demo(SCANNED), ()), taught((), demo(SCANNED))
    assert as_demonstration.edge_model.score(program, types, view.context) > as_example.edge_model.score(
        program, types, view.context
    )


def test_demonstrations_that_do_not_parse_teach_nothing() -> None:
    """A broken program leaves the counts as they were."""
    broken = taught((), demo("return step.Nothing().apply(E0)"))
    program, types, view = drafts(broken)[0]
    assert broken.edge_model.score(program, types, view.context) == taught((), ()).edge_model.score(
        program, types, view.context
    )


def test_the_instructions_examples_are_learnt_from() -> None:
    """The base prompt's examples all count."""
    examples = solved_examples((ROOT / "data/prompts/proposer.yaml").read_text())
    program, types, view = drafts(taught((), ()))[0]
    shown, untaught = taught(examples, ()), taught((), ())
    assert shown.edge_model.score(program, types, view.context) != untaught.edge_model.score(
        program, types, view.context
    )


def test_a_draft_that_exhausts_the_steps_is_answered_as_far_as_it_was_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample whose steps end within a draft answers with the best finished state of it."""
    *_, view = drafts(taught((), ()))[0]
    sample = DraftSearch.sample

    def exhausted(search: DraftSearch) -> Draft | None:
        sample(search)
        raise StepsExhausted

    answered = propose(view, taught((), ()), 0, 0.7, Effort())
    monkeypatch.setattr(DraftSearch, "sample", exhausted)
    found = [propose(view, taught((), ()), seed, 0.7, Effort(tries=3)) for seed in range(4)]
    assert answered is not None
    assert any(found)


def test_a_search_that_finds_nothing_like_the_reference_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are at most as many as the effort says, and none after one that finds what may be right."""
    runs: list[BeamSearch] = []

    def find_nothing(search: BeamSearch) -> None:
        runs.append(search)

    monkeypatch.setattr(BeamSearch, "run", find_nothing)
    sample = _Sample(VIEW, learned_for(VIEW, ((), ())), SeededChoice(0, 1.0), Effort(searches=1, readable=3))
    sample._search_widely()
    assert len(runs) == 3

    def find(search: BeamSearch) -> None:
        find_nothing(search)
        draft = Draft.start(VIEW.table.inputs)
        draft.similarity = draft.agreement = 1.0
        draft.computes = True
        search.finished.append(draft)

    monkeypatch.setattr(BeamSearch, "run", find)
    monkeypatch.setattr(_Sample, "_keep", lambda self, draft, worth: None)
    sample._search_widely()
    assert len(runs) == 4


@pytest.mark.parametrize("widely", [True, False])
def test_drafts_one_by_one_leave_steps_for_a_beam_search(monkeypatch: pytest.MonkeyPatch, widely: bool) -> None:
    """Also where they seem to lead somewhere."""

    def never_ending(search: DraftSearch) -> Draft | None:
        search.followed = 1.0
        while True:
            search._steps.spend(1000)

    monkeypatch.setattr(DraftSearch, "sample", never_ending)
    sample = _Sample(VIEW, learned_for(VIEW, ((), ())), SeededChoice(0, 1.0), Effort(steps=100_000, tries=10))
    sample._follow([None], None, widely=widely)
    assert 30_000 < sample._steps.used < 45_000 and sample._steps.most == 100_000


def test_equal_drafts_are_one_where_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that was found a hundred times is as likely as another one of its score; its best score counts."""
    program, *_ = drafts(taught((), ()))[0]
    other, *_ = next(found for found in drafts(taught((), ())) if names(found[0]) != names(program))
    choice = SeededChoice(0, 1.0)
    sample = _Sample(VIEW, taught((), ()), choice, Effort())
    monkeypatch.setattr(_Sample, "_follow", lambda self, *_, **__: None)
    monkeypatch.setattr(_Sample, "_search_widely", lambda self: None)
    found = [
        *(_Found(program, float(-turn), 0.0, 0.0, None) for turn in range(100)),
        _Found(other, 0.0, 0.0, 0.0, None),
    ]
    sample._found = found
    offered: list[tuple[tuple[Program, ...], tuple[float, ...]]] = []

    def pick(programs: tuple[Program, ...], scores: tuple[float, ...]) -> Program:
        offered.append((programs, scores))
        return programs[0]

    monkeypatch.setattr(choice, "pick", pick)
    assert sample.answer() == print_program(tidy(program))
    assert offered == [((program, other), (0.0, 0.0))]


@pytest.mark.parametrize(("best", "gaps"), [(1.0, {30.0}), (0.8, {30.0, 5.0})])
def test_similarity_counts_less_in_some_samples_where_no_draft_is_very_similar(
    monkeypatch: pytest.MonkeyPatch, best: float, gaps: set[float]
) -> None:
    """The dependences may be misread there, and the right draft be the less similar one."""
    program, *_ = drafts(taught((), ()))[0]
    other, *_ = next(found for found in drafts(taught((), ())) if names(found[0]) != names(program))
    monkeypatch.setattr(_Sample, "_follow", lambda self, *_, **__: None)
    monkeypatch.setattr(_Sample, "_search_widely", lambda self: None)
    seen = set()
    for seed in range(20):
        sample = _Sample(VIEW, taught((), ()), choice := SeededChoice(seed, 1.0), Effort())
        sample._found = [_Found(program, 0.0, 0.0, best, None), _Found(other, 0.0, 0.0, best - 0.5, None)]

        def pick(programs: tuple[Program, ...], scores: tuple[float, ...]) -> Program:
            seen.add(round(scores[0] - scores[1], 6))
            return programs[0]

        monkeypatch.setattr(choice, "pick", pick)
        sample.answer()
    assert seen == gaps
