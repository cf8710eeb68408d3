"""Terms that are asked for: of models, of files of queries, kept by the images of an index."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from indexer.search.columns import ColumnSearcher

import indexer.build
from indexer.build import build_index
from indexer.encoding.asked import asked_terms, check_asked
from indexer.encoding.term_scores import ImageEncoder
from indexer.impacts import encode_rows
from indexer.postings import Postings, PostingShard
from indexer.search.api import Explanation
from indexer.search.lucene import LuceneSearcher
from indexer.settings import PruningSettings
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.search.queries import VOCABULARY, answer
from tests.indexer.tiny import save_model, slow_frequencies, slow_impacts
from tests.indexer.vocabulary import TOKENIZER
from tests.reference.searcher import ReferenceSearcher

CAPTIONS = ["dogs on the beach", "a red dog", "the sky", "the dog", "ball, ball", "running é 犬"]
QUERIES = ["sky", "sky above the beach", "...", "cat"]


@pytest.fixture(scope="module")
def asked_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    return save_model(folder, TOKENIZER, untrained=["cat"], captions=CAPTIONS)


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.txt"
    path.write_text("\n".join(QUERIES))
    return path


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> list[PostingShard]:
    """The shards of postings that builds encode."""
    encoded: list[PostingShard] = []

    def recording(*arguments: Any, **named: Any) -> PostingShard:
        encoded.append(encode_rows(*arguments, **named))
        return encoded[-1]

    monkeypatch.setattr(indexer.build, "encode_rows", recording)
    return encoded


def joined(shards: list[PostingShard]) -> Postings:
    return Postings.of([row for shard in shards for row in shard.postings])


@pytest.mark.parametrize("asked", ["model", "queries", "none"])
def test_the_terms_asked_for_are_kept_and_rankings_are_exact(
    store: FeatureStore,
    asked_model: Path,
    tmp_path: Path,
    queries: Path,
    shards: list[PostingShard],
    asked: str,
) -> None:
    texts = {"model": CAPTIONS, "queries": QUERIES, "none": []}[asked]
    pruning = PruningSettings(
        top_n=3, asked=str(queries) if asked == "queries" else asked, asked_power=0.7
    )
    manifest = build_index([store], [asked_model], tmp_path / "index", pruning, device="cpu")
    postings = joined(shards)
    right = slow_impacts([store], [asked_model], manifest, texts)
    found = {
        (row.image_id, TOKENIZER.vocabulary[term]): impact
        for row in postings
        for term, impact in zip(row.terms, row.impacts, strict=True)
    }
    assert found.keys() == right.keys()
    for key, impact in found.items():
        assert abs(impact - right[key][0]) <= 1  # sums of float32 differ in the last bit
    exact = ReferenceSearcher(postings, TOKENIZER)
    for searcher in (LuceneSearcher(tmp_path / "index"), ColumnSearcher(tmp_path / "index")):
        for query in (*VOCABULARY, *CAPTIONS, *QUERIES, " ".join(VOCABULARY)):
            assert answer(searcher.search(query, 30)) == answer(exact.search(query, 30))
        for image_id in store.ids:
            assert answer(searcher.similar(image_id, 30)) == answer(exact.similar(image_id, 30))
            explained = [one.explain(" ".join(VOCABULARY), image_id) for one in (searcher, exact)]
            assert winners(explained[0]) == winners(explained[1])
        searcher.close()


def winners(explanation: Explanation) -> list[tuple[object, ...]]:
    return [(term.term, term.impact, term.region, term.label) for term in explanation.terms]


def test_an_interrupted_build_with_other_asked_terms_starts_anew(
    store: FeatureStore,
    asked_model: Path,
    tmp_path: Path,
    queries: Path,
    shards: list[PostingShard],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(_: Path, rows: Iterable[PostingShard], *__: Any, **___: Any) -> None:
        list(rows)
        raise KeyboardInterrupt

    def interrupted(**options: Any) -> int:
        """How many shards a build encodes, which ends before its index is written."""
        shards.clear()
        pruning = PruningSettings(top_n=4, **options)
        with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
            patch.setattr(indexer.build, "write_index", failing)
            build_index([store], [asked_model], tmp_path / "index", pruning, device="cpu")
        return len(shards)

    assert interrupted(asked="model") == 3
    assert interrupted(asked="model") == 0
    assert interrupted(asked="model", asked_power=0.5) == 3
    assert interrupted(asked=str(queries)) == 3
    assert interrupted(asked=str(queries.rename(tmp_path / "renamed.txt"))) == 0
    (tmp_path / "renamed.txt").write_text("dog")
    assert interrupted(asked=str(tmp_path / "renamed.txt")) == 3
    assert interrupted(asked="none") == 3


def test_powers_out_of_range() -> None:
    for power in (-0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="--asked-power must be from 0 to 1, got"):
            PruningSettings(asked_power=power)


TRAINED_ON = ["dog dogs on the beach", "a red dog", "Sky."], ["cat", "the dog"]


@pytest.fixture
def encoder(store: FeatureStore, tmp_path: Path) -> ImageEncoder:
    """Of two models, trained on different captions, and one without frequencies."""
    texts = [*TRAINED_ON, ()]
    folders = [
        save_model(tmp_path / str(i), TOKENIZER, i, captions=own) for i, own in enumerate(texts)
    ]
    return ImageEncoder.open([store], folders, device="cpu")


def test_of_several_models_the_largest_frequencies_count(encoder: ImageEncoder) -> None:
    asked = asked_terms(encoder, "model", 1.0)
    assert (asked.source, asked.power) == ("model", 1.0)
    counts = zip(*(slow_frequencies(TOKENIZER, own) for own in TRAINED_ON), strict=True)
    assert asked.weights is not None
    assert asked.weights.tolist() == [max(pair) + 1 for pair in counts]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_file_of_queries_is_counted_line_by_line(
    encoder: ImageEncoder, tmp_path: Path, end: str, mark: bytes
) -> None:
    queries = ["dog dog beach", "", "dogs RUNNING", "qqq", "dog dog beach", "犬 é"]
    path = tmp_path / "queries.txt"
    path.write_bytes(mark + end.join(queries).encode())
    asked = asked_terms(encoder, str(path), 0.5)
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
    encoder: ImageEncoder, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "queries.txt"
    if content is not None:
        path.write_bytes(content)
    for check in (check_asked, lambda asked: asked_terms(encoder, asked, 0.35)):
        with pytest.raises(InputError, match=f"--asked .*queries.txt {message}") as raised:
            check(str(path))
        assert "\n" not in str(raised.value)
        with pytest.raises(InputError, match="cannot be read"):
            check(str(tmp_path))


def test_a_file_of_unknown_words_is_refused(encoder: ImageEncoder, tmp_path: Path) -> None:
    path = tmp_path / "queries.txt"
    path.write_text("qqq\nxyz")
    check_asked(str(path))
    with pytest.raises(InputError, match=r"queries.txt has no word of the model's vocabulary"):
        asked_terms(encoder, str(path), 0.35)
