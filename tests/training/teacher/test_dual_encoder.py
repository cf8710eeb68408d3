from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import BertModel

from sparta.errors import InputError
from tests import tiny
from tests.training.teacher.encoders import ENCODERS, clip
from training.teacher import teachers as dual_encoder
from training.teacher.teachers import DualEncoder

CPU = torch.device("cpu")
TEXTS = ["a red photo", "blue", "a photo of red and green and blue and red and green"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(3):
        pixels = rng.integers(0, 256, (40, 48 + number, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


@pytest.mark.parametrize("kind", ENCODERS)
def test_vectors_are_those_of_the_model(
    kind: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dual_encoder, "BATCH", 2)
    encoder = DualEncoder(str(ENCODERS[kind](tmp_path)), CPU)
    shown = np.concatenate(list(encoder.photos(photos, ["0.png", "2.png", "1.png"], 0)))
    read = np.concatenate(list(encoder.sentences(TEXTS)))
    assert shown.shape == (3, 1, encoder.dimension)
    assert read.shape == (3, encoder.dimension)
    with torch.inference_mode():
        for row, name in zip(shown[:, 0], ("0", "2", "1"), strict=True):
            pixels = encoder.processor(Image.open(photos / f"{name}.png"), return_tensors="pt")
            vector = encoder.model.get_image_features(**pixels).pooler_output[0]
            assert np.allclose(row, vector / vector.norm(), atol=1e-3)
        for row, text in zip(read, TEXTS, strict=True):
            padding = "max_length" if kind == "siglip" else False
            ids = encoder.tokenizer(
                text, padding=padding, truncation=True, max_length=12, return_tensors="pt"
            )
            vector = encoder.model.get_text_features(**ids).pooler_output[0]
            assert np.allclose(row, vector / vector.norm(), atol=1e-3)


def test_what_is_no_dual_encoder_is_refused(tmp_path: Path) -> None:
    bert = tmp_path / "bert"
    BertModel(tiny.encoder()).save_pretrained(bert)
    with pytest.raises(InputError, match="bert is a bert, which is no dual encoder: give a model"):
        DualEncoder(str(bert), CPU)
    (tmp_path / "config.json").write_text('{"model_type": "unheard-of"}')
    with pytest.raises(InputError, match="neither the folder of a model nor one on the hub"):
        DualEncoder(str(tmp_path), CPU)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("preprocessor_config.json", "neither a folder with a preprocessor_config.json"),
        ("model.safetensors", "lacks its tokenizer or weights: Error no file named"),
    ],
)
def test_an_incomplete_folder_is_refused(tmp_path: Path, file: str, message: str) -> None:
    clip(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(InputError, match=message):
        DualEncoder(str(tmp_path), CPU)


def test_photos_must_be_readable(photos: Path, tmp_path: Path) -> None:
    encoder = DualEncoder(str(clip(tmp_path)), CPU)
    with pytest.raises(InputError, match=r"none\.png cannot be read: .*No such file"):
        list(encoder.photos(photos, ["0.png", "none.png"], 0))


def test_a_tower_must_give_one_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = DualEncoder(str(clip(tmp_path)), CPU)
    monkeypatch.setattr(encoder.model, "get_text_features", lambda **_: torch.zeros(1, 3, 8))
    with pytest.raises(InputError, match="gives no single vector of a photo or text"):
        list(encoder.sentences(["a"]))
