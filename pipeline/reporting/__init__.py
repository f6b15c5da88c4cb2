"""Figures, tables and pages from answers, for `pipeline.evaluate`, `pipeline.report` and `pipeline.ablate`.

pass_rates     attempts → counts, pass@k in total and by group or class, diversity
runs           a recorded run → its iterations, each recomputed from the attempts alone
failures       the wrong answers to one task → why it has no verified program
tables         runs → data frames, for the page and for CSV files
page           all of these → pictures, and one HTML page in a folder
export         recorded runs → chats to tune an LM with, a bundle for a paper
ablation       the runs of an ablation → its page
"""
