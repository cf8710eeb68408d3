"""Models that teach: their vectors, similarities, what is cached of them, and runs with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from numpy.typing import NDArray
from PIL import Image
from transformers import BertModel, CLIPModel
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.progress import no_progress
from sparta.visualsparta.model import VisualSparta
from sparta.vse.batch import collate_regions
from tests import tiny
from tests.sparta.extract.tiny_networks import noisy
from tests.sparta.vse import models
from tests.stores import write_store
from tests.training.corpus import Corpus, dense_config
from tests.training.encoders import ENCODERS, clip
from tests.training.test_fit import assert_equal_weights, break_off, metrics
from training import teacher as module
from training.fit import train
from training.teacher import (
    DenseTeacher,
    DualEncoder,
    Rows,
    Similarities,
    TeacherInputs,
    cached_rows,
    find_nearest,
    open_teacher,
    read_sentences,
    teacher_key,
)


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[FeatureStore]:
    """Two stores of four photos, and one of other features."""
    folder = tmp_path_factory.mktemp("stores")
    images = sorted(tiny.images(), key=lambda image: image.image_id)
    other = replace(tiny.source(), weights="def")
    halved = [replace(image, features=image.features / np.float16(2)) for image in images]
    return [
        write_store(folder / "plain", tiny.source(), images),
        write_store(folder / "halved", tiny.source(), halved),
        write_store(folder / "other", other, images),
    ]


TEXTS = ["a brown dog", "the red ball", "", "two men by the sea and the sea", "zebra"]


def teacher_inputs(store: FeatureStore, folder: Path, **changes: Any) -> TeacherInputs:
    plain = TeacherInputs(
        image_ids=store.ids,
        sentences=TEXTS,
        stores=[store],
        photos=None,
        folder=folder,
        device=torch.device("cpu"),
        workers=0,
        progress=no_progress,
    )
    return replace(plain, **changes)


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    models.bigru().save_pretrained(tmp_path / "one")
    models.bigru(views=2).save_pretrained(tmp_path / "two")
    return [str(tmp_path / "one"), str(tmp_path / "two")]


def test_teachers_are_averaged(
    stores: list[FeatureStore], names: list[str], tmp_path: Path
) -> None:
    inputs = teacher_inputs(stores[0], tmp_path / "cache")
    every = np.arange(5), np.arange(4)
    alone = [open_teacher([name], inputs) for name in names]
    both = open_teacher(names, inputs)
    mean = (alone[0].between(*every) + alone[1].between(*every)) / 2
    assert np.allclose(both.between(*every), mean, atol=1e-5)
    assert deepcopy(both).parts[0] is both.parts[0]  # averaging the weights copies no array
    similar = both.between(*every).T
    nearest = find_nearest(both, teacher_key(names, inputs), 2, inputs)
    assert [set(row) for row in nearest] == [set(np.argsort(-row)[:2]) for row in similar]
    assert all(row.tolist() == sorted(row) for row in nearest)
    assert find_nearest(both, "all", 99, inputs).shape == (4, 5)


def test_a_key_changes_with_models_photos_and_sentences(
    stores: list[FeatureStore], names: list[str], tmp_path: Path
) -> None:
    (tmp_path / "1-3.jpg").write_bytes(b"1")
    keys = [
        teacher_key(of, teacher_inputs(stores[0], tmp_path, **changes))
        for of, changes in (
            (names, {}),
            (names[:1], {}),
            (names, {"stores": stores[1:2]}),
            (names, {"sentences": ["a"]}),
            (names, {"image_ids": stores[0].ids[:2]}),
            (names, {"photos": tmp_path}),
        )
    ]
    (tmp_path / "1-3.jpg").write_bytes(b"22")
    keys.append(teacher_key(names, teacher_inputs(stores[0], tmp_path, photos=tmp_path)))
    assert len(set(keys)) == len(keys)
    assert keys[0] == teacher_key(names, teacher_inputs(stores[0], tmp_path))


def test_a_dual_encoder_needs_the_photos(stores: list[FeatureStore], tmp_path: Path) -> None:
    encoder = str(clip(tmp_path / "clip"))
    for photos, where in ((None, "nowhere"), (tmp_path / "gone", "gone")):
        with pytest.raises(InputError, match=rf"looks at photos.*{where}\): give teacher\.photos"):
            open_teacher([encoder], teacher_inputs(stores[0], tmp_path, photos=photos))


def test_vectors_are_averaged_over_stores(
    stores: list[FeatureStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TEXTS", 2)
    model = models.bigru(views=2)
    model.save_pretrained(tmp_path)
    teacher = DenseTeacher(str(tmp_path), stores, torch.device("cpu"))
    assert teacher.shape == (2, 8)
    found = np.concatenate(list(teacher.photos(stores[0].ids, 1)))
    with torch.inference_mode():
        each = [model.encode_images(collate_regions(list(store)[1:])) for store in stores[:2]]
    assert np.allclose(found, (each[0] + each[1]) / 2, atol=1e-3)
    read = np.concatenate(list(teacher.sentences(TEXTS)))
    assert np.allclose(read, model.embed_texts(TEXTS), atol=1e-3)


CPU = torch.device("cpu")


PHRASES = ["a red photo", "blue", "a photo of red and green and blue and red and green"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = [f"{number}.png" for number in range(12)]
    return noisy(tmp_path_factory.mktemp("photos"), *names, size=(48, 40))


@pytest.mark.parametrize("kind", ENCODERS)
def test_vectors_are_those_of_the_model(
    kind: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    encoder = DualEncoder(str(ENCODERS[kind](tmp_path)), CPU)
    shown = np.concatenate(list(encoder.photos(photos, ["1.png", "0.png", "2.png", "1.png"], 0, 1)))
    read = np.concatenate(list(encoder.sentences(PHRASES)))
    assert shown.shape == (3, 1, encoder.dimension)
    assert read.shape == (3, encoder.dimension)
    with torch.inference_mode():
        for row, name in zip(shown[:, 0], ("0", "2", "1"), strict=True):
            pixels = encoder.processor(Image.open(photos / f"{name}.png"), return_tensors="pt")
            vector = encoder.model.get_image_features(**pixels).pooler_output[0]
            assert np.allclose(row, vector / vector.norm(), atol=1e-3)
        for row, text in zip(read, PHRASES, strict=True):
            padding = "max_length" if kind == "siglip" else False
            ids = encoder.tokenizer(
                text, padding=padding, truncation=True, max_length=12, return_tensors="pt"
            )
            vector = encoder.model.get_text_features(**ids).pooler_output[0]
            assert np.allclose(row, vector / vector.norm(), atol=1e-3)


def test_what_is_no_dual_encoder_is_refused(photos: Path, tmp_path: Path) -> None:
    def refused(message: str) -> None:
        with pytest.raises(InputError, match=message):
            DualEncoder(str(tmp_path), CPU)

    encoder = DualEncoder(str(clip(tmp_path)), CPU)
    with pytest.raises(InputError, match=r"none\.png cannot be read: .*No such file"):
        list(encoder.photos(photos, ["0.png", "none.png"], 0, 0))
    (tmp_path / "model.safetensors").unlink()
    refused(r"has neither model\.safetensors nor pytorch_model\.bin")
    (tmp_path / "preprocessor_config.json").unlink()
    refused(r"is of a clip and has no preprocessor_config\.json")
    BertModel(tiny.encoder()).save_pretrained(tmp_path)
    refused("is a bert, which is no dual encoder: give a model")
    (tmp_path / "config.json").write_text('{"model_type": "unheard-of"}')
    refused("does not recognize this architecture")


# ---- similarities, nearest sentences, and cached arrays ------------------------------------------


RNG = np.random.default_rng(0)
SENTENCES = RNG.standard_normal((30, 6)).astype(np.float16)
PHOTOS = RNG.standard_normal((20, 1, 6)).astype(np.float16)
EVERY = np.arange(30), np.arange(20)


def reference(sentences: np.ndarray, photos: np.ndarray) -> np.ndarray:
    """Standardised inner products, one at a time."""
    found = np.zeros((len(sentences), len(photos)))
    for i, text in enumerate(sentences.astype(np.float64)):
        for j, views in enumerate(photos.astype(np.float64)):
            found[i, j] = max(text @ view for view in views)
    means = [text @ photos.astype(np.float64).mean(axis=(0, 1)) for text in sentences]
    centred = found - np.array(means)[:, None]
    return centred / np.sqrt((centred**2).mean())


def test_similarities_are_standardised_inner_products() -> None:
    similar = Similarities("a", SENTENCES, PHOTOS)
    expected = reference(SENTENCES, PHOTOS)
    assert np.allclose(similar.between(*EVERY), expected, atol=1e-4)
    assert np.allclose(expected.mean(axis=1), 0)  # of one view, each sentence's mean is 0
    chosen = np.array([7, 2, 7]), np.array([3, 19])
    assert np.allclose(similar.between(*chosen), expected[chosen[0]][:, chosen[1]], atol=1e-4)


def test_a_teacher_without_an_opinion_is_refused() -> None:
    with pytest.raises(InputError, match="blind gives every photo the same similarity"):
        Similarities("blind", np.zeros_like(SENTENCES), PHOTOS)


def test_lines_are_sentences(tmp_path: Path) -> None:
    path = tmp_path / "sentences.txt"
    path.write_bytes("a dog \r\n\n  \nein Hündchen\na dog".encode())
    assert read_sentences(path) == ["a dog", "ein Hündchen", "a dog"]
    path.write_bytes(b"\xef\xbb\xbfa dog\n")  # a byte order mark
    assert read_sentences(path) == ["a dog"]
    path.write_bytes(b"a\xff")
    with pytest.raises(InputError, match="line 1: not UTF-8"):
        read_sentences(path)


WHOLE = np.arange(35, dtype=np.float16).reshape(7, 5)


class Blocks:
    """Two rows at a time; `starts` records where each computation began."""

    def __init__(self, fail_at: int = 99) -> None:
        self.starts: list[int] = []
        self.fail_at = fail_at

    def __call__(self, start: int) -> Iterator[NDArray[Any]]:
        self.starts.append(start)
        for row in range(start, 7, 2):
            if row >= self.fail_at:
                raise RuntimeError("killed")
            yield WHOLE[row : row + 2]


def kept_rows(blocks: Blocks, key: str = "a") -> Rows[np.float16]:
    return Rows("photos", [key], (7, 5), np.float16, blocks)


@pytest.mark.parametrize("torn", [0, 3])
def test_an_interrupted_computation_goes_on(tmp_path: Path, torn: int) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        cached_rows(tmp_path, kept_rows(Blocks(fail_at=4)), print)
    part = next(tmp_path.glob("*.part"))
    part.write_bytes(part.read_bytes() + b"x" * torn)  # half a row, as a killed process leaves
    blocks = Blocks()
    assert np.array_equal(cached_rows(tmp_path, kept_rows(blocks), print), WHOLE)
    assert blocks.starts == [4]
    assert not list(tmp_path.glob("*.part"))


# ---- runs with a teacher, through the command line and beside it --------------------------------

LINES = ["a red photo", "a green photo", "blue and green", "a photo of red and blue"]


def write_run(folder: Path, corpus: Corpus, photos: Path) -> list[str]:
    """Write settings and sentences; the arguments of a run on photos without captions."""
    data = {"photos": photos, "backbone": "pixels", "features": [], "captions": None}
    run = corpus.config(epochs=2, batch_size=6, data=data | {"validation_photos": 0})
    values = run.model_dump(mode="json") | {"teacher": {"nearest": 2, "near_sentences": 2}}
    (folder / "run.yaml").write_text(yaml.safe_dump(values))
    (folder / "sentences.txt").write_text("\n".join(LINES))
    return ["train", str(folder / "run.yaml"), "--sentences", str(folder / "sentences.txt")]


def run(arguments: list[str]) -> None:
    found = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert found.exit_code == 0, found.output


@pytest.mark.parametrize("kind", ENCODERS)
def test_photos_without_captions_are_learnt_from_a_dual_encoder(
    corpus: Corpus, photos: Path, tmp_path: Path, kind: str
) -> None:
    arguments = write_run(tmp_path, corpus, photos)
    encoder = str(ENCODERS[kind](tmp_path / "encoder"))
    run([*arguments, "--teacher", encoder, "--out", str(tmp_path / "out")])
    model = VisualSparta.from_pretrained(tmp_path / "out" / "model")
    assert model.tokenizer is not None
    texts = [set(model.tokenizer.encode_ids(text)) for text in LINES]
    frequencies = [sum(i in text for text in texts) for i in range(len(model.trained_terms))]
    assert model.term_frequencies.tolist() == frequencies
    assert model.trained_terms.tolist() == [count > 0 for count in frequencies]
    assert len(list((tmp_path / "out" / "teacher").iterdir())) == 3


def test_what_a_teacher_computed_is_used_again(
    corpus: Corpus, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = write_run(tmp_path, corpus, photos)
    arguments += ["--teacher", str(clip(tmp_path / "encoder"))]
    run([*arguments, "--out", str(tmp_path / "unbroken")])
    with monkeypatch.context() as patch:
        break_off(patch, epoch=1)
        with pytest.raises(RuntimeError, match="killed"):
            run([*arguments, "--out", str(tmp_path / "broken")])
    monkeypatch.setattr(CLIPModel, "get_image_features", lambda *_, **__: 1 / 0)
    run([*arguments, "--out", str(tmp_path / "broken"), "--resume"])
    assert_equal_weights(tmp_path / "broken" / "model", tmp_path / "unbroken" / "model")


def every_caption(corpus: Corpus, folder: Path) -> Path:
    """All captions of the corpus as lines, in an order that is not the photos'."""
    lines = corpus.captions.read_text().splitlines()
    texts = sorted(text for line in lines for text in json.loads(line)["captions"])
    (folder / "sentences.txt").write_text("\n".join(texts))
    return folder / "sentences.txt"


@pytest.fixture(scope="module")
def teachers(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two dense models, trained on captions."""
    folder = tmp_path_factory.mktemp("teachers")
    methods = ("vse++", "mv-vse")
    for method in methods:
        train(dense_config(corpus, method, epochs=6), folder / method)
    return [str(folder / method / "model") for method in methods]


def taught(corpus: Corpus, folder: Path, teachers: list[str], **options: Any) -> float:
    """Recall on held-out photos of a model that learns from teachers."""
    given = {"models": teachers, "sentences": every_caption(corpus, folder), **options}
    config = corpus.config(epochs=8, average=0.8, teacher=given)
    return next(iter(train(config, folder / "out").recall.values()))


@pytest.mark.parametrize(
    ("used", "options"),
    [
        (slice(0, 1), {"captions": False, "image_to_text": 0.2}),
        (slice(0, 2), {"weight": 0.7, "near_sentences": 1, "random_sentences": 0}),
    ],
    ids=["one", "two and captions"],
)
def test_it_learns_from_dense_models(
    corpus: Corpus, tmp_path: Path, teachers: list[str], used: slice, options: dict[str, Any]
) -> None:
    assert taught(corpus, tmp_path, teachers[used], **options) > 45  # chance is 18
    losses = metrics(tmp_path, "loss")
    assert losses[-1] < losses[0]


def test_photos_without_captions_join_those_that_have_some(
    corpus: Corpus, tmp_path: Path, teachers: list[str]
) -> None:
    lines = corpus.captions.read_text().splitlines()
    some = tmp_path / "some.jsonl"
    some.write_text("\n".join(lines[:50]) + "\n")
    given = {"models": teachers[:1], "sentences": every_caption(corpus, tmp_path)}
    data = {"captions": some, "validation_photos": 10, "captions_per_photo": 2}
    config = corpus.config(epochs=2, data=data, teacher=given, workers=1)
    run = tmp_path / "run"
    train(config, run)
    nearest = next((run / "teacher").glob("nearest-*.bin"))
    assert nearest.stat().st_size == 110 * 32 * 4  # 40 photos with captions, 70 without
    assert len(metrics(run, "loss")) == 2


def test_a_teacher_trained_on_other_features_is_named(
    corpus: Corpus, photos: Path, tmp_path: Path, teachers: list[str]
) -> None:
    arguments = write_run(tmp_path, corpus, photos)
    with pytest.raises(InputError, match=r"was trained on other features .* teacher\.features"):
        run([*arguments, "--teacher", teachers[0], "--out", str(tmp_path / "out")])
