"""The meaning of each finding's code, a sentence each: the rules of a SARIF log."""

from __future__ import annotations

from collections.abc import Mapping

UNUSABLE = "unusable-file"
"""The rule of a task or a program that can't be used."""

_CODES: Mapping[str, str] = {
    UNUSABLE: "A task file or a program can't be used.",
    # programs
    "syntax": "The text is no Python syntax.",
    "no-program": "The text holds no program.",
    "name": "A name is not defined.",
    "affine": "A stream is consumed more than once.",
    "apply-argument": "A primitive is applied to an operand that it does not take.",
    "config": "A primitive has an invalid configuration.",
    "dim": "A dim is no number, symbol or product of these.",
    "dtype": "A type can't be read.",
    "fn-input": "A function's input type differs from the stream's element type.",
    "fn-state": "A function has a state where none is expected, or lacks a required state.",
    "zip-shape": "Zipped streams differ in their dims.",
    "output-count": "The program returns more or fewer streams than the task has outputs.",
    "output-type": "A result's element type or dims differ from the task's output.",
    "merge-count": "A Merge finds fewer slices than its index asks for.",
    "value": "An output differs from the reference.",
    "cost": "The program costs more than the task's limits allow.",
    "exact-different": "The program differs from the reference in exact arithmetic; the inputs hide it.",
    # runs of which nothing is known
    "time-limit": "A limit of time ended the run.",
    "memory-limit": "A limit of memory ended the run.",
    "crashed": "The worker process crashed.",
    "killed": "Something else killed the worker process.",
    "lost-before": "The run is not repeated, as one like it was lost.",
    "internal": "The verifier, or the language, failed.",
    "non-finite-reference": "The reference gives NaN or infinity where the program differs.",
    "tampered": "Code of the task changed Python, torch or the verifier.",
    "task-function": "A function of the task failed.",
    # stress inputs
    "stress-undefined": "NaN or infinity on a stress input of small numbers, in float64 too.",
    "stress-overflow": "NaN or infinity on a stress input where the reference gives numbers.",
    "stress-accuracy": "Accuracy is lost on a stress input, and the reference keeps it.",
    "stress-value": "The values differ from the reference's on a stress input.",
    "stress-run": "The run fails on a stress input, and the reference does not.",
    # tasks
    "assumption": "An input's data is not as `assumes` says.",
    "bool-function": "A function returns a bool where a number is declared.",
    "constant-input": "An input that the reference reads is the same at every seed or along a dim.",
    "constant-output": "An output depends on the inputs by less than the comparison's tolerance.",
    "equal-dims": "Two dims have the same size at every set of sizes.",
    "fixed-dim": "A dim has one size at every set of sizes.",
    "function-fails": "A function fails on the elements of its declared type that were tried.",
    "input-by-name": "A function reads an input by name, and so all of it at once.",
    "nan-output": "An output is NaN for some inputs.",
    "negligible-input": "One end of a dim changes an output by less than the comparison's tolerance.",
    "random-function": "A function gives other results for the same element when it runs again.",
    "random-reference": "A reference gives other values for the same inputs when it runs again.",
    "simpler-reference": "The reference is the same without one of its functions, on the inputs sampled.",
    "unread-input": "No output depends on an input.",
    "unstressed-input": "Stress inputs leave an input's data as it is.",
}
_STAGES: Mapping[str, str] = {
    "parse": "The text is not a program of the language.",
    "type": "A primitive rejects an element type, a dim or a configuration.",
    "affine": "A stream is consumed more than once.",
    "limits": "The program exceeds a limit.",
    "shape": "The results differ from the task's outputs in number, types or dims.",
    "run": "The program failed when it ran.",
    "value": "The numbers differ from the reference.",
    "stress": "The program passes on the task's inputs and fails on stress inputs.",
    "task": "The task's verdicts may be worth less than they seem.",
}


def rule_text(code: str, stage: str) -> str:
    """A sentence on the meaning of a code; for a code of another language, on its stage."""
    return _CODES.get(code) or _STAGES.get(stage) or f"A finding at stage {stage}."
