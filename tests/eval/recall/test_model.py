"""The recall command on models: dense, sparse, together, and on features of another set."""

import json
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from transformers import ResNetConfig, ResNetModel

from eval.recall.model import data_sets, measure_model_recall, open_members
from eval.recall.scores import dense_scores, measure_recall
from indexer.engines.open import open_backend
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError
from sparta.extract.extractor import grid_boxes
from sparta.extract.job import extract_photos
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import StoreWriter
from sparta.metrics import captions_of_images, ranks, recall
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.config import ImageHeadConfig
from sparta.visualsparta.init import from_config
from sparta.visualsparta.model import VisualSparta
from sparta.vse.batch import collate_pixels, collate_regions
from sparta.vse.encoders import PhotoFolder, vision_source
from sparta.vse.init import from_captions
from sparta.vse.model import VseModel, score
from tests import tiny
from tests.eval.data import Data, record, refused, save_dense, shown, store_of, write_captions
from tests.indexer.tiny import write_store
from tests.sparta.extract.tiny_networks import RESNET, save


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("dense")
    return [save_dense(root / "one", 0), save_dense(root / "three", 1, views=3)]


def texts_of(captioned: list[CaptionedPhoto]) -> list[str]:
    return [text for photo in captioned for text in photo.captions]


def slow_matrix(folder: Path, store: FeatureStore, captioned: list[CaptionedPhoto]) -> Tensor:
    """[T, N]: dense, one image and one text at a time; sparse, by equation 12 of the model."""
    rows = [store[store.index(photo.image_id)] for photo in captioned]
    if json.loads((folder / "config.json").read_text())["model_type"] == "vse":
        model = VseModel.from_pretrained(folder)
        with torch.no_grad():
            images = torch.cat([model.encode_images(collate_regions([row])) for row in rows])
        texts = torch.cat([model.embed_texts([text]) for text in texts_of(captioned)])
        return score(texts, images)
    sparse = VisualSparta.from_pretrained(folder)
    assert sparse.tokenizer is not None
    collate = ImagePadder(sparse.tokenizer, 50, 70)
    return sparse.score(sparse.encode_queries(texts_of(captioned)), collate(rows))


def agree(found: Any, matrices: Sequence[Tensor], captioned: list[CaptionedPhoto]) -> None:
    """The figures are those of the mean of some matrices."""
    mean = torch.stack([*matrices]).mean(dim=0)
    exact = dense_scores(mean[:, None], torch.eye(len(captioned))[:, None])
    slow = measure_recall("all", [captioned], exact).record()
    for way in ("text_to_image", "image_to_text"):
        assert found[way] == pytest.approx(slow[way])
    assert found["rsum"] == pytest.approx(slow["rsum"])
    assert (found["images"], found["captions"]) == (slow["images"], slow["captions"])


def command(targets: Sequence[Path], features: Sequence[Path], captions: Path) -> list[object]:
    stores = [part for store in features for part in ("--features", store)]
    return ["eval", "model", *targets, "--captions", captions, *stores, "--device", "cpu"]


@pytest.mark.parametrize(
    ("members", "stores"),
    [
        (["one"], [0]),
        (["three"], [0]),
        (["sparse"], [0]),
        (["one", "three", "sparse"], [0, 1, 0]),
        (["one", "three"], [0]),  # one store for all
    ],
)
def test_models_alone_and_together(
    members: list[str], stores: list[int], dense: list[Path], data: Data, tmp_path: Path
) -> None:
    folders = dict(zip(("one", "three", "sparse"), [*dense, data.models[0]], strict=True))
    chosen, out = [folders[name] for name in members], tmp_path / "found.json"
    features = [data.views[store].folder for store in stores]
    options = ["--out", out, "--batch-size", "4"]
    text = shown(*command(chosen, features, data.captions_file), *options)
    found = json.loads(out.read_text())
    read = stores * (len(members) // len(stores))
    matrices = [
        slow_matrix(folder, data.views[store], data.captioned)
        for folder, store in zip(chosen, read, strict=True)
    ]
    agree(found, matrices, data.captioned)
    assert [model["model"] for model in found["members"]] == list(map(str, chosen))
    for model in found["members"]:
        assert len(model["fingerprint"]) == 64 and not model["other_features_than_trained_on"]
    assert found["members"][0]["features_fingerprint"] == data.views[0].fingerprint
    assert found["arguments"]["protocol"] == "all" and found["arguments"]["split"] == "val"
    products = 21 * sum({"one": 1, "three": 3, "sparse": 0}[name] for name in members)
    assert found["inner_products"] == products
    assert found["items_per_second"] == pytest.approx((21 + 42) / found["seconds"])
    cells = ["all: 21 images, 42 captions", "text → image", f"RSUM {found['rsum']:.1f}"]
    for cell in (*cells, f"items/s, {products} inner products a query"):
        assert cell in text


@pytest.mark.parametrize("which", ["sparse", "dense and sparse"])
def test_captions_by_probability(which: str, dense: list[Path], data: Data, tmp_path: Path) -> None:
    """The other photos are of another split; their own captions play no part."""
    views, models, captioned, *_ = data
    own, others = captioned[::2], [replace(one, split="train") for one in captioned[1::2]]
    captions = write_captions(tmp_path / "captions.jsonl", [*own, *others])
    members = [models[0]] if which == "sparse" else [dense[0], models[0]]
    asked = command(members, [views[0].folder], captions)
    found = record(*asked, "--reference", "train", "--temperature", "0.5")
    rows = [2 * i + caption for i in range(0, len(captioned), 2) for caption in (0, 1)]
    matrices = []
    for model in members:
        scores = slow_matrix(model, views[0], captioned)[rows]
        mean = (scores[:, 1::2].double() / 0.5).exp().mean(dim=1, keepdim=True)
        matrices.append((scores[:, ::2] - 0.5 * mean.log()).float())
    agree(found, matrices, own)
    plain = record(*asked)
    assert plain["image_to_text"] != found["image_to_text"]
    assert which != "sparse" or plain["text_to_image"] == found["text_to_image"]


def test_transfer_to_another_set(dense: list[Path], data: Data, tmp_path: Path) -> None:
    """The same photos, but features that say they come from another detector."""
    other = write_store(tmp_path / "other", FeatureSource("grid", "resnet", "ffff", 768, 32))
    asked = command(dense[:1], [other.folder], data.captions_file)
    assert "Give --transfer" in refused("kind: 'pixels' against 'grid'", *asked)
    text = " ".join(shown(*asked, "--transfer").split())
    assert "transferred: kind: 'pixels' against 'grid'" in text
    answer = record(*asked, "--transfer")
    assert answer["members"][0]["other_features_than_trained_on"]
    agree(answer, [slow_matrix(dense[0], other, data.captioned)], data.captioned)
    narrow = write_store(tmp_path / "narrow", FeatureSource("grid", "resnet", "ffff", 12, 32))
    asked = command(dense[:1], [narrow.folder], data.captions_file)
    refused("features of dimension 12", *asked, "--transfer")


# ---- missing photos ------------------------------------------------------------------------------


def test_photos_that_a_member_lacks(dense: list[Path], data: Data, tmp_path: Path) -> None:
    """The figures are those of the other photos, and the title counts what is missing."""
    images = list(data.views[0])
    parts = {"a": images[:18], "b": images[2:], "c": images[:9], "d": images[9:]}
    a, b, c, d = (store_of(tmp_path / name, own).folder for name, own in parts.items())
    asked = command(dense, [a, b], data.captions_file)
    said = refused(f"{a} lacks 3 of the 21 captioned photos: ", *asked)
    assert "--allow-missing" in said
    found = record(*asked, "--allow-missing")
    fewer = write_captions(tmp_path / "fewer.jsonl", data.captioned[2:18])
    alone = record(*command(dense, [a, b], fewer))
    for name in ("text_to_image", "image_to_text", "images", "captions", "rsum"):
        assert found[name] == alone[name]
    assert (found["missing"], alone["missing"]) == (5, 0)
    assert (found["protocol"], alone["protocol"]) == ("all without 5 of 21 photos", "all")
    text = shown(*asked, "--allow-missing")
    assert "all without 5 of 21 photos: 16 images, 32 captions" in text
    halves = command(dense, [c, d], data.captions_file)
    refused("what all --features have in common lacks 21 of the 21", *halves, "--allow-missing")


def test_an_incomplete_protocol_is_named(dense: list[Path], data: Data, tmp_path: Path) -> None:
    """The folds stay those of the protocol: a missing photo moves no other into its place."""
    photos = [CaptionedPhoto(f"{n:04}.jpg", "test", (f"dog {n}",) * 5) for n in range(1000)]
    first = data.views[0][0]
    store = store_of(tmp_path / "s", (replace(first, image_id=one.image_id) for one in photos[3:]))
    options = ["--split", "test", "--protocol", "flickr30k-1k", "--allow-missing"]
    captions = write_captions(tmp_path / "captions.jsonl", photos)
    text = shown(*command(dense[:1], [store.folder], captions), *options)
    assert "flickr30k-1k without 3 of 1,000 photos: 997 images" in text
    assert "Not comparable with figures of flickr30k-1k" in text
    # The protocol is checked before photos are left out: 1,000 of 1,003 are not the protocol.
    more = [CaptionedPhoto(f"x{n}.jpg", "test", ("a",) * 5) for n in range(3)]
    captions = write_captions(tmp_path / "captions.jsonl", [*photos, *more])
    asked = command(dense[:1], [store.folder], captions)
    refused("defined on 1,000 photos, here are 1,003", *asked, *options)


def test_missing_photos_leave_the_folds_as_they_are(dense: list[Path], data: Data) -> None:
    member = open_members([str(dense[0])], [data.views[0].folder], False, "cpu")
    ids = data.views[0].ids
    folds = [
        [CaptionedPhoto(one, "test", ("a",)) for one in part]
        for part in ([*ids[:3], "x"], ["y", *ids[3:5]], ["z"])
    ]
    found = measure_model_recall(member, "coco-1k", folds, 4, missing={"x", "y", "z"}).found
    kept = [folds[0][:3], folds[1][1:]]
    alone = measure_model_recall(member, "coco-1k", kept, 4).found
    assert (found.folds, found.missing) == (2, 3) and replace(found, missing=0) == alone


def test_wrong_combinations(dense: list[Path], data: Data, tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    (index / "manifest.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    features, one = [data.views[0].folder], dense[:1]
    cases: list[tuple[list[Path], list[Path], list[str], str]] = [
        (one, features * 2, [], "2 --features for 1 models"),
        ([tmp_path / "empty"], features, [], "is not a model: it has no config"),
        (one, features, ["--split", "other"], "lacks 1 of the 1 captioned photos"),
        (one, features, ["--reference", "val"], "--reference val is the measured split"),
        (one, features, ["--reference", "train"], "no photo has split 'train'"),
        (one, features, ["--temperature", "2"], "--temperature goes with --reference"),
        ([index, *one], features, [], "is an index: measure it with sparta eval index"),
    ]
    for targets, stores, more, message in cases:
        refused(message, *command(targets, stores, data.captions_file), *more)


# ---- models with a vision network inside, on photos ----------------------------------------------


COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """photos/, captions.jsonl, and model/, untrained, that takes photos."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "photos").mkdir()
    photos = []
    for above, below in permutations(COLOURS, 2):
        photo = Image.new("RGB", (48, 40), COLOURS[above])
        photo.paste(COLOURS[below], (0, 20, 48, 40))
        name = f"{above}-{below}.png"
        photo.save(folder / "photos" / name)
        texts = [f"{above} over {below}", f"a {below} floor, a {above} wall"]
        photos.append(CaptionedPhoto(name, "val", tuple(texts)))
    write_captions(folder / "captions.jsonl", photos)
    network = save(ResNetModel(ResNetConfig(**RESNET)), folder / "network")
    torch.manual_seed(1)
    texts = [text for photo in photos for text in photo.captions]
    source = vision_source(str(network))
    model = from_captions(texts, source, min_count=1, vision=network, dimension=16, word_dim=8)
    model.save_pretrained(folder / "model")
    return folder


@torch.no_grad()
def by_hand(folder: Path, photos: list[CaptionedPhoto]) -> torch.Tensor:
    """Scores of every caption with every photo, in the captions' order."""
    model = VseModel.from_pretrained(folder / "model").eval()
    images = PhotoFolder(folder / "photos", vision_source(str(folder / "network")))
    pixels = collate_pixels([images[images.index(photo.image_id)] for photo in photos])
    texts = model.embed_texts([text for photo in photos for text in photo.captions])
    return score(texts, model.encode_images(pixels))


def test_recall_on_photos(folder: Path, tmp_path: Path) -> None:
    asked = ["eval", "model", folder / "model", "--captions", folder / "captions.jsonl"]
    asked += ["--device", "cpu", "--features"]
    found, photos = record(*asked, folder / "photos"), read_captions(folder / "captions.jsonl")
    owners = captions_of_images(torch.arange(len(photos)).repeat_interleave(2), len(photos))
    wanted = recall(ranks(by_hand(folder, photos).T, owners, ties="pessimistic"))
    assert found["image_to_text"]["at_1"] == pytest.approx(wanted.at_1)
    assert found["image_to_text"]["median_rank"] == wanted.median_rank
    broken = shutil.copytree(folder / "photos", tmp_path / "photos")
    (broken / "red-blue.png").write_bytes(b"\x89PNG cut")
    lacks = "lacks 1 of the 6 captioned photos: 'red-blue.png'"
    assert "--allow-missing" in refused(lacks, *asked, broken)
    found = record(*asked, broken, "--allow-missing")
    assert (found["images"], found["missing"]) == (5, 1)
    extract_photos(folder / "photos", tmp_path / "store", "pixels", device="cpu")
    refused("takes a folder of photos", *asked, tmp_path / "store")


def test_an_index_of_photos(folder: Path, tmp_path: Path) -> None:
    extract_photos(folder / "photos", tmp_path / "store", "pixels", device="cpu")
    to = [tmp_path / "store", "--out", tmp_path / "index", "--device", "cpu"]
    shown("index", "--model", "sample", *to)
    dense = f"seeing={folder / 'model'}"
    shown("add", tmp_path / "index", tmp_path / "store", "--dense", dense, "--device", "cpu")
    photos = sorted(read_captions(folder / "captions.jsonl"), key=lambda photo: photo.image_id)
    scores = by_hand(folder, photos)[0]
    order = torch.argsort(scores, descending=True, stable=True).tolist()
    for again in (False, True):  # added again from the same photos, they are embedded again too
        if again:
            given = ["--features", tmp_path / "store", "--model", "sample", "--device", "cpu"]
            shown("add", tmp_path / "index", *given)
        with closing(open_backend(tmp_path / "index", "seeing")) as searcher:
            hits = searcher.search(photos[0].captions[0], k=6).hits
        assert [hit.image_id for hit in hits] == [photos[i].image_id for i in order]
        np.testing.assert_allclose([hit.score for hit in hits], scores[order].numpy(), atol=1e-5)


# ---- transfer: several models on several data sets -----------------------------------------------


@pytest.fixture(scope="module")
def second(
    tmp_path_factory: pytest.TempPathFactory, captioned: list[CaptionedPhoto]
) -> tuple[Path, Path]:
    """Another data set, features and captions: fewer photos, and all of a split "test"."""
    root = tmp_path_factory.mktemp("second")
    photos = [replace(one, split="test", captions=one.captions[::-1]) for one in captioned[:9]]
    captions = write_captions(root / "captions.jsonl", photos)
    return write_store(root / "features", seed=5).folder, captions


def test_rows_are_as_measured_alone(data: Data, second: tuple[Path, Path], tmp_path: Path) -> None:
    views, models, _, captions_file, _ = data
    sets = [(views[0].folder, captions_file, "val"), (*second, "test")]
    options = [p for store, texts, _ in sets for p in ("--features", store, "--captions", texts)]
    out = tmp_path / "transfer.json"
    command = ["eval", "model", *models, *options, "--split", "val,test", "--out", out]
    text = shown(*command, width=300)
    rows = json.loads(out.read_text())["rows"]
    expected = [(own, model) for own in sets for model in models]
    assert len(rows) == len(expected) == 4
    for row, ((features, captions, split), model) in zip(rows, expected, strict=True):
        given = ["--features", features, "--captions", captions, "--split", split]
        figures = record("eval", "model", model, *given)
        for name in ("images", "captions", "text_to_image", "image_to_text", "members"):
            assert row[name] == figures[name], name
        assert (row["data_set"]["captions"], row["data_set"]["split"]) == (str(captions), split)
        assert f"{captions}, {split}" in text
        at = row["text_to_image"]
        assert f"{at['at_1']:.1f} / {at['at_5']:.1f} / {at['at_10']:.1f}" in text
    assert rows[0]["images"] != rows[2]["images"]


def test_photos_that_are_missing_are_refused_at_once_or_left_out(
    data: Data, second: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captions, out = tmp_path / "more.jsonl", tmp_path / "out.json"
    gone = {"image": "x.jpg", "split": "test", "captions": ["a dog"]}
    captions.write_text(second[1].read_text() + json.dumps(gone) + "\n")
    first = ["--features", data.views[0].folder, "--captions", data.captions_file]
    asked = ["eval", "model", data.models[0], "--split", "val,test", *first]
    asked += ["--features", second[0], "--captions", captions]
    text = shown(*asked, "--allow-missing", "--out", out, width=300)
    rows = json.loads(out.read_text())["rows"]
    assert [(row["images"], row["missing"]) for row in rows] == [(21, 0), (9, 1)]
    assert rows[1]["protocol"] in " ".join(text.split())
    monkeypatch.setattr("eval.recall.model.measure_model_recall", None)
    refused(f"{second[0]} lacks 1 of the ", *asked)


@pytest.mark.parametrize(
    ("features", "captions", "options", "message"),
    [
        (["a"], ["a"], ("test", "all"), "two data sets or more"),
        (["a"], ["a", "b"], ("test", "all"), "1 --features for 2 --captions"),
        (["a", "b"], ["a", "b"], ("a,b,c", "all"), "--split a,b,c: 3 values for 2"),
        (["a", "b", "c"], ["a", "b", "c"], ("a", "all,all"), "--protocol all,all: 2"),
    ],
)
def test_what_does_not_fit(
    features: list[str], captions: list[str], options: tuple[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        data_sets([Path(path) for path in features], [Path(path) for path in captions], *options)


def test_explanations_of_names_point_at_objects(tmp_path: Path) -> None:
    names, grid = tiny.tokenizer(), replace(tiny.source(2), kind="grid")
    head = ImageHeadConfig(len(names.vocabulary), hidden_size=3, intermediate_size=0)
    model = from_config(head, names, grid, use_labels=False, use_locations=False)
    model.query_embedding.weight.data[:] = torch.tensor([1.0, 0, -0.1])  # "dog" and all others
    model.query_embedding.weight.data[names.ids["cat"]] = torch.tensor([-1.0, 0, 0])  # no score
    model.save_pretrained(tmp_path / "model")
    writer = StoreWriter(tmp_path / "features", grid)
    vectors = np.zeros((10, 2), np.float16)
    vectors[:, 1], vectors[[8, 9], 0] = 1, 1  # a term is seen in the last of nine cells
    blank = ("",) * 10
    boxes = grid_boxes(3, 3)
    images = [ImageFeatures(f"{n}.jpg", vectors, boxes, blank, blank, 9, 9) for n in "ab"]
    writer.write_shard(images)
    writer.finish()
    objects = {
        "a": [("dog", 0.9, [60, 60, 100, 100]), ("cat", 0.9, [0, 0, 9, 9]), ("oak", 0.9, [0] * 4)],
        "b": [
            ("dog", 0.9, [0, 0, 9, 9]),
            ("dog", 0.4, [60, 60, 99, 99]),
            ("sea", 1, [0, 0, 90, 90]),
        ],
    }
    lines = []
    for key, found in objects.items():
        listed = [{"class": name, "conf": conf, "rect": rect} for name, conf, rect in found]
        lines.append(f"{key}\t{json.dumps({'image_h': 100, 'image_w': 100, 'objects': listed})}\n")
    (tmp_path / "predictions.tsv").write_text("".join(lines))
    given = ["--features", tmp_path / "features", "--objects", tmp_path / "predictions.tsv"]
    measured = record("eval", "model", tmp_path / "model", *given)
    assert measured["pairs"] == 2  # the dogs: of the others one is unknown, one large, one unscored
    assert measured["box"] == pytest.approx({"hits": 50, "overlap": 0.32})
    assert measured["part"] == pytest.approx({"hits": 50, "overlap": 25 / 72})
    middle = 0.0225 / (0.25 + 0.16 - 0.0225)
    assert measured["centre"] == pytest.approx({"hits": 0, "overlap": middle / 2}, abs=1e-6)
