"""Task files of a few lines, put together of inputs, functions and outputs; functions that several tests share."""

from collections.abc import Sequence

_SCALARS = "input_dtype: fp32, output_dtype: fp32"
_PAIRS = "input_dtype: [fp32, fp32], output_dtype: fp32"
NEG = f'{{name: Neg, apply: "return [-input[0]]", {_SCALARS}, func_name: fn_neg}}'
EXP = f'{{name: Exp, apply: "return [torch.exp(input[0])]", {_SCALARS}, func_name: fn_exp}}'
SUM = f'{{name: Sum, apply: "return [state[0] + input[0]]", init: [0], {_SCALARS}, func_name: fn_sum}}'
ADD = f'{{name: Add, apply: "return [input[0] + input[1]]", {_PAIRS}, func_name: fn_add}}'
DIV = f'{{name: Div, apply: "return [input[0] / input[1]]", {_PAIRS}, func_name: fn_div}}'
MATRIX = "{name: E0, dtype: fp32, dims: [M, N], data_gen: torch.rand}"
"""An input of numbers."""
SAME = "{name: S0, dtype: fp32, dims: [M, N], data_transform: \"input_data['E0']\"}"
"""An output that is the input `MATRIX`."""


def task_text(inputs: Sequence[str], fns: Sequence[str], outputs: Sequence[str], rest: str = "") -> str:
    """A task file.

    Args:
        inputs: YAML of each input, on one line or indented by two columns from its second line on.
        fns: Likewise of each function.
        outputs: Likewise of each output.
        rest: YAML of all other keys.
    """
    parts = {"inputs": inputs, "fns": fns, "outputs": outputs}
    lists = [f"{key}:\n" + "".join(f"- {each.strip()}\n" for each in items) for key, items in parts.items()]
    return "".join(lists) + rest


LOG_SUM_EXP = """
inputs: [{name: E0, dtype: fp32, dims: [N, M], data_gen: torch.randn}]
fns:
- {name: E, apply: 'return [torch.exp(input[0])]', input_dtype: fp32, output_dtype: fp32, func_name: fn_exp}
- {name: S, apply: 'return [state[0] + input[0]]', init: [0], input_dtype: fp32, output_dtype: fp32, func_name: fn_sum}
- {name: L, apply: 'return [torch.log(input[0])]', input_dtype: fp32, output_dtype: fp32, func_name: fn_log}
outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: ["torch.logsumexp(input_data['E0'], -1)"]}]
sizes: {N: 3, M: [4, 5]}
"""
"""Without a function for the maximum, every program overflows; N has one size."""
