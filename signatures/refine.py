"""The refiner's task: a program that passes, given one that does not and the verifier's diagnostics."""

from __future__ import annotations

import dspy

from step_runtime.tasks.task import Task


class Refine(dspy.Signature):
    """Repair the program, or write another, so that it computes the task's outputs from its inputs."""

    task: Task = dspy.InputField(desc="the operator: its inputs, the functions on offer, its outputs in PyTorch; YAML")
    input_impl: str = dspy.InputField(desc="a program for the task that is wrong")
    diagnostics: str = dspy.InputField(desc="what a checker found, with the lines of the program")
    output_impl: str = dspy.OutputField(desc="a program that is right, and nothing beside it")
