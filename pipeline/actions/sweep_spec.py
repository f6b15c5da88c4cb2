"""The file of a sweep: settings that its runs share, values whose combinations are runs, and comparisons."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from pipeline.base.config import RunConfig
from pipeline.base.errors import UsageError
from pipeline.base.settings import Option
from step_runtime.base.errors import TaskError
from step_runtime.base.mistakes import mistake
from step_runtime.tasks import yaml_format

KEYS = ("name", "base", "sweep", "compare", "match_tokens")
MOST = 10_000
"""Runs of one sweep."""

Values = Mapping[str, Any]
"""The values of the fields that a sweep varies."""


@dataclass(frozen=True)
class Combination:
    """One run of a sweep.

    Attributes:
        values: Of the fields that the sweep varies.
        config: All settings.
        compared_with: The values of the run that this one is compared with; None for none.
        matched_to: The values of the run whose tokens this one is to take; None for its own limits.
    """

    values: Values
    config: RunConfig
    compared_with: Values | None = None
    matched_to: Values | None = None

    @property
    def configuration(self) -> str:
        """The values without the seed, as text: runs that differ in the seed alone share it."""
        return configuration(self.values)


@dataclass(frozen=True)
class Spec:
    """A sweep: its name, and its runs in the order of the file, the last list varying fastest."""

    name: str
    combinations: Sequence[Combination]


def read_spec(path: Path) -> Spec:
    """Reads the file of a sweep.

        name: learning                  the sweep's name in the record (default: the file's)
        base: {optimizer: adaptive, samples: 16}
        sweep:
          seed: [0, 1, 2]
          selection: [adaptive, resample]
        compare: {selection: resample}         the other configurations less this one, seed by seed
        match_tokens: {selection: adaptive}    the others get as many tokens as this one took

    The keys in `base` and `sweep` are the fields of `RunConfig`; `compare` and `match_tokens` have values in `sweep`.

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


def shown(value: Any) -> str:
    """A value of a field as text."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def described(values: Values) -> str:
    """Values as text, `selection=similar, seed=0`."""
    return ", ".join(f"{name}={shown(value)}" for name, value in values.items())


def configuration(values: Values) -> str:
    """Values without the seed, as text."""
    return described({name: value for name, value in values.items() if name != "seed"}) or "all"


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
        for field, values in varied.items():
            self._check_list(field, values, base)
        chosen = [self._chosen(key, content.get(key, {}), varied) for key in ("compare", "match_tokens")]
        count = prod(map(len, varied.values()))
        if count > MOST:
            raise self._error(("sweep",), f"sweep: expected at most {MOST:,} combinations, got {count:,}")
        places = itertools.product(*(range(len(values)) for values in varied.values()))
        each = (dict(zip(varied, place, strict=True)) for place in places)
        return Spec(name, [self._combination(base, varied, places, chosen) for places in each])

    def _chosen(self, key: str, content: Any, varied: Mapping[str, Sequence[Any]]) -> Values:
        """The values that choose a configuration."""
        chosen = self._mapping((key,), content)
        for field, value in chosen.items():
            if field not in varied or field == "seed":
                known = ", ".join(name for name in varied if name != "seed") or "none here"
                raise self._error(
                    (key, field), f"{key}: expected fields of `sweep` but the seed ({known}), got {field!r}"
                )
            if value not in varied[field]:
                expected = f"expected one of the values in `sweep`, got {_brief(value)}"
                raise self._error((key, field), f"{key}: {field}: {expected}")
        return chosen

    def _combination(
        self,
        base: Mapping[str, Any],
        varied: Mapping[str, Sequence[Any]],
        places: Mapping[str, int],
        chosen: Sequence[Values],
    ) -> Combination:
        """The combination of values at some places, with those that it is compared with and matched to."""
        values = {field: varied[field][place] for field, place in places.items()}
        try:
            config = RunConfig.model_validate(dict(_settings({**base, **values})))
        except ValidationError as error:
            found = min(error.errors(include_url=False), key=lambda each: each["type"] == "missing")
            field = str(found["loc"][0]) if found["loc"] else ""
            place: yaml_format.Location = ("sweep", field, places[field]) if field in places else ("base", field)
            expected = mistake(found)
            if found["type"] == "missing":
                place, expected = ("base",), "expected a value in `base` or `sweep`"
            raise self._error(place, f"{field}: {expected}") from None
        related = ({**values, **other} for other in chosen)
        return Combination(values, config, *(None if other == values else other for other in related))

    def _mapping(self, place: yaml_format.Location, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            where = f"{place[0]}: " if place else ""
            raise self._error(place, f"{where}expected names with values, got {_brief(value)}")
        return value

    def _check_list(self, field: str, values: Any, base: Mapping[str, Any]) -> None:
        place = ("sweep", field)
        if field in base:
            raise self._error(place, f"{field}: expected it in `base` or in `sweep`, found in both")
        if not isinstance(values, list) or not values:
            raise self._error(place, f"{field}: expected a list of values, got {_brief(values)}")
        for index, value in enumerate(values):
            if value in values[:index]:
                raise self._error((*place, index), f"{field}: expected distinct values, got {_brief(value)} twice")

    def _error(self, place: yaml_format.Location, message: str) -> UsageError:
        return UsageError(f"{self.path}:{yaml_format.line_of(self.node, place)}: {message}")


def _settings(values: Values) -> Iterator[tuple[str, Any]]:
    """The values, one in place of a list where the command takes one, too."""
    for name, value in values.items():
        alone = isinstance(value, str) and name in RunConfig.model_fields and Option.of(RunConfig, name).nargs
        yield name, [value] if alone else value


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
