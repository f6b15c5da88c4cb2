"""Tasks that are too large for one search: split into sub-tasks, which are solved, and composed again.

    statements    a reference in normal form, and the slices that compute one value from others
    cuts          values that a reference computes on its way and a stream can hold
    operators     which functions may serve a part of a reference
    subtasks      what computes one value from others, as a task file
    split_search  solves sub-tasks under one budget, until they compose to a program of the whole
    composing     verified programs as one program

A task's own code runs in worker processes alone.
"""
