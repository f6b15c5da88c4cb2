"""A layout for pictures of dataflow graphs: nodes in rows, edges downwards, few crossings (Sugiyama's method).

Rows follow the longest way from a source. An edge that passes a row gets a place in it. Places are sorted by the mean
place of their neighbours in the row above and below in turn, and then moved towards it as far as their row allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SWEEPS = 12
_PASSING = 10.0
"""Width of the place of an edge in a row that it passes."""


@dataclass(frozen=True)
class Edge:
    """An edge from one node to another; `label` is the width and height that its label needs, if it has one."""

    source: str
    target: str
    label: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Layout:
    """Centres of nodes, and for each edge the points that it leads through; the origin is at the top left."""

    width: float
    height: float
    nodes: Mapping[str, tuple[float, float]]
    edges: Sequence[Sequence[tuple[float, float]]]


@dataclass
class _Place:
    """Something in a row: a node, or an edge that passes."""

    width: float
    row: int
    above: list[str] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    x: float = 0.0


def layered(
    sizes: Mapping[str, tuple[float, float]], edges: Sequence[Edge], gap: tuple[float, float] = (28.0, 56.0)
) -> Layout:
    """Places the nodes of an acyclic graph.

    Args:
        sizes: Width and height of each node, in topological order.
        edges: The edges; several may have the same ends.
        gap: The least distance of neighbours in a row, and of rows.
    """
    rows = _rows(sizes, edges)
    places = {name: _Place(width, rows[name]) for name, (width, _) in sizes.items()}
    chains = [_chain(places, number, edge) for number, edge in enumerate(edges)]
    order = _ordered(places)
    _spread(places, order, gap[0])
    heights = [max((sizes[name][1] for name in row if name in sizes), default=0.0) for row in order]
    tops, y = [], 0.0
    for height in heights:
        tops.append(y + height / 2)
        y += height + gap[1]
    return Layout(
        max((place.x + place.width / 2 for place in places.values()), default=0.0),
        y - gap[1],
        {name: (places[name].x, tops[places[name].row]) for name in sizes},
        [[(places[name].x, tops[places[name].row]) for name in chain] for chain in chains],
    )


def _rows(sizes: Mapping[str, tuple[float, float]], edges: Sequence[Edge]) -> dict[str, int]:
    """The row of each node: below all that lead to it; a source stands right above the first that it leads to."""
    rows = dict.fromkeys(sizes, 0)
    sources = set(sizes) - {edge.target for edge in edges}
    for name in sizes:
        rows[name] = max((rows[edge.source] + 1 for edge in edges if edge.target == name), default=0)
    for name in sources:
        rows[name] = min((rows[edge.target] - 1 for edge in edges if edge.source == name), default=0)
    return rows


def _chain(places: dict[str, _Place], number: int, edge: Edge) -> list[str]:
    """The places that an edge leads through; new ones are made in the rows that it passes."""
    chain = [edge.source]
    for row in range(places[edge.source].row + 1, places[edge.target].row):
        name = f"edge {number} row {row}"
        places[name] = _Place(max(_PASSING, edge.label[0] if row == places[edge.source].row + 1 else 0.0), row)
        chain.append(name)
    chain.append(edge.target)
    for upper, lower in pairwise(chain):
        places[upper].below.append(lower)
        places[lower].above.append(upper)
    return chain


def _ordered(places: Mapping[str, _Place]) -> list[list[str]]:
    """The places of each row from left to right."""
    order: list[list[str]] = [[] for _ in range(1 + max((place.row for place in places.values()), default=-1))]
    for name, place in places.items():
        order[place.row].append(name)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for number, row in enumerate(order) if down else reversed([*enumerate(order)]):
            # A place's neighbours are in the rows next to its own.
            near = order[max(0, number - 1) : number + 2]
            index = {name: at for others in near for at, name in enumerate(others)}
            weights = {
                name: _mean([float(index[other]) for other in _neighbours(places[name], down)], float(index[name]))
                for name in row
            }
            row.sort(key=weights.__getitem__)
    return order


def _neighbours(place: _Place, above: bool) -> list[str]:
    return place.above if above else place.below


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _spread(places: Mapping[str, _Place], order: Sequence[Sequence[str]], gap: float) -> None:
    """Sets the x of every place: in their order, apart, and near their neighbours."""
    for row in order:
        x = 0.0
        for name in row:
            places[name].x = x + places[name].width / 2
            x += places[name].width + gap
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in order if down else order[::-1]:
            wanted = [
                _mean([places[other].x for other in _neighbours(places[name], down)], places[name].x) for name in row
            ]
            _settle([places[name] for name in row], wanted, gap)
    left = min((place.x - place.width / 2 for place in places.values()), default=0.0)
    for place in places.values():
        place.x -= left


def _settle(row: Sequence[_Place], wanted: Sequence[float], gap: float) -> None:
    """Moves a row's places to the x wanted, as far as they stay apart: the mean of pushing right and pushing left."""
    right, left = list(wanted), list(wanted)
    for at in range(1, len(row)):
        apart = (row[at - 1].width + row[at].width) / 2 + gap
        right[at] = max(right[at], right[at - 1] + apart)
    for at in range(len(row) - 2, -1, -1):
        apart = (row[at].width + row[at + 1].width) / 2 + gap
        left[at] = min(left[at], left[at + 1] - apart)
    for place, a, b in zip(row, right, left, strict=True):
        place.x = (a + b) / 2
