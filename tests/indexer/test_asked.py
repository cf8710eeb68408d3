"""Terms that are asked for: of models, of files of queries, kept by the images of an index."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import indexer.build
from indexer.build import build_index
from indexer.encoding.encoder import encode_rows
from indexer.engines.open import ENGINES, open_index
from indexer.postings import Postings, PostingShard
from indexer.search.answer import Explanation
from indexer.settings import PruningSettings
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.search.queries import VOCABULARY, answer
from tests.indexer.tiny import save_model, slow_impacts
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
    for engine in ENGINES:
        searcher = open_index(tmp_path / "index", engine)
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
