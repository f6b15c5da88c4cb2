"""Languages of kernels, whose programs fill output tensors: all but the language itself.

from pipeline.tensors import AllowList, Runner, TensorLanguage

`language` has the form of tasks and the members of `pipeline.languages.Language`, `allowed` the part of Python that a
program may be, `judging` the cases, the run apart and the comparison with PyTorch. A language adds a table of what is
allowed, and a `Runner`.
"""
