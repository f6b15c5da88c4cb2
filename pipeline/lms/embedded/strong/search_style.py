"""What a beam search takes for granted, and how much it considers: searches of one task differ in these."""

from __future__ import annotations

from typing import NamedTuple


class OperandWidth(NamedTuple):
    """How many choices of operands are kept, of how many that are compared, and streams that extend each of them."""

    kept: int
    compared: int
    extended: int


class DraftWidth(NamedTuple):
    """How few and how many drafts of one length are continued, and how much more each takes than one that is shorter.

    As many are continued as the steps that are left allow.
    """

    fewest: int
    most: int
    grows: float


class SearchStyle(NamedTuple):
    """The style of a beam search.

    Attributes:
        trust: How much the dependences of the reference count, from 0 to 1.
        ordered: Whether functions are listed in the order in which they are applied first.
        once: Whether every function is applied once. Drafts then grow no further than that, and more of one length
            are continued: ever fewer functions are left, so that longer drafts take less.
        choosy: Whether more choices of operands are considered for each function, and fewer drafts.
    """

    trust: float = 1.0
    ordered: bool = False
    once: bool = False
    choosy: bool = False

    @property
    def drafts(self) -> DraftWidth:
        """How many drafts of one length are continued."""
        return DraftWidth(8, 48, 0.8) if self.once else DraftWidth(6, 24, 1.0)

    @property
    def operands(self) -> OperandWidth:
        """How many choices of operands are considered for each function."""
        return OperandWidth(40, 64, 12) if self.choosy else OperandWidth(18, 32, 8)


ANY = SearchStyle()
"""The style that takes the least for granted."""
