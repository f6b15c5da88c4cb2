"""Offers hold the programs found and cheaper rewrites of them, all verified, with what each costs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.actions.offers import Generated, Offer, Offering, Solution, solved_text, write_offer, write_solution
from pipeline.base.choices import Objective
from pipeline.base.errors import Exit
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


def offer(objective: Objective) -> Offer:
    offering = Offering(objective, Metric(ThreadPoolExecutor(1)))
    return offering.offer(task("norm/2"), [offering.solution(task("norm/2"), NEEDLESS, "embedded", "answer 1")])


@pytest.mark.parametrize("objective", ["operations", "time"])
def test_the_cheapest_program_is_offered(objective: Objective) -> None:
    """A rewrite of what was found, with the stage that found it; every program passes."""
    found = offer(objective)
    figures = [program.figures[objective] for program in found.programs]  # type: ignore[index]
    assert figures == sorted(figures) and len(figures) > 1
    assert (found.best.by, found.best.draft) == ("embedded", NEEDLESS)
    assert all(verify(task("norm/2"), program.impl).passed for program in found.programs)


def test_by_default_the_program_found_is_offered(tmp_path: Path) -> None:
    """The others are numbered files beside it, in the table and in the JSON; those of an earlier call are removed."""
    found = offer("correctness")
    assert found.best.rewrites == () and len(found.programs) > 1
    stale = tmp_path / "2.alternatives" / "99.step"
    stale.parent.mkdir()
    stale.write_text("old")
    written = write_offer(task("norm/2"), found, [tmp_path / "2.yaml"])
    assert sorted(path.name for path in stale.parent.iterdir()) == [path.name for path in written.alternatives]
    lines = list(written.lines())
    assert (
        lines[0].endswith("2.yaml") and "costs at" in lines[1] and lines[2].split()[:3] == ["program", "memory", "time"]
    )
    assert "compute before repeating" in lines[-1] + lines[-2]
    programs = written.to_dict()["programs"]
    assert [program["file"] for program in programs] == [None, *map(str, written.alternatives)]
    assert all(set(program["cost"]) >= {"memory", "time", "traffic", "operations"} for program in programs)


def test_without_a_folder_programs_are_numbered() -> None:
    written = write_offer(task("norm/2"), offer("correctness"), [])
    assert written.files == written.alternatives == ()
    assert any(line.split()[0] == "2" for line in written.lines())


SOFTMAX = read_task(PROJECT / "data/tasks-extra/softmax.yaml")
CLEAN = (PROJECT / "data/oracles-extra/softmax.step").read_text()
OVERFLOWS = """\
E1, E2 = step.Copy().apply(step.Map(fn=fn_exp).apply(E0))
return step.Map(fn=fn_div).apply((E2, step.Repeat(n=D).apply(step.Accum(fn=fn_add, b=1).apply(E1))))
"""


@pytest.mark.parametrize("objective", ["correctness", "operations"])
def test_a_program_without_findings_is_preferred(objective: Objective) -> None:
    """To one found before it that costs less; the findings of the others are shown, in the JSON too."""
    offering = Offering(objective, Metric(ThreadPoolExecutor(1)))
    overflows, clean = (
        Solution(text, text, "search", "", findings=offering.metric.findings(SOFTMAX, text))
        for text in (OVERFLOWS, CLEAN)
    )
    found = offering.offer(SOFTMAX, [overflows, clean])
    assert found.best.findings == () and found.best.draft == CLEAN
    warned = {each["impl"]: each["warnings"] for each in write_offer(SOFTMAX, found, []).to_dict()["programs"]}
    assert any(lines and lines[0].startswith("stress-overflow: ") for lines in warned.values())
    alone = write_offer(SOFTMAX, Offer.unpriced([overflows]), [])
    assert any(line.startswith("warning: stress-overflow: ") for line in alone.lines())


def test_warnings_about_a_task_stand_beside_those_about_its_program() -> None:
    """On stdout and in the JSON."""
    generated = Generated({"warnings": {"a": ["of its program"]}}, "a: verified", Exit.OK)
    doubted = generated.doubted({"a": ["of the task"], "b": []})
    assert doubted.as_json["warnings"] == {"a": ["of the task", "of its program"]}
    assert doubted.text == "a: verified\n\nof the task"


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
