"""What every primitive requires.

Invariant: a precondition that fails is an error that names the primitive, the rule and both sides,
with data and without.
"""

from collections.abc import Callable
from typing import Any

import pytest
import sympy

import step_runtime as step
from step_runtime import Buffer, RuleError
from step_runtime.base.functions import DeclaredFn
from step_runtime.base.shapes import as_shape
from step_runtime.base.types import Scalar, StreamType, STuple
from step_runtime.primitives.primitive import Rules, check_input
from tests.support.streams import ELEMENTS, F, M, N, fn_double, fn_mul, fn_sum, stream


def bad(name: str, make: Callable[[], Any], code: str, *quoted: str) -> Any:
    return pytest.param(make, name, code, quoted, id=f"{name} {code} {quoted[0] if quoted else ''}")


def blank(dtype: Any, *shape: Any) -> step.Stream:
    """A stream without data."""
    return stream("E0", dtype, list(shape))


BAD = [
    bad(
        "Map",
        lambda: step.Map(fn=fn_double).apply(blank(ELEMENTS["buffer"], M)),
        "fn-input",
        "fp32",
        "Buffer(fp32, [D])",
    ),
    bad("Map", lambda: step.Map(fn=fn_sum), "fn-state", "without an initial state"),
    bad("Map", lambda: step.Map(fn=3), "config", "functions"),  # type: ignore[arg-type]
    bad("Map", lambda: step.Map(fn=fn_mul).apply((blank(F, M), blank(F, N))), "zip-shape", "[M]", "[N]"),
    bad("Map", lambda: step.Map(fn=fn_mul).apply((blank(F, M), blank(F, 2))), "zip-shape", "[M]", "[2]"),
    bad("Map", lambda: step.Map(fn=fn_mul).apply(3), "apply-argument", "one stream"),
    bad("Zip", lambda: step.Zip().apply((blank(F, M, N), blank(F, N, M))), "zip-shape", "[M, N]", "[N, M]"),
    bad("Zip", lambda: step.Zip().apply(blank(F, M)), "apply-argument", "two streams"),
    bad("Accum", lambda: step.Accum(fn=fn_sum, b=2).apply(blank(F, M, N)), "accum-rank", "b = 2", "rank 1"),
    bad("Accum", lambda: step.Accum(fn=fn_sum, b=0).apply(blank(F, M, N)), "accum-rank", "b = 0", "rank 1"),
    bad("Accum", lambda: step.Accum(fn=fn_sum, b=1).apply(blank(F, M)), "accum-rank", "rank 0"),
    bad("Accum", lambda: step.Accum(fn=fn_sum, b=-1).apply(blank(F, M, N)), "accum-rank", "b = -1"),
    bad("Accum", lambda: step.Accum(fn=fn_sum, b=1).apply(blank(ELEMENTS["tuple"], M, N)), "fn-input", "fp32", "["),
    bad("Accum", lambda: step.Accum(fn=fn_double, b=1), "fn-state", "with an initial state"),
    bad("Accum", lambda: step.Accum(fn=fn_sum, b=M), "config", "b must be an int", "M"),  # type: ignore[arg-type]
    bad("Accum", lambda: step.Accum(fn=fn_sum, b=True), "config", "b must be an int"),
    bad("Scan", lambda: step.Scan(fn=fn_sum, b=3).apply(blank(F, M, N)), "scan-rank", "b = 3", "rank 1"),
    bad("Scan", lambda: step.Scan(fn=fn_double, b=1), "fn-state", "with an initial state"),
    bad("Promote", lambda: step.Promote(b=3).apply(blank(F, M, N)), "promote-rank", "b = 3", "rank 1"),
    bad("Promote", lambda: step.Promote(b=-1).apply(blank(F, M, N)), "promote-rank", "b = -1"),
    bad("Flatten", lambda: step.Flatten(L=[0]).apply(blank(F, M, N)), "flatten-rank", "[0]", "rank 1"),
    bad("Flatten", lambda: step.Flatten(L=[2]).apply(blank(F, M, N)), "flatten-rank", "[2]", "rank 1"),
    bad("Flatten", lambda: step.Flatten(L=[1, 3]), "config", "consecutive", "[1, 3]"),
    bad("Flatten", lambda: step.Flatten(L=[2, 1]), "config", "consecutive", "[2, 1]"),
    bad("Flatten", lambda: step.Flatten(L=[]), "config", "consecutive"),
    bad("Flatten", lambda: step.Flatten(L=1), "config", "list"),  # type: ignore[arg-type]
    bad("Reshape", lambda: step.Reshape(L=[2], S=2).apply(blank(F, M, N)), "reshape-rank", "[2]", "rank 1"),
    bad("Reshape", lambda: step.Reshape(L=[0], S=2).apply(blank(F, N, M)), "reshape-divides", "S: 2", "N = 3"),
    bad("Reshape", lambda: step.Reshape(L=[0, 0], S=2), "config", "distinct"),
    bad("Repeat", lambda: step.Repeat(n=0).apply(blank(F, M)), "dim-value", "0"),
    bad("Repeat", lambda: step.Repeat(n=M - N).apply(blank(F, M)), "dim-value", "M - N", "-1"),
    bad("Repeat", lambda: step.Repeat(n=1.5), "dim", "1.5"),  # type: ignore[arg-type]
    bad("RepeatRef", lambda: step.RepeatRef().apply((blank(F, M), blank(F, M, N))), "repeatref-shape", "[M]", "[M, N]"),
    bad("RepeatRef", lambda: step.RepeatRef().apply((blank(F, M, N), blank(F, N))), "repeatref-shape", "[M, N]", "[N]"),
    bad("Bufferize", lambda: step.Bufferize(a=1).apply(blank(F, M)), "bufferize-rank", "a = 1", "rank 0"),
    bad("Bufferize", lambda: step.Bufferize(a=0).apply(blank(F, M, N)), "bufferize-rank", "a = 0"),
    bad("Bufferize", lambda: step.Bufferize(a=1).apply(blank(ELEMENTS["tuple"], M, N)), "bufferize-tuple", "[fp32, "),
    bad("Streamify", lambda: step.Streamify().apply(blank(F, M)), "streamify-dtype", "fp32"),
    bad("Streamify", lambda: step.Streamify().apply(blank(ELEMENTS["multihot"], M)), "streamify-dtype", "Multihot"),
    bad(
        "Partition",
        lambda: step.Partition(N=2).apply((blank(F, M), blank(ELEMENTS["multihot"], M))),
        "index-length",
        "2 streams",
        "3 bits",
    ),
    bad("Partition", lambda: step.Partition(N=3).apply((blank(F, M), blank(F, M))), "index-dtype", "Multihot", "fp32"),
    bad(
        "Partition",
        lambda: step.Partition(N=3).apply((blank(F, M, N), blank(ELEMENTS["multihot"], M))),
        "partition-shape",
        "[M, N]",
        "[M]",
    ),
    bad(
        "Partition",
        lambda: step.Partition(N=3).apply((blank(F, M), blank(ELEMENTS["multihot"], N, M))),
        "partition-shape",
        "[N, M]",
    ),
    bad(
        "Partition", lambda: step.Partition(N=0).apply((blank(F, M), blank(ELEMENTS["multihot"], M))), "dim-value", "0"
    ),
    bad(
        "Merge",
        lambda: step.Merge(fn=fn_sum).apply(([blank(F, M)] * 2, blank(ELEMENTS["multihot"], M))),
        "index-length",
        "2 streams",
        "3 bits",
    ),
    bad("Merge", lambda: step.Merge(fn=fn_sum).apply(([blank(F, M)] * 3, blank(F, M))), "index-dtype", "fp32"),
    bad(
        "Merge",
        lambda: step.Merge(fn=fn_sum).apply(
            ([blank(F, M), blank(F, N, M), blank(F, M)], blank(ELEMENTS["multihot"], M))
        ),
        "merge-streams",
        "stream 1",
    ),
    bad(
        "Merge",
        lambda: step.Merge(fn=fn_sum).apply(
            ([blank(F, M), blank(F, M), blank(ELEMENTS["buffer"], M)], blank(ELEMENTS["multihot"], M))
        ),
        "merge-streams",
        "stream 2",
    ),
    bad(
        "Merge",
        lambda: step.Merge(fn=fn_sum).apply(([blank(ELEMENTS["buffer"], M)] * 3, blank(ELEMENTS["multihot"], M))),
        "fn-input",
        "fp32",
        "Buffer",
    ),
    bad("Merge", lambda: step.Merge(fn=fn_double), "fn-state", "with an initial state"),
    bad("Merge", lambda: step.Merge(fn=fn_sum).apply((blank(F, M), blank(F, M))), "apply-argument", "list of streams"),
    bad(
        "Merge",
        lambda: step.Merge(fn=fn_sum).apply((blank(ELEMENTS["multihot"], M), [blank(F, M)] * 3)),
        "apply-argument",
        "list of streams",
    ),
    bad("Copy", lambda: step.Copy().apply([blank(F, M)]), "apply-argument", "one stream"),
]


@pytest.mark.parametrize(("make", "name", "code", "quoted"), BAD)
def test_a_precondition_that_fails_names_primitive_rule_and_sides(
    make: Any, name: str, code: str, quoted: tuple[str, ...]
) -> None:
    """Without data too, a broken precondition is an error that shows what it was about."""
    with pytest.raises(RuleError) as caught:
        make()
    assert caught.value.code == code
    shown = str(caught.value)
    assert all(text in shown for text in quoted), shown
    if name != "Map" or code != "zip-shape":
        assert name in shown or code in ("zip-shape", "dim", "dim-value"), shown


def test_a_function_of_buffers_on_numbers_names_the_bufferize() -> None:
    """With its `a`, the Promote that it needs, or the order of the dims."""
    D, number = sympy.Symbol("D"), F

    def hint(wanted: Any, shape: list[Any]) -> str | None:
        fn = DeclaredFn("fn", "fn", (wanted, number), stateful=False)
        try:
            check_input(fn, StreamType(number, as_shape(shape)), "Map", Rules())
        except RuleError as error:
            return error.hint
        return None

    assert hint(Buffer(number, [M]), [M, N]) == "Bufferize(a=1) makes Buffer(fp32, [M]) of the innermost stream dim"
    two = hint(Buffer(number, [M, N]), [M, N])
    assert two is not None and two.startswith("Promote(b=2) and then Bufferize(a=2) makes Buffer(fp32, [M, N])")
    swapped = hint(Buffer(number, [N, M]), [M, N, D])
    assert swapped is not None and swapped.startswith("dims are innermost first; the reversed order would fit")


def test_a_mismatch_of_formats_names_what_converts() -> None:
    """A function of the task where there is one; types that differ in more get the other hints."""
    half, wide = Scalar("bf16"), Scalar()
    to_half = DeclaredFn("fn_to_half", "fn", (wide, half), stateful=False)
    fold = DeclaredFn("fn_fold", "fn", (wide, half), stateful=True)

    def hint(wanted: Any, held: Any, fns: Any = ()) -> str | None:
        fn = DeclaredFn("fn", "fn", (wanted, wide), stateful=False)
        with pytest.raises(RuleError) as caught:
            check_input(fn, StreamType(held, as_shape([M, N])), "Map", Rules(fns=fns))
        return caught.value.hint

    differ = "the number formats differ, and nothing is converted by itself: "
    assert hint(half, wide) == differ + "Map a function that converts fp32 to bf16"
    assert hint(half, wide, (to_half, fold)) == differ + "Map(fn=fn_to_half) converts fp32 to bf16"
    both = hint(STuple((half, half, Buffer(half, [M]))), STuple((wide, half, Buffer(wide, [M]))), (to_half,))
    other = "; Map a function that converts Buffer(fp32, [M]) to Buffer(bf16, [M])"
    assert both == differ + "Map(fn=fn_to_half) converts fp32 to bf16" + other
    assert not str(hint(Buffer(half, [N]), Buffer(wide, [M]))).startswith(differ)
