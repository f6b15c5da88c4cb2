"""The best operands of a function among the streams of a draft whose streams are shared with others."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import NamedTuple

from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.exchange import partners
from pipeline.lms.embedded.strong.operand_ranking import OperandCandidate, OperandRanking, OperandScores
from pipeline.lms.embedded.strong.outlook import Outlook
from pipeline.lms.embedded.strong.search_style import SearchStyle
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import cut

# Scores, in the units of the softmax at sharpness 1.
_INPUT_AGAIN = -0.9
_USED_AGAIN = -1.81
"""For an input that another function takes, for another stream,"""
_USED_AGAIN_TUPLE = -1.38
"""and for a stream of tuples."""
_TORN = -2.71
_TORN_LATER = -0.36
"""For a part of what a function of the task gives in one piece, and where all such pieces are taken."""
_FAR = -0.5
"""For each unit of a stream's distance from what it serves."""
_MISFIT = -4.0
"""For streams that together would get to the result in a way in which the reference has none of its inputs."""
_OTHER_DIMS = -0.5
"""For each dim that a stream lacks and others have."""
_RANK = itemgetter(0)


class _Serving(NamedTuple):
    """A stream that serves at a place, and what ranks it there on its own."""

    candidate: OperandCandidate
    alone: float


_FITTED = OperandScores(wide=2.04, other_role=-1.31, dismantled=-1.19, taken_twice=-2.31, crossed=-0.78, diverted=-1.33)
"""What operands count, fitted to solved tasks."""


class OperandBeam:
    """A beam search for operands, component by component, in a style."""

    def __init__(
        self,
        view: TaskView,
        pool: StreamPool,
        outlook: Outlook,
        steps: StepLimit,
        style: SearchStyle,
    ) -> None:
        self._width = style.operands
        self._view = view
        self._pool = pool
        self._outlook = outlook
        self._steps = steps
        self._trust = style.trust
        self._ranking = OperandRanking(view, pool.draft, read=True, scores=_FITTED)
        self._candidates: dict[tuple[Callee, int], dict[int, _Serving | None]] = {}
        """For each place of a callee, the streams that were considered for it."""
        self._together: dict[tuple[Callee, tuple[int, ...]], float] = {}
        self._partners: dict[Callee, tuple[int, ...]] = {}
        """For each component of a callee, another one that it may change places with."""

    def best(self, callee: Callee, streams: Sequence[int], used: Collection[int]) -> list[tuple[float, Operands]]:
        """The best operands for a callee, each with its score; `used` are the streams that something takes already."""
        need, whole = len(callee.need), self._view.projects(callee.fn)
        steps, again = 1 + len(streams) // 3 + len(streams) ** 2 // 24, self._ranking.twice
        longer: list[list[tuple[float, float, Operands]]] = [[(0.0, 0.0, Operands((), ()))], *([] for _ in range(need))]
        for place in range(need):
            beam = self._met(callee, longer[place])
            found = self._candidates_at(callee, place, streams, used, whole=whole) if beam else []
            for rank, score, (sources, counts) in beam:
                self._steps.spend(steps)
                lowest = self._lowest(callee, place, sources, counts)
                for far, own, each in found:
                    if each.stream < lowest and each.serves == 1:
                        continue
                    own_score = own + again * (each.stream in sources)
                    met = Operands((*sources, each.stream), (*counts, each.serves))
                    longer[place + each.serves].append((rank + far + own_score, score + own_score, met))
        return [(score, operands) for _, score, operands in self._met(callee, longer[need])]

    def _lowest(self, callee: Callee, place: int, sources: Sequence[int], counts: Sequence[int]) -> int:
        """The first stream that may serve at a place alone: of two that may change places, the first comes first."""
        known = self._partners.get(callee)
        if known is None:
            known = self._partners[callee] = partners(self._view, callee)
        if known[place] < 0:
            return 0
        start = 0
        for source, count in zip(sources, counts, strict=True):
            if start == known[place]:
                return source if count == 1 else 0
            start += count
        return 0

    def _met(self, callee: Callee, choices: list[tuple[float, float, Operands]]) -> list[tuple[float, float, Operands]]:
        """The best of some choices that serve equally many components, by how well their streams fit together."""
        kept, met, worst = self._width.kept, list[tuple[float, float, Operands]](), list[float]()
        for rank, score, operands in sorted(choices, key=_RANK, reverse=True)[: self._width.compared]:
            if len(worst) == kept and worst[0] >= rank:
                break  # What streams are together only lowers their rank.
            together = rank + self._joined(callee, operands)
            met.append((together, score, operands))
            (heapq.heappushpop if len(worst) == kept else heapq.heappush)(worst, together)
        return sorted(met, key=_RANK, reverse=True)[:kept]

    def serving(self, callee: Callee, sources: tuple[int, ...]) -> Operands | None:
        """These streams as operands; None if they do not serve the callee's components in order."""
        counts: tuple[int, ...] = ()
        for source in sources:
            place = sum(counts)
            each = self._candidate(callee, place, source) if place < len(callee.need) else None
            if each is None:
                return None
            counts = (*counts, each.candidate.serves)
        return Operands(sources, counts) if sum(counts) == len(callee.need) else None

    def _candidates_at(
        self, callee: Callee, place: int, streams: Sequence[int], used: Collection[int], *, whole: bool
    ) -> list[tuple[float, float, OperandCandidate]]:
        """The best streams for one place: what ranks them further, their score, and the candidate."""
        known = self._candidates.setdefault((callee, place), {})
        looked_at = (known[s] if s in known else self._candidate(callee, place, s) for s in streams)
        serving = [pair for pair in looked_at if pair is not None]
        if whole:
            serving = [pair for pair in serving if pair.candidate.serves == len(callee.need)]
        tear = _TORN if any(each.serves > 1 and each.stream not in used for each, _ in serving) else _TORN_LATER
        found = []
        for each, alone in serving:
            own = each.score - (each.serves - 1) + tear * each.torn
            if each.stream in used:
                again = _USED_AGAIN if each.stream >= self._pool.first else _INPUT_AGAIN
                own += _USED_AGAIN_TUPLE if each.serves > 1 else again
            found.append((alone, own, each))
        return sorted(found, key=lambda pair: pair[0] + pair[1], reverse=True)[: self._width.extended]

    def _candidate(self, callee: Callee, place: int, stream: int) -> _Serving | None:
        known = self._candidates.setdefault((callee, place), {})
        if stream not in known:
            each = self._ranking.candidate(callee, place, stream)
            if each is None:
                known[stream] = None
            else:
                misfit = self._trust and 1 - self._pool.guide.place_fit(callee, place, stream)
                known[stream] = _Serving(each, _FAR * each.distance + self._trust * _MISFIT * misfit)
        return known[stream]

    def _joined(self, callee: Callee, operands: Operands) -> float:
        """How well several streams fit together: by their dependences, and by their dims."""
        if len(operands.sources) < 2:
            return 0.0
        key = (callee, operands.sources)
        known = self._together.get(key)
        if known is None:
            misfit = self._trust and 1 - self._pool.guide.partial_fit(callee, operands)
            known = self._trust * _MISFIT * misfit + _OTHER_DIMS * self._other_dims(callee, operands)
            self._together[key] = known
        return known

    def _other_dims(self, callee: Callee, operands: Operands) -> int:
        """How many dims these streams lack that others have, beside those that are taken from inside."""
        served = callee.operand_types(operands.counts)
        held = [
            self._outlook.held(self._pool.type_of(source)) & ~self._outlook.parts(cut(dtype)[1])
            for source, dtype in zip(operands.sources, served, strict=True)
        ]
        every = 0
        for bits in held:
            every |= bits
        return sum((every & ~bits).bit_count() for bits in held)
