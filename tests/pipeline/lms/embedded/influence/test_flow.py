"""Where data decide, both ways are read; where sizes do, only the one that is taken."""

from __future__ import annotations

import pytest

from tests.support.perturbed import Shapes, holds

CASES: list[tuple[str, Shapes]] = [
    ("s=torch.zeros(3).double()\nfor t in range(4):\n    if x[t].sum()>0:\n        s=s+x[t]\ns", {"x": (4, 3)}),
    (
        "s=torch.zeros(3).double()\nfor t in range(4):\n    if x[t].sum()>0:\n        break\n    s=s+x[t]\ns",
        {"x": (4, 3)},
    ),
    (
        "s=torch.zeros(3).double()\nfor t in range(4):\n    if x[t,0]>0:\n        continue\n    s=s+x[t]\ns",
        {"x": (4, 3)},
    ),
    ("n=0\nwhile n<4 and x[n,0]<0:\n    n+=1\ntorch.tensor(float(n))", {"x": (4, 3)}),
    ("s=x[0]\nwhile s.abs().sum()>0.5:\n    s=s*0.5\ns", {"x": (4, 3)}),
    ("i=0\nwhile i<3:\n    i+=1\nx[i]", {"x": (4, 3)}),
    ("k=0\ns=0\nwhile True:\n    s=s+x[k]\n    k+=1\n    if k==3:\n        break\ns", {"x": (4, 3)}),
    (
        "b=[0.0]*4\nfor t in range(4):\n    for c in range(3, int(i[t])-1, -1):\n"
        "        b[c]=max(float(b[c]), float(x[t,0])+float(b[c-int(i[t])]))\ntorch.tensor(b)",
        {"x": (4, 3), "i": (3, 4)},
    ),
    (
        "lo,hi=0,4\nwhile lo<hi:\n    m=(lo+hi)//2\n    if x[m]<y[0]:\n        lo=m+1\n    else:\n"
        "        hi=m\ntorch.tensor(lo)",
        {"x": (4,), "y": (1,)},
    ),
    (
        "t=[0,1,2,3]\no=[]\nfor s in i:\n    k=t.index(int(s))\n    o.append(k)\n"
        "    t.insert(0,t.pop(k))\ntorch.tensor(o)",
        {"i": (4, 5)},
    ),
    (
        "d={(0,0):x[0]}\nfor a in range(2):\n    for b in range(2):\n        if (a,b)!=(0,0):\n"
        "            d[a,b]=sum(d[p] for p in ((a-1,b),(a,b-1)) if p in d)+x[a+b]\nd[1,1]",
        {"x": (4, 3)},
    ),
    ("y0=x[0] if x[1,1]>0 else x[2]\ny0", {"x": (4, 3)}),
    ("s=0\nfor a,(b,c) in enumerate(zip(x,y)):\n    s=s+a*b*c\ns", {"x": (4, 3), "y": (4, 3)}),
    ("o=[]\nfor t in reversed(range(4)):\n    o.insert(0,x[t]+(o[0] if o else 0))\ntorch.stack(o)", {"x": (4, 3)}),
    ("p=[]\nfor t in range(4):\n    p+=[x[t]]\ntorch.stack(p[::-1])", {"x": (4, 3)}),
    (
        "best=x[0,0]\nat=0\nfor k in range(1,4):\n    if x[k,0]>best:\n        best,at=x[k,0],k\n"
        "torch.tensor(at)*1.0+best",
        {"x": (4, 3)},
    ),
    ("k=int(i[0])\nx[k]", {"x": (4, 3), "i": (4, 3)}),
    ("k=i[0].item()\nz=x.clone()\nz[k]=0\nz", {"x": (4, 3), "i": (4, 3)}),
    (
        "o=[[0.0]*3 for _ in range(4)]\nfor a in range(4):\n    for b in range(3):\n"
        "        o[a][b]=x[a,b]*2\ntorch.tensor(o)",
        {"x": (4, 3)},
    ),
]


@pytest.mark.parametrize(("code", "shapes"), CASES)
def test_a_decision_of_data_loses_no_source(code: str, shapes: Shapes) -> None:
    """What either branch, or any number of rounds, leaves."""
    assert holds(code, shapes) > 0
