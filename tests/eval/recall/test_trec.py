"""TREC files of an index, read by a public evaluation tool."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import ir_measures
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import Success
from typer.testing import CliRunner

from eval.recall.trec import encode_id, strictly_falling, write_qrels, write_run
from indexer.build import build_index
from indexer.settings import PruningSettings
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.metrics import recall
from tests.eval.recall.ranked import RankedSearcher


@pytest.fixture(scope="module")
def index(
    tmp_path_factory: pytest.TempPathFactory, views: list[FeatureStore], models: list[Path]
) -> Path:
    """Impacts of two bits, so that many images tie."""
    out = tmp_path_factory.mktemp("trec") / "index"
    build_index(views, models, out, PruningSettings(bits=2), device="cpu")
    return out


def success(run: Path, qrels: Path) -> dict[int, float]:
    measures = {k: Success @ k for k in (1, 5, 10)}
    found = ir_measures.calc_aggregate(
        list(measures.values()),
        list(ir_measures.read_trec_qrels(str(qrels))),
        list(ir_measures.read_trec_run(str(run))),
    )
    return {k: 100 * found[measure] for k, measure in measures.items()}


def test_ir_measures_finds_our_recall(index: Path, captions_file: Path, tmp_path: Path) -> None:
    run, qrels = tmp_path / "out.trec", tmp_path / "out.qrels"
    arguments = ["eval", "index", str(index), "--captions", str(captions_file), "--json"]
    found = CliRunner().invoke(cli, [*arguments, "--run", str(run), "--qrels", str(qrels)])
    assert found.exit_code == 0, found.output
    ours = json.loads(found.stdout)["recall"]
    theirs = success(run, qrels)
    assert {k: ours[f"at_{k}"] for k in (1, 5, 10)} == pytest.approx(theirs)
    assert 0 < theirs[1] < theirs[10]
    lines = [line.split(" ") for line in run.read_text().splitlines()]
    assert {len(line) for line in lines} == {6} and {line[-1] for line in lines} == {"sparta"}


def test_ties_keep_our_order_and_ids_have_no_spaces(tmp_path: Path) -> None:
    """A tool that breaks ties by document id in descending order would turn all of these round."""
    ids = [f"a folder/{number:02d} é#.jpg" for number in range(12)]
    photos = [CaptionedPhoto(image_id, "val", (f"query {image_id}",)) for image_id in ids]
    searcher = RankedSearcher({photo.captions[0]: ids for photo in photos}, ids)
    run, qrels = tmp_path / "out.trec", tmp_path / "out.qrels"
    write_run(searcher, photos, run, depth=10, tag="a tag")
    write_qrels(photos, qrels)
    expected = recall(torch.arange(1, 13))
    assert success(run, qrels) == pytest.approx(dict(zip((1, 5, 10), expected, strict=False)))
    rows = [line.split(" ") for line in run.read_text(encoding="ascii").splitlines()]
    assert len(rows) == 120
    assert [unquote(row[2]) for row in rows[:10]] == ids[:10]
    assert unquote(rows[0][0]) == f"{ids[0]}#0" and rows[0][-1] == "a%20tag"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 20), st.floats(-1, 1, width=32)), max_size=30))
def test_scores_fall_strictly_and_stay_close(scores: list[float]) -> None:
    ordered = sorted(scores, reverse=True)
    found = strictly_falling(ordered)
    assert all(first > second for first, second in pairwise(found))
    np.testing.assert_allclose(found, ordered, rtol=1e-5, atol=1e-5)
    printed = [np.float32(f"{score:.9g}") for score in found]
    assert all(first > second for first, second in pairwise(printed))


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_ids_survive(image_id: str) -> None:
    encoded = encode_id(image_id)
    assert unquote(encoded) == image_id
    assert encoded.isascii() and not set(" \t\n#") & set(encoded)


def test_a_folder_that_is_not_there_is_refused_before_searching(
    index: Path, captions_file: Path, tmp_path: Path
) -> None:
    arguments = ["eval", "index", str(index), "--captions", str(captions_file)]
    for option in ("--run", "--qrels"):
        found = CliRunner().invoke(cli, [*arguments, option, str(tmp_path / "no" / "out")])
        assert isinstance(found.exception, InputError)
        assert f"{option} {tmp_path}" in str(found.exception)
