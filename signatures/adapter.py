"""Between signatures and chat messages: values are written as YAML, programs are found in any answer.

A request is a system message (the instructions, then the fields and how they are marked), a pair of messages for each
demonstration, and the inputs. All but the demonstrations and the inputs is the same in every request of a predictor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from signatures.bare import FORM, SCRIPT, format_note, render_script
from signatures.extract import ANSWERS, MAX_CHARACTERS, extract_program, sections
from step_runtime.language.canonical import for_prompt, shown_program
from step_runtime.tasks import yaml_format
from step_runtime.tasks.task import Task


def render_task(task: Task) -> str:
    """A task as prompts show it: YAML, without its solution; with a note on formats where it names any but fp32."""
    return format_note(task) + task.statement.rstrip()


class YAMLAdapter(dspy.ChatAdapter):
    """Writes structured inputs as YAML, and finds the program in any answer that holds one.

    An answer without a program is not requested again: its text becomes the program, which the verifier rejects.
    Signatures that ask for no program are parsed as `dspy.ChatAdapter` does.

    Args:
        callbacks: As DSPy's.
        extract: The program in an answer, of which it gets the last 200,000 characters, by the language asked for.
    """

    def __init__(
        self, callbacks: list[BaseCallback] | None = None, extract: Callable[[str], str] = extract_program
    ) -> None:
        super().__init__(callbacks=callbacks, use_json_adapter_fallback=False)
        self._extract = extract

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """The instructions unchanged, then the fields."""
        return _system_message(signature)  # type: ignore[arg-type] # DSPy ships no types.

    def format_user_message_content(
        self,
        signature: type[dspy.Signature],
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,
    ) -> str:
        """The inputs below their markers, also those of a demonstration."""
        fields = signature.input_fields
        rendered = {name: _shown(_rendered(inputs[name], fields[name])) for name in fields if name in inputs}
        text: str = super().format_user_message_content(signature, rendered, prefix, suffix, main_request)
        return text

    def format_demos(self, signature: type[dspy.Signature], demos: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Demonstrations, their programs as canonical texts."""
        messages: list[dict[str, Any]] = super().format_demos(signature, [_canonical(demo) for demo in demos])
        return messages

    def format_assistant_message_content(
        self, signature: type[dspy.Signature], outputs: dict[str, Any], missing_field_message: str | None = None
    ) -> str:
        """A demonstration's answer."""
        shown = {name: _shown(value) for name, value in outputs.items()}
        text: str = super().format_assistant_message_content(signature, shown, missing_field_message)
        return text

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """The answer's fields.

        Raises:
            AdapterParseError: The signature asks for no program, and a field is missing or of another type.
        """
        programs = [name for name in signature.output_fields if name in ANSWERS]
        if not programs:
            parsed: dict[str, Any] = super().parse(signature, completion)
            return parsed
        found = sections(completion)
        others = {name: found.get(name, "") for name in signature.output_fields}
        return others | {name: self._extract(completion[-MAX_CHARACTERS:]) for name in programs}


@functools.cache
def _system_message(signature: type[dspy.Signature]) -> str:
    # DSPy cleans the instructions whenever they are read, which takes longer than everything else in a request.
    adapter = YAMLAdapter()
    fields = adapter.format_field_description(signature)
    return f"{signature.instructions}\n\n{fields}\n{adapter.format_field_structure(signature)}"


def _canonical(demo: Mapping[str, Any]) -> dict[str, Any]:
    task = demo.get("task")
    statement = str(task if isinstance(task, Mapping) else getattr(task, "statement", ""))
    return {name: shown_program(str(value), statement) if name in ANSWERS else value for name, value in demo.items()}


def _shown(value: Any) -> Any:
    """A field's value as a request shows it: nothing in it divides the request."""
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    return for_prompt(value) if isinstance(value, str) else value


def _rendered(value: Any, field: FieldInfo) -> Any:
    """Structured values as YAML, or in the field's format; text, and other values that DSPy can write, unchanged."""
    if field.annotation is Task and isinstance(value, Mapping):
        # Demonstrations that were stored as JSON.
        value = Task.model_validate(value)
    if isinstance(value, Task):
        extra = field.json_schema_extra
        bare = isinstance(extra, Mapping) and extra.get(FORM) == SCRIPT
        return render_script(value) if bare else render_task(value)
    if (statement := getattr(value, "statement", None)) is not None:
        return str(statement).rstrip()  # a task of another language
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    return yaml_format.dump(value).rstrip() if isinstance(value, dict) else value
