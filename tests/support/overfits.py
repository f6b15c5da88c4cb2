"""Programs that are right wherever their task tries them, and wrong elsewhere, each beside one that is right."""

from collections.abc import Mapping
from dataclasses import dataclass

from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task


@dataclass(frozen=True)
class Overfit:
    """A task, a program that is right, and one that fits what the task tries."""

    task: Task
    right: str
    wrong: str


def _rows(name: str, sizes: str, reference: str, functions: str, data_gen: str = "torch.randn") -> Task:
    """Numbers of M rows of N, of which the reference makes N."""
    return loads_task(
        f"""
inputs:
- {{name: X, dtype: fp32, dims: [M, N], data_gen: {data_gen}}}
fns:
- {{name: Add, apply: 'return [state[0] + input[0]]', init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}}
{functions}
outputs:
- {{name: Y, dtype: fp32, dims: [N], data_transform: "{reference}"}}
sizes: {sizes}
""",
        name,
    )


def _literal() -> Overfit:
    """M is 4 at all sizes that the task names."""
    functions = """
- {name: Mean, apply: 'return [input[0] / input_data_rows]', input_dtype: fp32, output_dtype: fp32, func_name: fn_mean}
- {name: Quarter, apply: 'return [input[0] / 4]', input_dtype: fp32, output_dtype: fp32, func_name: fn_quarter}
""".replace("input_data_rows", "M_value")
    task = _rows("literal", "{M: [4, 4], N: [3, 5]}", "input_data['X'].mean(-1)", functions)
    program = "return step.Map(fn={}).apply(step.Accum(fn=fn_add, b=1).apply(X))"
    return Overfit(task, program.format("fn_mean"), program.format("fn_quarter"))


def _parity() -> Overfit:
    """M is even at all sizes that the task names."""
    task = loads_task(
        "inputs:\n- {name: X, dtype: fp32, dims: [N], data_gen: torch.randn}\n"
        "outputs:\n- name: Y\n  dtype: fp32\n  dims: [M, N]\n"
        "  data_transform: \"input_data['X'][:, None].expand(-1, M_value)\"\nsizes: {M: [4, 6, 10], N: [3, 5, 9]}\n",
        "parity",
    )
    program = "return step.Repeat(n={}).apply(X)"
    return Overfit(task, program.format("M"), program.format("M // 2 * 2"))


def _sign() -> Overfit:
    """The data are from 0 to 1."""
    functions = """
- {name: Relu, apply: 'return [torch.relu(input[0])]', input_dtype: fp32, output_dtype: fp32, func_name: fn_relu}
"""
    reference = "torch.relu(input_data['X']).sum(-1)"
    task = _rows("sign", "{M: [5, 6], N: [7, 4]}", reference, functions, "torch.rand")
    program = "return step.Accum(fn=fn_add, b=1).apply({})"
    return Overfit(task, program.format("step.Map(fn=fn_relu).apply(X)"), program.format("X"))


def _distinct() -> Overfit:
    """K is larger than D at all sizes that the task names."""
    task = loads_task(
        """
inputs:
- {name: X, dtype: 'Buffer(fp32, [D, K])', dims: [N], data_gen: torch.randn}
fns:
- {name: Columns, apply: 'return [input[0].sum(-2)]', input_dtype: 'Buffer(fp32, [D, K])',
   output_dtype: 'Buffer(fp32, [D])', func_name: fn_columns}
- name: Larger
  apply: |
    return [input[0].sum(-2) if input[0].shape[-2] > input[0].shape[-1] else input[0].sum(-1)]
  input_dtype: Buffer(fp32, [D, K])
  output_dtype: Buffer(fp32, [D])
  func_name: fn_larger
outputs:
- {name: Y, dtype: 'Buffer(fp32, [D])', dims: [N], data_transform: "input_data['X'].sum(-2)"}
sizes: {N: [3, 4], K: [8, 9], D: [5, 6]}
""",
        "distinct",
    )
    program = "return step.Map(fn={}).apply(X)"
    return Overfit(task, program.format("fn_columns"), program.format("fn_larger"))


PLANTED: Mapping[str, Overfit] = {
    overfit.task.name: overfit for overfit in (_literal(), _parity(), _sign(), _distinct())
}
"""By name: literals for sizes, one parity, inputs that are not negative, dims that differ."""
