"""Code read as terms."""

from __future__ import annotations

from pipeline.lms.embedded.symbolic.algebra import Algebra, Term
from pipeline.lms.embedded.symbolic.interpreter import SymbolicInterpreter
from pipeline.lms.embedded.symbolic.operations import Operations


def read(*codes: str) -> list[Term]:
    algebra = Algebra()
    words = Operations(algebra, lambda term: term)
    data = {"x": algebra.atom("input", "x"), "y": algebra.atom("input", "y"), "W": algebra.atom("weight", "W")}
    reader = SymbolicInterpreter(words, {"E": 2}, data)
    prelude = "x, y, W = input_data['x'], input_data['y'], input_data['W']\n"
    return [words.term(reader.run(prelude + code, {})) for code in codes]
