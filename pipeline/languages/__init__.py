"""The seam between the core and a language that an agent learns to write.

from pipeline.languages import Diagnostic, Language, Span, TextTask, Verdict

`language` holds what a language is; `registry` finds languages by their entry points. Names are imported
on first use: commands read the registry before they need torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.languages.language import Language, Task, fenced_blocks
    from pipeline.languages.tasks import TextTask, read_text_task
    from step_runtime.base.errors import Diagnostic, Span, TaskError
    from step_runtime.verification.verify import Verdict

__all__ = [
    "Diagnostic",
    "Language",
    "Span",
    "Task",
    "TaskError",
    "TextTask",
    "Verdict",
    "fenced_blocks",
    "read_text_task",
]
_HOMES = {
    "Diagnostic": "step_runtime.base.errors",
    "Language": "pipeline.languages.language",
    "Span": "step_runtime.base.errors",
    "Task": "pipeline.languages.language",
    "TaskError": "step_runtime.base.errors",
    "TextTask": "pipeline.languages.tasks",
    "Verdict": "step_runtime.verification.verify",
    "fenced_blocks": "pipeline.languages.language",
    "read_text_task": "pipeline.languages.tasks",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
