"""The proposer's task (paper, Section 4.1): a program for a task."""

from __future__ import annotations

import dspy

from step_runtime.tasks.task import Task


class Propose(dspy.Signature):
    """Write the STeP program that computes the task's outputs from its inputs."""

    task: Task = dspy.InputField(desc="the operator: its inputs, the functions on offer, its outputs in PyTorch; YAML")
    impl: str = dspy.OutputField(desc="the program, and nothing beside it")
