"""Generated pytest scripts: they pass and fail as the verifier does, and for the reason that it gives.

Most scripts are run in this process, test by test, as starting pytest again for each would take minutes.
"""

import random
from pathlib import Path
from textwrap import indent
from types import ModuleType

import pytest
import torch

from step_runtime import Task, Verifier, loads_task
from step_runtime.codegen import generate_test
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from tests.support import forked, oracles
from tests.support.edits import mutants
from tests.support.paths import PROJECT
from tests.support.samples import TUPLES


def rows_task(apply: str, reference: str, before: str = "") -> str:
    """A task of one function on rows."""
    return (
        f"{before}inputs: [{{name: E0, dtype: 'Buffer(fp32, [N])', dims: [M], data_gen: torch.randn}}]\n"
        f"fns:\n- name: F\n  apply: |\n{indent(apply, '    ')}\n  input_dtype: Buffer(fp32, [N])\n"
        "  output_dtype: Buffer(fp32, [N])\n  func_name: fn_f\n"
        f"outputs: [{{name: S0, dtype: 'Buffer(fp32, [N])', dims: [M], data_transform: [\"{reference}\"]}}]\n"
    )


SOFTMAX = rows_task("e = input[0].exp()\nreturn [e / e.sum()]", "input_data['E0'].softmax(-1)")
MEMO = rows_task(
    "memo.setdefault('first', input[0].mean())\nreturn [input[0] - memo['first']]",
    "input_data['E0'] - input_data['E0'][0].mean()",
    "global: 'memo = {}'\n",
)


def run_script(script: str) -> BaseException | None:
    """The first failure of a script's tests, as pytest would come to it; None if all pass."""
    module = ModuleType("generated")
    exec(compile(script, "generated", "exec"), module.__dict__)
    if hasattr(module, "test_parse"):
        return raised(module.test_parse)
    before = torch.get_default_dtype()
    torch.set_default_dtype(module.DTYPE)
    try:
        for sizes in module.SIZES:
            for seed in module.SEEDS:
                for test in (module.test_affine, module.test_shape, module.test_data):
                    torch.manual_seed(seed)
                    failure = raised(test, module.make_case(**sizes))
                    if failure is not None:
                        return failure
    finally:
        torch.set_default_dtype(before)
    return None


def raised(test: object, *args: object) -> BaseException | None:
    try:
        test(*args)  # type: ignore[operator]
    except (Exception, pytest.fail.Exception) as error:
        return error
    return None


def judged(task: Task, text: str) -> BaseException | None:
    """The failure of a script's last test, which asks the verifier; None if it passes."""
    module = ModuleType("generated")
    exec(compile(generate_test(task, text), "generated", "exec"), module.__dict__)
    return raised(module.test_verdict)


def test_script_holds_a_program_to_the_tasks_limits() -> None:
    """On what the verifier computes."""
    task, text = oracles.task("norm/2"), oracles.oracle("norm/2")
    assert judged(task.model_copy(update={"limits": {"memory": "4*D + 4"}}), text) is None
    failure = judged(task.model_copy(update={"limits": {"memory": "4*D"}}), text)
    assert "cost-memory: the program's memory is 68 bytes" in str(failure)


def test_script_holds_a_program_to_stress_inputs_where_the_task_does() -> None:
    """A program that overflows there fails in the script, too, and only there."""
    task = loads_task(SOFTMAX, "softmax")
    program = "E1 = step.Map(fn=fn_f).apply(E0)\nreturn E1\n"
    assert judged(task, program) is None
    failure = judged(task.model_copy(update={"stress": True}), program)
    assert "stress-overflow" in str(failure) and run_script(generate_test(task, program)) is None


def test_script_fails_where_a_function_that_keeps_state_makes_the_verifier_fail() -> None:
    """The other tests make the functions anew for each input, so that they see no state of another one."""
    task, program = loads_task(MEMO, "memo"), "return step.Map(fn=fn_f).apply(E0)\n"
    assert not Verifier(task).verify(program).passed
    assert run_script(generate_test(task, program)) is None
    assert "differs from the reference" in str(judged(task, program))


QUICK_NAMES = [(name, 1) for name in oracles.names() if name.endswith("/0")]
ALL_NAMES = [pytest.param(name, 8, marks=pytest.mark.slow) for name in oracles.names()]


@pytest.mark.parametrize(("name", "count"), [*QUICK_NAMES, *ALL_NAMES])
def test_script_agrees_with_the_verifier(name: str, count: int) -> None:
    """On the oracle and on a sample of its single-edit mutants."""
    task, text = oracles.task(name), oracles.oracle(name)
    scope = static_scope(task)
    all_mutants = [mutant.text for mutant in mutants(parse(text, scope)[0], scope)]
    verifier = Verifier(task)
    for program in [text, *random.Random(name).sample(all_mutants, count)]:
        verdict = verifier.verify(program)
        failure = run_script(generate_test(task, program))
        assert (failure is None) == verdict.passed, f"{verdict.render(program)}\n{program}\n{failure!r}"


QUICK = {
    "formats": ["fp8_product", "int8_linear", "masked_mean", "softmax_fp16"],
    "modern": [
        "crf_nll", "dtw", "group_norm_affine", "horner", "int4_dequant_matmul", "int8_matmul", "kv_cache_decode",
        "mamba_selective_scan", "patch_embedding", "rwkv_wkv", "top_p_filter", "welford_merge",
    ],
}  # fmt: skip
"""Tasks of the other sets whose scripts take little time."""


@pytest.mark.filterwarnings("ignore:.*the reference is the same without its clamp")
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in QUICK.items() for name in names])
def test_script_of_a_task_with_a_near_miss_agrees_with_the_verifier(kind: str, name: str) -> None:
    """The oracle passes; the near miss fails for its numbers, within the same tolerances."""
    task = loads_task((PROJECT / f"data/tasks-{kind}/{name}.yaml").read_text(), name)
    for folder, passes in ((f"oracles-{kind}", True), (f"near-misses-{kind}", False)):
        program = (PROJECT / f"data/{folder}/{name}.step").read_text()
        failure = run_script(generate_test(task, program))
        assert (failure is None) == passes, f"{program}\n{failure!r}"
        assert failure is None or "not close" in str(failure) or "not equal" in str(failure)


@pytest.mark.parametrize(("fold", "passes"), [("Accum", True), ("Scan", False)])
def test_script_of_a_task_with_an_input_of_tuples_agrees_with_the_verifier(fold: str, passes: bool) -> None:
    """Its stream and its reference have each component."""
    task = loads_task(TUPLES, "tuples")
    program = f"return step.{fold}(fn=fn_sum, b=1).apply(step.Map(fn=fn_scale).apply(G))"
    assert Verifier(task).verify(program).passed == passes == (run_script(generate_test(task, program)) is None)


@pytest.mark.parametrize(
    ("program", "stage", "reason"),
    [
        ("return fn_top(E0)", "parse", "fn_top(…) is not part"),
        ("return step.Accum(fn=fn_sum, b=2).apply(E0)", "type", "0 < b <= rank"),
        ("E1 = step.Zip().apply((E0, E0))\nreturn step.Accum(fn=fn_sum, b=1).apply(E0)", "affine", "consumed"),
        ("return E0", "shape", "shape"),
        ("return step.Accum(fn=fn_max, b=1).apply(E0)", "value", "not close"),
    ],
)
def test_script_fails_for_the_reason_the_verifier_gives(program: str, stage: str, reason: str) -> None:
    """Parse, type, affine, shape and value alike."""
    task = loads_task(ROW_SUM, "row_sum")
    failure = run_script(generate_test(task, program))
    assert Verifier(task).verify(program).stage == stage
    assert reason in str(failure)


def test_script_runs_under_pytest_by_itself(tmp_path: Path) -> None:
    """With nothing but this package installed; a narrow float in a snippet is widened, comments stay elsewhere."""
    path = tmp_path / "test_row_sum.py"
    path.write_text(generate_test(loads_task(ROW_SUM, "row_sum"), "def body(x):\n  # fold\n  " + RIGHT))
    result = forked.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(path))
    assert result.returncode == 0, result.stdout
    assert "19 passed" in result.stdout
    assert ".double()" in path.read_text()
    assert "# the larger" in path.read_text()


RIGHT = "return step.Accum(fn=fn_sum, b=1).apply(x)\n"
ROW_SUM = """
inputs:
- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.rand}
fns:
- {name: Sum, apply: "return [state[0] + input[0].float()]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_sum}
- {name: Max, apply: "return [torch.maximum(state[0], input[0])] # the larger", init: [-inf], input_dtype: fp32,
   output_dtype: fp32, func_name: fn_max}
outputs:
- {name: S0, dtype: fp32, dims: [N], data_transform: "input_data['E0'].sum(1)"}
"""
