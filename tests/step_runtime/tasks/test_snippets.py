"""A task author's snippets are compiled as written, or with every narrower float type read as float64."""

import ast

import pytest

from step_runtime.tasks.snippets import (
    FP32,
    NARROW,
    NOTHING,
    bind_function,
    compile_block,
    compile_function,
    compile_value,
    run,
    widened,
    widening,
)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("x.to(torch.float32)", "x.to(torch.float64)"),
        ("x.half() + x.float()", "x.double() + x.double()"),
        ("from torch import bfloat16", "from torch import float64 as bfloat16"),
        ("x.type('torch.FloatTensor')", "x.type('torch.DoubleTensor')"),
        ("torch.HalfTensor([1])", "torch.DoubleTensor([1])"),
        ("float(x).hex() + x.int()", "float(x).hex() + x.int()"),
    ],
)
def test_narrow_float_types_are_widened_and_nothing_else(narrow: str, wide: str) -> None:
    """Types, methods, imports and tensor names; Python's own `float` stays."""
    assert ast.unparse(widened(ast.parse(narrow), NARROW)) == wide


def test_a_function_is_compiled_from_its_indented_body() -> None:
    """Its globals are the namespace that it is bound in."""
    code = compile_function("  y = x + shift\n  return [y]", ("x",), "given", widen=NOTHING)
    assert bind_function(code, "given", {"shift": 3})(4) == [7]


def test_a_block_is_run_for_what_it_binds() -> None:
    """Comprehensions see what earlier statements bound."""
    namespace: dict[str, object] = {}
    run(compile_block("  a = 2\n  b = [a * i for i in range(3)]", "global", widen=NARROW), namespace)
    assert namespace["b"] == [0, 2, 4]


@pytest.mark.parametrize(("source", "value"), [("a = 2\na + 1", 3), ("b = 5", 5)])
def test_the_value_of_the_last_statement_is_bound(source: str, value: int) -> None:
    """Of an expression as of an assignment."""
    namespace: dict[str, object] = {}
    run(compile_value(source, "data_transform", "result", widen=NOTHING), namespace)
    assert namespace["result"] == value


@pytest.mark.parametrize("source", ["", "for x in []:\n    pass"])
def test_code_that_ends_without_a_value_is_refused(source: str) -> None:
    """Nothing, or a statement, is not a reference."""
    with pytest.raises(ValueError, match="the last line has no value"):
        compile_value(source, "data_transform", "result", widen=NOTHING)


def test_formats_that_a_task_names_are_not_widened() -> None:
    """Where a task names formats, only float32 is read as float64; a run in float32 reads all as written."""
    code = "a = x.float() + x.half() + x.to(torch.float32) + x.to(torch.bfloat16) + torch.FloatTensor([1])"
    assert widening(float64=True, formats=True) == FP32
    assert widening(float64=True, formats=False) == NARROW
    assert widening(float64=False, formats=True) == widening(float64=False, formats=False) == NOTHING
    assert ast.unparse(widened(ast.parse(code), FP32)) == (
        "a = x.double() + x.half() + x.to(torch.float64) + x.to(torch.bfloat16) + torch.DoubleTensor([1])"
    )
    assert ast.unparse(widened(ast.parse(code), NOTHING)) == code
