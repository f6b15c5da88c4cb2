"""The cost of a program on a chip: memory, off-chip traffic, operations, time and queues, from its checked graph.

- chip: the chip, its YAML file, and what torch's operators count as
- operations: the operations of a function, by its recorded operators
- timeline: when every token of every stream comes, and how much waits before joins
- model: the cost at given sizes

The rules of each primitive are beside its type rule, in `step_runtime.primitives`.
"""
