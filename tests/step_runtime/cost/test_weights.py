"""The table of operations names operators that exist, and counts what the documentation says."""

from __future__ import annotations

import torch

from step_runtime.cost.weights import DEFAULT_WEIGHTS, ELEMENTWISE, MATMUL, OTHER


def test_every_entry_is_a_torch_operator() -> None:
    """So that a misspelt one is noticed."""
    classes = {MATMUL, ELEMENTWISE, OTHER}
    known = {name for name in DEFAULT_WEIGHTS if hasattr(torch.ops.aten, name)}
    assert DEFAULT_WEIGHTS.keys() - classes == known - classes


def test_what_the_documentation_counts() -> None:
    assert DEFAULT_WEIGHTS[MATMUL] == 2
    assert DEFAULT_WEIGHTS[ELEMENTWISE] == 1
    assert {DEFAULT_WEIGHTS[name] for name in ("exp", "tanh", "pow", "sqrt", "div")} == {4}
