"""Everything wired together: the agent, its LMs, the record of a run, and one module per command.

from pipeline import load_program
program = load_program("compiled.json", lm=dspy.LM(...))
program(task=load_task("task.yaml")).impl

from pipeline import MLflowObserver        # the record of any DSPy program's run; needs the extra `mlflow` alone
AdaptiveFewShot(metric, observers=[MLflowObserver("my experiment")])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipeline.base.packages import skip_unreadable

if TYPE_CHECKING:
    from pipeline.agent.compiled import save_program
    from pipeline.modules.importing import load_task
    from pipeline.record.models import load_program
    from pipeline.record.observer import MLflowObserver
    from pipeline.record.verdict_scorer import verdict_scorer

__all__ = ["MLflowObserver", "load_program", "load_task", "save_program", "verdict_scorer"]
_HOMES = {
    "MLflowObserver": "pipeline.record.observer",
    "load_program": "pipeline.record.models",
    "load_task": "pipeline.modules.importing",
    "save_program": "pipeline.agent.compiled",
    "verdict_scorer": "pipeline.record.verdict_scorer",
}

skip_unreadable()  # before anything imports pydantic


def __getattr__(name: str) -> Any:
    """The names in `__all__`, imported on first use, since every command's `--help` imports this package."""
    if name in _HOMES:
        try:
            return getattr(import_module(_HOMES[name]), name)
        except ModuleNotFoundError as error:
            extra = f"pip install 'adaptive-step[{'mlflow' if name == 'MLflowObserver' else 'pipeline'}]'"
            raise ModuleNotFoundError(f"{name} needs {error.name}: {extra}", name=error.name) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
