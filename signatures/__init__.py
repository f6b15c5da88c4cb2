"""The text that LMs see: DSPy signatures over the structural IR, their base prompts, and the YAML adapter.

Without the structural IR (`signatures.bare`), the same signatures and prompts in plain Python.
"""

from signatures.adapter import YAMLAdapter, render_task
from signatures.bare import BareWords, compose_bare, render_script, without_ir
from signatures.extract import ANSWERS, extract_program, holds_program
from signatures.lines import LineAdapter
from signatures.prompts import (
    BasePrompt,
    GuardianPrompt,
    PromptError,
    ProposerPrompt,
    RefinerPrompt,
    compose,
    digest,
    load_prompt,
    read_yaml,
)
from signatures.requests import Guard, Propose, Refine

__all__ = [
    "ANSWERS",
    "BareWords",
    "BasePrompt",
    "Guard",
    "GuardianPrompt",
    "LineAdapter",
    "PromptError",
    "Propose",
    "ProposerPrompt",
    "Refine",
    "RefinerPrompt",
    "YAMLAdapter",
    "compose",
    "compose_bare",
    "digest",
    "extract_program",
    "holds_program",
    "load_prompt",
    "read_yaml",
    "render_script",
    "render_task",
    "without_ir",
]
