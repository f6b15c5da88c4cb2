"""Both branches of a decision that data make: what names may hold after either of them.

A value that neither branch changes is kept. One that differs after them may be either, and depends on the decision;
containers are compared element by element.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from pipeline.lms.embedded.influence.arrays import Array, Unread, as_array, unknown, where


class _Missing:
    """The value of a name that could not be read."""


MISSING = _Missing()
Names: TypeAlias = MutableMapping[str, Any]
_Pairs: TypeAlias = dict[tuple[int, int], Any]
"""What was found out about two containers, by their identities: several names may hold one."""


def scopes_of(env: Names) -> list[Names]:
    """The scopes of an environment, innermost first."""
    return list(env.maps) if isinstance(env, ChainMap) else [env]


def scope_with(env: Names, name: str) -> Names:
    """The innermost scope that has a name; the innermost one if none has."""
    scopes = scopes_of(env)
    return next((scope for scope in scopes if name in scope), scopes[0])


def copied(env: Names) -> tuple[Names, int]:
    """An environment in which changes do not show in another one, and the number of values in it."""
    known: dict[int, Any] = {}
    scopes = [{name: _copied(value, known) for name, value in scope.items()} for scope in scopes_of(env)]
    count = sum(map(len, scopes)) + sum(map(len, known.values()))
    return ChainMap(*scopes) if isinstance(env, ChainMap) else scopes[0], count


def _copied(value: Any, known: dict[int, Any]) -> Any:
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, list):
        known[id(value)] = result = []
        result += [_copied(one, known) for one in value]
        return result
    if isinstance(value, dict):
        return known.setdefault(id(value), {key: _copied(one, known) for key, one in value.items()})
    return value


def settle(env: Names, test: Array, one: Names, other: Names) -> None:
    """Leaves in an environment what either of two of its copies has."""
    known: _Pairs = {}
    for scope, first, second in zip(scopes_of(env), scopes_of(one), scopes_of(other), strict=True):
        for name in dict.fromkeys((*first, *second)):
            scope[name] = either_of(test, first.get(name, MISSING), second.get(name, MISSING), known)


def either_of(test: Array, one: Any, other: Any, known: _Pairs | None = None) -> Any:
    """One of two values, by a decision that depends on data; `known` are pairs of containers that were met before."""
    if one is other:
        return one
    if isinstance(one, Array) or isinstance(other, Array):
        try:
            first, second = as_array(one), as_array(other)
        except Unread:
            return MISSING
        return where(test, first, second) if first.shape == second.shape else MISSING
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one if one == other else where(test, one, other)
    if not isinstance(one, list | tuple | dict) or type(one) is not type(other):
        return one if one == other else MISSING
    known = {} if known is None else known
    pair = (id(one), id(other))
    if pair not in known:
        known[pair] = MISSING  # One that holds itself is not read.
        known[pair] = _either(test, one, other, known)
    return known[pair]


def _either(test: Array, one: Any, other: Any, known: _Pairs) -> Any:
    """One of two containers of a type."""
    if isinstance(one, dict):
        keys = {**one, **other}
        return {key: either_of(test, one.get(key, MISSING), other.get(key, MISSING), known) for key in keys}
    if len(one) != len(other):
        return MISSING
    return type(one)([either_of(test, *pair, known) for pair in zip(one, other, strict=True)])


def same_names(one: Names, other: Names) -> bool:
    """Whether two environments hold the same."""
    known: _Pairs = {}
    pairs = zip(scopes_of(one), scopes_of(other), strict=True)
    return all(first.keys() == second.keys() and all(_same(first[name], second[name], known) for name in first)
               for first, second in pairs)  # fmt: skip


def _same(one: Any, other: Any, known: _Pairs) -> bool:
    if one is other:
        return True
    if isinstance(one, Array) and isinstance(other, Array):
        alike = np.array_equal(one.values, other.values, equal_nan=True)
        return one.shape == other.shape and alike and np.array_equal(one.sources, other.sources)
    if not (isinstance(one, list | tuple | dict) and type(one) is type(other)):
        return not isinstance(one, Array) and not isinstance(other, Array) and bool(one == other)
    pair = (id(one), id(other))
    if pair not in known:
        known[pair] = True  # So far; a difference is found where it was met first.
        known[pair] = len(one) == len(other) and all(_same(*each, known) for each in _pairs(one, other))
    return bool(known[pair])


def _pairs(one: Any, other: Any) -> Iterable[tuple[Any, Any]]:
    """The elements of two containers of a type and a length, side by side; what one lacks is missing."""
    if isinstance(one, dict):
        return ((value, other.get(key, MISSING)) for key, value in one.items())
    return zip(one, other, strict=True)


def any_of(items: Sequence[Any], *deciding: Any) -> Any:
    """One of several values, by other values that depend on data.

    Raises:
        Unread: The values are not tensors of one shape, or there are none.
    """
    if not items:
        raise Unread("one of no values")
    arrays = [as_array(item) for item in items]
    if len({array.shape for array in arrays}) > 1:
        raise Unread("one of values of several shapes")
    sources = arrays[0].sources
    for array in arrays[1:]:
        sources = sources | array.sources
    for array in map(as_array, deciding):
        sources = sources | np.bitwise_or.reduce(array.sources, axis=None)
    return unknown(sources)
