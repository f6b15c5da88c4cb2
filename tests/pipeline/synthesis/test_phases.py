"""The phases of the search widen types and depth in turn."""

from pipeline.synthesis.phases import DEPTHS, PHASES, TYPES, resumed, widening


def test_no_phase_comes_before_a_narrower_one() -> None:
    """What a phase of fewer types, or of less depth, may find is never left to a later phase."""
    place = {(phase.types, phase.depth): number for number, phase in enumerate(PHASES)}
    assert list(widening()) == list(PHASES) and len(place) == len(PHASES)
    for (types, depth), number in place.items():
        shallower = [(types, DEPTHS[at]) for at in range(DEPTHS.index(depth))]
        narrower = [(other, depth) for other in TYPES if other.width < types.width]
        assert all(place.get(each, -1) < number for each in shallower + narrower)


def test_dims_of_elements_need_depths_that_count_choices() -> None:
    """They are structure that types do not force; the widest types are reached at all such depths."""
    for types in TYPES:
        depths = [phase.depth for phase in PHASES if phase.types == types]
        assert depths == [depth for depth in DEPTHS if depth.limits.choices or not types.invented]


def test_where_a_phase_has_reached_a_landmark_it_is_soon_tried_again() -> None:
    """After the nearest; the phases between, which had none, come later, and none is left out."""
    assert resumed(PHASES[0]) == PHASES
    assert resumed(PHASES[4])[:3] == (PHASES[0], PHASES[4], PHASES[1])
    assert sorted(map(PHASES.index, resumed(PHASES[4]))) == list(range(len(PHASES)))
