"""Images → postings: what a model reads, terms that images keep, against slow plain code."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import indexer.encoding.encoder
from indexer.encoding.encoder import ImageEncoder, read_inputs
from indexer.encoding.impacts import (
    ImpactParameters,
    Pruning,
    Quantiser,
    ScoredImages,
    TermFrequencies,
    read_queries,
)
from indexer.encoding.models import ReadConfig
from indexer.encoding.scorers import TorchScorer
from indexer.postings import Inputs
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.visualsparta.batch import ImageBatch, ImagePadder
from sparta.visualsparta.model import TermScores, VisualSparta
from tests import tiny
from tests.indexer.tiny import slow_frequencies
from tests.indexer.vocabulary import TOKENIZER
from tests.stores import write_store

COUNT, BATCH = 29, 4


def draw(number: int) -> ImageFeatures:
    """One to nine regions, some of them with labels."""
    rng = np.random.default_rng(number)
    regions = int(rng.integers(1, 10))
    labels = tuple(rng.choice(["", "dog", "red ball", "runs"], regions).tolist())
    return tiny.image(regions, labels, seed=10 + number)


@pytest.fixture
def encoder(tmp_path: Path) -> ImageEncoder:
    write_store(tmp_path / "store", tiny.source(), [draw(n) for n in range(COUNT)])
    store = FeatureStore.open(tmp_path / "store")
    return ImageEncoder([TorchScorer(tiny.model())], tiny.tokenizer(), [store], BATCH)


def test_images_of_similar_length_share_a_pass(
    encoder: ImageEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    score = VisualSparta.term_scores

    def counting(model: VisualSparta, batch: ImageBatch, wanted: torch.Tensor) -> TermScores:
        computed.append(batch.region_mask.numel() + batch.label_mask.numel())
        return score(model, batch, wanted)

    monkeypatch.setattr(VisualSparta, "term_scores", counting)
    sums, scores = [], []
    for window in (1, 16):
        monkeypatch.setattr(indexer.encoding.encoder, "WINDOW", window)
        computed.clear()
        scores.append(np.concatenate([images.scores for images in encoder.scored(range(COUNT))]))
        sums.append(sum(computed))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)  # in the order that was asked for
    padder = encoder._padders[0]
    least = sum(padder.length(image) for image in encoder.store)
    plain, ordered = (found - least for found in sums)
    assert 0 <= ordered < 0.6 * plain


RUNS = ["brown", "run", "##s", "sea", "brown", "man"]  # of the third image's regions 1 to 3


@pytest.mark.parametrize(
    ("options", "regions", "labels"),
    [
        ({}, [3, 1, 5, 4], [["dog", "brown", "red", "ball"], [], RUNS, ["tree"]]),
        ({"use_labels": False}, [3, 1, 5, 4], [[], [], [], []]),
        ({"max_label_tokens": 2}, [3, 1, 5, 4], [["dog", "brown"], [], RUNS[:2], ["tree"]]),
        (
            {"max_regions": 2},
            [2, 1, 2, 2],
            [["dog", "brown", "red", "ball"], [], RUNS[:3], ["tree"]],
        ),
    ],
)
def test_inputs_are_what_the_model_reads(
    options: dict[str, Any], regions: list[int], labels: list[list[str]]
) -> None:
    config, images = tiny.model(**options).config, tiny.images()
    limits = config.max_regions, config.max_label_tokens, config.use_attributes
    padded = ImagePadder(tiny.tokenizer(), *limits).pad(images)
    inputs = list(read_inputs(images, padded, ReadConfig.of(config.to_dict())))
    for image, read, r, own in zip(images, inputs, regions, labels, strict=True):
        assert read.boxes.tolist() == image.boxes[:r].tolist()
        assert [tiny.VOCABULARY[i] for i in read.label_terms] == own
        assert len(read.label_regions) == len(own)
    assert inputs[0].label_regions.tolist() == [0, 1, 1, 1][: len(labels[0])]


QUANTISER = Quantiser.fit(9.0, 8)
NO_INPUTS = Inputs(np.empty((0, 4), np.float32), np.empty(0, np.int32), np.empty(0, np.int16))


def floats(values: list[Any]) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_scores_above_the_top_level_are_clipped_and_counted() -> None:
    quantiser = Quantiser.fit(1.0, 8)
    scores = floats([0.4, 1.0, 1.5, 2.0])
    impacts = quantiser.impacts(scores)
    assert impacts.tolist() == [102, 255, 255, 255]
    report = quantiser.report(scores, impacts) + quantiser.report(scores, impacts)
    assert report.clipped == 4
    assert report.largest_error == pytest.approx(1.0)


def slow_prune(
    scores: list[float], offset: list[float], top_n: int | None, weights: list[float]
) -> list[float]:
    above = [max(0.0, score - base) for score, base in zip(scores, offset, strict=True)]
    order = sorted(range(len(above)), key=lambda term: (-above[term] * weights[term], term))
    kept = set(order[: len(above) if top_n is None else top_n])
    return [value if term in kept else 0.0 for term, value in enumerate(above)]


@given(
    images=st.sampled_from([0, 1, 2, 5, 70]),
    terms=st.integers(1, 40),
    levels=st.sampled_from([2, 5, 1000]),
    top_n=st.none() | st.integers(1, 45),
    weighted=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_terms_are_kept_as_the_slow_way_keeps_them(
    images: int, terms: int, levels: int, top_n: int | None, weighted: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    # Quarters, exact in float32, of few levels: scores, and their products with weights, tie.
    scores = (random.integers(0, levels, (images, terms)) / 4).astype(np.float32)
    offset = (random.integers(0, 3, terms) / 4).astype(np.float32)
    offset[random.random(terms) < 0.2] = np.inf
    weights = random.choice([1.0, 1.5, 3.0], terms).astype(np.float32)
    positions = random.integers(-1, 9, (images, terms)).astype(np.int16)
    ids = np.sort(random.choice(10 * terms, terms, replace=False))
    pruning = Pruning(ids, offset, top_n, weights if weighted else None)
    given = offset.tolist(), top_n, weights.tolist() if weighted else [1] * terms
    slow = floats([slow_prune(row, *given) for row in scores.tolist()]).reshape(images, terms)
    assert np.concatenate([*pruning(scores), scores[:0]]).tolist() == slow.tolist()
    assert pruning.largest_kept(scores) == slow.max(initial=0)
    names = [f"{number}.jpg" for number in range(images)]
    sizes = [{"width": number} for number in range(images)]
    scored = ScoredImages(names, sizes, scores, positions, [NO_INPUTS] * images)
    postings, report = ImpactParameters(pruning, QUANTISER).postings(scored)
    assert (postings.ids, postings.metadata) == (names, sizes)
    for image, row, won in zip(postings, slow, positions, strict=True):
        kept = np.flatnonzero(row)
        assert image.terms.tolist() == ids[kept].tolist()
        assert image.impacts.tolist() == QUANTISER.impacts(row[kept]).tolist()
        assert image.positions.tolist() == won[kept].tolist()
    whole = slow[slow > 0]
    right = QUANTISER.report(whole, QUANTISER.impacts(whole))
    assert report.total_error == pytest.approx(right.total_error)
    assert (report.clipped, report.largest_error) == (right.clipped, right.largest_error)


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(score: float) -> None:
    for top_n in (1, None):
        pruning = Pruning(np.arange(2), floats([0, 0]), top_n)
        with pytest.raises(InputError, match="not finite"):
            list(pruning(floats([[1, score]])))


# ---- frequencies of terms ------------------------------------------------------------------------

UNKNOWN = np.zeros(len(TOKENIZER.vocabulary), np.int64)


def weights_of(asked: str, power: float, trained: NDArray[np.int64] = UNKNOWN) -> TermFrequencies:
    return TermFrequencies.of(asked, power, trained, TOKENIZER)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_file_of_queries_is_counted_line_by_line(tmp_path: Path, end: str, mark: bytes) -> None:
    queries = ["dog dog beach", "", "dogs RUNNING", "qqq", "dog dog beach", "犬 é"]
    path = tmp_path / "queries.txt"
    path.write_bytes(mark + end.join(queries).encode())
    asked = weights_of(str(path), 0.5)
    assert asked.source == hashlib.sha256(end.join(queries).encode()).hexdigest()
    assert asked.power == 0.5
    right = [(count + 1) ** 0.5 for count in slow_frequencies(TOKENIZER, queries)]
    assert max(right) == 2  # dog, in three lines
    assert asked.weights is not None
    assert asked.weights.tolist() == pytest.approx(right)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"cannot be read \(No such file or directory\): give model, none or a text file"),
        (b"", "is empty: give a file of queries, one a line"),
        (b" \n\r\n", "is empty"),
        (b"dog\n\xff\xfe", "is not UTF-8 text .invalid start byte at byte 4"),
    ],
)
def test_files_without_queries_are_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "queries.txt"
    if content is not None:
        path.write_bytes(content)
    for check in (read_queries, lambda asked: weights_of(asked, 0.35)):
        with pytest.raises(InputError, match=f"--frequencies .*queries.txt {message}") as raised:
            check(str(path))
        assert "\n" not in str(raised.value)
        with pytest.raises(InputError, match="cannot be read"):
            check(str(tmp_path))


def test_a_file_of_unknown_words_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "queries.txt"
    path.write_text("qqq\nxyz")
    assert read_queries(str(path)) == "qqq\nxyz"
    with pytest.raises(InputError, match=r"queries.txt has no word of the model's vocabulary"):
        weights_of(str(path), 0.35)
