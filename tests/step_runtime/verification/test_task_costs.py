"""Costs of a task's programs, with its own functions and references."""

import pytest

from step_runtime import loads_task
from step_runtime.base.errors import TaskError
from step_runtime.verification.task_costs import Rejected, TaskCosts
from step_runtime.verification.verify import Verifier, verify
from tests.support.oracles import oracle, task
from tests.support.task_texts import DIV, EXP, SUM, task_text


def test_a_program_of_the_benchmark() -> None:
    """RMSNorm on scalars: figures, the bound and the critical path."""
    priced = TaskCosts(task("norm/2")).price(oracle("norm/2"))
    assert priced.cost.figures() == {"memory": 68, "traffic": 896, "operations": 735, "time": 133, "queue": 15}
    assert (priced.bound.traffic, priced.bound.operations, priced.bound.time) == (896, 735, 112)
    path = [priced.program.nodes[number].op.name for number in priced.cost.path]
    assert path == ["Copy", "Map", "Accum", "Map", "Map", "Map", "Repeat", "Zip", "Map"]


@pytest.mark.parametrize(("changes", "quoted"), [({"Q": 3}, "no dim Q; expected one of"), ({"D": 0}, "D")])
def test_sizes_that_the_task_does_not_have(changes: dict[str, int], quoted: str) -> None:
    with pytest.raises(TaskError, match=quoted):
        TaskCosts(task("norm/2")).sizes(changes)


def test_a_size_that_global_sets_cannot_be_changed() -> None:
    changed = task("norm/2").model_copy(update={"global_": "ctx[D] = 16"})
    with pytest.raises(TaskError, match="`global` sets D to 16"):
        TaskCosts(changed).sizes({"D": 8})


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("return step.Zip().apply((E0, E0))", "affine"),
        ("return step.Bufferize(a=1).apply(E0)", "shape"),
    ],
)
def test_a_program_that_fails_a_check_has_no_cost(text: str, stage: str) -> None:
    with pytest.raises(Rejected) as rejected:
        TaskCosts(task("norm/2")).price(text)
    assert stage in {diagnostic.stage for diagnostic in rejected.value.diagnostics}


WHOLE = """
  name: Whole
  apply: "return [torch.softmax(input[0], 0)]"
  input_dtype: Buffer(fp32, [M])
  output_dtype: Buffer(fp32, [M])
  func_name: fn_whole
"""
TASK = task_text(
    ["{name: E0, dtype: fp32, dims: [M, N], data_gen: torch.randn}"],
    [EXP, SUM, DIV, WHOLE],
    ["{name: S0, dtype: fp32, dims: [M, N], data_transform: \"torch.softmax(input_data['E0'], -1)\"}"],
)
STREAMED = """\
E1, E2 = step.Copy().apply(step.Map(fn=fn_exp).apply(E0))
E3 = step.Repeat(n=M).apply(step.Accum(fn=fn_sum, b=1).apply(E1))
E4 = step.Map(fn=fn_div).apply((E2, E3))
return E4
"""
"""It holds 4 + 4 bytes, and a queue of M - 1 elements; 9 operations an element."""
BUFFERED = """\
E1 = step.Bufferize(a=1).apply(E0)
E2 = step.Map(fn=fn_whole).apply(E1)
return step.Streamify().apply(E2)
"""
"""It holds 4 + 8 M bytes, and no element waits; 11 operations an element."""


@pytest.mark.parametrize(
    ("limits", "streamed", "buffered"),
    [
        ("{memory: 4*M + 4}", True, False), ("{memory: 8*M + 4}", True, True), ("{memory: 4*M + 3}", False, False),
        ("{queue: 0}", False, True), ("{queue: 3}", False, True), ("{queue: M - 1}", True, True),
        ("{operations: 9*M*N}", True, False), ("{operations: 11*M*N, queue: 0}", False, True),
        ("{traffic: 8*M*N}", True, True), ("{traffic: 8*M*N - 1}", False, False), ("{time: M*N + 20}", True, True),
        ("{time: M*N}", False, False), ("{}", True, True),
    ],
)  # fmt: skip
def test_limits_tell_the_operators_meant_from_others(limits: str, streamed: bool, buffered: bool) -> None:
    """At every set of sizes."""
    verifier = Verifier(loads_task(f"{TASK}limits: {limits}", "softmax"))
    for text, allowed in ((STREAMED, streamed), (BUFFERED, buffered)):
        verdict = verifier.verify(text)
        assert (verdict.passed, verdict.stage) == ((True, None) if allowed else (False, "cost")), verdict.render(text)


def test_the_finding_names_the_primitive_that_costs_most() -> None:
    """In the one error style, with the limit as written and its value."""
    verdict = verify(loads_task(f"{TASK}limits: {{memory: 4*M + 4, queue: 3}}", "softmax"), BUFFERED)
    assert verdict.render(BUFFERED, "softmax") == (
        "softmax:1:6: cost-memory: the program's memory is 44 bytes; the task's limit is 4*M + 4 = 24\n"
        "  E1 = step.Bufferize(a=1).apply(E0)\n"
        "       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  Bufferize(a=1) holds 44 bytes\n"
        "  at M=5\n"
        "  hint: hold less at a time: fold elements as they come, and let no stream wait for another"
    )
    verdict = verify(loads_task(f"{TASK}limits: {{memory: 4*M + 4, queue: 3}}", "softmax"), STREAMED)
    [found] = verdict.diagnostics
    assert (found.code, found.span and found.span.line) == ("cost-queue", 3)
    assert "operand 0 of Map(fn=fn_div) waits in a queue of 4 elements, 16 bytes" in found.details


def test_correctness_comes_first() -> None:
    """A wrong program fails where it is wrong, whatever it costs."""
    text = "return step.Streamify().apply(step.Bufferize(a=1).apply(E0))"
    assert verify(loads_task(f"{TASK}limits: {{memory: 0}}", "softmax"), text).stage == "value"


@pytest.mark.parametrize(
    ("limits", "quoted"),
    [
        ("{memory: 4*Q}", "limits.memory: dim Q has no size"),
        ("{memory: -4}", "limits.memory: expected a dim"),
        ("{memory: [4]}", "limits.memory"),
        ("{speed: 4}", "limits.speed"),
    ],
)
def test_a_limit_that_is_none_is_refused(limits: str, quoted: str) -> None:
    with pytest.raises(TaskError, match=f"softmax:{len(TASK.splitlines()) + 1}: ") as refused:
        loads_task(f"{TASK}limits: {limits}", "softmax")
    assert quoted in str(refused.value)
