"""The selection experiment: do different demonstrations at equal tokens change what is solved?

tasks       the task sets, their groups, and folds of whole groups
worlds      what can be sampled: tasks, their structures, sizes of demonstrations, and answers of a reader
readers     the world of STeP tasks, read by an embedded proposer, or by any LM
control     a simulated world with known skills, the positive control
arms        what each arm shows for a task within a budget of tokens
measuring   experience from training tasks, then fresh samples of held-out tasks under every arm
"""
