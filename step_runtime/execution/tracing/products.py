"""Products that a fold sums without computing them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

import torch
from torch import Tensor


class Product(Sequence[Tensor]):
    """The data of a stream of one component: `left * right`, two tensors that broadcast to `shape`."""

    def __init__(self, left: Tensor, right: Tensor, shape: torch.Size) -> None:
        self.shape = shape
        self._factors = left.expand(self.shape), right.expand(self.shape)

    @cached_property
    def formed(self) -> Tensor:
        """The product itself."""
        return self._factors[0] * self._factors[1]

    @property
    def worthwhile(self) -> bool:
        """Whether both factors hold fewer than half as many numbers as their product."""
        return all(2 * _numbers(factor) <= self.shape.numel() for factor in self._factors)

    def sum(self, summed: Sequence[int]) -> Tensor:
        """The product, summed over these dims."""
        every = range(len(self.shape))
        own = [[dim for dim in every if factor.stride(dim) or self.shape[dim] == 1] for factor in self._factors]
        used = {*own[0], *own[1]}
        if "formed" in vars(self) or not self.worthwhile or not used.issuperset(summed):
            return self.formed.sum(tuple(summed))
        kept = [dim for dim in every if dim not in summed]
        one, other = (
            factor[tuple(slice(None) if dim in dims else 0 for dim in every)]
            for factor, dims in zip(self._factors, own, strict=True)
        )
        result = torch.einsum(one, own[0], other, own[1], [dim for dim in kept if dim in used])
        repeated = tuple(slice(None) if dim in used else None for dim in kept)
        return result[repeated].expand([self.shape[dim] for dim in kept])

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Tensor, ...]: ...
    def __getitem__(self, index: int | slice) -> Tensor | tuple[Tensor, ...]:
        return (self.formed,)[index]

    def __len__(self) -> int:
        return 1


def _numbers(tensor: Tensor) -> int:
    """The number of distinct numbers in memory; repeated ones count once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else 1
    return count
