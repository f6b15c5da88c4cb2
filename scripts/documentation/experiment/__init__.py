"""The selection experiment's analysis: from recorded cells to a page.

records      what `python -m benchmarks.selection_experiment` recorded, as one array per arm
statistics   task and seed as crossed random effects, Holm's correction, equivalence, detectable differences
page         the results part of experiments/selections/README.md, and its figure
"""
