"""Models with a vision network inside are measured and indexed on photos."""

import shutil
from contextlib import closing
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ResNetConfig, ResNetModel

from indexer.engines.open import open_backend
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.extract.job import extract_photos
from sparta.metrics import captions_of_images, ranks, recall
from sparta.vse.batch import collate_pixels
from sparta.vse.encoders import PhotoFolder, vision_source
from sparta.vse.init import from_captions
from sparta.vse.model import VseModel, score
from tests.eval.data import record, refused, shown, write_captions
from tests.sparta.extract.tiny_networks import RESNET, save

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
    shown("add", tmp_path / "index", to[0], "--dense", dense, "--device", "cpu")
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
