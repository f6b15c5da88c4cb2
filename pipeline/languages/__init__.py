"""The seam between the core and a language that an agent learns to write.

from pipeline.languages import Diagnostic, Language, Span, TextTask, Verdict

`language` holds what a language is; `registry` finds languages by their entry points. Names are imported
on first use: commands read the registry before they need torch.
"""

from typing import TYPE_CHECKING

from pipeline.base.packages import lazily

if TYPE_CHECKING:
    from pipeline.languages.language import Language, Task, fenced_blocks
    from pipeline.languages.tasks import TextTask, read_text_task
    from step_runtime.base.errors import Diagnostic, Span, TaskError
    from step_runtime.verification.verdict import Verdict

__getattr__ = lazily(
    __name__,
    {
        "pipeline.languages.language": ("Language", "Task", "fenced_blocks"),
        "pipeline.languages.tasks": ("TextTask", "read_text_task"),
        "step_runtime.base.errors": ("Diagnostic", "Span", "TaskError"),
        "step_runtime.verification.verdict": ("Verdict",),
    },
)
