"""Fingerprints: what a function does is recognized under other names, and distinguished where it differs."""

import pytest

from pipeline.synthesis.fingerprints import Fingerprint, commutes, features_of, fingerprints_of, similarity
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.loading import load_task
from tests.support.paths import PROJECT

ROOT = PROJECT


def fingerprint(name: str, fn: str) -> Fingerprint:
    task = load_task(ROOT / f"data/tasks/{name}.yaml")
    return fingerprints_of(task, static_scope(task).fns)[fn]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x, gates = input\nreturn [gates * x]", "value, share = input\nreturn [share * value]"),
        ("return [input[0] @ input_data['W_00']]", "return [input[0] @ input_data['Weights']]"),
        ("return [input[0] / D_value]", "return [input[0] / K_value]"),
        ("return [state[0] + input[0]]", "return [input[0] + state[0]]"),
        ("return [torch.exp(input[0])]", "x = input[0]\nreturn [x.exp()]"),
    ],
)
def test_names_and_layout_of_code_do_not_matter(one: str, other: str) -> None:
    """Locals, weights, sizes, the order of a sum and the way a function is called leave the features as they are."""
    assert features_of(one) == features_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("return [input[0] * input[0]]", "return [input[0] * input[1]]"),
        ("return [input[0] - input[1]]", "return [input[1] - input[0]]"),
        ("return [input[0].topk(1).indices]", "return [input[0].topk(2).indices]"),
        ("return [input[1]]", "return [input[0]]"),
    ],
)
def test_what_is_computed_does(one: str, other: str) -> None:
    """Other operands, and other numbers, are other features."""
    assert features_of(one) != features_of(other)


def test_likeness_is_symmetric_and_one_for_the_same() -> None:
    """A function is wholly like itself; two are as like as they are the other way round."""
    mul, square = fingerprint("gemm/0", "fn_mul"), fingerprint("norm/2", "fn_square")
    assert similarity(mul, mul) == 1.0
    assert 0.0 < similarity(mul, square) == similarity(square, mul) < 1.0


def test_types_without_dims_count() -> None:
    """The same code on a buffer is less like than on a scalar, and where it starts from counts as well."""
    scalar, buffer, ones = (
        fingerprint("norm/1", "fn_add"),
        fingerprint("bmm/1", "fn_sum"),
        fingerprint("rope/0", "fn_sum"),
    )
    assert scalar.features == buffer.features != ones.features
    assert similarity(scalar, buffer) < 1.0 and similarity(scalar, ones) < 1.0


def test_with_a_state_and_without_one_nothing_is_alike() -> None:
    """What folds cannot stand in for what maps."""
    assert similarity(fingerprint("norm/1", "fn_add"), fingerprint("norm/1", "fn_addeps")) == 0.0


def test_what_is_not_python_is_like_itself_only() -> None:
    """Code that cannot be parsed is compared as text."""
    assert features_of("return [") == {"return ["}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("return [input[0] * input[1]]", True),
        ("x, y = input\nreturn [torch.maximum(y, x)]", True),
        ("return [input[0] - input[1]]", False),
        ("return [input[0] * input[0] - input[1] * input[1]]", False),
        ("return [state[0] + input[0]]", False),
    ],
)
def test_a_function_commutes_that_only_adds_multiplies_or_compares_its_inputs(code: str, expected: bool) -> None:
    """In any order; whatever else it computes leaves that open."""
    assert commutes(code) == expected
