"""Chips, their files, and the front of what is cheapest on them."""

from pathlib import Path

import pytest
import torch

from step_runtime.base.errors import ChipError
from step_runtime.base.formats import FORMATS
from step_runtime.cost.chip import DEFAULT_CHIP, DEFAULT_WEIGHTS, ELEMENTWISE, MATMUL, OTHER, Chip, load_chip


def test_every_format_takes_what_its_numbers_need() -> None:
    """In bits; a chip may state other bytes for some of them."""
    sizes = {"float": 32, "fp16": 16, "bf16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8, "int8": 8, "int32": 32, "bool": 8}
    assert {name: DEFAULT_CHIP.scalar_bits(name) for name in FORMATS} == sizes
    assert {name: Chip(bytes={"bf16": 4}).scalar_bits(name) for name in FORMATS} == sizes | {"bf16": 32}


def test_a_file_changes_what_it_names(tmp_path: Path) -> None:
    """All else keeps its default."""
    path = tmp_path / "chip.yaml"
    path.write_text("name: half\nbytes: {fp32: 2}\nrate: 8\nsram: 1024\noperations: {exp: 10, topk: [3, 1]}\n")
    chip = load_chip(path)
    assert (chip.name, chip.rate, chip.sram, chip.bandwidth) == ("half", 8, 1024, DEFAULT_CHIP.bandwidth)
    assert chip.scalar_bits("float") == 16
    assert (chip.weights["exp"], chip.weights["topk"], chip.weights["tanh"]) == (10, (3, 1), 4)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("rates: 3", ["rates: unknown key"]),
        ("rate: 0", ["rate: expected 1 or more, found 0"]),
        ("bytes: {bfloat16: 2}", ["bytes", "bfloat16", "fp32, fp16, bf16"]),
        ("rate: fast", ["rate: expected a whole number, found 'fast'"]),
        ("operations: {exp: -1}", ["operations.exp", "-1"]),
        ("[1, 2]", ["expected a mapping, found [1, 2]"]),
        ("rate: [", ["expected YAML"]),
    ],
)
def test_a_file_that_describes_no_chip_is_refused(text: str, quoted: list[str], tmp_path: Path) -> None:
    """With the file, the key and what was expected."""
    path = tmp_path / "chip.yaml"
    path.write_text(text)
    with pytest.raises(ChipError) as refused:
        load_chip(path)
    assert str(refused.value).startswith(str(path))
    assert all(part in str(refused.value) for part in quoted), refused.value


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChipError, match="cannot read the chip: No such file"):
        load_chip(tmp_path / "none.yaml")


def test_every_entry_is_a_torch_operator() -> None:
    """So that a misspelt one is noticed."""
    classes = {MATMUL, ELEMENTWISE, OTHER}
    known = {name for name in DEFAULT_WEIGHTS if hasattr(torch.ops.aten, name)}
    assert DEFAULT_WEIGHTS.keys() - classes == known - classes
