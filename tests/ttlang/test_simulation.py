"""TT-Lang's programs are right or wrong as the simulator and the reference say, at a line of the program."""

from pathlib import Path

import pytest
import torch

from pipeline.languages import TaskError, TextTask, Verdict

pytest.importorskip("ttl")

from ttlang.language import TTLANG

TASKS = sorted(path.stem for path in (TTLANG.folder / "tasks").glob("*.yaml"))
NEAR_MISSES = sorted((TTLANG.folder / "near-misses").rglob("*.ttl"))


def task(name: str) -> TextTask:
    return TTLANG.task((TTLANG.folder / f"tasks/{name}.yaml").read_text(), name, f"{name}.yaml")


def judge(asked: TextTask, text: str) -> Verdict:
    return TTLANG.judge(asked, text, None)


def oracle(name: str) -> str:
    return (TTLANG.folder / f"oracles/{name}.ttl").read_text()


def test_there_are_sixteen_tasks_each_with_a_near_miss() -> None:
    """From a sum of matrices to attention over blocks."""
    assert len(TASKS) == 16 and {path.stem for path in NEAR_MISSES} == set(TASKS)


def test_torch_stays_as_it_was() -> None:
    """The simulator would make float32 of its narrow types, for whoever shares the process."""
    TTLANG.runner()
    assert (torch.float16.itemsize, torch.bfloat16.itemsize) == (2, 2)


@pytest.mark.parametrize("path", NEAR_MISSES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_near_misses_fail_where_they_state(path: Path) -> None:
    """With a place, but for wrong values."""
    verdict = judge(task(path.stem), path.read_text())
    assert verdict.stage == path.parent.name
    assert (verdict.diagnostics[0].span is None) == (verdict.stage == "value")


def test_a_deadlock_names_the_lines_at_which_kernels_wait() -> None:
    """And the sizes."""
    text = (TTLANG.folder / "near-misses/run/multiply_add.ttl").read_text()
    (found,) = judge(task("multiply_add"), text).diagnostics
    assert found.code == "deadlock" and found.span is not None
    assert "a_dfb.wait()" in text.splitlines()[found.span.line - 1]
    assert found.details[0].startswith(f"line {found.span.line}: blocked on wait()")
    assert found.details[-1] == "where R=64, C=96"


def test_a_block_that_nothing_waits_for_is_a_leak_of_its_buffer() -> None:
    """At the line that makes the buffer."""
    text = (TTLANG.folder / "near-misses/run/column_sum.ttl").read_text()
    (found,) = judge(task("column_sum"), text).diagnostics
    assert (found.code, found.message) == ("leak", "x_dfb: 1 of its blocks were pushed, and nothing waited for them")
    assert found.span is not None and "x_dfb =" in text.splitlines()[found.span.line - 1]


def test_what_is_never_written_is_said() -> None:
    """Outputs are no numbers at first."""
    text = oracle("add").replace("range(cols)", "range(cols - 1)")
    (found,) = judge(task("add"), text).diagnostics
    assert "got nothing that was written" in found.message


def test_a_block_that_no_memory_holds_is_no_wrong_program() -> None:
    """The worker is lost, and nothing is known of it."""
    text = oracle("add").replace("a_blk + b_blk", "ttl.block.fill(1, shape=(1000000, 1000000))")
    with pytest.raises(MemoryError):
        judge(task("add"), text)


@pytest.mark.parametrize("name", TASKS)
def test_oracles_are_held_out_and_stressed(name: str) -> None:
    """At drawn sizes and data, without a finding that says another function."""
    found = TTLANG.hold_out(task(name), oracle(name), 3)
    assert found.held_out and found.passed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("return a + b", "return a + q", "reference failed: NameError"),
        ("return a + b", "return a[:1]", r"reference failed: ValueError: out: expected \(64, 96\), got \(1, 96\)"),
        ("{R: 64, C: 96}", "{R: 60, C: 96}", "expected multiples of 32"),
        ("{R: 64, C: 96}", "{R: 64}", "expected a size for each of C, R"),
        ("[R, C]\n  b", "[R]\n  b", "expected a name with a list of 2 dims"),
        ("out: [R, C]", "a: [R, C]", "expected names, each once"),
    ],
)
def test_a_task_that_cannot_be_used_is_refused(old: str, new: str, message: str) -> None:
    """In words, when it is read or first run."""
    text = (TTLANG.folder / "tasks/add.yaml").read_text()
    assert old in text
    with pytest.raises(TaskError, match=message):
        judge(TTLANG.task(text.replace(old, new), "add", "add.yaml"), oracle("add"))
