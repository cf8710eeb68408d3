"""The picture of recall against bytes."""

from __future__ import annotations

from pathlib import Path

from eval.pruning.choices import PruningChoice
from eval.pruning.frontier import save_frontier
from eval.pruning.pruned_index import IndexBytes
from eval.pruning.results import PruningRow
from sparta.metrics import Recall

RECALL = Recall(20.0, 50.0, 60.0, 5.0)


def test_rows_without_an_index_are_no_points(tmp_path: Path) -> None:
    out = tmp_path / "frontier.png"
    choice = PruningChoice(5, "mean", "trained")
    row = PruningRow(choice, 8, RECALL, 100, 100, 5, None, {})
    save_frontier([row], out)
    assert not out.exists()
    built = PruningRow(choice, 8, RECALL, 100, 100, 5, IndexBytes(100, 200), {})
    save_frontier([row, built], out)
    assert out.stat().st_size > 10_000
