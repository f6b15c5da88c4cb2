"""Tasks in the project's words are the same tasks; `tests/attacks/test_foreign_text.py` holds what is not in them."""

import pytest

from step_runtime.language.foreign import in_own_words
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import dump_task
from step_runtime.verification.verify import verify
from tests.support.oracles import oracle, task


@pytest.mark.parametrize("name", ["attn/1", "etoe/0", "expert/1", "gemm/2", "index/0", "norm/2", "rope/1"])
def test_a_task_in_the_project_s_words_is_the_same(name: str) -> None:
    """Its program is right; it is a task file; it has no further words to replace. Some compute inputs' names."""
    written, program = in_own_words(task(name), oracle(name))
    assert verify(written, program).passed
    assert loads_task(dump_task(written)) == written
    assert in_own_words(written, program) == (written, program)
