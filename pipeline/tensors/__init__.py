"""Languages of kernels, whose programs fill output tensors: all but the language itself.

from pipeline.tensors import AllowList, Runner, TensorLanguage, printed, refused

`language` has the form of tasks and the members of `pipeline.languages.Language`, `allowed` the part of Python that a
program may be, `judging` the cases, the run apart and the comparison with PyTorch. A language adds a table of what is
allowed, and a `Runner`.
"""

from typing import TYPE_CHECKING

from pipeline.base.packages import lazily

if TYPE_CHECKING:
    from pipeline.tensors.allowed import BUILTINS, AllowList, printed, refused
    from pipeline.tensors.judging import FILE, Runner
    from pipeline.tensors.language import TensorLanguage
    from step_runtime.base.syntax import compile_python, parse_python

__getattr__ = lazily(
    __name__,
    {
        "pipeline.tensors.allowed": ("AllowList", "BUILTINS", "printed", "refused"),
        "pipeline.tensors.judging": ("FILE", "Runner"),
        "pipeline.tensors.language": ("TensorLanguage",),
        "step_runtime.base.syntax": ("compile_python", "parse_python"),
    },
)
