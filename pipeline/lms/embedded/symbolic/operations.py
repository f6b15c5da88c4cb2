"""Operations: PyTorch's simplest calls in terms of arithmetic and a few reductions.

So `x @ y` and a sum of products, or a minimum and the negative of a maximum of negatives, are recognized as equal. A
call that is neither known here nor made of such calls (`definitions`) is an atom of its name and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pipeline.lms.embedded.symbolic.algebra import Algebra, Term
from pipeline.lms.embedded.symbolic.identities import absolute, exponential, logarithm

Value: TypeAlias = Any
"""A Term, an int of the text, a str, or a tuple of values."""

_SAME = frozenset(
    """
    as_tensor atleast_1d bool broadcast_to clone conj_physical contiguous detach double expand expand_as flatten float
    int long moveaxis movedim permute ravel repeat repeat_interleave reshape squeeze swapaxes t tensor tile to
    transpose type type_as unflatten unsqueeze view view_as
    """.split()  # noqa: SIM905 (a list of so many strings would be harder to read)
)
"""Calls that only affect shape or storage."""
_ALIASES = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "true_divide": "divide", "max": "amax", "min": "amin",
    "bmm": "matmul", "mm": "matmul", "mv": "matmul", "dot": "matmul", "clip": "clamp", "neg": "negative",
    "logical_not": "bitwise_not", "logical_and": "multiply", "bitwise_and": "multiply",
    "gt": "greater", "lt": "less", "ge": "greater_equal", "le": "less_equal", "concat": "cat", "concatenate": "cat",
}  # fmt: skip
_NAMED = {"clamp": ("min", "max"), "cat": ("dim",), "norm": ("p", "dim"), "stack": ("dim",), "sum": ("dim",)}
"""Arguments that may be passed by keyword, in the order of the methods below; others are ignored."""
_COMMUTATIVE = frozenset(("eq", "ne"))
_KEEPS_NUMBERS = frozenset(("topk", "kthvalue", "roll"))


class Operations:
    """Maps calls to terms. `keep` is called with every intermediate term as soon as it is known.

    With `shifted`, a softmax, or the log of a sum of exponentials, is of the differences to the largest element, which
    is equivalent. `ones` is an input of all ones, if there is one: its running sum counts.
    """

    def __init__(
        self, algebra: Algebra, keep: Callable[[Term], Term], *, shifted: bool = False, ones: Term | None = None
    ) -> None:
        self.algebra = algebra
        self._keep = keep
        self._shifted = shifted
        self._ones = ones

    def term(self, value: Value) -> Term:
        """A value as a term."""
        if isinstance(value, Term):
            return value
        if isinstance(value, int | float):
            return self.algebra.number(value)
        if isinstance(value, tuple):
            return self.algebra.atom("stack", *map(self.term, value))
        return self.algebra.atom("text", str(value))

    def select(self, term: Term, place: int) -> Term:
        """Entry `place` of a vector: for a product, the product of the entries; for a stack, the part itself."""

        def change(atom: tuple[object, ...]) -> Term | None:
            if atom[0] == "size":
                return None
            if atom[0] == "stack":
                part = atom[1 + place] if place < len(atom) - 1 else None
                return part if isinstance(part, Term) else None
            if atom[0] == "group" and isinstance(atom[1], Term):
                return self.select(atom[1], place)
            return self.algebra.atom("select", atom, place)

        return self.algebra.each_factor(term, change)

    def call(self, name: str, args: Sequence[Value], named: Mapping[str, Value] | None = None) -> Value:
        """The value of a call, by the vocabulary."""
        name = _ALIASES.get(name, name)
        if named and name in _NAMED:
            args = [*args, *(named.get(key) for key in _NAMED[name][len(args) - 1 :])]
        if name in _SAME:
            return args[0] if args else self.algebra.atom("text", name)
        if name in ("amax", "amin") and len(args) == 2 and isinstance(args[1], Term):
            name = {"amax": "maximum", "amin": "minimum"}[name]
        known = getattr(self, f"_{name}_", None)
        try:
            value = known(*args) if known is not None and args else self._other(name, args)
        except (TypeError, ValueError, ArithmeticError):
            # Arguments that this vocabulary does not know make the call unknown.
            value = self._other(name, args)
        return self._keep(value) if isinstance(value, Term) else value

    def _other(self, name: str, args: Sequence[Value]) -> Term:
        # Numbers that name a dim only affect shape; those that are values are kept if known.
        kept = args[:2] if name in _KEEPS_NUMBERS else [arg for arg in args if not isinstance(arg, int)]
        terms = [self.term(arg) for arg in kept]
        if name in _COMMUTATIVE:
            terms.sort(key=lambda term: term.summands)
        return self.algebra.atom(name, *terms)

    def _add_(self, a: Value, b: Value, *_: Value) -> Term:
        return self.algebra.add(self.term(a), self.term(b))

    def _subtract_(self, a: Value, b: Value, *_: Value) -> Term:
        return self.algebra.minus(self.term(a), self.term(b))

    def _multiply_(self, a: Value, b: Value, *_: Value) -> Term:
        return self.algebra.times(self.term(a), self.term(b))

    def _divide_(self, a: Value, b: Value, *_: Value) -> Term:
        return self.algebra.divide(self.term(a), self.term(b))

    def _negative_(self, a: Value) -> Term:
        return self.algebra.times(self.term(a), self.algebra.number(-1))

    def _bitwise_not_(self, a: Value) -> Term:
        return self.algebra.minus(self.algebra.one, self.term(a))

    def _pow_(self, a: Value, b: Value, *_: Value) -> Term:
        exponent = self.algebra.constant(self.term(b))
        if exponent is None:
            return exponential(self.algebra, self.algebra.times(logarithm(self.algebra, self.term(a)), self.term(b)))
        return self.algebra.power(self.term(a), exponent)

    def _exp_(self, a: Value) -> Term:
        return exponential(self.algebra, self.term(a))

    def _abs_(self, a: Value) -> Term:
        return absolute(self.algebra, self.term(a))

    def _prod_(self, a: Value, *_: Value) -> Term:
        return self.product("sum", self.term(a))

    def _cumprod_(self, a: Value, *_: Value) -> Term:
        return self.product("cumsum", self.term(a))

    def product(self, how: str, a: Term) -> Term:
        """A product along a dim: the exponential of a `sum`, or a `cumsum`, of logarithms."""
        return exponential(self.algebra, self.algebra.linear(how, logarithm(self.algebra, a)))

    def _less_(self, a: Value, b: Value) -> Term:
        return self.algebra.atom("greater", self.term(b), self.term(a))

    def _greater_equal_(self, a: Value, b: Value) -> Term:
        # The same except for equal values, which random numbers never are.
        return self.algebra.atom("greater", self.term(a), self.term(b))

    def _less_equal_(self, a: Value, b: Value) -> Term:
        return self.algebra.atom("greater", self.term(b), self.term(a))

    def _where_(self, condition: Value, a: Value, b: Value) -> Term:
        if any(value in (float("inf"), float("-inf")) for value in (a, b)):
            return self._other("where", (condition, a, b))
        yes = self.term(condition)
        no = self.algebra.minus(self.algebra.one, yes)
        return self.algebra.add(self.algebra.times(yes, self.term(a)), self.algebra.times(no, self.term(b)))

    def _sum_(self, a: Value, dim: Value = None, *_: Value) -> Term:
        term = self.term(a)
        return self._over_stack(term) if dim == -1 and self._stacks(term) else self.algebra.linear("sum", term)

    def _cumsum_(self, a: Value, *_: Value) -> Term:
        return self.algebra.linear("cumsum", self.term(a))

    def _arange_(self, start: Value, end: Value = None, *_: Value) -> Term:
        if self._ones is None:
            return self._other("arange", (start, end))
        first = self.algebra.zero if end is None else self.term(start)
        running = self._keep(self.algebra.linear("cumsum", self._ones))
        return self.algebra.add(running, first, self.algebra.number(-1))

    def _size_(self, *_: Value) -> Term:
        return self.algebra.size

    _numel_ = _len_ = _size_

    def _top_(self, a: Value) -> Term:
        """The shift before an exponential: nothing, or the largest element."""
        return self._keep(self.algebra.atom("amax", self.term(a))) if self._shifted else self.algebra.zero

    def _reduced_(self, a: Value, how: Value = "mean", *_: Value) -> Term:
        total = self.algebra.linear("sum", self.term(a))
        return {"none": self.term(a), "sum": total}.get(str(how), self.algebra.divide(total, self.algebra.size))

    def _log_(self, a: Value) -> Term:
        return logarithm(self.algebra, self.term(a))

    def _maximum_(self, a: Value, b: Value) -> Term:
        return self.algebra.atom("maximum", *sorted((self.term(a), self.term(b)), key=lambda term: term.summands))

    def _amin_(self, a: Value, *_: Value) -> Term:
        return self._negative_(self._keep(self.algebra.atom("amax", self._negative_(a))))

    def _cummin_(self, a: Value, *_: Value) -> Term:
        return self._negative_(self._keep(self.algebra.atom("cummax", self._negative_(a))))

    def _minimum_(self, a: Value, b: Value) -> Term:
        return self._negative_(self.call("maximum", [self._negative_(a), self._negative_(b)]))

    def _clamp_(self, a: Value, low: Value = None, high: Value = None) -> Term:
        raised = a if low is None else self.call("maximum", [a, low])
        return self.term(raised if high is None else self.call("minimum", [raised, high]))

    def _norm_(self, a: Value, p: Value = 2, *_: Value) -> Term:
        exponent = float(p) if isinstance(p, int | float) else 2.0
        size = absolute(self.algebra, self.term(a))
        if exponent == float("inf"):
            return self.algebra.atom("amax", self._keep(size))
        powers = self.algebra.power(self.term(a) if exponent == 2.0 else self._keep(size), exponent)
        total = self._keep(self.algebra.linear("sum", self._keep(powers)))
        return self.algebra.power(total, 1 / exponent)

    def _stack_(self, parts: Value, *_: Value) -> Term:
        return self.term(parts)

    def _zip_(self, *parts: Value) -> Value:
        return (
            tuple(zip(*parts, strict=False))
            if all(isinstance(part, tuple) for part in parts)
            else self._other("zip", parts)
        )

    def _matmul_(self, a: Value, b: Value, *_: Value) -> Term:
        return self._contraction([self.term(a), self.term(b)])

    def _einsum_(self, equation: Value, *operands: Value) -> Term:
        terms = [self.term(operand) for operand in (operands[0] if isinstance(operands[0], tuple) else operands)]
        if not isinstance(equation, str) or "->" not in equation:
            return self._other("einsum", terms)
        left, right = equation.replace(" ", "").split("->")
        letters = left.split(",")
        if all(letter in right for letter in left.replace(",", "")):
            return self._product(terms)
        stacked = [own for own, term in zip(letters, terms, strict=False) if self._stacks(term)]
        if stacked and stacked[0][-1] not in right:
            return self._over_stack(self._product(terms))
        return self._contraction(terms)

    def _product(self, terms: Sequence[Term]) -> Term:
        product = self.algebra.one
        for term in terms:
            product = self.algebra.times(product, term)
        return self._keep(product)

    def _contraction(self, terms: Sequence[Term]) -> Term:
        """A sum of products; with a weight among them it stays one operation, as functions do not split it."""
        if any(self._has_weight(term) for term in terms):
            return self.algebra.atom("contract", *terms)
        return self.algebra.linear("sum", self._product(terms))

    def _has_weight(self, term: Term) -> bool:
        atoms = (self.algebra.atoms[number] for monomial, _ in term.summands for number, _ in monomial)
        return any(atom[0] == "weight" for atom in atoms)

    def _stacks(self, term: Term) -> int:
        """The number of parts of the stacks that are factors of a term; 0 if there are none."""
        atoms = (self.algebra.atoms[number] for monomial, _ in term.summands for number, _ in monomial)
        return max((len(atom) - 1 for atom in atoms if atom[0] == "stack"), default=0)

    def _over_stack(self, term: Term) -> Term:
        return self.algebra.add(*(self._keep(self.select(term, place)) for place in range(self._stacks(term))))
