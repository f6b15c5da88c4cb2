"""The program of a task is simplified, or the cheapest of its rewrites; what is written keeps the task file's text."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.actions.generate_programs import Found, Solution, Solutions, solved_text, write_solution
from pipeline.base.settings import Objective
from pipeline.verification.metric import Metric
from step_runtime import verify
from step_runtime.tasks.reader import loads_task, read_task
from tests.support.oracles import task
from tests.support.paths import PROJECT

NEEDLESS = """\
E1, E2 = step.Copy().apply(E0)
E3 = step.Repeat(n=D).apply(step.Accum(fn=fn_add, b=1).apply(step.Map(fn=fn_square).apply(E1)))
E4 = step.Map(fn=fn_sqrt).apply(step.Map(fn=fn_addeps).apply(step.Map(fn=fn_divbyd).apply(E3)))
return step.Map(fn=fn_div).apply((E2, E4))
"""
"""RMSNorm with the root of the mean computed for every element."""


def solution(objective: Objective) -> Solution:
    solutions = Solutions(objective, Metric(ThreadPoolExecutor(1)))
    return solutions.of(task("norm/2"), Found(NEEDLESS, "embedded", "answer 1"))


@pytest.mark.parametrize("objective", ["operations", "time"])
def test_the_cheapest_rewrite_that_passes_is_taken(objective: Objective) -> None:
    """With what it costs, and what found the program that it was made of."""
    found = solution(objective)
    assert found.rewrites and found.figures[objective] > 0  # type: ignore[index]
    assert (found.by, found.draft) == ("embedded", NEEDLESS)
    assert verify(task("norm/2"), found.impl).passed


def test_by_default_the_program_found_is_kept() -> None:
    found = solution("correctness")
    assert (found.rewrites, found.figures) == ((), {}) and verify(task("norm/2"), found.impl).passed


SOFTMAX = read_task(PROJECT / "data/tasks-extra/softmax.yaml")
CLEAN = (PROJECT / "data/oracles-extra/softmax.step").read_text()
OVERFLOWS = """\
E1, E2 = step.Copy().apply(step.Map(fn=fn_exp).apply(E0))
return step.Map(fn=fn_div).apply((E2, step.Repeat(n=D).apply(step.Accum(fn=fn_add, b=1).apply(E1))))
"""


@pytest.mark.parametrize("objective", ["correctness", "operations"])
def test_a_program_without_findings_is_better(objective: Objective) -> None:
    """Than one found before it that costs less; of two alike, the cheaper, then the first."""
    solutions = Solutions(objective, Metric(ThreadPoolExecutor(1)))
    overflows, clean = (Solution(text, text, "search", "", findings=solutions.metric.findings(SOFTMAX, text))
                        for text in (OVERFLOWS, CLEAN))  # fmt: skip
    assert overflows.findings[0].code == "stress-overflow"
    assert solutions.better(overflows, clean) is clean is solutions.better(clean, overflows)
    assert solutions.better(clean, Solution(CLEAN, "later", "search", "")) is clean


TEXT = (PROJECT / "data/tasks-modern/horner.yaml").read_text()
IMPL = (PROJECT / "data/oracles-modern/horner.step").read_text()


def test_the_task_files_own_text_is_kept(tmp_path: Path) -> None:
    """Its comments too, also around a program that it has; the text of another task is not."""
    task, path, end = loads_task(TEXT, "horner"), tmp_path / "horner.yaml", TEXT.index("\nsizes:")
    write_solution(task, IMPL, [path], TEXT)
    assert path.read_text().startswith(TEXT.rstrip())
    assert read_task(path).without_impl() == task
    text = f"{TEXT[:end]}\nimpl: |\n  return x\n\n  # its end\n# behind it{TEXT[end:]}"
    assert solved_text(task, IMPL, text).startswith(f"{TEXT[:end]}\n# behind it{TEXT[end:].rstrip()}\n\nimpl: |\n")
    for text in (None, TEXT.replace("[3, 2]", "[4, 2]", 1)):
        solved = loads_task(solved_text(task, IMPL, text), "horner")
        assert solved.without_impl() == task and (solved.impl or "").strip() == IMPL.strip()
