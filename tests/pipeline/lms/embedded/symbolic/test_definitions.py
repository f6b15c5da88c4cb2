"""Calls of PyTorch that are defined by others are found under every name, and mean what PyTorch computes."""

from __future__ import annotations

import ast

import pytest
import torch

from pipeline.lms.embedded.symbolic.definitions import definitions

VALUES = torch.tensor([0.3, 0.7, 1.9], dtype=torch.float64)
OF_ONE = ["square", "sqrt", "rsqrt", "reciprocal", "exp2", "expm1", "log1p", "log2", "sinh", "cosh", "erfc", "log10",
          "relu", "sigmoid"]  # fmt: skip


@pytest.mark.parametrize("name", OF_ONE)
def test_a_definition_computes_what_the_call_computes(name: str) -> None:
    """With the calls that it is made of."""
    definition = definitions()[name]
    namespace: dict[str, object] = {"torch": _Scalars, "math": __import__("math")}
    exec(compile(ast.Module([definition], []), name, "exec"), namespace)
    torch.testing.assert_close(namespace[name](VALUES), getattr(torch, name)(VALUES))  # type: ignore[operator]


class _Scalars:
    """PyTorch, whose `maximum` also takes a number, as code does when it is read."""

    exp, log, sqrt, erf = torch.exp, torch.log, torch.sqrt, torch.erf

    @staticmethod
    def maximum(a: torch.Tensor, b: float) -> torch.Tensor:
        return torch.clamp(a, min=b)


def test_modules_go_by_their_names_without_underscores() -> None:
    """`LayerNorm` is read as `layernorm`, which is `layer_norm`."""
    known = definitions()
    assert known["layernorm"] is known["layer_norm"] and known["logsigmoid"].name == "logsigmoid"
    assert all(isinstance(definition, ast.FunctionDef) for definition in known.values())
