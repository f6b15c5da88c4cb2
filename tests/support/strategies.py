"""Hypothesis strategies over STeP programs."""

from hypothesis import strategies as st

from tests.support.random_programs import Case, random_case


def cases() -> st.SearchStrategy[Case]:
    """Well-typed programs with their scope and inputs, of every primitive and element type."""
    return st.randoms(use_true_random=False).map(random_case)
