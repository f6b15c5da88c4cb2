"""Loops, helpers and unpacked values have the flows of the same code without them."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.dependence.paths import SIGNS, Flow, Path, leaf
from pipeline.lms.embedded.dependence.reader import FlowReader
from pipeline.lms.embedded.dependence.vocabulary import Vocabulary

DATA = {"x": leaf(1), "y": leaf(2), "W": leaf(3)}


WORDS = Vocabulary(leaf(0))


def read(code: str) -> Flow:
    reader = FlowReader(WORDS, DATA, {"E": 2})
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
        ("torch.exp(x - torch.logsumexp(x, -1))", "torch.softmax(x, -1)"),
        ("s = x[0]\nfor t in range(T_value):\n    s = torch.logaddexp(s, x[t])\ns", "torch.logsumexp(x, -1)"),
        ("x[x.argsort(-1)]", "x.sort(-1)[0]"),
        ("z = []\nfor w in (x, y):\n    z.append(w * 2)\nz[0] @ z[1].T", "x @ y"),
        ("z = []\nz.extend([x, y])\nz[0] * z[1]", "x * y"),
        ("torch.lerp(x, y, 0.25)", "0.75 * x + 0.25 * y"),
        ("zs = []\nfor a, b in zip(x, y):\n    a = a * b\n    zs.append(a)\ntorch.stack(zs)", "x * y"),
        ("torch.sqrt(x) / torch.sqrt(y)", "torch.sqrt(x / y)"),
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
        ("z = torch.zeros(3)\nif x.sum() > 0:\n    z = y\nz", "y * (x.sum() > 0)"),
        ("z = W\nif x.sum() > 0:\n    z = W + y\nz", "W + y * (x.sum() > 0)"),
        ("z = y if x.item() > 0 else W\nz", "torch.where(x > 0, y, W)"),
        ("z = []\nfor i in range(N_value):\n    if x[i] > 0:\n        z.append(y[i])\nz", "y * (x > 0)"),
        ("z = []\nfor i in range(N_value):\n    if x[i] <= 0:\n        continue\n    z.append(y[i])\nz", "y * (x > 0)"),
        ("def f(a, b):\n    if a > 0:\n        return b\n    return 0\nf(x, y)", "y * (x > 0)"),
        ("z = [b for a, b in zip(x, y) if a > 0]\nz", "y * (x > 0)"),
        ("z = torch.zeros(3)\nfor t in range(x.item()):\n    z = z + y[t]\nz",
         "((0 < x) * y).sum()"),
        ("z = torch.zeros(3)\nwhile x > 0:\n    z = y\nz", "y * (x > 0) * (x > 0)"),
        ("y[x > 0] = 0\ny", "torch.where(x > 0, 0, y)"),
        ("z = torch.zeros(3)\nz[x.argmax(-1)] = y\nz", "y * F.one_hot(x.argmax(-1))"),
        ("min(x, y)", "torch.minimum(x, y)"),
        ("max(x.tolist())", "x.amax()"),
        ("sorted(x.tolist())", "x.sort()[0]"),
        ("all(a > 0 for a in x)", "(x > 0).amin()"),
        ("x > 0 and y > 0", "(x > 0) * (y > 0)"),
    ],
)  # fmt: skip
def test_what_data_decide_is_multiplied_by_the_decision(one: str, other: str) -> None:
    """Functions of streams have no branches, and write it so."""
    found, wanted = read(one), read(other)
    assert {(path.leaf, path.tags, path.partners) for path in wanted} <= {
        (path.leaf, path.tags, path.partners) for path in found
    }


def test_constant_factors_of_a_recurrence_leave_no_trace() -> None:
    """Each step multiplies by them again; those outside stay, and those of independent steps."""
    loop = "z = 0\nfor t in range(N_value):\n    z = {}z + {}x[t]\n{}z"
    assert read(loop.format("0.9 * ", "0.1 * ", "")) == read(loop.format("", "", ""))
    assert read(loop.format("", "", "0.3 * ")) != read(loop.format("", "", ""))
    assert read("z = []\nfor a in x:\n    b = 0.9 * a\n    z.append(b)\ntorch.stack(z)") == read("0.9 * x")


def test_constants_decide_for_good() -> None:
    """What follows a constant `break` or `return` is not read."""
    assert read("for i in (1, 2):\n    z = x\n    break\n    z = y\nz") == read("x")
    assert read("z = 0\nfor i in (1, 2, 3):\n    if i == 2:\n        continue\n    z = x\nz") == read("x")
    assert read("def f(a, b=None):\n    if b is None:\n        return a\n    return b\nf(x)") == read("x")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x.add_(y)\nx", "x + y"),
        ("x[0].mul_(y)\nx", "x + x * y"),
        ("z = x.clone().mul_(y)\nx", "x"),
        ("x.T.mul_(y)\nx", "x + x * y"),
        ("z = torch.zeros(3)\nz.copy_(x)\nz", "x"),
        ("x.zero_()\nx + y", "y"),
        ("torch.mul(x, y, out=W)\nW", "x * y"),
        ("torch.exp_(x)\nx", "torch.exp(x)"),
        ("F.relu(x, inplace=True)\nx", "torch.relu(x)"),
        ("z = torch.zeros(3)\nfor t in range(T_value):\n    z.add_(x[t] * y[t])\nz", "(x * y).sum(0)"),
        ("z = torch.zeros(3)\nz.index_add_(0, y.argmax(-1), x)\nz", "x * F.one_hot(y.argmax(-1))"),
        ("def push(a, b):\n    a.append(b)\nz = []\npush(z, x)\nz", "x"),
        ("z = []\ndef push(a):\n    z.append(a)\npush(x)\nz", "x"),
        ("m, s = torch.zeros(3), torch.ones(3)\nF.batch_norm(x, m, s, training=True)\nm", "x.mean()"),
        ("m, s = torch.zeros(3), torch.ones(3)\nF.batch_norm(x, m, s, training=True)\ns", "torch.var(x)"),
        ("F.batch_norm(x, y, W)\ny", "y"),
        ("F.batch_norm(x, y, W)", "(x - y) / torch.sqrt(W)"),
    ],
)
def test_calls_change_their_arguments_in_place(one: str, other: str) -> None:
    """Methods that end in an underscore, `out`, `inplace`, helpers, and running statistics."""
    assert read(one) == read(other)


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
    env: dict[str, Flow] = {}
    result = reader.run(code, env)
    assert {result, env["e"], DATA["x"]} <= reader.met
    assert all(path.leaf in (0, 1, 2) for flow in reader.met for path in flow)


def test_what_is_divided_is_met_on_the_way() -> None:
    """A program may divide after a product or a sum; a norm sums squares first."""
    reader = FlowReader(Vocabulary(leaf(0)), DATA, {})
    reader.run("input_data['x'] / input_data['W'].sum(-1) @ input_data['y']", {})
    assert reader.run("input_data['x'] @ input_data['y']", {}) in reader.met
    before = FlowReader(reader.words, DATA, {})
    before.run("torch.norm(input_data['x'])", {})
    assert reader.run("(input_data['x'] ** 2).sum()", {}) in before.met
