"""The schemas in docs/schemas are those of the code, and task files satisfy theirs."""

import json

import jsonschema
import pytest
import yaml

from pipeline.verification.task_files import find
from scripts.write_schemas import schema_texts
from tests.support.paths import PROJECT

FOLDER = PROJECT / "docs" / "schemas"


def test_the_files_are_what_the_models_give() -> None:
    """`python scripts/write_schemas.py` writes them."""
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == schema_texts()


def test_each_is_a_valid_schema() -> None:
    """Of the draft that it names."""
    for text in schema_texts().values():
        jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_every_task_of_the_project_satisfies_the_schema() -> None:
    """So that an editor finds no fault in them."""
    validator = jsonschema.Draft202012Validator(json.loads(schema_texts()["task.schema.json"]))
    paths = [path for folder in (PROJECT / "data").glob("tasks*") for path in find(str(folder))]
    assert len(paths) > 100
    for path in paths:
        found = [error.message for error in validator.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8")))]
        assert not found, (path, found)


@pytest.mark.parametrize("wrong", [{"inputs": []}, {"outputs": "x"}, {"unknown": 1}])
def test_a_wrong_task_does_not(wrong: dict[str, object]) -> None:
    """A missing, a mistyped and an unknown key."""
    spec = {"name": "E0", "dtype": "fp32", "dims": ["M"]}
    task = {"inputs": [spec], "outputs": [{**spec, "data_transform": "1"}], **wrong}
    assert not jsonschema.Draft202012Validator(json.loads(schema_texts()["task.schema.json"])).is_valid(task)
