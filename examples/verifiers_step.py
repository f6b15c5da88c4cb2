"""STeP's tasks as an environment of the package `verifiers`: a task in, one program out, the verdict is the reward.

A right program gets 1 and a wrong one 0. A verdict that is unknown, as a limit ended the program's run, is neither: the
rollout ends with an error, which trainers leave out. An answer without a program is a wrong one. Programs are judged in
confined worker processes, one per core, which rollouts share.

`verifiers` 0.4 pins packages to other versions than the extra `mcp` does, so it needs a Python environment of its own:

    pip install 'adaptive-step[pipeline]' verifiers==0.4.0
    eval examples.verifiers_step --model MODEL --env.taskset.tasks gemm/1 'bmm/*'

How to run: python -m examples.verifiers_step     the rewards a second on this machine
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache, cached_property
from typing import Any, Literal

import dspy
import verifiers.v1 as vf

from pipeline.agent.agent import Agent
from pipeline.base.files import DATA
from pipeline.languages import registry
from pipeline.verification.limits import verification_pool
from pipeline.verification.metric import Metric
from pipeline.verification.pool import cores
from pipeline.verification.task_files import load_tasks
from signatures import YAMLAdapter
from step_runtime import loads_task

WAITING = 4
"""Programs a worker that wait for it at a time, so that none is idle."""


class UnknownVerdict(Exception):
    """Nobody knows whether the program is right; the message says which limit ended its run."""


@cache
def judge() -> Metric:
    """The metric; its workers end with the process."""
    pool = ExitStack().enter_context(verification_pool(cores()))
    return Metric(pool, registry.find(None))


class StepConfig(vf.TasksetConfig):
    """Which tasks, as for `pipeline.compile`, and which instructions."""

    tasks: list[str] | None = None
    prompt: Literal["full", "short"] = "full"


class StepData(vf.TaskData):
    """A task, and its text."""

    statement: str


class StepTask(vf.Task[StepData]):
    """A program of a task."""

    @property
    def key(self) -> str:
        """The task's name."""
        return str(self.data.name)

    @cached_property
    def task(self) -> Any:
        """The task itself; none of its code is run in this process."""
        return loads_task(self.data.statement, self.data.name)

    @vf.reward  # type: ignore[untyped-decorator]
    async def verdict(self, trace: Any) -> float:
        """1 for a right program, 0 for a wrong one."""
        return await self.judged(trace.last_reply)

    async def judged(self, reply: str) -> float:
        """The reward of an answer.

        Raises:
            UnknownVerdict: There is none.
        """
        program = YAMLAdapter().parse(_predictor("full").signature, reply)["impl"]
        example, prediction = dspy.Example(task=self.task), dspy.Prediction(impl=program)
        reward = await asyncio.to_thread(judge(), example, prediction)
        if "unscored" in reward:
            raise UnknownVerdict(reward.feedback)
        return float(bool(reward))


class StepTaskset(vf.Taskset[StepTask, StepConfig]):
    """The tasks that the configuration names."""

    def load(self) -> Iterable[StepTask]:
        """Each with the messages that the project's own agent sends."""
        signature = _predictor(self.config.prompt).signature
        for task in load_tasks(self.config.tasks):
            system, user = YAMLAdapter().format(signature, [], {"task": task})
            yield StepTask(
                StepData(
                    name=task.name,
                    prompt=user["content"],
                    system_prompt=system["content"],
                    statement=task.statement,
                ),
                self.config.task,
            )


@cache
def _predictor(prompt: Literal["full", "short"]) -> Any:
    return Agent("none", prompt=prompt).proposer.predictors()[0]


async def rewards_a_second(answers: int) -> float:
    """How many answers a second are judged: each a text of its own, of a right program or of a wrong one."""
    tasks = list(StepTaskset(StepConfig(id="examples.verifiers_step")))
    known = {task.key: (DATA / "oracles" / f"{task.key}.step").read_text() for task in tasks}
    gate = asyncio.Semaphore(WAITING * cores())

    async def one(number: int) -> float:
        task = tasks[number % len(tasks)]
        program = known[task.key] if number % 2 else known[tasks[(number + 1) % len(tasks)].key]
        async with gate:
            return float(await task.judged(f"```python\n{program}\n# {number}\n```"))

    await asyncio.gather(*(one(number) for number in range(2 * len(tasks))))  # starts the workers
    start = time.perf_counter()
    found = await asyncio.gather(*(one(number) for number in range(1000, 1000 + answers)))
    print(f"{sum(found):.0f} of {answers} are right")
    return answers / (time.perf_counter() - start)


if __name__ == "__main__":
    print(f"{asyncio.run(rewards_a_second(2000)):.0f} rewards a second")
