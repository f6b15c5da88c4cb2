"""Imported by processes that prove before they note what judges programs: the modules of torch that tracing imports.

They replace functions of torch, which later would count as a task's code that changed them.
"""

from step_runtime.verification.exact.trace import prepare

prepare()
