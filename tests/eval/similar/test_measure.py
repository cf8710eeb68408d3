"""The study of query by image against a searcher."""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from typer.testing import CliRunner

from eval.similar.caption_vectors import caption_vectors
from eval.similar.in_memory import HITS, agreement_of, best_hits, read_impacts
from eval.similar.measure import TERMS, measure_query_by_image
from indexer.build import build_index
from indexer.search.lucene import LuceneSearcher
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore


def all_hits(impacts: csr_array, place: int) -> NDArray[np.int64]:
    return best_hits(impacts.T.tocsr(), np.array([place]), impacts[[place]])


@pytest.fixture(scope="module")
def index(
    tmp_path_factory: pytest.TempPathFactory, views: list[FeatureStore], models: list[Path]
) -> Path:
    out = tmp_path_factory.mktemp("index") / "index"
    build_index(views, models, out, device="cpu")
    return out


def test_the_study_finds_what_the_searcher_finds(
    index: Path, captioned: list[CaptionedPhoto]
) -> None:
    ids, impacts = read_impacts(index)
    assert ids == sorted(photo.image_id for photo in captioned)
    words = caption_vectors(ids, captioned)
    searcher = LuceneSearcher(index)
    found = []
    for place, image_id in enumerate(ids):
        hits = [ids.index(hit.image_id) for hit in searcher.similar(image_id, HITS).hits]
        found.append(float((words[[place]] @ words[hits].T).sum()) / HITS)
    searcher.close()
    study = measure_query_by_image(index, captioned, ids)
    assert (study.photos, study.images, len(study.rows)) == (21, 21, 3 * len(TERMS))
    (row,) = [row for row in study.rows if (row.terms, row.counting) == (10, "share")]
    assert row.agreement == pytest.approx(np.mean(found))
    assert row.error == 0
    (other,) = [row for row in study.rows if (row.terms, row.counting) == (None, "impact")]
    apart = [
        agreement_of((words[[place]] @ words.T).toarray(), all_hits(impacts, place))[0] - mean
        for place, mean in enumerate(found)
    ]
    assert other.error == pytest.approx(np.std(apart) / sqrt(21))
    assert study.share(row) == pytest.approx(
        100 * (row.agreement - study.random) / (study.best - study.random)
    )
    every = (words @ words.T).toarray()
    np.fill_diagonal(every, 0)
    assert study.random == pytest.approx(every.sum() / 21 / 20)
    assert study.best == pytest.approx(np.sort(every)[:, -HITS:].mean())


def test_photos_and_captions_that_do_not_fit_the_index(
    index: Path, captioned: list[CaptionedPhoto]
) -> None:
    with pytest.raises(InputError, match=r"1 of 2 captioned photos are not in .*, 'x\.jpg' for"):
        measure_query_by_image(index, captioned, [captioned[0].image_id, "x.jpg"])
    with pytest.raises(InputError, match=r"1 of the index's 21 images have no captions, '0/0\.jpg"):
        measure_query_by_image(index, captioned[1:], [])


def test_command(
    index: Path, captions_file: Path, captioned: list[CaptionedPhoto], tmp_path: Path
) -> None:
    out = tmp_path / "similar.json"
    arguments = ["eval", "similar", str(index), "--captions", str(captions_file)]
    run = CliRunner().invoke(cli, [*arguments, "--json", "--out", str(out)])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    right = measure_query_by_image(
        index, captioned, [photo.image_id for photo in captioned]
    ).record()
    assert found == json.loads(json.dumps(right))
    assert json.loads(out.read_text())["arguments"]["split"] == "val"
    run = CliRunner().invoke(cli, [*arguments, "--sample", "4"], env={"COLUMNS": "120"})
    assert "4 photos among 21" in run.stdout
    run = CliRunner().invoke(cli, [*arguments, "--split", "other"])
    assert run.exit_code != 0
