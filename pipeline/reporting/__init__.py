"""From answers to figures, tables and a page, for `pipeline.evaluate` and `pipeline.report`.

measures       attempts → counts, pass@k in total and by group or class, diversity
record         a recorded run → its iterations, each recomputed from the attempts alone
tables         runs → rows, for the page and for CSV files
figures        runs → PNGs
page           all of these → one HTML page in a folder
"""
