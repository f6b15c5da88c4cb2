"""One sample a task by a grammar of names and primitives alone: the middle row of the experiment's table.

    PYTHONPATH=. python experiments/real-lms/grammar.py ADDRESS EXPERIENCE|- TASK... > OUTPUT.json

The grammar knows the primitives with the names of their arguments, the task's functions and dims, and names of streams;
it knows no types, and not which names are bound. `EXPERIENCE` is a file whose solutions are shown.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dspy

from pipeline.agent.agent import Agent
from pipeline.languages import registry
from pipeline.lms.factory import make_lm
from pipeline.record.request import parse_experience
from pipeline.verification.task_files import load_tasks
from signatures import YAMLAdapter
from step_runtime.primitives import PRIMITIVES
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verifier

LINES, TOKENS, TEMPERATURE = 16, 256, 0.7


def grammar_of(task: Task) -> str:
    """A GBNF grammar of programs whose names are those of the task."""
    scope = static_scope(task)
    values = {"fn": "function", "L": '"[" number "]"', "S": '"[" number "]"', "n": "(dim | number)"}
    calls = []
    for name, primitive in PRIMITIVES.items():
        config = ' ", " '.join(f'"{key}=" {values.get(key, "number")}' for key in primitive.config_names())
        single = "(name | pair)" if primitive.zips else "name"
        operands = "merged" if name == "Merge" else "pair" if primitive.arity == 2 else single
        calls.append(f'"{name}(" {config} ").apply(" {operands} ")"')
    rules = {
        "root": f'"\\n" line{{1,{LINES}}} "return " name (", " name){{0,3}} "\\n"',
        "line": 'name (", " name)? " = step." call "\\n"',
        "call": " | ".join(calls),
        "name": '"E" number ("[" number "]")?',
        "pair": '"(" name ", " name ")"',
        "merged": '"([" name ", " name "], " name ")"',
        "number": "[0-9] [0-9]?",
        "function": _one_of(scope.fns) or '"fn"',
        "dim": _one_of(scope.dims) or "number",
    }
    return "\n".join(f"{name} ::= {rule}" for name, rule in rules.items())


def _one_of(names: Iterable[str]) -> str:
    return " | ".join(f'"{name}"' for name in names)


def main(address: str, experience: str, *names: str) -> None:
    """Prints the samples, as JSON."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    lm: Any = make_lm("openai/model", address, probed=False, cache=False)
    predictor = Agent("compiler", prompt="short").proposer.predict
    shown = () if experience == "-" else parse_experience(Path(experience).read_text("utf-8"), experience).entries
    predictor.demos = [dspy.Example(**entry.inputs, **entry.outputs) for entry in shown]
    samples: list[dict[str, Any]] = []
    spoken: Any = registry.find(None)
    for task in load_tasks(names):
        start = time.monotonic()
        prompt = YAMLAdapter().format(predictor.signature, predictor.demos, {"task": task})
        begun = {"role": "assistant", "content": "[[ ## impl ## ]]"}
        (answer,) = lm(
            messages=[*prompt, begun], extra_body={"grammar": grammar_of(task)}, max_tokens=TOKENS,
            temperature=TEMPERATURE, seed=1,
        )  # fmt: skip
        usage = lm.history[-1]["usage"]
        text = str(answer["text"] if isinstance(answer, dict) else answer).removeprefix(begun["content"]).strip()
        program = spoken.repaired(task, text) or text
        verdict = Verifier(task).verify(program)
        sys.stderr.write(f"{task.name}: {verdict.stage or 'right'}\n")
        samples.append(
            {
                "task": task.name,
                "passed": verdict.passed,
                "stage": verdict.stage,
                "answer": text,
                "codes": [each.code for each in verdict.diagnostics],
                "tokens": dict(usage),
                "seconds": round(time.monotonic() - start, 1),
            }
        )
    sys.stdout.write(f"{json.dumps(samples, indent=1, default=str)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
