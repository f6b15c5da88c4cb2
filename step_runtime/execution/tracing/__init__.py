"""Traced functions: an author's function as a list of torch operators, for batches and for folds.

- captures: what a function can reach besides its arguments
- operators: runs it under vmap and records a tape
- tape: the operators, and Python code to replay them
- products: products that an Accum sums without computing them
- folds: folds of a traced step: reductions at once, others step by step

Traces are recorded here and not by `make_fx`, which takes 23 times as long if one graph serves every batch size
(24 s instead of 1 s for the benchmark's 94 functions at one set of sizes), gives graphs that take twice as long to
replay (10 instead of 4.5 microseconds), and would still leave captures, folds and products to this package.
"""

from step_runtime.execution.tracing.captures import Captures
from step_runtime.execution.tracing.folds import Fold
from step_runtime.execution.tracing.operators import MAX_BATCH_DIMS, Untraceable, trace
from step_runtime.execution.tracing.products import Product
from step_runtime.execution.tracing.tape import Tape

__all__ = ["MAX_BATCH_DIMS", "Captures", "Fold", "Product", "Tape", "Untraceable", "trace"]
