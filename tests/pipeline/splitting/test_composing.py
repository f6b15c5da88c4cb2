"""Composing holds these: parts become one right program, and what does not fit is named by its joint."""

import pytest

from pipeline.splitting.composing import JointError, compose, wrong_joint
from pipeline.splitting.cuts import find_cuts
from pipeline.splitting.subtasks import SubtaskWriter
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.verify import Verifier
from tests.pipeline.splitting.layers import layer

NORM = """\
a, b = step.Copy().apply(x)
return step.Map(fn=fn_scale).apply((a, step.Map(fn=fn_meansquare).apply(b)))
"""
GATE = "return step.Map(fn=fn_gate).apply(n)\n"
REST = "return step.Map(fn=fn_product).apply((gate, step.Map(fn=fn_up).apply(n)))\n"


def parts(task: Task) -> list[SolvedTask]:
    writer = SubtaskWriter(task, find_cuts(task.name, task.statement))
    found = []
    for goal, cuts, program in (("n", [], NORM), ("gate", ["n"], GATE), ("y", ["n", "gate"], REST)):
        subtask = writer.subtask(goal, cuts)
        assert subtask is not None and Verifier(subtask).verify(program).passed
        found.append(SolvedTask(subtask, program))
    return found


def test_parts_in_any_order_compose_to_a_right_program() -> None:
    """What two parts use is copied, and computed once."""
    task = layer()
    made = compose(task, parts(task)[::-1])
    assert Verifier(task).verify(made.text).passed
    assert made.joints == ("n", "gate", "y") and made.text.count("fn_scale") == 1


def test_a_joint_whose_types_differ_is_coerced() -> None:
    task = layer()
    norm, gate, rest = parts(task)
    text = gate.task.statement.replace(
        "dtype: Buffer(fp32, [D])\n    dims: [N, B]", "dtype: Buffer(fp32, [D, N])\n    dims: [B]"
    )
    assert "[D, N]" in text
    program = "return step.Map(fn=fn_gate).apply(step.Bufferize(a=1).apply(step.Streamify().apply(n)))\n"
    other = SolvedTask(loads_task(text, "gate"), program)
    assert Verifier(task).verify(compose(task, [norm, other, rest]).text).passed


def test_a_joint_that_does_not_fit_is_named() -> None:
    task = layer()
    norm, gate, rest = parts(task)
    with pytest.raises(JointError, match=r"^gate: no part makes this stream"):
        compose(task, [norm, rest])
    with pytest.raises(JointError, match=r"^gate: more than one part"):
        compose(task, [norm, gate, gate, rest])
    circular = SolvedTask(
        loads_task(norm.task.statement.replace("- name: x", "- name: gate").replace("'x'", "'gate'"), "n"),
        NORM.replace("x)", "gate)"),
    )
    with pytest.raises(JointError, match=r"depends on itself|no primitives of structure"):
        compose(task, [circular, gate, rest])
    wrong = loads_task(rest.task.statement.replace("dims: [N, B]", "dims: [B, B]", 1), "y")
    with pytest.raises(JointError, match="no primitives of structure lead there"):
        compose(task, [norm, gate, SolvedTask(wrong, REST)])


def test_the_first_joint_with_other_numbers_is_found() -> None:
    """As a sub-task's data may be unlike what the whole gives it."""
    task = layer()
    norm, gate, rest = parts(task)
    found = find_cuts(task.name, task.statement)
    made = compose(task, [norm, gate, rest])
    assert wrong_joint(task.name, task.statement, made.joined, made.joints, found) is None
    unscaled = compose(task, [norm, SolvedTask(gate.task, GATE.replace("fn_gate", "fn_up")), rest])
    assert wrong_joint(task.name, task.statement, unscaled.joined, unscaled.joints, found) == "gate"
