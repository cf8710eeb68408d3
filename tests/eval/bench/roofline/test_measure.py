"""What a search must do, counted by loops, and a roofline at a small scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from eval.bench.roofline import machine
from eval.bench.roofline.measure import measure_roofline
from eval.bench.roofline.work import work_of
from eval.commands.bench.roofline import roofline as command
from indexer.columns.builder import build_columns
from indexer.columns.index import ColumnIndex
from indexer.columns.layout import BITMAP_SHARE, LEVEL_SHARE
from sparta.errors import InputError
from tests.eval.bench.query_latency.tiny import queries, rows, source


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "STREAM_BYTES", 2**16)
    monkeypatch.setattr(machine, "TURNS", 2)


@pytest.mark.parametrize("k", [1, 10])
def test_work_as_loops_count_it(tmp_path: Path, k: int) -> None:
    given = source(600)
    given.impacts[:, 5:] *= given.impacts[:, 5:] > 200  # most terms are less frequent: bitmaps
    given.impacts[:, 10:] *= given.impacts[:, 10:] > 245  # or rare: lists
    build_columns(
        tmp_path / "columns",
        [rows(given)],
        len(given.vocabulary),
        given.bits,
        shares=(LEVEL_SHARE, BITMAP_SHARE),
    )
    index = ColumnIndex.open(tmp_path / "columns")
    columns = index.columns
    assert 0 < len(columns.levels) < columns.dense < len(columns.maxima)
    places = {int(t): place for place, t in enumerate(given.terms) if columns.row_of[t] >= 0}
    for query in queries(given):
        own = {places[term]: count for term, count in query.terms.items() if term in places}
        if not own:
            continue
        scores = [sum(n * int(row[p]) for p, n in own.items()) for row in given.impacts]
        least = max(1, sorted(scores)[-k])
        steps = dict.fromkeys(own, 1)
        row_of = {p: int(columns.row_of[given.terms[p]]) for p in own}
        is_dense = {p: row < columns.dense for p, row in row_of.items()}
        has_bitmap = {p: is_dense[p] and row_of[p] >= len(columns.levels) for p in own}
        steps |= {p: int(columns.steps[row_of[p]]) for p in own if is_dense[p]}
        superblocks = images = postings = 0
        for first in range(0, 600, 255):
            members = [int(document) for document in columns.order[first : first + 255]]
            largest = {p: max(int(given.impacts[m, p]) for m in members) for p in own}
            if sum(n * largest[p] for p, n in own.items()) < least:
                continue
            superblocks += 1
            for p in own:
                if not is_dense[p]:
                    postings += sum(given.impacts[m, p] > 0 for m in members)
            for place, m in enumerate(members):
                block = members[place // 32 * 32 : place // 32 * 32 + 32]
                top = {p: max(int(given.impacts[b, p]) for b in block) for p in own}
                most = {
                    p: top[p] if has_bitmap[p] and given.impacts[m, p] else int(given.impacts[m, p])
                    for p in own
                }
                bounds = {p: steps[p] * -(-most[p] // steps[p]) for p in own}
                images += sum(n * bounds[p] for p, n in own.items()) >= least
        dense, marked = sum(is_dense.values()), sum(has_bitmap.values())
        found = work_of(index, query.terms, k)
        assert found.superblocks == pytest.approx(superblocks / 3)
        assert found.images == pytest.approx(images / 600)
        assert found.bound_bytes == 3 * len(own)
        assert found.list_bytes == 2 * postings + 36 * superblocks * (len(own) - dense)
        read = 128 * (dense - marked) + 36 * marked
        assert found.dense_bytes == read * superblocks + 64 * images * dense
        assert found.adds == 3 * len(own) + postings + (256 * superblocks + images) * dense
        assert found.bytes == found.bound_bytes + found.list_bytes + found.dense_bytes


def test_all_is_measured(tmp_path: Path) -> None:
    given = source(60)
    steps: list[tuple[str, int, int]] = []
    found = measure_roofline(
        given,
        queries(given, 4),
        ("copies", "drawn"),
        700,
        5,
        (1, 3),
        tmp_path,
        lambda *step: steps.append(step),
    )
    assert [(one.kind, one.k) for one in found.cases] == [
        (kind, k) for kind in ("copies", "drawn") for k in (1, 3)
    ]
    assert steps[-1] == ("measure", 4, 4)
    for one in found.cases:
        assert one.mean_ms > 0 and one.floor_ms == max(one.memory_ms, one.adds_ms) > 0
        assert one.times_floor == pytest.approx(one.mean_ms / one.floor_ms)
    assert json.loads(json.dumps(found.record()))["cases"][0]["kind"] == "copies"
    assert found.table().row_count == 4
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"copies-700-5", "drawn-700-5"}


def test_the_command(drawings: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(command)
    captions, out = tmp_path / "captions.txt", tmp_path / "found.json"
    captions.write_text("red\nblue things\n", encoding="utf-8")
    arguments = [str(drawings), "--queries", str(captions), "--work", str(tmp_path / "work")]
    arguments += ["--images", "300", "--kind", "mixed"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert json.loads(out.read_text())["cases"][0]["kind"] == "mixed"
    refused = CliRunner().invoke(app, [*arguments, "--kind", "mixed,odd"])
    assert isinstance(refused.exception, InputError)
    assert "--kind takes copies, mixed, drawn" in str(refused.exception)
