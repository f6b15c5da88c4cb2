"""The properties of a chip that decide a program's cost, and their YAML file."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from step_runtime.base.errors import ChipError, TaskError
from step_runtime.base.formats import FORMATS, SCALARS
from step_runtime.base.mistakes import first_mistake
from step_runtime.tasks import yaml_format

Count = Annotated[int, Field(strict=True, ge=0)]
Weight: TypeAlias = Count | tuple[Count, Count]
"""Operations for each number made, or for each number read and each number made."""

MATMUL, ELEMENTWISE, OTHER = "matmul", "elementwise", "other"
"""Keys of the table for operators without an entry of their own: products of matrices (for each product that is added
up), operators that compute each number from one number of every operand, and all others (for each number read)."""

_FOUR = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "div", "elu", "erf", "erfc", "exp",
    "exp2", "expm1", "floor_divide", "fmod", "gelu", "hardsigmoid", "log", "log10", "log1p", "log2", "logaddexp",
    "logaddexp2", "mish", "pow", "reciprocal", "remainder", "rsqrt", "sigmoid", "silu", "sin", "sinh", "softplus",
    "sqrt", "tan", "tanh",
)  # fmt: skip
_FREE = (
    "_local_scalar_dense", "_reshape_copy", "_to_copy", "_unsafe_view", "alias", "arange", "cat", "clone",
    "constant_pad_nd", "copy", "diag_embed", "embedding", "empty", "empty_like", "eye", "fill", "flip", "full",
    "full_like", "gather", "index", "index_fill", "index_put", "index_select", "lift", "lift_fresh", "linspace",
    "masked_fill", "masked_select", "new_empty", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "repeat",
    "repeat_interleave", "roll", "scalar_tensor", "scatter", "select_scatter", "slice_scatter",
    "split_with_sizes_copy", "stack", "tril", "triu", "unfold_copy", "zeros", "zeros_like",
)  # fmt: skip
_READING: dict[str, Weight] = {
    "_log_softmax": (8, 4),  # max, subtract, exp, add, subtract; log
    "_softmax": (11, 0),  # max, subtract, exp, add, divide
    "linalg_vector_norm": (2, 4),
    "logcumsumexp": (8, 4),
    "logsumexp": (7, 4),
    "mean": (1, 4),
    "native_group_norm": (9, 0),
    "native_layer_norm": (9, 0),  # mean 1, square of the difference and its sum 3, normalize 5
    "norm": (2, 4),
    "std": (3, 8),
    "var": (3, 4),
    "var_mean": (3, 4),
}

DEFAULT_WEIGHTS: dict[str, Weight] = {
    MATMUL: 2,
    ELEMENTWISE: 1,
    OTHER: (1, 0),
    **dict.fromkeys(_FOUR, 4),
    **dict.fromkeys(_FREE, 0),
    **_READING,
}
"""The default table; `matmul`, `elementwise` and `other` are the classes of operators without an entry."""


Positive = Annotated[int, Field(strict=True, ge=1)]


class Chip(BaseModel):
    """A chip; the default is an example, and no product.

    Attributes:
        name: For reports.
        bytes: Bytes of a number, by its format; one that is absent takes what its numbers need (2 for bf16). A Multihot
            takes one bit for each of its places.
        bandwidth: Bytes a cycle between the chip and its memory, and of the port of each input.
        rate: Operations a cycle of one primitive.
        lanes: Values a cycle that Streamify takes from a Buffer.
        latency: Cycles before the first byte from memory comes.
        drain: Bytes a cycle at which the largest element of an input passes once more at the end; None for at once.
        sram: Bytes of memory on the chip; None for as much as a program needs.
        operations: What torch's operators count as, where that differs from the default table.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "example"
    bytes: dict[str, Positive] = Field(default_factory=lambda: {"fp32": 4})
    bandwidth: Positive = 64
    rate: Positive = 64
    lanes: Positive = 1
    latency: Count = 0
    drain: Positive | None = None
    sram: Positive | None = None
    operations: dict[str, Weight] = Field(default_factory=dict)

    @field_validator("bytes")
    @classmethod
    def _known_formats(cls, sizes: dict[str, int]) -> dict[str, int]:
        unknown = sorted(sizes.keys() - SCALARS.keys())
        if unknown:
            raise ValueError(f"unknown format {unknown[0]}; expected one of {', '.join(SCALARS)}")
        return sizes

    def scalar_bits(self, name: str) -> int:
        """The bits of a number of a scalar's name in programs."""
        known = FORMATS[name]
        return 8 * self.bytes.get(known.name, known.bytes)

    @property
    def weights(self) -> dict[str, Weight]:
        """The weight of every operator, by name."""
        return {**DEFAULT_WEIGHTS, **self.operations}

    def cycles(self, operations: int) -> int:
        """The cycles of a call with so many operations."""
        return ceil(operations / self.rate)

    def transfer(self, bits: int) -> int:
        """The cycles that it takes to read or write so many bits off chip."""
        return ceil(bits / (8 * self.bandwidth))

    def loading(self, bits: int, tile: int) -> int:
        """The cycles of a program that transfers bind, with so many bits in its largest element."""
        return self.transfer(bits) + self.latency + (ceil(tile / (8 * self.drain)) if self.drain else 0)


DEFAULT_CHIP = Chip()


def load_chip(path: Path) -> Chip:
    """Reads a chip from a YAML file, whose keys are the attributes of `Chip`; absent ones keep their defaults.

    Raises:
        ChipError: The file can't be read, or doesn't describe a chip; the message names the file, the key and what was
            expected.
    """
    try:
        _, content = yaml_format.load(yaml_format.read_text(path), str(path))
        return Chip.model_validate({} if content is None else content)
    except OSError as error:
        raise ChipError(f"{path}: cannot read the chip: {error.strerror or error}") from None
    except ValidationError as error:
        raise ChipError(f"{path}: {first_mistake(error)}") from None
    except (TaskError, ValueError) as error:
        text = str(error)
        raise ChipError(text if text.startswith(str(path)) else f"{path}: {text}") from None
