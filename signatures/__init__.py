"""What the LMs see: DSPy signatures over the structural IR, their base prompts, and the adapter that speaks YAML."""

from signatures.adapter import YAMLAdapter, render_task
from signatures.extract import extract_program, holds_program
from signatures.guard import Guard
from signatures.memo import by_identity
from signatures.prompts import GuardianPrompt, PromptError, ProposerPrompt, compose, digest, load_prompt
from signatures.propose import Propose

__all__ = [
    "Guard",
    "GuardianPrompt",
    "PromptError",
    "Propose",
    "ProposerPrompt",
    "YAMLAdapter",
    "by_identity",
    "compose",
    "digest",
    "extract_program",
    "holds_program",
    "load_prompt",
    "render_task",
]
