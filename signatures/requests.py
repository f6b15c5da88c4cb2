"""The requests to proposer, guardian (paper, Section 4.1) and refiner."""

from __future__ import annotations

import dspy

from step_runtime.tasks.task import Task


class Propose(dspy.Signature):
    """Write the STeP program that computes the task's outputs from its inputs."""

    task: Task = dspy.InputField(desc="the operator: its inputs, the functions on offer, its outputs in PyTorch; YAML")
    impl: str = dspy.OutputField(desc="the program, and nothing beside it")


class Guard(dspy.Signature):
    """Insert Copy where the program consumes a stream more than once; else return it as it is."""

    task: Task = dspy.InputField(desc="the operator: its inputs, the functions on offer, its outputs in PyTorch; YAML")
    input_impl: str = dspy.InputField(desc="a program for the task")
    output_impl: str = dspy.OutputField(desc="the program after correction, and nothing beside it")


class Refine(dspy.Signature):
    """Repair the program, or write another, so that it computes the task's outputs from its inputs."""

    task: Task = dspy.InputField(desc="the operator: its inputs, the functions on offer, its outputs in PyTorch; YAML")
    input_impl: str = dspy.InputField(desc="a program for the task that is wrong")
    diagnostics: str = dspy.InputField(desc="what a checker found, with the lines of the program")
    output_impl: str = dspy.OutputField(desc="a program that is right, and nothing beside it")
