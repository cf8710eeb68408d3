"""The study of images like an image: captions compared by hand, queries and hits one by one."""

from __future__ import annotations

import json
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from typer.testing import CliRunner

from eval.similar.measure import (
    HITS,
    TERMS,
    agreement_of,
    best_hits,
    caption_vectors,
    measure_query_by_image,
    photo_queries,
    read_impacts,
)
from indexer.build import build_index
from indexer.search.lucene import LuceneSearcher
from indexer.search.query_by_image import image_query
from sparta.__main__ import cli
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.store import FeatureStore


def photo(image_id: str, *captions: str) -> CaptionedPhoto:
    return CaptionedPhoto(image_id, "val", captions)


def test_agreement_of_captions_done_by_hand() -> None:
    captions = [
        photo("c", "A cat."),
        photo("elsewhere", "a zebra"),
        photo("a", "A dog, a dog!", "a dog runs"),
        photo("b", "a DOG", "a cat"),
    ]
    words = caption_vectors(["a", "b", "c"], captions)
    found = (words @ words.T).toarray()
    dog, runs, cat = log(3 / 2), log(3), log(3 / 2)  # "a" is said of all, and so counts nothing
    a, b = sqrt((2 * dog) ** 2 + runs**2), sqrt(dog**2 + cat**2)
    right = [[1, 2 * dog**2 / (a * b), 0], [2 * dog**2 / (a * b), 1, cat / b], [0, cat / b, 1]]
    np.testing.assert_allclose(found, right)


def test_captions_that_say_nothing_agree_with_none() -> None:
    words = caption_vectors(["a", "b"], [photo("a", "a"), photo("b", "a", "...")])
    assert (words @ words.T).toarray().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("terms", [1, 3, 50, None])
def test_queries_are_those_of_searchers(terms: int | None) -> None:
    random = np.random.default_rng(0)
    dense = random.integers(0, 6, (20, 12)) * random.integers(0, 2, (20, 12))
    dense[3] = 0
    impacts = csr_array(dense)
    share = photo_queries(impacts, terms, "share").toarray()
    once = photo_queries(impacts, terms, "once").toarray()
    for row, own in enumerate(dense):
        query = image_query({str(i): int(own[i]) for i in np.flatnonzero(own)}, terms or 12)
        assert {str(i): share[row, i] for i in np.flatnonzero(share[row])} == query
        np.testing.assert_array_equal(once[row] > 0, share[row] > 0)
    kept = photo_queries(impacts, terms, "impact").toarray()
    np.testing.assert_array_equal(kept, dense * once)
    np.testing.assert_array_equal(impacts.toarray(), dense)


@pytest.mark.parametrize("images", [4, 60])
def test_hits_and_agreement_one_by_one(images: int) -> None:
    random = np.random.default_rng(1)
    dense = random.integers(0, 3, (images, 5)) * (random.random((images, 5)) < 0.4)
    asked = np.array([0, 3])
    agreement = random.random((2, images))
    hits = best_hits(csr_array(dense.T), asked, csr_array(dense[asked]))
    for row, image in enumerate(asked):
        scores = dense @ dense[image]
        others = [other for other in range(images) if other != image and scores[other]]
        best = sorted(others, key=lambda other: (-scores[other], other))[:HITS]
        assert sorted(hit for hit in hits[row] if hit >= 0) == sorted(best)
        mean = sum(agreement[row, other] for other in best) / min(HITS, images)
        assert agreement_of(agreement, hits)[row] == pytest.approx(mean)


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
