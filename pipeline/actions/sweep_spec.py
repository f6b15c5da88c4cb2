"""The file of a sweep: settings that all its runs share, and lists of values, of which every combination is a run.

    name: selections              the sweep's name in the record (default: the file's)
    base: {optimizer: adaptive, samples: 16}
    sweep:
      seed: [0, 1, 2]
      selection: [adaptive, similar]

The keys in `base` and `sweep` are the fields of `RunConfig`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from pipeline.base.config import RunConfig
from pipeline.base.errors import UsageError
from pipeline.base.settings import Option
from pipeline.record.request import Request
from step_runtime.base.errors import TaskError
from step_runtime.tasks import yaml_format

KEYS = ("name", "base", "sweep")
MOST = 10_000
"""Runs of one sweep."""


@dataclass(frozen=True)
class Combination:
    """One run of a sweep: the values of the fields that the sweep varies, and all settings."""

    values: Mapping[str, Any]
    config: RunConfig

    @property
    def configuration(self) -> str:
        """The values without the seed, as text: runs that differ in the seed alone share it."""
        return ", ".join(f"{name}={shown(value)}" for name, value in self.values.items() if name != "seed") or "all"


@dataclass(frozen=True)
class Spec:
    """A sweep: its name, and its runs in the order of the file, the last list varying fastest."""

    name: str
    combinations: Sequence[Combination]


def read_spec(path: Path) -> Spec:
    """Reads the file of a sweep.

    Raises:
        UsageError: It cannot be read or is not valid; the message has the line and what was expected.
    """
    try:
        text = yaml_format.read_text(path)
        node, content = yaml_format.load(text, str(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the sweep: {error.strerror or error}") from None
    except (ValueError, TaskError) as error:
        raise UsageError(str(error) if isinstance(error, TaskError) else f"{path}: {error}") from None
    return _Reader(path, node, content).spec()


def run_key(request: Request) -> str:
    """A digest of all that the answers of a run depend on, which tells whether a run is on record."""
    changed = {name for name in RunConfig.model_fields if Option.of(RunConfig, name).resume == "changed"}
    content = json.loads(request.to_json())
    content["options"] = {name: value for name, value in content["options"].items() if name not in changed}
    return hashlib.sha256(json.dumps({**content, "lm": ""}, sort_keys=True).encode()).hexdigest()[:16]


def shown(value: Any) -> str:
    """A value of a field as text."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@dataclass(frozen=True)
class _Reader:
    path: Path
    node: yaml.Node | None
    content: Any

    def spec(self) -> Spec:
        content = self._mapping((), self.content)
        for key in content:
            if key not in KEYS:
                raise self._error((key,), f"expected one of {', '.join(KEYS)}, got {key!r}")
        name = content.get("name", self.path.stem)
        if not isinstance(name, str) or not name.strip() or "'" in name or len(name) > 200:
            raise self._error(("name",), f"name: expected a text of up to 200 characters without ', got {name!r}")
        base = self._mapping(("base",), content.get("base", {}))
        varied = self._mapping(("sweep",), content.get("sweep"))
        for place, fields in (("base", base), ("sweep", varied)):
            self._check_names(place, fields)
        for field, values in varied.items():
            self._check_list(field, values, base)
        count = prod(map(len, varied.values()))
        if count > MOST:
            raise self._error(("sweep",), f"sweep: expected at most {MOST:,} combinations, got {count:,}")
        places = itertools.product(*(range(len(values)) for values in varied.values()))
        return Spec(name, [self._combination(base, varied, dict(zip(varied, place, strict=True))) for place in places])

    def _combination(
        self, base: Mapping[str, Any], varied: Mapping[str, Sequence[Any]], places: Mapping[str, int]
    ) -> Combination:
        values = {field: varied[field][place] for field, place in places.items()}
        try:
            return Combination(values, RunConfig.model_validate({**base, **values}))
        except ValidationError as error:
            found = error.errors(include_url=False)[0]
            field = str(found["loc"][0]) if found["loc"] else ""
            place: yaml_format.Location = ("sweep", field, places[field]) if field in places else ("base", field)
            expected = found["msg"].removeprefix("Value error, ")
            if found["type"] == "missing":
                place, expected = ("base",), "expected a value in `base` or `sweep`"
            raise self._error(place, f"{field}: {expected}") from None

    def _mapping(self, place: yaml_format.Location, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            where = f"{place[0]}: " if place else ""
            raise self._error(place, f"{where}expected names with values, got {_brief(value)}")
        return value

    def _check_names(self, place: str, fields: Mapping[str, Any]) -> None:
        for field in fields:
            if field not in RunConfig.model_fields:
                known = ", ".join(sorted(RunConfig.model_fields))
                raise self._error((place, field), f"{place}: expected settings of a run ({known}), got {field!r}")

    def _check_list(self, field: str, values: Any, base: Mapping[str, Any]) -> None:
        place = ("sweep", field)
        if field in base:
            raise self._error(place, f"{field}: expected it in `base` or in `sweep`, found in both")
        if not isinstance(values, list) or not values:
            raise self._error(place, f"{field}: expected a list of values, got {_brief(values)}")
        if len(values) > MOST:
            raise self._error(place, f"{field}: expected at most {MOST:,} values, got {len(values):,}")
        for index, value in enumerate(values):
            if value in values[:index]:
                raise self._error((*place, index), f"{field}: expected distinct values, got {_brief(value)} twice")

    def _error(self, place: yaml_format.Location, message: str) -> UsageError:
        return UsageError(f"{self.path}:{yaml_format.line_of(self.node, place)}: {message}")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
