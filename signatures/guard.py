"""The guardian's task (paper, Section 4.1): the same program, with each stream consumed at most once."""

from __future__ import annotations

import dspy

from step_runtime.tasks.task import Task


class Guard(dspy.Signature):
    """Insert Copy where the program consumes a stream more than once; else return it as it is."""

    task: Task = dspy.InputField(desc="the operator: its inputs, the functions on offer, its outputs in PyTorch; YAML")
    input_impl: str = dspy.InputField(desc="a program for the task")
    output_impl: str = dspy.OutputField(desc="the program after correction, and nothing beside it")
