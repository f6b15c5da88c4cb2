"""Rules run on blocks of streams; values on which a function fails are left out."""

from pipeline.synthesis import SearchBudget, synthesize
from tests.support.small_tasks import of_scalars


def test_a_function_that_fails_on_some_values_is_used_where_it_does_not() -> None:
    """It refuses negative numbers, which only the square is without."""
    strict = "torch.sqrt(input[0]) if float(input[0]) >= 0 else 1 / 0"
    fns = {"root": (strict, 1), "square": ("input[0] ** 2", 1), "negate": ("-input[0]", 1)}
    outcome = synthesize(of_scalars(fns, "-input_data['E0'].abs()"), SearchBudget(seconds=600, candidates=2_000))
    assert outcome.impl is not None
    assert outcome.length == 3
