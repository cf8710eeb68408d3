"""Collections: what is read out of an index, and what larger ones keep of it; queries."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import eval.bench.collections
from eval.bench.collections import (
    CHUNK,
    Corpus,
    Distribution,
    Kind,
    encode_source,
    enlarge,
    find_model,
    keep_top,
    open_features,
    open_source,
    read_source,
)
from eval.bench.queries import ask, choose_queries, draw_queries, measure_recall, tokenise
from eval.bench.vectors import enlarge_vectors
from eval.recall.index import Gallery, measure_index_recall
from indexer.build import build_index
from indexer.engines.open import open_index
from indexer.manifest import Manifest
from indexer.postings import Postings
from indexer.settings import PruningSettings
from indexer.store.changes import Delete
from indexer.update.writer import open_writer
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.extract.job import extract_photos
from sparta.features.store import FeatureStore
from sparta.model_id import SAMPLE
from sparta.tokenizer import TermTokenizer
from tests.eval.bench.tiny import dense, rows, source
from tests.eval.data import write_captions
from tests.indexer.random_postings import random_postings, write_postings

IMAGES = CHUNK + 7
TEXTS = ["dog cat", "", "the red ball", "qqq", "two dogs run dog", "beach ball", "sky"]


def as_dicts(rows: csr_array) -> Iterator[dict[int, int]]:
    """Term → impact of each image."""
    assert rows.has_canonical_format  # terms rise
    for first, last in pairwise(rows.indptr):
        terms, impacts = rows.indices[first:last].tolist(), rows.data[first:last].tolist()
        yield dict(zip(terms, impacts, strict=True))


def images(kind: Kind, top_n: int | None, seed: int = 0) -> list[dict[int, int]]:
    made = enlarge(source(), IMAGES, top_n, kind, seed)
    return [image for rows in made for image in as_dicts(rows)]


@pytest.mark.parametrize("top_n", [5, None])
def test_a_near_duplicate_has_its_image_s_terms_and_nearly_its_impacts(top_n: int | None) -> None:
    kept = as_dicts(keep_top(source(), source().impacts, top_n))
    parents = {tuple(image): np.array([*image.values()]) for image in kept}
    factors, made = [], images("near-duplicates", top_n)
    assert len(made) == IMAGES
    for image in made:
        parent = parents[tuple(image)].astype(float)
        changed = np.array([*image.values()])
        assert changed.min() >= 1 and changed.max() <= 255
        inside = (parent > 40) & (parent < 150)  # neither rounding nor the top level matters
        factors += (changed / parent)[inside].tolist()
    assert np.mean(factors) == pytest.approx(1, abs=0.01)
    assert np.std(factors) == pytest.approx(0.15, abs=0.01)


def test_a_blend_takes_every_term_from_one_of_two_and_keeps_the_largest() -> None:
    rare = source(2)
    first, second = map(set, as_dicts(rows(rare)))
    (blends,) = enlarge(rare, 500, None, "blends")
    both = [own for own in map(set, as_dicts(blends)) if own not in (first, second)]
    assert both and all(first & second <= own <= first | second for own in both)
    assert any((first - second) & own and (second - first) & own for own in both)
    assert max(len(image) for image in images("blends", 4)) == 4
    made = images("blends", None)
    found = [sum(term in image for image in made) / IMAGES for term in source().terms.tolist()]
    np.testing.assert_allclose(found, (source().impacts > 0).mean(axis=0), atol=0.05)


@pytest.mark.parametrize("kind", ["near-duplicates", "blends", "synthetic"])
def test_a_seed_decides(kind: Kind) -> None:
    assert images(kind, 5) == images(kind, 5) != images(kind, 5, seed=1)
    (made,) = enlarge(source(bits=12), 500, None, kind)
    assert made.data.max() > 2**11  # more bits are used


def test_vectors_are_enlarged_as_images_are(tmp_path: Path) -> None:
    vectors = dense("v", 5)
    copies = enlarge_vectors(vectors, 2500, "near-duplicates", tmp_path / "a.npy").open()
    again = enlarge_vectors(vectors, 2500, "near-duplicates", tmp_path / "b.npy").open()
    mixed = enlarge_vectors(vectors, 2500, "blends", tmp_path / "c.npy").open()
    np.testing.assert_array_equal(copies, again)
    for made, nearness in ((copies, 0.989), (mixed, 0.7)):
        np.testing.assert_allclose(np.linalg.norm(made, axis=-1), 1, atol=1e-5)
        nearest = (made @ vectors.images.T).max(axis=1)
        assert np.median(nearest) == pytest.approx(nearness, abs=0.05)


@pytest.fixture
def postings(tokenizer: TermTokenizer) -> Postings:
    return random_postings(tokenizer, 60)


@pytest.fixture
def index(tmp_path: Path, tokenizer: TermTokenizer, postings: Postings) -> Path:
    write_postings(tmp_path / "index", [postings], tokenizer)
    return tmp_path / "index"


@pytest.mark.parametrize("gone", [0, 30])
def test_every_impact_of_an_image_that_is_not_deleted_is_read(
    index: Path, postings: Postings, tokenizer: TermTokenizer, gone: int
) -> None:
    deleted = [image.image_id for image in postings][::2][:gone]
    with open_writer(index) as writer:
        writer.write([Delete(image_id) for image_id in deleted])
    source = read_source(index)
    assert source.vocabulary == tokenizer.vocabulary
    assert (source.weights, source.bits, source.about["top_n"]) == (None, 8, "all")
    left = [image for image in postings if image.image_id not in deleted]
    assert source.ids == sorted(image.image_id for image in left) and len(left) == 60 - gone
    expected = np.zeros((len(left), len(tokenizer.vocabulary)), np.uint8)
    for image in left:
        expected[source.ids.index(image.image_id), image.terms] = image.impacts
    found = np.zeros_like(expected)
    found[:, source.terms] = source.impacts
    np.testing.assert_array_equal(found, expected)
    assert source.impacts.any(axis=0).all()


@pytest.mark.parametrize("bits", [8, 12])
@pytest.mark.parametrize("chunk", [7, 10_000])
def test_a_corpus_keeps_every_impact(
    tmp_path: Path, bits: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eval.bench.collections, "READ", chunk)
    whole = rows(source(bits=bits))
    made = Corpus.write(tmp_path, source().vocabulary, bits, [whole, whole])
    assert (made.images, made.postings) == (80, 2 * whole.nnz)
    found = [image for part in made.rows() for image in as_dicts(part)]
    assert found == [*as_dicts(whole)] * 2


def test_an_index_without_images_is_refused(index: Path) -> None:
    ids = read_source(index).ids
    with open_writer(index) as writer:
        writer.write([Delete(image_id) for image_id in ids[1:]])
    with pytest.raises(InputError, match=r"index has 1 images: collections are made of two"):
        read_source(index)


def test_drawn_queries_have_terms_as_frequent_as_the_source_says() -> None:
    made = source()
    queries = draw_queries(made, 4000)
    lengths = [sum(query.terms.values()) for query in queries]
    assert min(lengths) >= 7 and 11.5 < np.mean(lengths) < 12.1
    used = np.zeros(len(made.vocabulary))
    for query in queries:
        assert query.text == query.pieces
        for term, count in query.terms.items():
            used[term] += count
    expected = made.frequencies / made.frequencies.sum()
    np.testing.assert_allclose(used[made.terms] / used.sum(), expected, atol=0.005)


def test_queries_come_in_random_order_without_those_no_term_is_in(
    tokenizer: TermTokenizer,
) -> None:
    asked = tokenise(TEXTS, tokenizer)
    assert [query.text for query in asked] == TEXTS
    found = choose_queries(asked)
    known = ["dog cat", "the red ball", "two dogs run dog", "beach ball", "sky"]
    assert sorted(query.text for query in found) == sorted(known)
    assert [query.text for query in found] != known
    assert [query.number for query in found] == list(range(5))
    for query in found:
        parsed = tokenizer.encode_query(query.text)
        named = {tokenizer.vocabulary[term]: count for term, count in query.terms.items()}
        assert named == parsed.terms and query.pieces.split() == parsed.pieces
    assert choose_queries(asked, 2) == found[:2]
    with pytest.raises(InputError, match="1 queries with a word of the index"):
        choose_queries(tokenise(["dog", "qqq"], tokenizer))


# ---- from features -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pruned(
    tmp_path_factory: pytest.TempPathFactory, models: list[Path], views: list[FeatureStore]
) -> Path:
    """An index of both views that keeps four terms an image, chosen by score and frequency."""
    out = tmp_path_factory.mktemp("pruned") / "index"
    build_index(views, models, out, PruningSettings(top_n=4, frequency_power=0.5), device="cpu")
    return out


def folders(views: list[FeatureStore]) -> list[Path]:
    return [one.folder for one in views]


@pytest.mark.parametrize("top_n", [4, 2, None])
def test_features_give_the_impacts_that_an_index_of_any_top_n_has(
    pruned: Path, top_n: int | None, models: list[Path], views: list[FeatureStore], tmp_path: Path
) -> None:
    source = encode_source(pruned, views, models)
    scale = Manifest.open(pruned).scale
    settings = PruningSettings(top_n=top_n, frequency_power=0.5)
    build_index(views, models, tmp_path / "other", settings, device="cpu")
    other = read_source(tmp_path / "other")
    ratio = Manifest.open(tmp_path / "other").scale / scale
    kept = keep_top(source, source.impacts, top_n)
    assert source.ids == other.ids
    differing, level = 0, 2**8 - 1
    for row, own in enumerate(as_dicts(kept)):
        theirs = dict(zip(other.terms.tolist(), other.impacts[row].tolist(), strict=True))
        theirs = {term: impact for term, impact in theirs.items() if impact}
        # Rounded impacts may decide between two nearly equal terms in another way than scores do.
        differing += len(own.keys() - theirs.keys())
        for term in own.keys() & theirs.keys():
            expected = min(level, ratio * theirs[term])
            assert own[term] == pytest.approx(expected, abs=2 + ratio)
    assert differing <= 0.05 * kept.nnz


def test_features_beside_the_index_or_given_are_found_by_their_fingerprints(
    pruned: Path, views: list[FeatureStore], models: list[Path], tmp_path: Path
) -> None:
    assert open_features(pruned) == []
    given = open_features(pruned, folders(views)[::-1])
    assert [one.folder for one in given] == folders(views)
    for view in views:
        shutil.copytree(view.folder, tmp_path / "index.features" / view.folder.name)
    (tmp_path / "index").symlink_to(pruned)
    beside = open_features(tmp_path / "index")
    assert [one.fingerprint for one in beside] == [one.fingerprint for one in views]
    with pytest.raises(InputError, match=r"--features: .* was built from other features"):
        open_source(pruned, folders(views)[:1])
    assert open_source(pruned).about["top_n"] == 4  # what the index has
    whole = open_source(pruned, folders(views), [str(one) for one in models])
    assert whole.about["top_n"] == "all" and whole.most_terms > 4


def test_the_model_of_the_package_and_features_beside_it(pruned: Path, tmp_path: Path) -> None:
    """What the benchmark needs without any option: all terms, also those the index left out."""
    folder = tmp_path / "index.features" / "plain"
    extract_photos(SAMPLE / "photos", folder, "pixels", workers=0)
    plain = FeatureStore.open(folder)
    settings = PruningSettings(top_n=5)
    build_index([plain], ["sample"], tmp_path / "index", settings, device="cpu")
    assert (find_model(tmp_path / "index"), find_model(pruned)) == ("sample", None)
    source = open_source(tmp_path / "index")
    assert source.about["top_n"] == "all" and source.most_terms > 5
    shutil.rmtree(tmp_path / "index.features")
    assert open_source(tmp_path / "index").most_terms == 5


@pytest.mark.parametrize("found", [{"a.jpg"}, {"a.jpg", "b.jpg"}])
def test_captions_of_photos_that_the_index_lacks_are_counted(
    found: set[str], tokenizer: TermTokenizer, index: Path, tmp_path: Path
) -> None:
    texts = ("dog", "the red ball")
    splits = {"a.jpg": "val", "b.jpg": "val", "c.jpg": "train"}
    photos = [CaptionedPhoto(name, split, texts) for name, split in splits.items()]
    file = write_captions(tmp_path / "captions.jsonl", photos)
    source = replace(read_source(index), ids=sorted(found))
    asked = ask(index, source, None, file, "val")
    assert asked.origin == f"captions.jsonl, {len(found)} of 2 photos of split val"
    assert [place for _, place in asked.judged] == sorted([*range(len(found))] * 2)
    assert len(asked.queries) == 2 * len(found)


@pytest.mark.parametrize("top_n", [2, None])
def test_recall_is_that_of_an_index_of_the_same_top_n(
    top_n: int | None,
    views: list[FeatureStore],
    models: list[Path],
    captioned: list[CaptionedPhoto],
    tokenizer: TermTokenizer,
    tmp_path: Path,
) -> None:
    out = tmp_path / "index"
    build_index(views, models, out, PruningSettings(top_n=top_n), device="cpu")
    source = read_source(out)
    texts = [(text, photo.image_id) for photo in captioned for text in photo.captions]
    asked = tokenise([text for text, _ in texts], tokenizer)
    judged = [(asked[number], source.ids.index(own)) for number, (_, own) in enumerate(texts)]
    searcher = open_index(out)
    expected = measure_index_recall(Gallery(searcher, captioned, substitute=False)).recall
    searcher.close()
    assert measure_recall(source, None, judged) == expected
    shallow = measure_recall(source, 1, judged)
    assert shallow != expected


# ---- drawn from a fitted distribution: as alike as its images, none a copy ----------------------

TERMS = 40


def correlated(count: int) -> NDArray[np.uint8]:
    """Impacts of terms that four topics have in common, about half of them 0."""
    rng = np.random.default_rng(0)
    loadings = np.random.default_rng(7).standard_normal((4, TERMS))
    values = rng.standard_normal((count, 4)) @ loadings + rng.standard_normal((count, TERMS))
    return np.clip(np.rint(60 * values), 0, 255).astype(np.uint8)


def test_frequencies_impacts_and_correlations_stay_and_no_image_is_a_copy() -> None:
    given = correlated(1000)
    made = Distribution.of(given).draw(5000, np.random.default_rng(0))
    assert made.dtype == given.dtype
    np.testing.assert_allclose((made > 0).mean(axis=0), (given > 0).mean(axis=0), atol=0.03)
    for level in (0.6, 0.8, 0.95):
        expected, found = (np.quantile(some, level, axis=0) for some in (given, made))
        np.testing.assert_allclose(found, expected, atol=15)
    expected, found = (np.corrcoef(some.T.astype(float)) for some in (given, made))
    assert np.abs(found - expected).max() < 0.12
    assert np.abs(expected - np.eye(TERMS)).max() > 0.5  # there are some to keep
    rows, drawn = given.astype(float), made[:300].astype(float)
    copies = rows[:300] * np.random.default_rng(1).normal(1, 0.15, (300, TERMS))
    for some in (rows, drawn, copies):
        some /= np.linalg.norm(some, axis=1, keepdims=True)
    nearest, nearest_of_copies = ((some @ rows.T).max(axis=1) for some in (drawn, copies))
    assert nearest.max() < 0.999 and nearest.mean() < nearest_of_copies.mean() - 0.05


def test_few_images_and_terms_that_none_or_all_have() -> None:
    given = np.array([[0, 5, 3], [0, 5, 0], [0, 5, 9]], np.uint8)
    made = Distribution.of(given).draw(20, np.random.default_rng(0))
    assert not made[:, 0].any() and (made[:, 1] == 5).all() and {*made[:, 2].tolist()} <= {0, 3, 9}
