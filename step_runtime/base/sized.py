"""What a program takes from the sizes of dims: ints that follow from them, and conditions on them.

A program is read and typed at one set of sizes. The conditions that were met on the way say at which others its graph
and its types are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import sympy

from step_runtime.base.shapes import Dim, Sizes, exact_value

Number: TypeAlias = int | Fraction
Form: TypeAlias = "int | str | Dim | tuple[Callable[[Number, Number], Number], Form, Form]"
"""A literal, the name of a dim, a dim of types, or an operation on two forms."""


class Sized(int):
    """An int with the form that gives it at other sizes."""

    form: Form

    @classmethod
    def of(cls, value: int, form: Form) -> Sized:
        """The int."""
        found = cls(value)
        found.form = form
        return found


def form_of(value: int) -> Form:
    """The form of an int, a literal included."""
    return value.form if isinstance(value, Sized) else value


def value_of(form: Form, sizes: Sizes) -> Number:
    """A form's value.

    Raises:
        ZeroDivisionError: It divides by 0 there.
    """
    if isinstance(form, tuple):
        operation, left, right = form
        result: Number = operation(value_of(left, sizes), value_of(right, sizes))
        return result
    if isinstance(form, str):
        return sizes[form]
    number: Number = exact_value(form, sizes) if isinstance(form, sympy.Expr) else form
    return number


def _lost(count: Number, _: Number) -> Number:
    return count


def unfollowed(form: Form) -> Form:
    """What follows from a form in a way that none describes."""
    return (_lost, form, 0)


def is_followed(form: Form) -> bool:
    """Whether a form describes its value at all sizes."""
    return not isinstance(form, tuple) or (form[0] is not _lost and all(map(is_followed, form[1:])))


def names_in(form: Form) -> frozenset[str]:
    """The dims of a form."""
    if isinstance(form, tuple):
        return names_in(form[1]) | names_in(form[2])
    if isinstance(form, str):
        return frozenset([form])
    return frozenset(symbol.name for symbol in form.free_symbols) if isinstance(form, sympy.Expr) else frozenset()


def is_size(value: Number) -> bool:
    """Whether a dim may have this value."""
    return value.denominator == 1 and value >= 1


@dataclass(frozen=True)
class Condition:
    """A graph and its types are the same at all sizes at which the test holds of the form's value."""

    form: Form
    test: Callable[[Number], bool]

    def holds(self, sizes: Sizes) -> bool:
        """Whether it holds at these sizes; where the form divides by 0, it does not."""
        try:
            return self.test(value_of(self.form, sizes))
        except ZeroDivisionError:
            return False
