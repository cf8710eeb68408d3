"""Runs with a teacher, through the command line and beside it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import CLIPModel
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from sparta.visualsparta.model import VisualSparta
from tests.sparta.extract.tiny_networks import noisy
from tests.training.corpus import Corpus, dense_config
from tests.training.encoders import ENCODERS, clip
from tests.training.test_fit import assert_equal_weights, break_off, metrics
from training.fit import train

SENTENCES = ["a red photo", "a green photo", "blue and green", "a photo of red and blue"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = [f"{number:02}.png" for number in range(12)]
    return noisy(tmp_path_factory.mktemp("photos"), *names, size=(40, 40))


def write_run(folder: Path, corpus: Corpus, photos: Path) -> list[str]:
    """Write settings and sentences; the arguments of a run on photos without captions."""
    data = {"photos": photos, "backbone": "pixels", "features": [], "captions": None}
    run = corpus.config(epochs=2, batch_size=6, data=data | {"validation_photos": 0})
    values = run.model_dump(mode="json") | {"teacher": {"nearest": 2, "near_sentences": 2}}
    (folder / "run.yaml").write_text(yaml.safe_dump(values))
    (folder / "sentences.txt").write_text("\n".join(SENTENCES))
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
    texts = [set(model.tokenizer.encode_ids(text)) for text in SENTENCES]
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
