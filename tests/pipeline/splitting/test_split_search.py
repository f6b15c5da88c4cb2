"""Splitting holds these: sub-tasks are solved one by one and composed, within a budget."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.base.errors import UsageError
from pipeline.splitting import split_search
from pipeline.splitting.library import Library
from pipeline.splitting.outcomes import SplitOutcome
from pipeline.splitting.split_files import read_split, split_folder, write_split
from pipeline.splitting.split_search import split_all
from pipeline.synthesis.search_budget import SearchBudget, SearchOutcome
from pipeline.verification.workers import LocalWorkers
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verifier
from tests.pipeline.splitting.layers import TEXT, layer


def split(task: Task, candidates: int = 100_000, budget: SearchBudget | None = None, **options: Any) -> SplitOutcome:
    limits = budget or SearchBudget(600, candidates)
    ((_, outcome),) = split_all([task], limits, LocalWorkers(1), **options)
    return outcome


def test_a_task_is_solved_by_its_parts_and_what_the_library_knows_is_not_searched(tmp_path: Path) -> None:
    task, library = layer(), Library(tmp_path / "library")
    first = split(task, library=library)
    assert first.impl is not None and Verifier(task).verify(first.impl).passed
    assert [part.task.outputs[0].name for part in first.parts] == ["n", "gate", "y"]
    assert all(Verifier(part.task).verify(part.program).passed for part in first.parts)
    again = split(task, library=library)
    assert again.impl is not None and again.candidates == 0 < first.candidates
    assert all(attempt.known for attempt in again.attempts)


SAME = """\
E0, E1 = step.Copy().apply(x)
E2 = step.Map(fn=fn_meansquare).apply(E1)
return step.Map(fn=fn_scale).apply((E0, E2))
"""


def test_other_programs_of_a_subtask_give_none_that_is_wrong_or_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of a sub-task found a second program that makes the whole wrong, and one that writes the first anew."""
    found = split_search.programs_of

    def more(outcome: SearchOutcome) -> list[str]:
        programs = [*found(outcome)]
        return [*programs, "return x\n", SAME] if programs and "fn_meansquare" in programs[0] else programs

    monkeypatch.setattr(split_search, "programs_of", more)
    task = layer()
    outcome = split(task)
    assert any(attempt.others for attempt in outcome.attempts)
    assert outcome.impl is not None and outcome.variants == ()


def test_files_of_a_split_are_read_again_and_their_programs_are_taken(tmp_path: Path) -> None:
    """An edited file counts as it is; its program is verified, and a wrong one is searched for."""
    task = layer()
    write_split(tmp_path, task, split(task))
    kept = read_split(tmp_path, task)
    assert sorted(kept) == ["gate", "n", "y"] and all(part.impl for part in kept.values())
    gate = split_folder(tmp_path, task) / "gate.yaml"
    gate.write_text(kept["gate"].text_with("return n\n"))
    again = split(task, kept=lambda _: read_split(tmp_path, task))
    assert again.impl is not None
    assert [attempt.goal for attempt in again.attempts if not attempt.known] == ["gate"]


def test_a_file_that_is_no_subtask_is_reported_with_what_was_expected(tmp_path: Path) -> None:
    task = layer()
    own = split_folder(tmp_path, task)
    own.mkdir()
    (own / "h.yaml").write_text(task.statement)
    with pytest.raises(UsageError, match=r"h\.yaml: outputs: expected one output, named h as its file"):
        read_split(tmp_path, task)


def test_what_no_function_makes_stays_unsolved_and_the_outcome_says_so() -> None:
    """The parts that are solved are kept, and the sub-tasks share the budget of candidates."""
    start, end = TEXT.index("- name: Gate"), TEXT.index("- name: Product")
    outcome = split(loads_task(TEXT[:start] + TEXT[end:], "layer"), 3_000)
    assert outcome.impl is None and outcome.unsolved == ("y",)
    assert outcome.candidates <= 3_000
    assert "n" in [part.task.outputs[0].name for part in outcome.parts]
