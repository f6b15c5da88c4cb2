"""What a program has settles what the outputs still need."""

from __future__ import annotations

import numpy as np

from pipeline.lms.embedded.formulas.needs import Needs, found_in
from pipeline.lms.embedded.formulas.residues import Kind
from pipeline.lms.embedded.formulas.tape import Tape


def test_values_before_one_that_a_program_has_are_not_needed() -> None:
    """Unless another one needs them."""
    tape = Tape(0)
    x, y = tape.symbols("x", (1,), Kind()), tape.symbols("y", (1,), Kind())
    product = tape.apply("multiply", x, y)
    assert product is not None
    root, beside = tape.apply("sqrt", product), tape.apply("add", product, y)
    assert root is not None and beside is not None
    both = tape.apply("add", root, beside)
    unused = tape.apply("exp", x)
    assert both is not None and unused is not None
    residues = tape.evaluated()[0][:, 0]
    needs = Needs(tape, residues, [both], [])
    assert needs.total == 4 and not needs.needed(needs.given)[needs.places(residues[unused])].any()

    def left(*had: np.ndarray) -> int:
        mask = needs.given.copy()
        for nodes in had:
            mask[needs.places(residues[nodes])] = True
        return int(needs.needed(mask).sum())

    assert [left(product), left(root), left(root, beside), left(both)] == [3, 3, 1, 0]


def test_only_residues_that_are_there_are_found() -> None:
    """By their places."""
    assert found_in(np.array([2, 5, 9], np.uint64), np.array([1, 5, 9, 11], np.uint64)).tolist() == [1, 2]
