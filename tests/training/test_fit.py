"""Whole runs on a corpus that a tiny model learns in seconds, and handlers of signals."""

import csv
import ctypes
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor
from transformers import BertModel

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.metrics import Recall, ranks, recall
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.model import VisualSparta
from sparta.visualsparta.offsets import OFFSETS, TermOffsets
from sparta.vse.model import VseModel
from tests.sparta.vse.models import save_bert
from tests.training.corpus import METHODS, Corpus, dense_config
from training import fit
from training.config import TrainConfig
from training.fit import SIZE, keep_java_handlers, train
from training.inputs import PhotoList, split_photos
from training.module import TrainingModule
from training.run_folder import TrainResult
from training.visualsparta.module import VisualSpartaTraining
from training.vse.module import VseTraining

# All that draws random numbers or keeps state between epochs.
ROUGH: dict[str, Any] = {
    "average": 0.9,
    "epochs": 4,
    "data": {"captions_per_photo": 2, "word_dropout": 0.2, "region_dropout": 0.2},
    "model": {"options": {"region_dropout": 0.2, "input_dropout": 0.1}},
}


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def assert_equal_weights(found: Path, expected: Path) -> None:
    a, b = weights(found), weights(expected)
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def metrics(out: Path, name: str) -> list[float]:
    values = []
    for path in sorted(out.rglob("metrics.csv")):
        with path.open(newline="") as file:
            values += [float(row[name]) for row in csv.DictReader(file) if row.get(name)]
    return values


def break_off(
    patch: pytest.MonkeyPatch, epoch: int, kind: type[TrainingModule] = VisualSpartaTraining
) -> None:
    """End the run in the middle of an epoch, as a killed process would."""
    step = kind.training_step

    def failing(self: TrainingModule, batch: Any, number: int) -> Any:
        if self.current_epoch == epoch and number == 1:
            raise RuntimeError("killed")
        return step(self, batch, number)

    patch.setattr(kind, "training_step", failing)


def assert_resumes(
    config: TrainConfig, folder: Path, kind: type[TrainingModule] = VisualSpartaTraining
) -> tuple[TrainResult, TrainResult]:
    """A run that is killed in its third epoch ends with the weights of an unbroken one."""
    unbroken = train(config, folder / "unbroken")
    with pytest.MonkeyPatch.context() as patch:
        break_off(patch, 2, kind)
        with pytest.raises(RuntimeError, match="killed"):
            train(config, folder / "broken")
    assert not (folder / "broken" / "model").exists()
    resumed = train(config, folder / "broken", resume=True)
    assert_equal_weights(resumed.model, unbroken.model)
    return unbroken, resumed


def test_it_learns_and_saves_the_best_weights(corpus: Corpus, tmp_path: Path) -> None:
    config = corpus.config(epochs=8, average=0.8)
    result = train(config, tmp_path)
    found = result.recall["held-out mean of R@1, R@5, R@10"]
    assert found > 60  # chance is 18
    assert result.epochs == 8
    measured = metrics(tmp_path, "val_recall")
    assert len(measured) == 8
    assert found == pytest.approx(max(measured), abs=1e-3)
    losses = metrics(tmp_path, "loss")
    assert losses[-1] < 0.7 * losses[0]
    assert EventAccumulator(str(next(tmp_path.rglob("events.*")).parent)).Reload().Tags()["scalars"]

    # The saved model, from its folder alone, has the recall measured on averaged weights.
    model = VisualSparta.from_pretrained(result.model)
    store = FeatureStore.open(corpus.features)
    photos, held_out = split_photos(config.data, PhotoList.of([store]), config.seed)
    assert len(held_out) == 30
    assert not {p.image_id for p in held_out} & {p.image_id for p in photos}
    assert model.tokenizer is not None
    images = [store[store.index(photo.image_id)] for photo in held_out]
    batch = ImagePadder(model.tokenizer, 50, 70)(images)
    queries = model.encode_queries([text for photo in held_out for text in photo.captions])
    targets = torch.arange(30).repeat_interleave(2)
    again = recall(
        ranks(model.score(queries, batch), targets[:, None].tolist(), ties="pessimistic")
    )
    assert sum(again[:3]) / 3 == pytest.approx(found, abs=0.6)

    texts = [set(model.tokenizer.encode_ids(text)) for p in photos for text in p.captions]
    frequencies = [sum(i in text for text in texts) for i in range(len(model.trained_terms))]
    assert model.term_frequencies.tolist() == frequencies
    assert model.trained_terms.tolist() == [count > 0 for count in frequencies]
    assert not any(model.trained_terms[:5])

    # For collections of few photos, what the training photos say.
    images = [store[store.index(photo.image_id)] for photo in photos]
    scores = model.term_scores(ImagePadder(model.tokenizer, 50, 70)(images), model.trained_terms)[0]
    offsets = TermOffsets.load(result.model / OFFSETS)
    assert offsets is not None
    np.testing.assert_allclose(offsets.offset, scores.mean(dim=0), atol=0.02)
    assert offsets.largest == pytest.approx(float((scores - scores.mean(dim=0)).max()), abs=0.05)


def test_the_best_epoch_is_kept_not_the_last(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured recall falls from the first epoch on: the weights measured there are the result."""
    measured: list[dict[str, Tensor]] = []
    validate = VisualSpartaTraining.validation_step

    def keep(self: VisualSpartaTraining, batch: Any, number: int) -> None:
        measured.append({name: value.clone() for name, value in self.model.state_dict().items()})
        validate(self, batch, number)

    falling = (Recall(float(at), float(at), float(at), 1.0) for at in range(90, 0, -1))
    monkeypatch.setattr(VisualSpartaTraining, "validation_step", keep)
    monkeypatch.setattr("training.visualsparta.module.recall", lambda _: next(falling))
    result = train(corpus.config(epochs=5, patience=2, average=0.9), tmp_path)
    assert result.epochs == 3  # stopped early: two epochs without a better one
    assert list(result.recall.values()) == [90.0]
    assert len(measured) == 3
    saved = weights(result.model)
    for name, value in saved.items():
        assert torch.equal(value, measured[0][name]), name
    assert not torch.equal(saved["bias"], measured[2]["bias"])


@pytest.mark.parametrize(("validation_photos", "workers"), [(0, 1), (30, 0)])
def test_a_broken_off_run_resumes_to_the_same_weights(
    corpus: Corpus, tmp_path: Path, validation_photos: int, workers: int
) -> None:
    settings = ROUGH | {"data": ROUGH["data"] | {"validation_photos": validation_photos}}
    settings["workers"] = workers
    config = corpus.config(**settings)
    unbroken, resumed = assert_resumes(config, tmp_path)
    assert (resumed.epochs, resumed.recall) == (unbroken.epochs, unbroken.recall)
    assert len(metrics(tmp_path / "broken", "loss")) == 4  # the log of the first part is kept

    # Resumed once more, with no epoch left, it ends the same.
    assert_equal_weights(train(config, tmp_path / "broken", resume=True).model, unbroken.model)


@pytest.mark.parametrize("step", ["record_stores", "_save"])
def test_a_run_killed_before_its_first_or_after_its_last_epoch_resumes(
    corpus: Corpus, tmp_path: Path, step: str
) -> None:
    config = corpus.config(**ROUGH | {"epochs": 2, "data": {"validation_photos": 0}})
    unbroken = train(config, tmp_path / "unbroken")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, step, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(config, tmp_path / "broken")
    assert_equal_weights(train(config, tmp_path / "broken", resume=True).model, unbroken.model)


def test_gradients_are_clipped_in_mixed_precision(corpus: Corpus, tmp_path: Path) -> None:
    """Lightning refuses to clip them for a fused optimiser."""
    config = corpus.config(epochs=1, precision="bf16-mixed")
    assert config.gradient_clip == 1.0
    train(config, tmp_path)


def test_folders_are_not_mixed(corpus: Corpus, tmp_path: Path) -> None:
    config = corpus.config(epochs=1)
    with pytest.raises(InputError, match="holds no run to resume"):
        train(config, tmp_path / "run", resume=True)
    result = train(config, tmp_path / "run")
    before = result.model.joinpath("model.safetensors").read_bytes()
    with pytest.raises(InputError, match="holds a run already: add --resume"):
        train(config, tmp_path / "run")
    said = r"differs from these settings \(learning_rate: 0\.003 → 0\.1; seed: 0 → 1\): resume a"
    with pytest.raises(InputError, match=said):
        train(corpus.config(epochs=2, learning_rate=0.1, seed=1), tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="is of another kind of run: family: Input should be 'vse"):
        train(dense_config(corpus), tmp_path / "run", resume=True)
    assert result.model.joinpath("model.safetensors").read_bytes() == before


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("configure", [Corpus.config, dense_config])
def test_a_finished_run_is_left_alone(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], configure: Any
) -> None:
    config, out = configure(corpus, epochs=2), tmp_path / "run"
    result = train(config, out)
    before = files(out)
    capsys.readouterr()
    assert train(config, out, resume=True) == result
    assert capsys.readouterr().out == f"{out} is finished: 2 of 2 epochs\n"
    with pytest.raises(InputError, match=r"epochs: 1: .*run is finished, of 2 epochs"):
        train(configure(corpus, epochs=1), out, resume=True)
    assert files(out) == before


@pytest.mark.parametrize("configure", [Corpus.config, dense_config])
def test_a_run_that_is_given_more_epochs_trains_on(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], configure: Any
) -> None:
    """Where the learning rate does not depend on the last epoch, to the same weights."""
    settings = {"schedule": "constant", "warmup": 0.0}
    longer = configure(corpus, epochs=4, **settings)
    unbroken = train(longer, tmp_path / "unbroken")
    out = tmp_path / "run"
    train(configure(corpus, epochs=2, **settings), out)
    capsys.readouterr()
    kind = VisualSpartaTraining if configure is Corpus.config else VseTraining
    with pytest.MonkeyPatch.context() as patch:
        break_off(patch, 3, kind)
        with pytest.raises(RuntimeError, match="killed"):
            train(longer, out, resume=True)
    said = capsys.readouterr().out
    assert "epochs: 2 → 4" in said and f"{out} goes on after epoch 2 of 4" in said
    assert "Epoch 3 of 4: " in said and "Epoch 2 of 4: " not in said and "schedule" not in said
    resumed = train(longer, out, resume=True)
    assert f"{out} goes on after epoch 3 of 4" in capsys.readouterr().out
    assert (resumed.epochs, resumed.recall) == (4, unbroken.recall)
    assert_equal_weights(resumed.model, unbroken.model)


def test_a_schedule_that_ends_anew_is_said(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(corpus.config(epochs=1), tmp_path)
    train(corpus.config(epochs=2, workers=1), tmp_path, resume=True)
    said = capsys.readouterr().out
    assert "workers: 0 → 1" in said
    assert "goes on where the linear schedule of 2 epochs has it now: the model will not be" in said


def test_a_frozen_query_embedding_learns_importance_alone(corpus: Corpus, tmp_path: Path) -> None:
    start = BertModel.from_pretrained(save_bert(tmp_path / "bert", max_position_embeddings=80))
    model = {"init": str(tmp_path / "bert"), "query_embedding": "frozen", "layers": 1}
    result = train(corpus.config(epochs=2, model=model, average=0.5), tmp_path / "run")
    loaded = VisualSparta.from_pretrained(result.model)
    found, words = loaded.query_embedding.weight, start.embeddings.word_embeddings.weight
    trained = loaded.trained_terms
    lengths = found.norm(dim=1) / words.norm(dim=1)
    cosine = torch.cosine_similarity(found, words)
    assert cosine[trained].min() > 0.999
    assert (lengths[trained] - 1).abs().min() > 1e-3
    untouched = ~trained & (words.norm(dim=1) > 0)
    assert torch.allclose(found[untouched], words[untouched])


def test_a_run_as_the_paper_prints_it_learns(corpus: Corpus, tmp_path: Path) -> None:
    """All pairs an epoch, a constant rate, no clipping, and the negatives alone below."""
    printed = {"warmup": 0.0, "schedule": "constant", "gradient_clip": 0.0}
    settings = corpus.config(data={"epoch": "pairs"}, include_positive=False, **printed)
    result = train(settings, tmp_path)
    losses = metrics(tmp_path, "loss")
    assert len(losses) == 3 and losses == sorted(losses, reverse=True)
    assert result.recall["held-out mean of R@1, R@5, R@10"] > 30  # 4 by chance


def action_of(number: int) -> "ctypes.Array[ctypes.c_char]":
    """A struct sigaction, which begins with the address of the handler."""
    action = ctypes.create_string_buffer(SIZE)
    assert ctypes.CDLL(None).sigaction(number, None, action) == 0
    return action


def test_handlers_set_behind_pythons_back_are_put_back() -> None:
    library, before = ctypes.CDLL(None), action_of(signal.SIGFPE)
    library.signal(signal.SIGFPE, library.abs)
    try:
        set_by_c = action_of(signal.SIGFPE).raw[: ctypes.sizeof(ctypes.c_void_p)]
        with pytest.raises(KeyError), keep_java_handlers():
            signal.signal(signal.SIGFPE, signal.getsignal(signal.SIGFPE))  # as Lightning does
            assert not action_of(signal.SIGFPE).raw.startswith(set_by_c)
            raise KeyError
        assert action_of(signal.SIGFPE).raw.startswith(set_by_c)
    finally:
        library.sigaction(signal.SIGFPE, before, None)


# ---- dense models --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns(corpus: Corpus, tmp_path: Path, method: str) -> None:
    result = train(dense_config(corpus, method), tmp_path)
    # Of 30 photos chance is 18 from text to image, and about twice that the other way.
    assert next(iter(result.recall.values())) > 50
    model = VseModel.from_pretrained(result.model)
    assert model.config.feature_source is not None
    assert model.embed_texts(["a dog and the cat"]).shape == (1, 32)


def test_a_run_gone_astray_is_stopped(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = VseTraining.training_step

    def astray(self: VseTraining, batch: Any, number: int) -> torch.Tensor:
        return step(self, batch, number) * float("nan")

    monkeypatch.setattr(VseTraining, "training_step", astray)
    with pytest.raises(InputError, match="is not finite after epoch 0"):
        train(dense_config(corpus), tmp_path)
    assert not (tmp_path / "model").exists()
