"""Everything wired together: the agent, its LMs, the record of a run, and one module a command.

from pipeline import load_program
program = load_program("compiled.json", lm=dspy.LM(...))
program(task=load_task("task.yaml")).impl
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.agent.compiled import load_program, save_program

__all__ = ["load_program", "save_program"]


def __getattr__(name: str) -> Any:
    """What `__all__` names, imported when first used, as every command's `--help` imports this package."""
    if name in __all__:
        from pipeline.agent import compiled

        return getattr(compiled, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
