"""Loops, helpers and unpacked values have the flows of the same code without them."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.dependence.paths import SIGNS, Flow, Path, leaf
from pipeline.lms.embedded.dependence.reader import FlowReader
from pipeline.lms.embedded.dependence.vocabulary import Vocabulary

DATA = {"x": leaf(1), "y": leaf(2), "W": leaf(3)}


def read(code: str) -> Flow:
    reader = FlowReader(Vocabulary(leaf(0)), DATA, {"E": 2})
    whole = f"x, y, W = input_data['x'], input_data['y'], input_data['W']\n{code}"
    return frozenset(
        Path(p.leaf, p.tags & ~SIGNS, p.partners, p.first) for p in reader.words.flow(reader.run(whole, {}))
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s = 0\nfor t in range(T_value):\n    s = s + x[:, t]\ns", "x.sum(-1)"),
        ("ys = []\nfor t in range(T_value):\n    ys.append(x[:, t] * y[:, t])\ntorch.stack(ys, 1)", "x * y"),
        ("t = torch.zeros(3)\nfor i in range(N_value):\n    t[:, i] = torch.exp(x[i])\nt", "x.exp()"),
        ("def square(a):\n    return a * a\nsquare(x) + y", "x ** 2 + y"),
        ("f = lambda a, b: a @ b\nf(x, W)", "x @ W"),
        ("a, b = (input_data[name] for name in ('x', 'y'))\na * b", "x * y"),
        ("q, k = (x @ w for w in (W, W))\nq + k", "x @ W"),
        ("x if x.ndim == 2 else x", "x"),
        ("step = torch.nn.functional.silu\nstep(x)", "x * torch.sigmoid(x)"),
        ("torch.softmax(x, -1) @ y", "e = torch.exp(x - x.amax(-1))\n(e / e.sum(-1)) @ y"),
        ("if T_value > 3:\n    z = x\nelse:\n    z = x\nz", "x"),
        ("torch.stack([(x @ W[i]) for i in range(3)], -1)", "x @ W"),
        ("torch.lerp(x, y, 0.25)", "0.75 * x + 0.25 * y"),
    ],
)
def test_equal_code_has_equal_flows(one: str, other: str) -> None:
    """However it is written."""
    found, wanted = read(one), read(other)
    assert {path.leaf for path in found} == {path.leaf for path in wanted} != set()
    assert found & wanted


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("torch.softmax(x @ W, -1) @ y", "torch.softmax(y @ W, -1) @ x"),
        ("x * W + y", "y * W + x"),
        ("torch.where(x > y, x, 0)", "torch.where(x > y, y, 0)"),
        ("torch.exp(x) - y", "torch.exp(y) - x"),
    ],
)
def test_other_code_has_other_flows(one: str, other: str) -> None:
    """Exchanged operands are seen."""
    assert read(one) != read(other)


def test_code_without_meaning_is_read_to_its_end() -> None:
    """Recursion, unknown names and deep nesting give a flow, not an error."""
    assert read("def f(a):\n    return f(a)\nf(x)") == read("x")
    assert read(f"{'-' * 150}x") <= read("x")
    assert read("unknown[0](missing)") == frozenset()


def test_the_flows_on_the_way_are_kept() -> None:
    """Those of each expression, also within a loop, where they are those of all its turns."""
    reader = FlowReader(Vocabulary(leaf(0)), DATA, {})
    code = (
        "s = input_data['x'] * 0\nfor t in range(T_value):\n    e = torch.exp(s)\n    s = s + e * input_data['y'][t]\ns"
    )
    result = reader.run(code, env := {})
    assert {result, env["e"], DATA["x"]} <= reader.met
    assert all(path.leaf in (0, 1, 2) for flow in reader.met for path in flow)
