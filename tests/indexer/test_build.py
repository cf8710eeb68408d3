"""The offline job: from features through a tiny model to an index."""

import errno
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

import indexer.build
import indexer.encoding.encoder as encoding
import indexer.workspace
from indexer.build import build_index
from indexer.encoding.encoder import ImageEncoder, encode_rows
from indexer.engines.open import open_index
from indexer.manifest import OFFSETS, Manifest
from indexer.metadata import read_metadata
from indexer.settings import OffsetKind, PruningSettings
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.files import MARKER, REPLACED, find_work, make_work, writing
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.offsets import TermOffsets
from sparta.word_tables import RARE_TERMS, SUBSTITUTES, Substitute, WordTables
from tests.indexer.random_postings import word_tables
from tests.indexer.tiny import same_but, save_model, slow_impacts, write_store
from tests.indexer.vocabulary import TOKENIZER

Build = Callable[..., Manifest]


@pytest.fixture
def build(store: FeatureStore, model_dir: Path, tmp_path: Path) -> Build:
    """Builds a folder of `tmp_path`, of the store and the model; options are of pruning."""

    def run(out: str = "index", *, models: Sequence[Path] = (model_dir,), **options: Any) -> Any:
        pruning = PruningSettings(**options)
        return build_index([store], models, tmp_path / out, pruning, device="cpu")

    return run


def assert_holds(out: Path, store: FeatureStore, right: Mapping[Any, Any], error: float) -> None:
    """Compare an index with impacts and what won them; sums of float32 differ in the last bit."""
    vocabulary = [t for t in TermTokenizer.from_folder(out).vocabulary if t[0] not in "[#"]
    with closing(open_index(out)) as searcher:
        for image_id in store.ids:
            for term in searcher.explain(" ".join(vocabulary), image_id).terms:
                impact, *winner = right.get((image_id, term.term), (0, None, None))
                assert abs(term.impact - impact) <= 1 + error * impact
                assert [term.region, term.label] == winner
                if term.region is not None:
                    box = store[store.index(image_id)].boxes[term.region].tolist()
                    assert term.box == pytest.approx(box, abs=1e-5)


CAPTIONS = ["dogs on the beach", "a red dog", "the sky", "the dog", "ball, ball", "running é 犬"]
QUERIES = ["sky", "sky above the beach", "...", "cat"]


@pytest.fixture(scope="module")
def asked_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    return save_model(folder, TOKENIZER, untrained=["cat"], captions=CAPTIONS)


@pytest.fixture
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries") / "queries.txt"
    path.write_text("\n".join(QUERIES))
    return path


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"top_n": 5, "bits": 8, "offset": "mean", "terms": "trained", "frequencies": "none"}, []),
        ({"top_n": 7, "bits": 10, "offset": "minimum", "terms": "all", "frequencies": "none"}, []),
        ({"top_n": None, "bits": 8, "offset": "none", "terms": "all"}, []),
        ({"top_n": 6, "bits": 8, "offset": "median", "terms": "all", "frequencies": "none"}, []),
        ({"top_n": 3, "frequencies": "model", "frequency_power": 0.7}, CAPTIONS),
        ({"top_n": 3, "frequencies": "queries", "frequency_power": 0.7}, QUERIES),
    ],
)
def test_the_index_contains_the_models_scores(
    store: FeatureStore,
    asked_model: Path,
    queries: Path,
    tmp_path: Path,
    options: dict[str, Any],
    texts: list[str],
) -> None:
    stages: list[tuple[str, int, int]] = []
    out = tmp_path / "index"
    if options.get("frequencies") == "queries":
        options = options | {"frequencies": str(queries)}
    manifest = build_index(
        [store],
        [asked_model],
        out,
        PruningSettings(**options),
        batch_size=3,
        device="cpu",
        progress=lambda *stage: stages.append(stage),
    )
    right = slow_impacts([store], [asked_model], manifest, texts)
    assert_holds(out, store, right, 0)
    labels = [label for _, _, label in right.values()]
    assert any(labels) and not all(labels)
    assert manifest.postings == len(right)
    assert manifest.distinct_terms == len({term for _, term in right})
    assert manifest.images == len(store) == 21
    assert manifest.clipped == 0 and 0 < manifest.mean_error <= manifest.scale
    ended = [stage for stage, done, total in stages if done == total == 21]
    assert ended[:2] == ["offset", "encode"]
    assert sorted(ended[2:]) == ["columns", "merge", "write"]  # at the same time
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]


def test_an_interrupted_build_with_other_asked_terms_starts_anew(
    build: Build, asked_model: Path, queries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = Mock(wraps=encode_rows)
    monkeypatch.setattr(indexer.workspace, "encode_rows", encode)
    failing = Mock(side_effect=lambda _, rows, *__, **___: 1 / (len(list(rows)) - 3))
    monkeypatch.setattr(indexer.build, "write_index", failing)

    def interrupted(**options: Any) -> int:
        """How many shards a build encodes, which ends before its index is written."""
        encode.reset_mock()
        with pytest.raises(ZeroDivisionError):
            build(models=[asked_model], top_n=4, **options)
        return encode.call_count

    assert interrupted(frequencies="model") == 3
    assert interrupted(frequencies="model") == 0
    assert interrupted(frequencies="model", frequency_power=0.5) == 3
    assert interrupted(frequencies=str(queries)) == 3
    renamed = queries.rename(tmp_path / "renamed.txt")
    assert interrupted(frequencies=str(renamed)) == 0
    renamed.write_text("dog")
    assert interrupted(frequencies=str(renamed)) == 3
    assert interrupted(frequencies="none") == 3
    for power in (-0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="--frequency-power must be from 0 to 1, got"):
            PruningSettings(frequency_power=power)


def test_the_first_models_tables_of_words_are_copied(build: Build, tmp_path: Path) -> None:
    models = [save_model(tmp_path / str(seed), TOKENIZER, seed) for seed in range(2)]
    tables = word_tables({"zebra": (Substitute("dog", 0.5),)}, ["dog"])
    tables.save(models[0])
    out, names = tmp_path / "index", {SUBSTITUTES, RARE_TERMS}
    assert names <= set(build(models=models).parts)
    assert WordTables.open(out) == tables
    assert names.isdisjoint(build(models=models[::-1]).parts)
    assert names.isdisjoint(path.name for path in out.iterdir())
    for name, what in ((RARE_TERMS, "list of rare terms"), (SUBSTITUTES, "table of substitutes")):
        (models[1] / name).write_text("{")
        with pytest.raises(InputError, match=rf"{name} is not a {what}"):
            build(models=models[::-1])


def contents(index: Path, store: FeatureStore) -> list[Any]:
    searcher = open_index(index)
    found = [asdict(searcher.explain("dog cat beach ball red", i)) for i in store.ids]
    searcher.close()
    return found


def test_a_killed_run_continues_to_the_same_index(
    build: Build, store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build("whole")
    encode = encode_rows
    encoded: list[int] = []

    def dying(encoder: Any, rows: Any, parameters: Any) -> Any:
        if len(encoded) == 2:
            raise KeyboardInterrupt
        encoded.append(len(rows))
        return encode(encoder, rows, parameters)

    out = tmp_path / "index"
    monkeypatch.setattr("indexer.workspace.encode_rows", dying)
    with pytest.raises(KeyboardInterrupt):
        build()
    assert encoded == [8, 7] and not out.exists()
    encoded.clear()
    build()
    assert encoded == [6]  # the last shard alone
    assert contents(out, store) == contents(tmp_path / "whole", store)
    first, second = Manifest.open(out), Manifest.open(tmp_path / "whole")
    first, second = (replace(one, created="", parts={}) for one in (first, second))
    assert first == second


@pytest.mark.parametrize(
    ("dies", "kept"),
    [("build.write_index", 3), ("workspace.put", 3), ("workspace.remove_work", 4)],
)
def test_an_index_stays_until_its_successor_is_whole(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str, kept: int
) -> None:
    out, mine = tmp_path / "index", tmp_path / "index.old"
    for folder, top_n in ((mine, 2), (out, 3)):
        build(folder.name, top_n=top_n)
    with monkeypatch.context() as patch:
        patch.setattr(f"indexer.{dies}", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build(top_n=4)
    assert Manifest.open(out).top_n == kept
    with pytest.raises(InputError, match="not a VisualSparta model"):
        build(models=[tmp_path])
    build(top_n=5)
    assert [Manifest.open(folder).top_n for folder in (mine, out)] == [2, 5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "index.old"]


def test_a_build_goes_on_after_a_stop_between_the_two_renames(build: Build, tmp_path: Path) -> None:
    out = tmp_path / "index"
    build(top_n=3)
    out.rename(make_work(out) / REPLACED)
    with pytest.raises(InputError, match="--bits"):
        build(bits=17)
    build(top_n=4)
    assert Manifest.open(out).top_n == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]


@pytest.mark.parametrize(
    "damaged", ["offsets.npz", "shard-stores-00001.npz", "shard-stores-00001.json"]
)
def test_what_a_power_cut_damaged_is_made_again(
    build: Build, store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str
) -> None:
    out = tmp_path / "index"
    with monkeypatch.context() as patch:
        patch.setattr("indexer.workspace.put", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build()
    [work] = find_work(out)
    assert not {MARKER, "settings.sha256", damaged} - {path.name for path in work.iterdir()}
    size = (work / damaged).stat().st_size
    (work / damaged).write_bytes(bytes(size))
    build()
    build("whole")
    assert contents(out, store) == contents(tmp_path / "whole", store)


def test_folders_that_cannot_become_an_index_are_refused(build: Build, tmp_path: Path) -> None:
    letters = tmp_path / "letters"
    with (
        writing(tmp_path / "index"),
        pytest.raises(InputError, match=r"index is being written by process \d+ on"),
    ):
        build()
    with pytest.raises(InputError, match="names no folder"):
        build("..")
    assert list(tmp_path.iterdir()) == []
    letters.mkdir()
    (letters / "to_mother.txt").write_text("hello")
    with pytest.raises(InputError, match="is not an index"):
        build("letters")
    assert (letters / "to_mother.txt").read_text() == "hello"


@pytest.fixture(scope="module")
def flipped(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return write_store(tmp_path_factory.mktemp("flipped"), seed=1, augmentation="flip")


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    return save_model(folder, TOKENIZER, seed=1, untrained=["dog", "red"])


@pytest.mark.parametrize("sample", [2000, 21, 10])
def test_the_index_contains_the_mean_over_models_and_stores(
    store: FeatureStore,
    flipped: FeatureStore,
    model_dir: Path,
    other_model: Path,
    tmp_path: Path,
    sample: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indexer.build, "OFFSET_SAMPLE", sample)
    stores, models = [store, flipped], [model_dir, other_model]
    # A mean over part of the corpus is no concern of this test.
    offset: OffsetKind = "none" if sample < len(store) else "mean"
    scored: list[str] = []
    score = ImageEncoder.score

    def counting(encoder: ImageEncoder, copies: list[list[ImageFeatures]]) -> object:
        scored.extend(image.image_id for image in copies[0])
        return score(encoder, copies)

    monkeypatch.setattr(ImageEncoder, "score", counting)
    out = tmp_path / "index"
    pruning = PruningSettings(top_n=9, offset=offset)
    manifest = build_index(stores, models, out, pruning, batch_size=3, device="cpu")
    # A corpus that is its own sample is scored once.
    assert len(scored) == len(store) + (sample if sample < len(store) else 0)
    right = slow_impacts(stores, models, manifest)
    alone = slow_impacts([store], [model_dir], manifest)
    assert right.keys() != alone.keys()
    assert {term for _, term in right} >= {"cat", "dog", "red"}  # each trained by one of the models
    # The sample's largest score, not the corpus's, gets the top level.
    assert_holds(out, store, right, 0 if sample >= len(store) else 0.2)
    assert manifest.features == [store.fingerprint, flipped.fingerprint]
    assert len(set(manifest.models)) == 2


def test_too_little_room_is_noticed_before_anything_is_written(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    for top_n in (5, None):
        with pytest.raises(InputError, match=r"needs about 0\.0 GB more, the disk has 0\.0"):
            build(top_n=top_n)


def test_a_disk_that_fills_is_one_line_and_the_next_build_continues(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(InputError, match=r"index: the disk is full: free some room and start"):
            build()
    assert not (tmp_path / "index").exists()
    build()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]


def test_an_id_that_would_reach_another_image_is_refused(
    store: FeatureStore, model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sparta.features.writer.id_problem", lambda image_id: None)
        other = same_but(tmp_path / "features", store, rename="x/../y.jpg")
    with pytest.raises(InputError, match=r"features: the image id 'x/../y.jpg' has .*again"):
        build_index([other], [model_dir], tmp_path / "index", device="cpu")
    with pytest.raises(ValueError, match=r"'x/../y.jpg' has the part"):
        same_but(tmp_path / "more", store, rename="x/../y.jpg")
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"image": "x/../y.jpg", "album": "Crete"}\n')
    with pytest.raises(InputError, match=r"lines.jsonl, line 1: the image id 'x/../y.jpg' has"):
        read_metadata(lines)


def test_few_images_are_pruned_as_the_models_training_photos_say(
    store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = save_model(tmp_path / "model", TOKENIZER)
    one = same_but(tmp_path / "one", store, images=1)

    def built(images: FeatureStore) -> tuple[Manifest, NDArray[np.float32]]:
        shutil.rmtree(tmp_path / "index", ignore_errors=True)
        manifest = build_index([images], [model], tmp_path / "index", device="cpu")
        return manifest, np.load(tmp_path / "index" / OFFSETS)

    manifest, offset = built(one)
    assert manifest.postings and not offset.any(), "without a record nothing is subtracted"
    _, whole = built(store)
    known = TermOffsets(np.full(len(TOKENIZER.vocabulary), 0.5, np.float32), 3)
    known.save(model / "offsets.npz")
    monkeypatch.setattr(encoding, "ENOUGH", 42)
    manifest, offset = built(store)  # 21 images
    np.testing.assert_allclose(offset, whole / 2 + 0.25, atol=1e-6)
    assert manifest.scale * 255 >= 1.5 - 1e-6
    manifest, offset = built(one)
    assert manifest.postings and manifest.scale == pytest.approx(3 * 41 / 42 / 255)
    monkeypatch.setattr(encoding, "ENOUGH", 21)
    np.testing.assert_array_equal(built(store)[1], whole)
    (model / "offsets.npz").write_bytes(b"damaged")
    np.testing.assert_array_equal(built(store)[1], whole)
