"""Re-ranking by a dual encoder: the order that torch computes slowly, whatever is written."""

import json
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, CLIPModel

from indexer.answer import RefusedError
from indexer.build import build_index
from indexer.encoding import scorers
from indexer.engines.open import open_index
from indexer.filters.syntax import parse_filter
from indexer.grounding import vector_of
from indexer.index import open as open_folder
from indexer.maintenance.combine import merge_indexes, merge_segments
from indexer.maintenance.copies import restore_snapshot, take_snapshot
from indexer.manifest import Manifest
from indexer.search.searcher import Searcher
from indexer.store.changes import Add
from indexer.store.snapshot import Snapshot
from indexer.update.images import ResidentEncoder, add_images, delete_images, update_metadata
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta.adapt.text_tower import TextTower
from sparta.adapt.towers import open_dual_encoder
from sparta.errors import InputError
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.networks.encoder import text_key
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.config import ImageHeadConfig
from sparta.visualsparta.init import from_config
from sparta.visualsparta.model import VisualSparta
from tests.eval.data import record, refused
from tests.indexer.command_line import sparta
from tests.indexer.live_index import Opened
from tests.indexer.tiny import write_store
from tests.indexer.tiny_dense import save_dense_model
from tests.server.apps import app_of, client_of
from tests.sparta.vse import models as dense_models
from tests.tiny import tokenizer
from tests.training.encoders import ENCODERS, clip

SOURCE = FeatureSource("grid", "tower", "abc", 8, 32)
QUERIES = ("a red dog", "green tree", "A red, red photo of the sea!", "two men run on the beach")
DEPTH = 12


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def model(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("adapted"), encoder)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[FeatureStore]:
    """The same images but for their features, and one image more in the second."""
    folder = tmp_path_factory.mktemp("stores")
    return [write_store(folder / str(n), SOURCE, seed=n, shards=3 + n) for n in range(2)]


@pytest.fixture(scope="module")
def index(
    model: Path, stores: list[FeatureStore], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An index that no test changes."""
    out = tmp_path_factory.mktemp("reranked") / "index"
    build_index(stores[:1], [model], out, device="cpu", rerank=DEPTH)
    return out


def save(folder: Path, encoder: Path | None) -> Path:
    """A model of term vectors, as `sparta adapt` makes them."""
    torch.manual_seed(0)
    words = tokenizer()
    head = ImageHeadConfig(len(words.vocabulary), SOURCE.dimension + 1, 0)
    key = text_key(encoder) if encoder and encoder.exists() else None
    options: dict[str, Any] = {"offset": "none", "dual_encoder": encoder and str(encoder)}
    made = from_config(
        head, words, SOURCE, use_labels=False, use_locations=False, text_key=key, **options
    )
    torch.nn.init.normal_(made.query_embedding.weight, std=2.0)
    made.save_pretrained(folder)
    return folder


@cache
def embed(encoder: Path, query: str) -> torch.Tensor:
    """[d] the text's vector, by transformers."""
    ids = AutoTokenizer.from_pretrained(encoder)(query, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        found = CLIPModel.from_pretrained(encoder).eval().get_text_features(**ids)
    return torch.nn.functional.normalize(found.pooler_output, dim=1)[0]


class Slow:
    """The definition, image by image."""

    def __init__(self, model: Path, encoder: Path, images: Sequence[ImageFeatures]) -> None:
        self.model, self.encoder = VisualSparta.from_pretrained(model), encoder
        self.images = {image.image_id: image for image in images}

    def vector(self, image_id: str) -> torch.Tensor:
        batch = ImagePadder(tokenizer(), 50, 70)([self.images[image_id]])
        return self.model.photo_vectors(batch)[0]

    def check(self, index: Path | Searcher, depth: int = DEPTH, **options: Any) -> None:
        """Compare answers with the hits by score, the first of them reordered."""
        searcher = open_index(index) if isinstance(index, Path) else index
        for query in QUERIES:
            plain = searcher.search(query, 1000, **options)
            assert plain.reranked == 0 and {hit.similarity for hit in plain} <= {None}
            text = embed(self.encoder, query)
            first = {hit.id: float(text @ self.vector(hit.id)) for hit in plain.hits[:depth]}
            ordered = sorted(first, key=lambda one: (-first[one], one))
            ids = [*ordered, *(hit.id for hit in plain.hits[depth:])]
            found = searcher.search(query, 1000, rerank=depth, **options)
            assert [hit.id for hit in found] == ids and len(ids) > 3
            assert [hit.rank for hit in found] == [*range(1, len(ids) + 1)]
            assert found.reranked == min(depth, len(ids))
            scores = {hit.id: hit.score for hit in plain}
            assert all(hit.score == scores[hit.id] for hit in found)
            for hit in found:
                right = first.get(hit.id)
                assert hit.similarity == (right and pytest.approx(right, abs=2e-3))


def test_the_order_is_that_of_the_definition(
    index: Path, model: Path, encoder: Path, stores: list[FeatureStore], tmp_path: Path
) -> None:
    """With filters and required words, in shards, by networks in torch, with other engines."""
    slow = Slow(model, encoder, [*stores[0]])
    for depth in (1, 5, DEPTH):
        slow.check(index, depth)
    slow.check(index, 5, filter=parse_filter("width:40..44"))
    slow.check(index, 5, min_coverage=0.2)
    build_index(stores[:1], [model], tmp_path / "shards", device="cpu", rerank=DEPTH, shards=2)
    slow.check(tmp_path / "shards")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scorers, "on_cpu", lambda _: False)
        build_index(stores[:1], [model], tmp_path / "torch", device="cpu", rerank=DEPTH)
    slow.check(tmp_path / "torch")
    assert Manifest.open(index).rerank == DEPTH
    hit = open_index(index).search("+red -green dog", 1, rerank=5).hits[0]
    own = float(embed(encoder, "red dog") @ slow.vector(hit.id))
    assert hit.similarity == pytest.approx(own, abs=2e-3)


def test_it_holds_while_the_index_is_written_to(
    model: Path, encoder: Path, stores: list[FeatureStore], tmp_path: Path
) -> None:
    """Adds, deletions, metadata, merges, copies, and what a killed writer left in the log."""
    index, images = tmp_path / "index", {image.image_id: image for image in stores[0]}
    build_index(stores[:1], [model], index, device="cpu", rerank=DEPTH)
    slow = Slow(model, encoder, [*images.values()])
    add_images(index, [stores[1]], [model], device="cpu")
    slow.images |= {image.image_id: image for image in stores[1]}
    slow.check(index)
    delete_images(index, [stores[0].ids[0], stores[0].ids[7]])
    update_metadata(index, {stores[0].ids[3]: {"place": "sea"}})
    slow.check(index)
    one = ResidentEncoder(index, [model], "cpu").features(stores[0][0])
    killed = Opened(index)
    killed.writer.sync(killed.writer.write([Add(one)]))
    killed.kill()
    assert one.image_id not in open_index(index).ids()
    with open_writer(index):
        slow.images[one.image_id] = stores[0][0]
    assert one.image_id in open_index(index).ids()
    slow.check(index)
    take_snapshot(index, tmp_path / "copy")
    merge_segments(index)
    slow.check(index)
    assert restore_snapshot(tmp_path / "copy", index) and verify_index(index) == []
    slow.check(index)
    halves, ids = [tmp_path / "half0", tmp_path / "half1"], open_index(index).ids()
    for number, half in enumerate(halves):
        take_snapshot(index, half)
        delete_images(half, ids[number::2])
    merge_indexes(halves, tmp_path / "merged")
    slow.check(tmp_path / "merged")
    tower = next((index / "text_tower").glob("*.bin"))
    tower.unlink()
    assert "text_tower" in verify_index(index)[0]


def test_pages_continue_one_another(index: Path) -> None:
    """By offset and by cursor, across the end of what is re-ranked."""
    searcher = open_index(index)
    for query in QUERIES:
        whole = [(hit.rank, hit.id) for hit in searcher.search(query, 1000, rerank=5)]
        paged = [
            (hit.rank, hit.id)
            for offset in range(0, len(whole), 3)
            for hit in searcher.search(query, 3, offset=offset, rerank=5)
        ]
        assert paged == whole
        followed, last = [], None
        while len(page := searcher.search(query, 3, after=last, rerank=5)):
            followed += [(hit.rank, hit.id) for hit in page]
            last = page.last
        assert followed == whole


def test_recall_is_that_of_the_new_order(index: Path, tmp_path: Path) -> None:
    searcher, captions = open_index(index), tmp_path / "captions.jsonl"
    ids = [hit.id for hit in searcher.search(QUERIES[0], 1000)]
    asked = {one: QUERIES[n % len(QUERIES)] for n, one in enumerate(ids)}
    lines = [{"image": one, "split": "val", "captions": [asked[one]]} for one in ids]
    captions.write_text("\n".join(map(json.dumps, lines)))
    command = "eval", "index", index, "--captions", captions, "--rerank"
    recalls = []
    for depth in (0, DEPTH):
        hits = {text: searcher.search(text, 5, rerank=depth) for text in QUERIES}
        right = np.mean([one in {hit.id for hit in hits[asked[one]]} for one in ids])
        recalls.append(record(*command, depth)["recall"]["at_5"])
        assert recalls[-1] == pytest.approx(100 * right, abs=0.01)
    assert recalls[0] != recalls[1]
    refused("the index was built to re-rank 12 hits", *command, DEPTH + 1)
    refused("--rerank needs --captions, and no --only-split", *command, DEPTH, "--only-split")
    run = tmp_path / "run.trec"
    record(*command, DEPTH, "--run", run, "-k", "20")
    rows = [line.split() for line in run.read_text().splitlines()]
    for number, one in enumerate(ids[: len(QUERIES)]):
        own = sorted((row for row in rows if row[0] == f"{one}#0"), key=lambda row: -float(row[4]))
        ordered = [hit.id for hit in searcher.search(QUERIES[number], 20, rerank=DEPTH)]
        assert [row[2] for row in own] == ordered and len(own) > 3


def test_images_sent_as_terms_follow_those_with_vectors(index: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    take_snapshot(index, copy)
    first = open_index(copy).search(QUERIES[0], 1).hits[0].id
    snapshot = Snapshot.open(copy)
    [image] = snapshot.images([snapshot.document(first) or 0])
    object.__setattr__(image.inputs, "vector", np.empty(0, np.float16))
    with open_writer(copy) as writer:
        writer.write([Add(image)])
    found = open_index(copy).search(QUERIES[0], 5, rerank=5)
    assert (found[4].id, found[4].similarity) == (first, None)
    rest = open_index(copy).search(QUERIES[0], 5, after=found.last, rerank=5)
    assert rest[0].rank == 6 and not {hit.id for hit in rest} & {hit.id for hit in found}


def test_commands_need_neither_torch_nor_the_model(
    encoder: Path, stores: list[FeatureStore], tmp_path: Path
) -> None:
    own = shutil.copytree(encoder, tmp_path / "encoder")
    model, out = save(tmp_path / "model", own), tmp_path / "index"
    options = "--model", str(model), "--out", str(out), "--device", "cpu"
    for depth in ("5", "7"):  # the second time networks are converted
        made = sparta("index", str(stores[0].folder), *options, "--rerank", depth)
    assert made.returncode == 0, made.stderr
    shutil.rmtree(model)
    shutil.rmtree(own)
    found = sparta("search", str(out), QUERIES[0], "--rerank", "7", VISUALSPARTA_CACHE="/nowhere")
    assert found.returncode == 0 and "Re-ranked: the first 7," in found.stdout, found.stderr
    found = sparta("search", str(out), QUERIES[0], "-k", "2", "--rerank", "7", "--json")
    answer = json.loads(found.stdout)
    assert answer["reranked"] == 7 and answer["timings"]["encode_ms"] > 0
    by_python = open_folder(out).search(QUERIES[0], 2, rerank=7)
    assert [hit["similarity"] for hit in answer["hits"]] == [hit.similarity for hit in by_python]
    wrong = sparta("search", str(out), QUERIES[0], "--rerank", "8")
    assert wrong.returncode and "--rerank: the index was built to re-rank 7 hits" in wrong.stderr


def test_the_server_reranks(
    index: Path, encoder: Path, model: Path, stores: list[FeatureStore], tmp_path: Path
) -> None:
    from server.backends import Backend

    build_index(stores[:1], [model], tmp_path / "plain", device="cpu")
    assert b"rerank" not in (tmp_path / "plain" / "manifest.json").read_bytes()
    assert not len(vector_of(Snapshot.open(tmp_path / "plain").groundings([0])[0]))
    with client_of(app_of(Backend("sparta", open_index(index)))) as client:
        asked: dict[str, Any] = {"q": QUERIES[0], "k": 4, "rerank": 6}
        first = client.get("/v1/search", params=asked).json()
        assert first["reranked"] == 6 and None not in [one["similarity"] for one in first["hits"]]
        rest = client.get("/v1/search", params=asked | {"cursor": first["cursor"]}).json()
        assert [hit["rank"] for hit in rest["hits"]] == [5, 6, 7, 8]
        assert [hit["similarity"] is None for hit in rest["hits"]] == [False, False, True, True]
        for more in (
            {"rerank": DEPTH + 1},
            {"sort": "width"},
            {"cursor": first["cursor"], "k": 4, "rerank": 5},
        ):
            assert client.get("/v1/search", params=asked | more).status_code == 422
    with client_of(app_of(Backend("sparta", open_index(tmp_path / "plain")))) as client:
        refused = client.get("/v1/search", params=asked)
        assert refused.status_code == 422 and "no vectors of photos" in refused.json()["detail"]
    with pytest.raises(RefusedError, match="no vectors"):
        open_index(tmp_path / "plain").search("dog", rerank=3)


def test_models_without_a_text_tower_are_refused(
    model: Path, model_dir: Path, stores: list[FeatureStore], tmp_path: Path
) -> None:
    bare = save(tmp_path / "bare", None)
    gone = save(tmp_path / "gone", tmp_path / "nothing")
    other = save(tmp_path / "other", clip(tmp_path / "encoder"))
    changed = CLIPModel.from_pretrained(tmp_path / "encoder")
    changed.text_projection.weight.data.neg_()
    changed.save_pretrained(tmp_path / "encoder")
    cases = {
        "needs one model": [[bare], [model_dir], [model, bare]],
        "was made of: .*nothing does not exist": [[gone]],
        "has changed since: adapt it again": [[other]],
    }
    for message, lists in cases.items():
        for models in lists:
            with pytest.raises(InputError, match=message):
                build_index(stores[:1], models, tmp_path / "index", rerank=5)
    with pytest.raises(InputError, match="needs one model"):
        build_index(stores[:1], [model], tmp_path / "index", rerank=-1)


@pytest.mark.parametrize("kind", [*ENCODERS, "gru", "mean", "gpo", "adpool"])
def test_text_towers_are_those_of_torch(kind: str, tmp_path: Path) -> None:
    if kind in ENCODERS:
        ENCODERS[kind](tmp_path)
    elif kind == "gru":
        save_dense_model(tmp_path)
    else:
        dense_models.bert(tmp_path / "bert", text_pooling=kind).save_pretrained(tmp_path)
    texts = ["a red photo", "", "blue and green, and a photo of a red and a blue and a green one"]
    expected = open_dual_encoder(tmp_path, torch.device("cpu")).embed(texts).float().numpy()
    assert np.abs(TextTower.open(tmp_path).encode(texts) - expected).max() < 1e-3
