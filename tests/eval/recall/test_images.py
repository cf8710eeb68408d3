"""Models with a vision network inside are measured and indexed on photos."""

import json
import shutil
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ResNetConfig, ResNetModel
from typer.testing import CliRunner

from indexer.engines.open import open_backend
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.extract.job import extract_photos
from sparta.metrics import captions_of_images, ranks, recall
from sparta.vse.batch import collate_pixels
from sparta.vse.init import from_captions
from sparta.vse.model import VseModel, score
from sparta.vse.photo_folder import PhotoFolder, vision_source
from tests.sparta.features.extract.tiny_networks import RESNET, save

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """photos/, captions.jsonl, and model/, untrained, that takes photos."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "photos").mkdir()
    lines = []
    for above, below in permutations(COLOURS, 2):
        photo = Image.new("RGB", (48, 40), COLOURS[above])
        photo.paste(COLOURS[below], (0, 20, 48, 40))
        name = f"{above}-{below}.png"
        photo.save(folder / "photos" / name)
        texts = [f"{above} over {below}", f"a {below} floor, a {above} wall"]
        lines.append(json.dumps({"image": name, "split": "val", "captions": texts}) + "\n")
    (folder / "captions.jsonl").write_text("".join(lines))
    network = save(ResNetModel(ResNetConfig(**RESNET)), folder / "network")
    torch.manual_seed(1)
    texts = [text for photo in read_captions(folder / "captions.jsonl") for text in photo.captions]
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


def test_photos_that_cannot_be_read_are_missing(folder: Path, tmp_path: Path) -> None:
    photos = shutil.copytree(folder / "photos", tmp_path / "photos")
    (photos / "red-blue.png").write_bytes(b"\x89PNG cut")
    command = ["eval", "model", str(folder / "model"), "--features", str(photos), "--device", "cpu"]
    command += ["--captions", str(folder / "captions.jsonl")]
    refused = CliRunner().invoke(cli, command).exception
    assert isinstance(refused, InputError)
    for part in ("lacks 1 of the 6 captioned photos: 'red-blue.png'", "--allow-missing"):
        assert part in str(refused)
    found = json.loads(CliRunner().invoke(cli, [*command, "--allow-missing", "--json"]).stdout)
    assert (found["images"], found["missing"]) == (5, 1)


def test_recall_on_photos(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    command = ["eval", "model", str(folder / "model"), "--features", str(folder / "photos")]
    command += ["--captions", str(folder / "captions.jsonl"), "--device", "cpu", "--out", str(out)]
    run = CliRunner().invoke(cli, command)
    assert run.exit_code == 0, run.output
    found = json.loads(out.read_text())
    photos = read_captions(folder / "captions.jsonl")
    targets = torch.arange(len(photos)).repeat_interleave(2)
    wanted = recall(
        ranks(
            by_hand(folder, photos).T,
            captions_of_images(targets, len(photos)),
            ties="pessimistic",
        )
    )
    assert found["image_to_text"]["at_1"] == pytest.approx(wanted.at_1)
    assert found["image_to_text"]["median_rank"] == wanted.median_rank


def test_features_are_refused(folder: Path, tmp_path: Path) -> None:
    extract_photos(folder / "photos", tmp_path / "store", "pixels", device="cpu")
    command = ["eval", "model", str(folder / "model"), "--features", str(tmp_path / "store")]
    run = CliRunner().invoke(cli, [*command, "--captions", str(folder / "captions.jsonl")])
    assert isinstance(run.exception, InputError)
    assert "takes a folder of photos" in str(run.exception)


def test_an_index_of_photos(folder: Path, tmp_path: Path) -> None:
    extract_photos(folder / "photos", tmp_path / "store", "pixels", device="cpu")
    shared = [str(tmp_path / "store"), "--out", str(tmp_path / "index"), "--device", "cpu"]
    seeing = f"seeing={folder / 'model'}"
    for arguments in (["index", "--model", "sample"], ["index-dense", "--model", seeing]):
        run = CliRunner().invoke(cli, [*arguments, *shared])
        assert run.exit_code == 0, run.output
    photos = sorted(read_captions(folder / "captions.jsonl"), key=lambda photo: photo.image_id)
    scores = by_hand(folder, photos)[0]
    searcher = open_backend(tmp_path / "index", "seeing")
    hits = searcher.search(photos[0].captions[0], k=6).hits
    searcher.close()
    # Added again from the same features and photos, it is embedded again too.
    command = ["add", str(tmp_path / "index"), "--features", str(tmp_path / "store")]
    run = CliRunner().invoke(cli, [*command, "--model", "sample", "--device", "cpu"])
    assert run.exit_code == 0, run.output
    searcher = open_backend(tmp_path / "index", "seeing")
    again = searcher.search(photos[0].captions[0], k=6).hits
    assert [(hit.image_id, hit.score) for hit in again] == [
        (hit.image_id, pytest.approx(hit.score, abs=1e-5)) for hit in hits
    ]
    searcher.close()
    order = torch.argsort(scores, descending=True, stable=True).tolist()
    assert [hit.image_id for hit in hits] == [photos[i].image_id for i in order]
    np.testing.assert_allclose([hit.score for hit in hits], scores[order].numpy(), atol=1e-5)
