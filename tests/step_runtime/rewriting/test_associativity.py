"""A fold is split only where its function's own code proves that it may be, whatever numbers come."""

import json

import pytest

from step_runtime.rewriting.associativity import why_not_merged
from step_runtime.tasks.reader import loads_task

TASK = """
global: calls = []
inputs: [{{name: E0, dtype: {dtype}, dims: [M], data_gen: {data}}}]
fns:
- {{name: Fold, apply: {apply}, init: {init}, input_dtype: {dtype}, output_dtype: {dtype}, func_name: fold}}
outputs: [{{name: S0, dtype: {dtype}, dims: [M], data_transform: {snippets}}}]
"""
F, FF, V = "fp32", ["fp32", "fp32"], "Buffer(fp32, [D])"
ONLINE = """
most = torch.maximum(state[0], input[0])
return [most, state[1] * torch.exp(state[0] - most) + input[1] * torch.exp(input[0] - most)]
"""
PROVED = {
    "a sum": (V, [0], "[state[0] + input[0]]"),
    "a sum by torch": (F, [0], "[torch.add(state[0], input[0])]"),
    "a product": (F, [1], "[state[0].mul(input[0])]"),
    "a maximum": (V, ["-inf"], "[torch.maximum(state[0], input[0])]"),
    "a maximum that is rounded nowhere": ("fp16", ["-inf"], "[torch.maximum(state[0], input[0])]"),
    "a minimum": (F, ["inf"], "[torch.min(state[0], input[0])]"),
    "a composition of lines": (FF, [1, 0], "[state[0] * input[0], state[1] * input[0] + input[1]]"),
    "a sum of probabilities": (F, [0], "[state[0] + input[0] - state[0] * input[0]]"),
    "a constant tensor": (F, [0], "[state[0] + input[0] * torch.tensor(1.0)]"),
    "a maximum by choice": (F, ["-inf"], "[torch.where(input[0] > state[0], input[0], state[0])]"),
    "a product of matrices": ("Buffer(fp32, [4, 4])", [0], "[state[0] + input[0] + state[0] @ input[0]]"),
}
LEFT = {
    "a logarithm of sums": (F, ["-inf"], "[torch.logaddexp(state[0], input[0])]"),
    "one that resets beyond a bound": (F, [0], "[torch.where(state[0] + input[0] > 1e6, 0.0, state[0] + input[0])]"),
    "one that resets at an element": (F, [0], "[torch.where(input[0] > 1e6, input[0], state[0] + input[0])]"),
    "one that branches": (F, [0], "[state[0] + input[0] if input[0] < 1e6 else input[0]]"),
    "one that saturates": (F, [0], "[torch.clamp(state[0] + input[0], -1e6, 1e6)]"),
    "one that saturates by a minimum": (F, [0], "[torch.minimum(state[0] + input[0], torch.tensor(1e6))]"),
    "one that is almost a sum": (
        F, [0], "[state[0] + input[0] + 1e-15 * state[0] * input[0] * (state[0] - input[0])]",
    ),
    "one that wraps": (F, [0], "[torch.remainder(state[0] + input[0], 1e6)]"),
    "a difference": (F, [0], "[state[0] - input[0]]"),
    "a weighted sum": (F, [0], "[0.5 * state[0] + input[0]]"),
    "a sum from 1": (F, [1], "[state[0] + input[0]]"),
    "a maximum from 0": (F, [0], "[torch.maximum(state[0], input[0])]"),
    "a sum of bytes, which wraps": ("int8", [0], "[state[0] + input[0]]"),
    "a maximum of bytes from -127": ("int8", [-127], "[torch.maximum(state[0], input[0])]"),
    "a maximum of sums of bytes": ("int8", [0], "[torch.maximum(state[0] + input[0], input[0])]"),
    "a sum that is rounded": ("bf16", [0], "[state[0] + input[0]]"),
    "one that moves numbers": (V, ["-inf"], "[torch.maximum(state[0], input[0].flip(0))]"),
    "one that looks at all numbers": (V, [0], "[state[0] + input[0] * (input[0].sum() < 1e6)]"),
    "one that inspects its values": (
        F, [0], "[state[0] + input[0] if type(input[0]) is not torch.Tensor else (state[0] + input[0]).clamp(max=1e6)]",
    ),
    "one that remembers": (F, [0], "[input[0] if len(calls) > 1000 or calls.append(1) else state[0] + input[0]]"),
}  # fmt: skip


def reason(dtype: str | list[str], init: list[float | str], body: str) -> str | None:
    data = {"int8": "integers(-9, 9)"}.get(str(dtype), "torch.rand")
    snippets = ["input_data['E0']"] if isinstance(dtype, str) else [f"input_data['E0'][{part}]" for part in (0, 1)]
    apply = body if "return" in body else f"return {body}"
    fields = {"dtype": dtype, "init": init, "apply": apply, "snippets": snippets, "data": data}
    task = loads_task(TASK.format(**{name: json.dumps(value) for name, value in fields.items()}), "t")
    return why_not_merged(task, "fold")


@pytest.mark.parametrize("name", PROVED)
def test_what_is_associative_is_proved(name: str) -> None:
    assert reason(*PROVED[name]) is None


def test_an_online_softmax_is_proved() -> None:
    assert reason(FF, ["-inf", 0], ONLINE) is None


@pytest.mark.parametrize("name", LEFT)
def test_what_is_not_proved_is_left(name: str) -> None:
    """However few numbers tell it from a sum."""
    assert reason(*LEFT[name]) is not None
