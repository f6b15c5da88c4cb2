"""The base prompts hold these:

- the instructions of an agent are the file's content, without its comments, and the same whenever it is composed;
- an example reads as tasks do everywhere;
- a file that cannot be used is refused with its name, the line and the place in it.
"""

from pathlib import Path

import pytest
import yaml

from signatures.adapter import Guard, Propose
from signatures.prompts import BasePrompt, GuardianPrompt, PromptError, ProposerPrompt, compose, load_prompt
from step_runtime.tasks.task import dump_task
from tests.support.paths import PROJECT

FOLDER = PROJECT / "data" / "prompts"
PROMPTS = [(ProposerPrompt, "proposer"), (GuardianPrompt, "guardian")]

GUARDIAN = """\
desc: |
  Copy what is used twice.
examples:
- inputs:
  - name: E0
    dtype: fp32
    dims: [M]
    data_gen: torch.rand
  outputs:
  - name: S0
    dtype: fp32
    dims: [M]
    data_transform:
    - |
      input_data['E0']
  input_impl: |
    return E0
  output_impl: |
    return E0
  explanation: |
    Nothing is used twice.
"""


@pytest.mark.parametrize(("model", "name"), PROMPTS)
def test_the_composed_prompt_is_the_content_of_the_file(model: type[BasePrompt], name: str) -> None:
    """Reading the instructions as YAML gives the same prompt."""
    path = FOLDER / f"{name}.yaml"
    prompt = load_prompt(model, path)
    content = yaml.safe_load(compose(prompt) + "\n")
    assert list(content) == list(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert compose(model.model_validate(content)) == compose(prompt)
    assert [dump_task(task) for _, task in prompt.located_examples()]
    assert "#" not in [line[:1] for line in compose(prompt).split("\n")]


@pytest.mark.parametrize(("model", "name", "signature"), [(*PROMPTS[0], Propose), (*PROMPTS[1], Guard)])
def test_a_signature_keeps_the_prompt_to_the_letter(model: type[BasePrompt], name: str, signature: type) -> None:
    """DSPy tidies instructions; ours are tidy before."""
    text = compose(load_prompt(model, FOLDER / f"{name}.yaml"))
    assert signature.with_instructions(text).instructions == text  # type: ignore[attr-defined]


def test_an_example_is_written_as_a_task_is(tmp_path: Path) -> None:
    """The prompt's style is that of the tasks an LM is given."""
    prompt = load_prompt(GuardianPrompt, written(tmp_path, GUARDIAN))
    lines = compose(prompt).split("\n")
    task = dump_task(prompt.examples[0]).split("\n")[0]
    assert lines[:4] == ["desc: |", "  Copy what is used twice.", "", "examples:"]
    assert lines[4] == f"  - {task}"


@pytest.mark.parametrize(
    ("old", "new", "quoted"),
    [
        ("desc: |\n  Copy what is used twice.\n", "", ":1: desc: this key is missing"),
        ("explanation:", "reason:", "examples[0].explanation: this key is missing"),
        ("explanation:", "reason: |\n    x\n  explanation:", ":20: examples[0].reason: unknown key"),
        ("fp32", "fp33", ":6: examples[0]"),
        ("dims: [M]", "dims: [Q]", "Q"),
        ("return E0", "return E0\n   x: [", ":18:4: expected YAML"),
        ("input_data['E0']", "1 +", "examples[0]"),
    ],
)
def test_a_broken_file_is_refused_with_the_place(tmp_path: Path, old: str, new: str, quoted: str) -> None:
    """One line for each mistake, with the file, its line, and the place in it."""
    path = written(tmp_path, GUARDIAN.replace(old, new, 1))
    with pytest.raises(PromptError) as caught:
        load_prompt(GuardianPrompt, path)
    assert str(caught.value).startswith(f"{path}:")
    assert quoted in str(caught.value)


def test_a_proposer_s_example_without_a_program_is_refused(tmp_path: Path) -> None:
    """Its examples are solved."""
    example = GUARDIAN.split("examples:\n")[1].split("  input_impl")[0].replace("\n", "\n  ")
    text = f"desc: a\nsyntax: b\nprimitives:\n- name: Map\n  desc: c\n  examples:\n  {example}\npatterns: []\n"
    with pytest.raises(PromptError, match=r"primitives\[0\]\.examples\[0\]\.impl: this key is missing"):
        load_prompt(ProposerPrompt, written(tmp_path, text))


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"- a list"])
def test_a_file_that_is_not_a_prompt_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """A file that is not there, that is no text, that is no mapping."""
    path = tmp_path / "prompt.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PromptError, match=str(path)):
        load_prompt(GuardianPrompt, path)


def written(folder: Path, text: str) -> Path:
    path = folder / "prompt.yaml"
    path.write_text(text, encoding="utf-8")
    return path
