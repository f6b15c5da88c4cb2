"""Wrong programs that pass on the task's own inputs and sizes are refused by `--strict`, and by held-out data."""

import pytest
import yaml

from step_runtime import Task, Verifier, loads_task
from step_runtime.tasks.task import dump_task
from step_runtime.verification.doubts import doubts
from step_runtime.verification.held_out import HeldOutTask
from tests.support.oracles import programs
from tests.support.paths import PROJECT

_CASES = yaml.safe_load((PROJECT / "tests/attacks/strict_cases.yaml").read_text())


def _case(kind: str, number: int) -> tuple[Task, str]:
    one = _CASES[kind][number]

    def code(text: str, row: str) -> str:
        return text.replace("$x", row).replace("$w", "input_data['W']")

    single, row = "elements" in one or "start" in one, "Buffer(fp32, [N])"
    given = "fp32" if single else row
    fn = {"name": "F", "apply": code(one["wrong"], "input[0]"), "input_dtype": given, "output_dtype": "fp32"}
    fns = [{**fn, "func_name": "fn", **({"init": [one["start"]]} if "start" in one else {})}]
    if "then" in one:
        fns.append({**fn, "apply": code(one["then"], "input[0]"), "name": "G", "func_name": "fn_then"})
    data = {"name": "X", "dtype": given if not single else "fp32", "data_gen": one.get("data", "torch.randn")}
    task = {
        "inputs": [{**data, "dims": ["N", "M"] if single else ["M"]}],
        "parameters": [{"name": "W", "dtype": "fp32", "dims": ["N"], "data_gen": one.get("weights", "torch.randn")}],
        "fns": fns,
        "outputs": [{"name": "Y", "dtype": "fp32", "dims": ["N", "M"] if "elements" in one else ["M"],
                     "data_transform": code(one["reference"], "input_data['X']")}],
        "sizes": yaml.safe_load(one.get("sizes", "{N: [5, 9], M: [3, 4]}")),
    }  # fmt: skip
    if "$w" not in one["wrong"]:
        del task["parameters"]
    text = "step.Accum(fn=fn, b=1).apply(X)" if "start" in one else "step.Map(fn=fn).apply(X)"
    return loads_task(
        yaml.safe_dump(task)
    ), f"return {f'step.Map(fn=fn_then).apply({text})' if 'then' in one else text}"


@pytest.mark.parametrize(("kind", "number"), [(kind, at) for kind, cases in _CASES.items() for at in range(len(cases))])
def test_a_wrong_program_is_no_release(kind: str, number: int) -> None:
    task, text = _case(kind, number)
    verifier = Verifier(task)
    assert verifier.verify(text).passed
    assert [*verifier.stress(text), *(each for each in doubts(task, None) if each.code == "fixed-dim")]
    held = HeldOutTask(task, 1).judge(text)
    assert held.failed or held.warnings or kind == "buffers" or "D" in task.sizes


@pytest.mark.parametrize(
    ("folder", "name", "right", "wrong"),
    [
        ("tasks", "index/2", "input[0].topk(3)", "input[0][:64].topk(3)"),
        ("tasks-field", "transducer_loss", "-input[0][-1]", "-input[0][:64][-1]"),
        ("tasks-field", "muon_step", "input[0] / (input[0].norm()", "input[0] / (input[0][:64].norm()"),
    ],
)
def test_a_function_of_the_first_numbers_is_no_release(folder: str, name: str, right: str, wrong: str) -> None:
    """Where sizes beyond 128 are too large to run, at smaller ones; where the numbers left out rarely count, too."""
    [(task, text)] = [(task, text) for each, task, text in programs(folder, "oracles") if each == name]
    assert right in dump_task(task)
    verifier = Verifier(loads_task(dump_task(task).replace(right, wrong, 1)))
    assert verifier.verify(text).passed
    assert [each.code for each in verifier.stress(text)] == ["stress-sizes"]
