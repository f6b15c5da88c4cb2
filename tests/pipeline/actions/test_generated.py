"""A solution is written into the task's own text, whose comments and layout stay."""

from __future__ import annotations

from pathlib import Path

from pipeline.actions.generated import solved_text, write_solution
from step_runtime.tasks.reader import loads_task, read_task
from tests.support.paths import PROJECT

TEXT = (PROJECT / "data/tasks-modern/horner.yaml").read_text()
IMPL = (PROJECT / "data/oracles-modern/horner.step").read_text()


def test_the_comments_of_the_task_file_are_kept(tmp_path: Path) -> None:
    task = loads_task(TEXT, "horner")
    (path,) = write_solution(task, IMPL, [tmp_path / "horner.yaml"], TEXT)
    assert path.read_text().startswith(TEXT.rstrip())
    solved = read_task(path)
    assert solved.impl is not None and solved.impl.strip() == IMPL.strip()
    assert solved.without_impl() == task


def test_a_program_that_the_file_has_is_replaced() -> None:
    """In its place or another; the comments before and behind it stay."""
    task = loads_task(TEXT, "horner")
    end = TEXT.index("\nsizes:")
    text = f"{TEXT[:end]}\nimpl: |\n  return x\n\n  # its end\n# behind it{TEXT[end:]}"
    assert solved_text(task, IMPL, text).startswith(f"{TEXT[:end]}\n# behind it{TEXT[end:].rstrip()}\n\nimpl: |\n")


def test_a_text_that_has_a_program_or_is_another_task_is_written_again() -> None:
    task = loads_task(TEXT, "horner")
    for text in (None, f"{TEXT}\nimpl: |\n  return x\n", TEXT.replace("[3, 2]", "[4, 2]", 1)):
        solved = loads_task(solved_text(task, IMPL, text), "horner")
        assert solved.without_impl() == task and (solved.impl or "").strip() == IMPL.strip()
