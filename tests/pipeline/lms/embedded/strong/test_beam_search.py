"""Several drafts grow side by side; sections are repeated where inputs are left for them."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.lowering import lower, tidy
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit, StepsExhausted
from pipeline.lms.embedded.strong.beam_search import BeamSearch
from pipeline.lms.embedded.strong.levels import Child, Levels, State
from pipeline.lms.embedded.strong.search_style import SearchStyle
from pipeline.lms.embedded.strong.strong_proposer import learned_for
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.program.printer import print_program
from step_runtime.tasks.reader import loads_task
from step_runtime.verification.verify import Verifier
from tests.support.beams import VIEW, beam_search


def best(finished: list[Draft]) -> Draft:
    return max(finished, key=lambda draft: 60 * draft.similarity + draft.worth)


def test_a_section_is_repeated_for_the_input_that_is_left() -> None:
    """The right program applies each function twice, although no function names the second input."""
    search = beam_search()
    search.run()
    program, _ = lower(VIEW.table, best(search.finished), lambda: False)
    assert Verifier(VIEW.task).verify(print_program(tidy(program))).passed


def test_finished_drafts_apply_all_functions_and_give_the_outputs() -> None:
    """Each is recorded with what its moves are worth and how similar it is to the reference."""
    search = beam_search(trust=0.3)
    search.run()
    assert search.finished
    for draft in search.finished:
        assert {fn for move in draft.moves for fn in move.functions()} == set(VIEW.fns)
        assert len(draft.results) == len(VIEW.scope.outputs) and 0 <= draft.similarity <= 1
    assert any(draft.worth for draft in search.finished)


def test_every_function_may_be_applied_once() -> None:
    """Drafts then have as many moves as the task has functions, and no section is repeated."""
    view = TaskView(loads_task(ROOT))
    edges = learned_for(view, ((), ())).edge_model
    search = BeamSearch(view, edges, SeededChoice(0, 1.0), StepLimit(10**6), (), style=SearchStyle(once=True))
    search.run()
    assert search.finished and all(len(draft.moves) == len(view.fns) for draft in search.finished)
    search = BeamSearch(VIEW, edges, SeededChoice(0, 1.0), StepLimit(10**6), (), style=SearchStyle(once=True))
    search.run()
    assert all(len(draft.moves) <= len(VIEW.fns) for draft in search.finished)


def test_a_search_ends_with_its_steps() -> None:
    """What was finished by then stays; the same seed gives the same drafts."""
    search = beam_search(steps=2_000)
    with pytest.raises(StepsExhausted):
        search.run()
    runs = [beam_search(3), beam_search(3)]
    for run in runs:
        run.run()
    assert [draft.worth for draft in runs[0].finished] == [draft.worth for draft in runs[1].finished]


def test_a_beam_is_as_wide_as_its_steps_allow() -> None:
    """It narrows as steps are used, so that drafts come to their end; it stays within its bounds."""
    search = beam_search(steps=10_000)
    start = State(tuple(range(search._pool.first)), frozenset(), (0,) * len(VIEW.fns), 0.0)
    widths = []
    for used in (0, 2_000, 4_000, 9_999):
        search._steps.used = used
        widths.append(search._width([start], 150.0))
    assert widths == sorted(widths, reverse=True) and len(set(widths)) > 2
    search._steps.used = 0
    assert widths[-1] == search._width([start], 10.0**9) < widths[0] < search._width([start], 0.0)
    applied = State(start.streams, frozenset(), (1,) * len(VIEW.fns), 0.0)
    search._steps.used = 4_000
    assert search._width([applied], 150.0) > widths[2]


def test_a_section_that_is_repeated_is_one_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft with it is as long as others that were continued once more, however many streams it has."""
    lengths: dict[int, set[int]] = {}
    offer = Levels.offer

    def noted(levels: Levels, length: int, child: Child) -> None:
        lengths.setdefault(length, set()).add(len({*child.parent.streams, *child.fresh}) - len(VIEW.table.inputs))
        offer(levels, length, child)

    monkeypatch.setattr(Levels, "offer", noted)
    search = beam_search()
    search.run()
    assert lengths[1] == {1} and max(lengths[3]) > 3
    assert any(draft.repeated == 0.5 for draft in search.finished)


ROOT = """
inputs: [{name: x, dtype: fp32, dims: [N], data_gen: torch.rand}]
fns:
- name: Better
  apply: return [(state[0] + input[0] / state[0]) / 2]
  init: [1]
  input_dtype: fp32
  output_dtype: fp32
  func_name: fn_better
outputs:
- name: root
  dtype: fp32
  dims: [N]
  data_transform:
  - |
    root = torch.ones(N_value)
    for _ in range(S_value):
        root = (root + input_data['x'] / root) / 2
    root
sizes: {N: [5, 4], S: [3, 2]}
"""


def test_a_step_is_folded_over_what_is_repeated_for_each() -> None:
    """No stream has the dim of the steps: a loop of the reference says how often."""
    view = TaskView(loads_task(ROOT))
    edges = learned_for(view, ((), ())).edge_model
    search = BeamSearch(view, edges, SeededChoice(0, 1.0), StepLimit(10**6), ())
    search.run()
    program, _ = lower(view.table, best(search.finished), lambda: False)
    assert Verifier(view.task).verify(print_program(tidy(program))).passed
