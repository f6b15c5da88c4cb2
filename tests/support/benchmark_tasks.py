"""The benchmark's tasks with their reference programs, and the base prompt's examples."""

from pipeline.lms.embedded.answering import solved_examples
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.loading import load_task
from tests.support.paths import PROJECT

ROOT = PROJECT
EXAMPLES = solved_examples((ROOT / "data/prompts/proposer.yaml").read_text())


def task_named(name: str) -> Task:
    return load_task(ROOT / f"data/tasks/{name}.yaml")


def oracle(name: str) -> SolvedTask:
    return SolvedTask(task_named(name), (ROOT / f"data/oracles/{name}.step").read_text())
