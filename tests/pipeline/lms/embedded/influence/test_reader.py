"""Code is read at fixed sizes: loops, helpers and in-place changes leave exact sources; what is not known is unread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Unread, unknown
from pipeline.lms.embedded.influence.reader import ArrayReader
from tests.support.perturbed import Shapes, holds

X = unknown(np.left_shift(np.uint64(1), np.arange(4, dtype=np.uint64)))
FULL = [15] * 4


def read(code: str, env: dict[str, Any] | None = None) -> list[int]:
    found = ArrayReader({"x": X}, {"T": 4}).run(code, {} if env is None else env)
    sources: list[int] = found.sources.tolist()
    return sources


CAUSAL = [1, 3, 7, 15]
ANTICAUSAL = [15, 14, 12, 8]


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("input_data['x'].cumsum(0)", CAUSAL),
        ("input_data['x'].flip(0).cumsum(0).flip(0)", ANTICAUSAL),
        ("torch.softmax(input_data['x'], 0)", FULL),
        ("torch.tril(torch.ones(T_value, T_value)) @ input_data['x']", CAUSAL),
        ("t = torch.arange(T_value)\nw = (t.unsqueeze(1) >= t) & (t.unsqueeze(1) - t < 2)\nw.float() @ input_data['x']",
         [1, 3, 6, 12]),
        ("s = torch.zeros(1)\nout = []\nfor t in range(T_value):\n    s = 0.5 * s + input_data['x'][t]\n"
         "    out.append(s)\ntorch.stack(out).flatten()", CAUSAL),
        ("a = torch.zeros(T_value)\nfor t in range(T_value):\n    for s in range(t, T_value):\n"
         "        a[t] += input_data['x'][s]\na", ANTICAUSAL),
        ("y = torch.nn.functional.pad(input_data['x'], (1, 0))\ny[1:] + y[:-1]", [1, 3, 6, 12]),
        ("x = input_data['x'].view(2, 2)\n(x / x.sum(-1, keepdim=True)).flatten()", [3, 3, 12, 12]),
        ("def f(a, b=1):\n    return a * b\nf(input_data['x'])", [1, 2, 4, 8]),
        ("silu = torch.nn.functional.silu\nsilu(input_data['x'])", [1, 2, 4, 8]),
        ("torch.nn.GELU()(input_data['x'])", [1, 2, 4, 8]),
        ("x = input_data['x']\na, b = (s * 2 for s in (x[:2], x[2:]))\ntorch.cat((b, a))", [4, 8, 1, 2]),
        ("x = input_data['x']\nx.sort(descending=True).values", FULL),
        ("x = input_data['x']\nif x.shape[0] == T_value:\n    x = x[:1]\nx", [1]),
    ],
)  # fmt: skip
def test_positions_are_followed(code: str, wanted: list[int]) -> None:
    """Whichever way the code takes."""
    assert read(code) == wanted


def test_names_last_for_later_snippets() -> None:
    """As outputs may use what earlier ones assigned."""
    env: dict[str, Any] = {}
    read("y = input_data['x'] * 2\ny", env)
    assert read("y[:1]", env) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "torch.unheard_of(input_data['x'])", "y = unheard_of(input_data['x'])\ny", "input_data['y']",
        "y = input_data['x']\nwhile y.sum() > 0:\n    y = torch.cat((y, y))\ny", "input_data['x'].view(3)",
        "torch.zeros(10**12)",
        "x = 2\nfor i in range(64):\n    x = x * x\ntorch.zeros(x)", "while True:\n    y = 1\ny",
        "x = 0\nfor i in range(3000):\n    for j in range(3000):\n        x = x + 1\ninput_data['x'] * x",
        "def f(a):\n    return f(a)\nf(1)", "x = [0]\nfor i in range(99):\n    x = x + x\nlen(x) * input_data['x']",
    ],
)  # fmt: skip
def test_what_is_not_understood_is_unread(code: str) -> None:
    """Nothing else is raised, and no text takes long."""
    with pytest.raises(Unread):
        read(code)


def test_a_part_that_is_unread_spoils_only_what_uses_it() -> None:
    """Names keep that they are unread."""
    assert read("y = unheard_of(input_data['x'])\nz = [input_data['x']]\nz.append(1)\nz[0]") == [1, 2, 4, 8]
    with pytest.raises(Unread):
        read("z = [input_data['x']]\nz.append(unheard_of(1))\nz[0]")


def test_values_on_the_way_are_met_with_the_products_of_matrix_products() -> None:
    """A product of elements is none of the values of the code; their sum is its value."""
    reader = ArrayReader({"x": X}, {"T": 4})
    reader.run("a = input_data['x'].view(2, 2)\n(a @ a.T) * 2", {})
    met = {tuple(np.unique(array.sources).tolist()) for arrays in reader.met.rounds() for array in arrays}
    assert {(1, 2, 4, 8), (1, 2, 4, 5, 8, 10), (3, 12, 15)} <= met


def test_the_rounds_of_a_loop_are_met_together() -> None:
    """An expression is met once for each round, and with all of them."""
    reader = ArrayReader({"x": X}, {"T": 4})
    reader.run("[row * 2 for row in input_data['x'].view(2, 2)]", {})
    met = [[array.sources.tolist() for array in arrays] for arrays in reader.met.rounds()]
    assert [[1, 2], [4, 8]] in met
    reader.met.clear()
    assert not reader.met.rounds()


CODES: list[tuple[str, Shapes]] = [
    ("z=x.clone()\nz[i]=0\nz", {"x": (4, 3), "i": (4, 3)}),
    ("z=x.clone()\nz[i]=y\nz", {"x": (4, 3), "y": (3,), "i": (4, 2)}),
    ("z=x.clone()\nz[torch.arange(4),i]=y\nz", {"x": (4, 3), "y": (4,), "i": (3, 4)}),
    ("z=x.clone()\nz[x>0]=y[x>0]\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz[x>0]*=2\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz[:,1]+=y[:,0]\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=torch.zeros(4,3).double()\nz[1:,:2]=x[:-1,1:]\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz[0][1]=y[0,0]\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz[torch.tensor([0,2])]=y[:2]\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz[z>0]=0\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz[:,y[0]>0]=1.0\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz[i[0]]=y[0]\nz", {"x": (4, 3), "y": (1, 3), "i": (4, 1)}),
    ("z=x.clone()\nz[i,j]+=1\nz", {"x": (4, 3), "i": (4, 2), "j": (3, 2)}),
    ("z=torch.zeros(3,4).double()\nz.T[:]=x\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz.diagonal().fill_(0)\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz.view(-1)[2]=y[0,0]\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz.view(-1)[::2]+=1*y.view(-1)[::2]\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz.add_(y)\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz[0].copy_(y[1])\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz[:,0].mul_(y[:,1])\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz.masked_fill_(y>0,0.0)\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz.clamp_(min=0)\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz.zero_()\nz[0]=x[1]\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz[...]+=y\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz.fill_diagonal_(0.0)\nz", {"x": (4, 3)}),
    ("z=torch.empty_like(x)\ntorch.add(x,y,out=z)\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nF.relu(z,inplace=True)\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz[x.argmax(0),torch.arange(3)]=0\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz.unsqueeze(0)[0,1]=0\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz.select(0,1).fill_(3.0)\nz", {"x": (4, 3)}),
    ("z=x.clone()\nz.narrow(1,0,2).add_(y[:,:2])\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz.transpose(0,1)[0]=y[:,0]\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz.index_add_(0,i,y)\nz", {"x": (4, 3), "y": (2, 3), "i": (4, 2)}),
    ("z=x.clone()\nz.scatter_(1,i[:,None],5.0)\nz", {"x": (4, 3), "i": (3, 4)}),
    ("z=x.clone()\nz.scatter_(1,i[:,None],y)\nz", {"x": (4, 3), "y": (4, 1), "i": (3, 4)}),
]


@pytest.mark.parametrize(("code", "shapes"), CODES)
def test_what_is_changed_in_place_keeps_its_sources(code: str, shapes: Shapes) -> None:
    """Whether an index, a method or a view says what is changed."""
    assert holds(code, shapes) > 0


def test_a_normalization_brings_its_running_statistics_forward() -> None:
    """In training only; then the result does not depend on them."""
    code = "m, s = torch.zeros(2), torch.ones(2)\ny = F.batch_norm(input_data['x'].view(2, 2), m, s, training={})\n"
    assert read(code.format("True") + "m") == read(code.format("True") + "s") == [5, 10]
    assert read(code.format("False") + "m") == [0, 0]
    assert read(code.format("False").replace("F.batch", "F.instance").replace("training", "use_input_stats") + "s") == [
        0,
        0,
    ]
