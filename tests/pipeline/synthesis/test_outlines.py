"""Outlines apply every function in the order of the task file."""

from pipeline.synthesis.outlines import outlines
from pipeline.synthesis.plans import PlanLowering
from step_runtime import verify
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import static_scope
from tests.support.small_tasks import of_scalars


def test_functions_listed_in_the_order_of_use_are_a_right_program() -> None:
    task = of_scalars({"double": ("2 * input[0]", 1), "sum": ("state[0] + input[0]", 0), "half": ("input[0] / 4", 1)},
                      "input_data['E0'].sum(1) / 2", out="[N]")  # fmt: skip
    scope = static_scope(task)
    found = list(outlines(scope))
    assert all([step.fn.label for step in plan.steps] == ["fn_double", "fn_sum", "fn_half"] for plan in found)
    programs = [print_program(PlanLowering(scope).program(plan)[0]) for plan in found[:1]]
    assert verify(task, programs[0]).passed


def test_a_function_without_operands_leaves_no_outline() -> None:
    task = of_scalars({"double": ("2 * input[0]", 1)}, "input_data['E0'] * 2")
    scope = static_scope(task)
    assert len(list(outlines(scope))) == 1
    fn = task.fns[0].model_copy(update={"input_dtype": "Multihot(fp32, 3)"})
    assert not list(outlines(static_scope(task.model_copy(update={"fns": [fn]}))))
