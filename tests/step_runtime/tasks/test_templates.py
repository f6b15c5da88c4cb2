"""Catalogues: functions with open dims and numbers, which tasks give in one line."""

from pathlib import Path

import pytest

from pipeline.base.files import DATA
from step_runtime import TaskError, load_task, verify
from step_runtime.tasks.includes import catalogue

TASK = """\
inputs:
- {name: X, dtype: fp32, dims: [D, N], data_gen: torch.randn}
- {name: W, dtype: "Buffer(fp32, [D, H*K])", dims: [1], data_gen: torch.randn}
fns_from: rows
fns: ["fn_matvec(D, H*K)", "fn_vmulc(H*K, K_value**-0.5)", fn_sadd]
outputs:
- name: S0
  dtype: fp32
  dims: [H*K, N]
  data_transform:
  - input_data['X'] @ input_data['W'][0].T * K_value**-0.5
sizes: {H: [2, 3], K: [4, 6]}
"""
PROGRAM = """\
x = step.Bufferize(a=1).apply(X)
w = step.Repeat(n=N).apply(W)
w = step.Flatten(L=[1]).apply(w)
y = step.Map(fn=fn_matvec_D_H_x_K).apply((x, w))
return step.Streamify().apply(step.Map(fn=fn_vmulc_H_x_K_K_xx_m0_5).apply(y))
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "task.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_task_has_instances_of_the_shipped_catalogue_at_its_dims(tmp_path: Path) -> None:
    task = load_task(written(tmp_path, TASK))
    assert [fn.input_dtype for fn in task.fns][:2] == [
        ["Buffer(fp32, [D])", "Buffer(fp32, [D, H * K])"],
        "Buffer(fp32, [H * K])",
    ]
    assert task.fns[1].apply == "return [input[0] * K_value ** (-0.5)]\n"
    verdict = verify(task, PROGRAM)
    assert verdict.passed, verdict.diagnostics


@pytest.mark.parametrize(("entry", "reason"), [
    ("fn_matvec(D)", "expected 2 arguments, fn_matvec(a, b); found 1"),
    ("fn_matvek(D, N)", "no function 'fn_matvek'; did you mean fn_matvec?"),
    ("fn_matvec(D, a=N)", "expected a function's name, or an instance such as fn_matvec(D, F)"),
    ("fn_matvec", "expected 2 arguments"),
    ("fn_relu(D", "expected a function's name"),
])  # fmt: skip
def test_a_wrong_instance_is_named_with_its_line(entry: str, reason: str, tmp_path: Path) -> None:
    path = written(tmp_path, TASK.replace("fn_sadd", f'"{entry}"'))
    with pytest.raises(TaskError) as found:
        load_task(path)
    assert f"{path}:5: fns[2]: " in str(found.value) and reason in str(found.value)


def test_every_function_of_the_shipped_catalogue_works(tmp_path: Path) -> None:
    """Each is an instance at distinct dims, and its code runs on an element of its types."""
    templates = catalogue(DATA / "rows.fns.yaml")
    assert len(templates) > 60
    dims = {"fn_cat": "D, H, D + H", "fn_narrow": "D, H, 1"}
    entries = []
    for name, each in templates.items():
        given = [*["D", "H", "K"][: len(each.dims)], *["2.0" for _ in each.numbers]]
        entries.append(f"{name}({dims.get(name, ', '.join(given))})" if given else name)
    own = ", ".join(f'"{entry}"' for entry in entries)
    text = TASK.replace('"fn_matvec(D, H*K)", "fn_vmulc(H*K, K_value**-0.5)", fn_sadd', own)
    assert len(load_task(written(tmp_path, text.replace("sizes: {", "sizes: {D: [16, 8], "))).fns) == len(templates)


def test_the_code_of_a_function_finds_its_template() -> None:
    scale = catalogue(DATA / "rows.fns.yaml")["fn_vmulc"]
    row = "Buffer(fp32, [H*K])"
    assert scale.matching([row], row, "return [input[0] * 0.5]") == "fn_vmulc(H*K, 0.5)"
    assert scale.matching([row], row, "return [input[0] ** 0.5]") is None
    assert scale.matching([row], "fp32", "return [input[0] * 0.5]") is None
    assert scale.matching([row], row, "return [input[0] * input[0]]") is None
