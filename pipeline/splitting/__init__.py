"""Tasks that are too large for one search: split into sub-tasks, which are solved, and composed again.

    statements    a reference in normal form, and the slices that compute one value from others
    cuts          values that a reference computes on its way and a stream can hold
    subtasks      what computes one value from others, as a task file
    split_search  solves sub-tasks under one budget, until they compose to a program of the whole
    composing     verified programs as one program
    library       solved sub-tasks, found again by what they compute
    split_files   sub-tasks as files, which one can read, edit and keep

A task's own code runs in worker processes alone.
"""
