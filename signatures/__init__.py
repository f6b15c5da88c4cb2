"""The text that LMs see: DSPy signatures over the structural IR, their base prompts, and the YAML adapter.

Without the structural IR (`signatures.prompts`), the same signatures and prompts in plain Python.
"""

from signatures.adapter import ANSWERS, Guard, Propose, Refine, YAMLAdapter, extract_program, holds_program, render_task
from signatures.lines import LineAdapter
from signatures.prompts import (
    BareWords,
    BasePrompt,
    GuardianPrompt,
    PromptError,
    ProposerPrompt,
    RefinerPrompt,
    compose,
    compose_bare,
    digest,
    load_prompt,
    read_yaml,
    render_script,
    without_ir,
)

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
