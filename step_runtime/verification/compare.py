"""When two outputs count as equal, and how they differ if they do not (paper, Section 4.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import torch
from torch import Tensor

from step_runtime.base.errors import NON_FINITE, Diagnostic, Span, quantity
from step_runtime.base.formats import FORMATS, Format
from step_runtime.base.types import components_of
from step_runtime.execution.invocation import Data
from step_runtime.execution.number_formats import exact
from step_runtime.tasks.task import Task

TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    **{getattr(torch, format_.torch): (format_.rtol, format_.atol) for format_ in FORMATS.values()},
}
"""The relative and absolute tolerance for each type: of `torch.testing.assert_close` where it has one, and 0 for
integers and truth values; see `Format`."""


_PART = 2**12
"""Numbers that are compared first: tensors that differ mostly differ there."""


_NO_NUMBERS = "the reference gives NaN or infinity there, so the verdict is unknown; change `data_gen`"


def mismatch(
    task: Task, results: Sequence[Data], reference: Sequence[Data], span: Span | None, where: str
) -> Diagnostic | None:
    """The first output whose values differ from the reference's; `where` names sizes and seed."""
    typed = zip(task.outputs, task.output_types, results, reference, strict=True)
    for spec, stream, result, expected in typed:
        for index, (a, b) in enumerate(zip(result, expected, strict=True)):
            message = difference(a, b)
            if message is None:
                continue
            part = f" (component {index})" if len(expected) > 1 else ""
            details = (where, *tolerance(components_of(stream.dtype)[index].format))
            beyond = differs_beyond_numbers(a, b)
            code, hint = (NON_FINITE, _NO_NUMBERS) if beyond else ("value", None)
            return Diagnostic("value", code, f"output {spec.name}{part} {message}", span, details, hint)
    return None


def close(result: Tensor, reference: Tensor) -> bool:
    """Whether two tensors of one shape and type agree within the tolerance of their type; NaN equals NaN."""
    if result.numel() > _PART and not matches(result.flatten()[:_PART], reference.flatten()[:_PART]).all():
        return False
    return _equal(result, reference) or bool(matches(result, reference).all())


def difference(result: Tensor, reference: Tensor) -> str | None:
    """How a result differs from its reference, or None if the two are close."""
    if result.shape != reference.shape:
        return f"has shape {tuple(result.shape)}, expected {tuple(reference.shape)}"
    if _equal(result, reference) or _nearly(result, reference):
        return None
    bad = ~matches(result, reference)
    if not bad.any():
        return None
    odd = int((~torch.isfinite(exact(result)) & torch.isfinite(exact(reference))).sum())
    place = tuple(int(i) for i in bad.nonzero()[0])
    found, expected = _distinct(float(result[place]), float(reference[place]))
    extra = f", {odd} of them NaN or infinite" if odd else ""
    first = f"first at {list(place)}: {found}, expected {expected}"
    return f"differs from the reference in {int(bad.sum())} of {quantity(bad.numel(), 'number')}{extra}; {first}"


def differs_beyond_numbers(result: Tensor, reference: Tensor) -> bool:
    """Whether tensors of one shape and type differ only where the reference is NaN or infinite."""
    finite = torch.isfinite(exact(reference))
    return bool((matches(result, reference) | ~finite).all())


def tolerance(format_: Format) -> Iterator[str]:
    """How numbers of a format other than fp32 are compared, as a line for messages."""
    if not format_.wide:
        within = f"within {format_.rtol:g} (relative) or {format_.atol:.2g} (absolute)"
        yield f"{format_.name} is compared {within if format_.rtol else 'exactly'}"


def _equal(result: Tensor, reference: Tensor) -> bool:
    """Whether two tensors of one shape are equal; PyTorch has no such test for float8, whose bits are compared."""
    if result.dtype == reference.dtype and result.is_floating_point() and result.itemsize == 1:
        return torch.equal(result.view(torch.uint8), reference.view(torch.uint8))
    return torch.equal(result, reference)


def _nearly(result: Tensor, reference: Tensor) -> bool:
    """Whether two tensors of one shape are so close that `matches`, which takes thrice the time, needn't look."""
    if result.dtype not in (torch.float64, torch.float32) or result.dtype != reference.dtype:
        return False
    return bool(torch.dist(result, reference, inf) <= TOLERANCES[reference.dtype][1])


def matches(result: Tensor, reference: Tensor) -> Tensor:
    """Where two tensors of one shape and type agree within the tolerance of their type; NaN equals NaN."""
    rtol, atol = TOLERANCES[reference.dtype]
    return torch.isclose(exact(result), exact(reference), rtol=rtol, atol=atol, equal_nan=True)


def _distinct(one: float, other: float) -> tuple[str, str]:
    """Two unequal numbers to six digits, or to as many as distinguish them."""
    texts = [(f"{one:.{digits}g}", f"{other:.{digits}g}") for digits in range(6, 18)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
