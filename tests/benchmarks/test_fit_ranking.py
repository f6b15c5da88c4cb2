"""The network by which beam searches rank drafts is fitted to searches of tasks with an oracle."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from pipeline.lms.embedded.strong.draft_ranking import Network
from tests.support.paths import PROJECT

DATA = PROJECT / "data"

pytestmark = pytest.mark.filterwarnings("ignore:.*the reference is the same without its clamp")


def test_a_network_is_fitted_to_the_drafts_of_a_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its file is one that a proposer reads; the drafts are kept, and can be used again."""
    fit = importlib.import_module("benchmarks.fit_ranking")
    task, drafts, out = DATA / "tasks-modern" / "rwkv_wkv.yaml", tmp_path / "drafts", tmp_path / "ranking.json"
    arguments = [str(task), "--oracles", str(DATA / "oracles-modern"), "--samples", "1", "--keep", str(drafts)]
    assert fit.main([*arguments, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("rwkv_wkv: ") and "of 1 tasks" in shown
    network = Network.from_json(out.read_text("utf-8"))
    assert network.hidden.shape[0] == len(network.limits) == len(network.direct)
    assert fit.main(["--drafts", str(drafts), "--out", str(tmp_path / "again.json")]) == 0
    again = Network.from_json((tmp_path / "again.json").read_text("utf-8"))
    assert network.unit == again.unit
    assert all(np.array_equal(one, other) for one, other in zip(network[:-1], again[:-1], strict=True))


def test_integers_rank_as_the_fitted_network_does() -> None:
    """What the written network adds differs from what the fitted one adds by rounding only."""
    fit = importlib.import_module("benchmarks.fit_ranking")
    torch = importlib.import_module("torch")
    generator = torch.Generator().manual_seed(0)
    net = fit.Net(torch.rand(7, generator=generator) + 0.5).eval()
    for part in (net.outer, net.direct):
        torch.nn.init.normal_(part.weight, generator=generator)
    properties = torch.randint(-200, 200, (9, 7), generator=generator) / fit.UNIT
    whole = Network.from_json(net.as_json()).scores((properties * fit.UNIT).long().numpy())
    assert whole == pytest.approx(net(properties).tolist(), abs=0.01)
