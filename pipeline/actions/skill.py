"""A language as an Agent Skill: its prompt, and its tasks with their programs, in one page."""

from __future__ import annotations

from pipeline.languages.language import Language
from pipeline.verification.shown_programs import read_shown


def skill(language: Language) -> str:
    """The text of `SKILL.md`; of STeP, `data/skill` has a longer one.

    Raises:
        UsageError: The language has no prompt.
    """
    head = f"---\nname: {language.name}\ndescription: How to write programs in the language {language.name}.\n---\n"
    examples = [f"```yaml\n{each.task.text_with(each.text)}```\n" for each in read_shown(language).oracles]
    prompt = language.instructions("proposer", ir=True, kind="full")
    return "\n".join([head, prompt, "\n## Solved tasks\n", *examples])
