"""The embedded LM's right answers to every task, and their costs: 8 samples at three temperatures, with two prompts.

One shows nothing, the other the oracles of the benchmark and of the task's own set.

How to run: python experiments/savings/right_answers.py > right-answers.jsonl (a quarter of an hour)
"""

import json
import sys

import torch

from benchmarks.proposing import DATA, Desk, Judge, tasks_in
from pipeline.agent.domain import code_length
from pipeline.lms.embedded import EmbeddedEngine
from pipeline.lms.embedded.answering import EmbeddedRequest, answer
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.language.canonical import canonical_key
from step_runtime.verification.task_costs import TaskCosts

SETS = ("tasks", "tasks-extra", "tasks-modern", "tasks-field", "tasks-formats", "tasks-layers")
torch.set_num_threads(1)
desk, judge = Desk(EmbeddedEngine()), Judge()
solved = [
    (folder, task, (DATA / folder.replace("tasks", "oracles") / f"{task.name}.step").read_text())
    for folder in SETS
    for task in tasks_in(folder)
]
for folder, task, oracle in solved:
    costs, right = (
        TaskCosts(task, DEFAULT_CHIP),
        {canonical_key(oracle): {"by": "oracle", "text": oracle, "samples": 0}},
    )
    others = [(one, text) for own, one, text in solved if one.name != task.name and own in ("tasks", folder)]
    for arm, shown in (("nothing", []), ("others", others)):
        prompt = desk.prompt(task, shown)
        messages = tuple((part.role, part.text or "") for part in prompt.messages)
        for heat in (0.4, 0.7, 1.0):
            for seed in range(8):
                text = desk.program(answer(8, EmbeddedRequest(prompt.system, messages, seed, heat)))
                if text is not None and canonical_key(text) in right:
                    right[canonical_key(text)]["samples"] += 1
                elif judge.passes(task, text):
                    right[canonical_key(text)] = {"by": arm, "text": text, "samples": 1}
    rows = []
    for each in right.values():
        text = each.pop("text")
        rows.append({**each, "length": code_length(text), **costs.price(text, costs.sizes({})).cost.figures()})
    sys.stdout.write(json.dumps({"set": folder, "task": task.name, "samples": 48, "right": rows}) + "\n")
    sys.stdout.flush()
