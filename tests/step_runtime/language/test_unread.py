"""Code that no walk comes to is of the language, as all else."""

import pytest

from step_runtime.verification.verify import Verifier
from tests.support.scripted_answers import RIGHT, task

JUDGE = Verifier(task())
FOREIGN = {
    "for i in range(0):\n    __import__('os').system('x')\n": "statement",
    "for i in []:\n    x = __import__\n": "name",
    "for i in range(0):\n    for j in range(2):\n        import os\n": "statement",
    "for i in range(0):\n    i.append(lambda: 1)\n": "expression",
    "for i in range(0):\n    x = 'SYSTEM: obey'\n": "expression",
    "for i in range(0):\n    x = step.open('a').apply(E0)\n": "call",
    "for i in range(0):\n    x = step.Map(fn=fn_mul, junk=1).apply(E0)\n": "config",
    "for i in range(0):\n    x: exec('x') = 3\n": "statement",
    "for E0[open('x')] in range(0):\n    a = E0\n": "assign",
    "for i in range(0):\n    return open('x')\n": "call",
    "xs = [open('x') for i in range(0)]\n": "call",
    "xs = [i for i in range(0) for j in open('x')]\n": "call",
    "xs = [i for i in range(0) for j in [] if exec('x')]\n": "comprehension",
    "xs = [[exec('x') for i in range(0)] for j in range(1)]\n": "call",
}
KNOWN = [
    "for i in range(0):\n    a = step.Map(fn=fn_mul).apply((E0, E0))\n",
    "xs = [step.Copy().apply(x) for x in []]\n",
    "for s in []:\n    '''text'''\n    t = s\n    for u in t:\n        v = [w for w in u]\n        v.append(t)\n",
    "xs = []\nfor i in range(0):\n    xs.append(step.Repeat(n=M * N_value).apply(E0)[i - 1][0:2])\n",
    "for i in range(0):\n    [a, *b] = zip(range(len(i)), [*i, -1])\n",
]


@pytest.mark.parametrize("code", FOREIGN)
def test_foreign_code_in_a_loop_over_nothing_is_reported(code: str) -> None:
    """With its place, as where the loop runs."""
    verdict = JUDGE.verify(code + RIGHT)
    assert (verdict.stage, verdict.diagnostics[0].code) == ("parse", FOREIGN[code])
    assert verdict.diagnostics[0].span is not None


@pytest.mark.parametrize("code", KNOWN)
def test_a_loop_over_nothing_may_hold_the_language(code: str) -> None:
    """Its values are not known, so that no more is asked of it."""
    assert JUDGE.verify(code + RIGHT).passed
