"""The recall command on models: dense, sparse, together, and on features of another set."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from eval.recall.model import measure_model_recall, open_members
from eval.recall.scores import dense_scores, measure_recall
from sparta.captions.read import CaptionedPhoto
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.model import VisualSparta
from sparta.vse.batch import collate_regions
from sparta.vse.model import VseModel, score
from tests.eval.data import Data, record, refused, save_dense, shown, store_of, write_captions
from tests.indexer.tiny import write_store


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
    for cell in ("all: 21 images, 42 captions", "text → image", f"RSUM {found['rsum']:.1f}"):
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


def test_missing_reference_images(dense: list[Path], data: Data, tmp_path: Path) -> None:
    photos = [*data.captioned[:5], *(replace(one, split="train") for one in data.captioned[5:])]
    gone = CaptionedPhoto("x.jpg", "train", ("a dog",))
    alone, asked = (
        [*command(dense[:1], [data.views[0].folder], captions), "--reference", "train"]
        for captions in (
            write_captions(tmp_path / "alone.jsonl", photos),
            write_captions(tmp_path / "captions.jsonl", [*photos, gone]),
        )
    )
    refused("lacks 1 of the 17 captioned photos: 'x.jpg'", *asked)
    found = record(*asked, "--allow-missing")
    assert found["image_to_text"] == record(*alone)["image_to_text"]
    assert found["reference"] == {"images": 16, "missing": 1}
    assert "Reference images left out: 1" in shown(*asked, "--allow-missing")


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
