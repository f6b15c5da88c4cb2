"""Functions, comprehensions and assignments within expressions are read as Python evaluates them."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Unread, unknown
from pipeline.lms.embedded.influence.reader import ArrayReader
from tests.support.perturbed import Shapes, holds

CASES: list[tuple[str, Shapes]] = [
    ("def f(a):\n    if a.sum()>0:\n        return a\n    return -a*2\nf(x[0])", {"x": (4, 3)}),
    (
        "def f(a):\n    for t in range(4):\n        if a[t,0]>0:\n            return a[t]\n    return a[0]*0\nf(x)",
        {"x": (4, 3)},
    ),
    ("a,*b=x\ntorch.stack(b)", {"x": (4, 3)}),
    ("r=[q for q,p in zip(x,y) for _ in range(2)]\ntorch.stack(r)", {"x": (4, 3), "y": (4, 3)}),
    ("m={k:v for k,v in enumerate(x)}\nm[2]*m[0]", {"x": (4, 3)}),
    ("f=lambda a,*b,k=1: a*k+sum(b)\nf(x[0],x[1],x[2],k=2)", {"x": (4, 3)}),
    ("def fact(n):\n    return 1 if n<2 else n*fact(n-1)\nx*fact(3)", {"x": (4, 3)}),
    (
        "def go(s,t):\n    if t==4:\n        return s\n    return go(s*0.5+x[t],t+1)\ngo(torch.zeros(3).double(),0)",
        {"x": (4, 3)},
    ),
    ("c=0\ndef inc(v):\n    global c\n    c=c+v\nfor t in range(4):\n    inc(x[t])\nc", {"x": (4, 3)}),
    ("o=torch.zeros(4,3).double()\ndef put(k,v):\n    o[k]=v\nfor k in range(3):\n    put(k,x[k+1])\no", {"x": (4, 3)}),
    ("z=x[0]\nz=z if 3>2>1 else x[1]\nz", {"x": (4, 3)}),
    ("(n:=x.sum(0))*2+n", {"x": (4, 3)}),
    ("torch.func.vmap(lambda a: a.cumsum(0))(x)", {"x": (4, 3)}),
    ("torch.vmap(torch.dot)(x,y)", {"x": (4, 3), "y": (4, 3)}),
    ("torch.vmap(lambda a,b: a*b,in_dims=(0,None))(x,y[0])", {"x": (4, 3), "y": (4, 3)}),
    ("functools.reduce(lambda a,b:a*0.5+b,list(x))", {"x": (4, 3)}),
    ("torch.stack(list(map(torch.sum,x)))", {"x": (4, 3)}),
    ("torch.stack(sorted([x[0,0],x[1,1],x[2,2]]))", {"x": (4, 3)}),
]


@pytest.mark.parametrize(("code", "shapes"), CASES)
def test_an_expression_loses_no_source(code: str, shapes: Shapes) -> None:
    """Calls of functions that take functions, too."""
    assert holds(code, shapes) > 0


NESTED = """
l = [1] * 4000
m = [l] * 4000
n = [m] * 4000
"""
HUGE = [
    "o = [n] * 4000",
    "str(n)",
    "f'{n}'",
    "n == [m] * 4000",
    "torch.tensor(n)",
    "{(((1,) * 4000,) * 4000,) * 4000: 1}",
    "[n].index(m)",
    "sorted([n, m, n])",
    "l.append(l); l == [l]",
    "'{:1000000000}'.format(1)",
]
"""Each takes hours or more memory than there is, if it is tried."""


@pytest.mark.parametrize("code", HUGE)
def test_what_holds_too_much_is_unread(code: str) -> None:
    """Containers that hold one another many times are small themselves; what is made of them is not."""
    reader = ArrayReader({"x": unknown(np.array(1, np.uint64))}, {})
    with pytest.raises(Unread):
        reader.run(NESTED + code, {})
    assert reader.run(NESTED + code + "\ninput_data['x']", {}).sources == 1


def test_containers_of_a_loop_that_data_end_are_compared_once() -> None:
    """However many names and lists hold them."""
    reader = ArrayReader({"x": unknown(np.array(1, np.uint64))}, {})
    code = "x = input_data['x']\nl = [x] * 50\nm = [l] * 20\nwhile x > 0:\n    x = x - 1\n    l[0] = x\nm[3][0]"
    assert reader.run(code, {}).sources == 1
