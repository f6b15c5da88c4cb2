"""Layered layouts: edges lead downwards, nodes of a row don't overlap, edges that pass a row have a place in it."""

from __future__ import annotations

from itertools import combinations
from random import Random

from pipeline.charts.layered import Edge, layered


def test_a_chain_is_a_column() -> None:
    sizes = dict.fromkeys("abc", (40.0, 20.0))
    layout = layered(sizes, [Edge("a", "b"), Edge("b", "c")])
    assert [layout.nodes[name][0] for name in "abc"] == [20, 20, 20]
    assert [layout.nodes[name][1] for name in "abc"] == [10, 86, 162]
    assert (layout.width, layout.height) == (40, 172)


def test_a_long_edge_passes_beside_the_nodes_between() -> None:
    sizes = dict.fromkeys("abc", (40.0, 20.0))
    layout = layered(sizes, [Edge("a", "b"), Edge("b", "c"), Edge("a", "c")])
    [_, (x, y), _] = layout.edges[2]
    assert y == layout.nodes["b"][1]
    assert abs(x - layout.nodes["b"][0]) >= 40 / 2


def test_random_graphs_are_drawn_downwards_and_apart() -> None:
    """No matter how many edges cross."""
    for seed in range(30):
        rng = Random(seed)
        names = [f"n{number}" for number in range(rng.randint(2, 25))]
        sizes = {name: (rng.uniform(20, 200), rng.uniform(15, 60)) for name in names}
        pairs = [pair for pair in combinations(names, 2) if rng.random() < 0.15]
        layout = layered(sizes, [Edge(*pair) for pair in pairs])
        assert all(layout.nodes[source][1] < layout.nodes[target][1] for source, target in pairs)
        for one, other in combinations(names, 2):
            (x0, y0), (x1, y1) = layout.nodes[one], layout.nodes[other]
            apart = abs(x0 - x1) >= (sizes[one][0] + sizes[other][0]) / 2 - 1e-6
            assert apart or abs(y0 - y1) >= (sizes[one][1] + sizes[other][1]) / 2
        for name in names:
            (x, y), (width, height) = layout.nodes[name], sizes[name]
            assert x - width / 2 >= -1e-6 and x + width / 2 <= layout.width + 1e-6
            assert y - height / 2 >= -1e-6 and y + height / 2 <= layout.height + 1e-6


def test_nothing_to_draw() -> None:
    assert layered({}, []).nodes == {}
