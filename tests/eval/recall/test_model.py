"""The recall command on models: dense, sparse, together, and on features of another set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from eval.recall.model import measure_model_recall, open_members
from eval.recall.scores import dense_scores, measure_recall
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import StoreWriter
from sparta.visualsparta.collate import ImageCollator
from sparta.visualsparta.model import VisualSparta
from sparta.vse.batch import collate_regions
from sparta.vse.model import VseModel, score
from tests.eval.data import Data, save_dense
from tests.indexer.tiny import SOURCE, write_store


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("dense")
    return [save_dense(root / "one", 0), save_dense(root / "three", 1, views=3)]


def texts_of(captioned: list[CaptionedPhoto]) -> list[str]:
    return [text for photo in captioned for text in photo.captions]


def dense_matrix(folder: Path, store: FeatureStore, captioned: list[CaptionedPhoto]) -> Tensor:
    """[T, N], one image and one text at a time."""
    model = VseModel.from_pretrained(folder)
    rows = [store[store.index(photo.image_id)] for photo in captioned]
    with torch.no_grad():
        images = torch.cat([model.encode_images(collate_regions([row])) for row in rows])
    texts = torch.cat([model.embed_texts([text]) for text in texts_of(captioned)])
    return score(texts, images)


def sparse_matrix(folder: Path, store: FeatureStore, captioned: list[CaptionedPhoto]) -> Tensor:
    """[T, N] by equation 12, as the model itself has it."""
    model = VisualSparta.from_pretrained(folder)
    assert model.tokenizer is not None
    collate = ImageCollator(model.tokenizer, 50, 70)
    rows = [store[store.index(photo.image_id)] for photo in captioned]
    return model.score(model.encode_queries(texts_of(captioned)), collate(rows))


def expected(matrix: Tensor, captioned: list[CaptionedPhoto]) -> dict[str, Any]:
    exact = dense_scores(matrix[:, None], torch.eye(len(captioned))[:, None])
    return measure_recall("all", [captioned], exact).record()


def run(targets: list[Path], features: list[Path], captions: Path, *more: str) -> Any:
    arguments = ["eval", "model", *map(str, targets), "--captions", str(captions)]
    for store in features:
        arguments += ["--features", str(store)]
    return CliRunner().invoke(cli, [*arguments, "--device", "cpu", *more], env={"COLUMNS": "200"})


def figures(found: Any) -> dict[str, Any]:
    assert found.exit_code == 0, (found.output, found.exception)
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def agree(found: dict[str, Any], slow: dict[str, Any]) -> None:
    for way in ("text_to_image", "image_to_text"):
        assert found[way] == pytest.approx(slow[way])
    assert found["rsum"] == pytest.approx(slow["rsum"])
    assert (found["images"], found["captions"]) == (slow["images"], slow["captions"])


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
    shown = run(chosen, features, data.captions_file, "--out", str(out), "--batch-size", "4")
    assert shown.exit_code == 0, (shown.output, shown.exception)
    found = json.loads(out.read_text())
    matrices = [
        (sparse_matrix if name == "sparse" else dense_matrix)(
            folders[name], data.views[store], data.captioned
        )
        for name, store in zip(members, stores * (len(members) // len(stores)), strict=True)
    ]
    agree(found, expected(sum(matrices[1:], matrices[0]) / len(matrices), data.captioned))
    assert [model["model"] for model in found["members"]] == list(map(str, chosen))
    for model in found["members"]:
        assert len(model["fingerprint"]) == 64 and not model["other_features_than_trained_on"]
    assert found["members"][0]["features_fingerprint"] == data.views[0].fingerprint
    assert found["arguments"]["protocol"] == "all" and found["arguments"]["split"] == "val"
    for cell in ("all: 21 images, 42 captions", "text → image", f"RSUM {found['rsum']:.1f}"):
        assert cell in shown.stdout


@pytest.mark.parametrize("which", ["sparse", "dense and sparse"])
def test_captions_compared_by_probability(
    which: str, dense: list[Path], data: Data, tmp_path: Path
) -> None:
    """The other photos are of another split; their own captions play no part."""
    views, models, captioned, *_ = data
    own, others = captioned[::2], captioned[1::2]
    captions = tmp_path / "captions.jsonl"
    lines = [
        {"image": photo.image_id, "split": split, "captions": photo.captions}
        for split, photos in (("val", own), ("train", others))
        for photo in photos
    ]
    captions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    members = [models[0]] if which == "sparse" else [dense[0], models[0]]
    options = ["--reference", "train", "--temperature", "0.5", "--json"]
    found = figures(run(members, [views[0].folder], captions, *options))
    matrices = []
    texts = [i for i in range(len(captioned)) if i % 2 == 0]
    rows = [2 * i + caption for i in texts for caption in (0, 1)]
    for model in members:
        matrix = sparse_matrix if model == models[0] else dense_matrix
        scores = matrix(model, views[0], captioned)[rows]
        mean = (scores[:, 1::2].double() / 0.5).exp().mean(dim=1, keepdim=True)
        matrices.append((scores[:, ::2] - 0.5 * mean.log()).float())
    slow = expected(sum(matrices[1:], matrices[0]) / len(matrices), own)
    agree(found, slow)
    plain = figures(run(members, [views[0].folder], captions, "--json"))
    assert plain["image_to_text"] != found["image_to_text"]
    assert which != "sparse" or plain["text_to_image"] == found["text_to_image"]


def test_transfer_to_another_set(dense: list[Path], data: Data, tmp_path: Path) -> None:
    """The same photos, but features that say they come from another detector."""
    other = write_store(tmp_path / "other", FeatureSource("grid", "resnet", "ffff", 768, 32))
    refused = run([dense[0]], [other.folder], data.captions_file)
    assert isinstance(refused.exception, InputError)
    message = str(refused.exception)
    assert "kind: 'pixels' against 'grid'" in message and "Give --transfer" in message
    found = run([dense[0]], [other.folder], data.captions_file, "--transfer")
    assert found.exit_code == 0 and "transferred: kind: 'pixels' against 'grid'" in " ".join(
        found.stdout.split()
    )
    answer = figures(run([dense[0]], [other.folder], data.captions_file, "--transfer", "--json"))
    assert answer["members"][0]["other_features_than_trained_on"]
    agree(answer, expected(dense_matrix(dense[0], other, data.captioned), data.captioned))
    narrow = write_store(tmp_path / "narrow", FeatureSource("grid", "resnet", "ffff", 12, 32))
    refused = run([dense[0]], [narrow.folder], data.captions_file, "--transfer")
    assert isinstance(refused.exception, InputError)
    assert "features of dimension 12" in str(refused.exception)


def test_karpathys_file_over_features_named_by_number(
    dense: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The ids of Oscar's and SCAN's features are COCO's numbers."""
    random = np.random.default_rng(0)
    boxes = np.sort(random.random((5, 4)).astype(np.float32))
    writer = StoreWriter(tmp_path / "features", SOURCE)
    texts = {"42": ("a dog",) * 5, "7": ("two cats", "a cat", "red ball", "two cats", "a cat")}
    features = random.standard_normal((2, 5, 768)).astype(np.float16)
    writer.write_shard(
        [
            ImageFeatures(key, own, boxes, ("",) * 5, ("",) * 5, 40, 30)
            for key, own in zip(sorted(texts), features, strict=True)
        ]
    )
    store = writer.finish()
    images = [
        {
            "filepath": "val2014",
            "filename": f"COCO_val2014_{int(key):012}.jpg",
            "split": "test",
            "sentences": [{"raw": text} for text in own],
        }
        for key, own in texts.items()
    ]
    captions = tmp_path / "dataset_coco.json"
    captions.write_text(json.dumps({"images": images, "dataset": "coco"}))
    options = ["--split", "test", "--json"]
    found = figures(run([dense[0]], [store.folder], captions, *options))
    captioned = [CaptionedPhoto(key, "test", own) for key, own in texts.items()]
    agree(found, expected(dense_matrix(dense[0], store, captioned), captioned))
    assert caplog.messages == [f"{store.folder}: captions and images are matched by number"]


def write_captions(folder: Path, photos: Sequence[CaptionedPhoto]) -> Path:
    path = folder / "captions.jsonl"
    lines = [
        {"image": one.image_id, "split": one.split, "captions": one.captions} for one in photos
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def part_of_store(store: FeatureStore, folder: Path, rows: Iterable[int]) -> FeatureStore:
    writer = StoreWriter(folder, store.source)
    writer.write_shard([store[row] for row in rows])
    return writer.finish()


def test_photos_that_any_member_lacks_are_left_out(
    dense: list[Path], data: Data, tmp_path: Path
) -> None:
    """The figures are those of the other photos, and the title counts what is missing."""
    stores = [
        part_of_store(data.views[0], tmp_path / "a", range(18)),
        part_of_store(data.views[0], tmp_path / "b", range(2, 21)),
    ]
    features = [store.folder for store in stores]
    captions, more = write_captions(tmp_path, data.captioned), ["--json"]
    refused = run(dense, features, captions, *more)
    assert isinstance(refused.exception, InputError)
    lacks = f"{features[0]} lacks 3 of the 21 captioned photos: "
    assert lacks in str(refused.exception) and "--allow-missing" in str(refused.exception)
    found = figures(run(dense, features, captions, *more, "--allow-missing"))
    photos = data.captioned[2:18]
    alone = figures(run(dense, features, write_captions(tmp_path, photos), *more))
    for name in ("text_to_image", "image_to_text", "images", "captions", "rsum"):
        assert found[name] == alone[name]
    assert (found["missing"], alone["missing"]) == (5, 0)
    assert (found["protocol"], alone["protocol"]) == ("all without 5 of 21 photos", "all")
    shown = run(dense, features, write_captions(tmp_path, data.captioned), "--allow-missing")
    assert "all without 5 of 21 photos: 16 images, 32 captions" in shown.stdout
    halves = [
        part_of_store(data.views[0], tmp_path / "c", range(9)).folder,
        part_of_store(data.views[0], tmp_path / "d", range(9, 21)).folder,
    ]
    none = run(dense, halves, captions, "--allow-missing")
    assert isinstance(none.exception, InputError)
    assert "what all --features have in common lacks 21 of the 21" in str(none.exception)


def test_an_incomplete_protocol_is_named(dense: list[Path], data: Data, tmp_path: Path) -> None:
    """The folds stay those of the protocol: a missing photo moves no other into its place."""
    photos = [CaptionedPhoto(f"{n:04}.jpg", "test", (f"dog {n}",) * 5) for n in range(1000)]
    first = data.views[0][0]
    writer = StoreWriter(tmp_path / "features", data.views[0].source)
    writer.write_shard([replace(first, image_id=one.image_id) for one in photos[3:]])
    store = writer.finish()
    options = ["--split", "test", "--protocol", "flickr30k-1k", "--allow-missing"]
    found = run([dense[0]], [store.folder], write_captions(tmp_path, photos), *options)
    assert found.exit_code == 0, (found.output, found.exception)
    assert "flickr30k-1k without 3 of 1,000 photos: 997 images" in found.stdout
    assert "Not comparable with figures of flickr30k-1k" in found.stdout
    # The protocol is checked before photos are left out: 1,000 of 1,003 are not the protocol.
    more = [CaptionedPhoto(f"x{n}.jpg", "test", ("a",) * 5) for n in range(3)]
    captions = write_captions(tmp_path, [*photos, *more])
    refused = run([dense[0]], [store.folder], captions, *options)
    assert isinstance(refused.exception, InputError)
    assert "defined on 1,000 photos, here are 1,003" in str(refused.exception)


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


def test_missing_reference_images_are_left_out(
    dense: list[Path], data: Data, tmp_path: Path
) -> None:
    own = data.captioned[:5]
    others = [replace(one, split="train") for one in data.captioned[5:]]
    gone = CaptionedPhoto("x.jpg", "train", ("a dog",))
    options = ["--reference", "train", "--json"]
    features = [data.views[0].folder]
    alone = figures(run([dense[0]], features, write_captions(tmp_path, own + others), *options))
    captions = write_captions(tmp_path, [*own, *others, gone])
    refused = run([dense[0]], features, captions, *options)
    assert isinstance(refused.exception, InputError)
    assert "lacks 1 of the 17 captioned photos: 'x.jpg'" in str(refused.exception)
    found = figures(run([dense[0]], features, captions, *options, "--allow-missing"))
    assert found["image_to_text"] == alone["image_to_text"]
    assert found["reference"] == {"images": 16, "missing": 1}
    shown = run([dense[0]], features, captions, *options[:-1], "--allow-missing").stdout
    assert "Reference images left out: 1" in shown


def test_wrong_combinations(dense: list[Path], data: Data, tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    (index / "manifest.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    features = [data.views[0].folder]
    cases: list[tuple[list[Path], list[Path], list[str], str]] = [
        ([dense[0]], features * 2, [], "2 --features for 1 models"),
        ([tmp_path / "nowhere"], features, [], "does not exist: give a model's folder"),
        ([tmp_path / "empty"], features, [], "is not a model: it has no config"),
        ([dense[0]], features, ["--split", "other"], "lacks 1 of the 1 captioned photos"),
        ([dense[0]], features, ["--protocol", "coco-5k"], "defined on 5,000 photos, here are 21"),
        ([dense[0]], features, ["--reference", "val"], "--reference val is the measured split"),
        ([dense[0]], features, ["--reference", "train"], "no photo has split 'train'"),
        ([dense[0]], features, ["--temperature", "2"], "--temperature goes with --reference"),
        ([dense[0]], features, ["--temperature", "0"], "--temperature 0: expected a number"),
        ([index, dense[0]], features, [], "is an index: measure it with sparta eval index"),
    ]
    for targets, stores, more, message in cases:
        found = run(targets, stores, data.captions_file, *more)
        assert isinstance(found.exception, InputError), (targets, more, found.output)
        assert message in str(found.exception)
