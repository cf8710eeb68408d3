"""Models that are loaded: in OpenVINO with the scores of torch, converted once; others refused."""

import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from indexer.build import build_index
from indexer.dense.text_encoder import load_dense_model
from indexer.encoding import scorers
from indexer.encoding.encoder import ImageEncoder
from indexer.encoding.features import open_images
from indexer.encoding.models import ReadConfig, load_models
from indexer.encoding.scorers import IMAGES_AT_ONCE, ConvertedScorer, TorchScorer
from indexer.manifest import Manifest
from indexer.settings import TermSet
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.model import VisualSparta
from tests.indexer.tiny import save_model, slow_frequencies, without_labels
from tests.indexer.vocabulary import TOKENIZER, small_tokenizer
from tests.stores import kept_stores

CAPTIONS = ["two dogs", "the red ball"], ["the dog", "two cats"]


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    """Two models of regions alone, each trained on other terms."""
    first = save_model(tmp_path / "a", TOKENIZER, 1, untrained=["dog"], captions=CAPTIONS[0])
    second = save_model(
        tmp_path / "b", TOKENIZER, 2, untrained=["dog", "ball"], captions=CAPTIONS[1]
    )
    return [without_labels(first, square_root=True), without_labels(second)]


def torch_encoder(encoder: ImageEncoder, models: list[Path]) -> ImageEncoder:
    """The same encoder in torch."""
    loaded = [TorchScorer(VisualSparta.from_pretrained(folder)) for folder in models]
    return ImageEncoder(loaded, encoder.tokenizer, encoder.stores, 3, encoder.term_set)


@pytest.mark.parametrize(("terms", "batch"), [("trained", 3), ("all", 21)])
def test_scores_and_positions_are_those_of_torch(
    store: FeatureStore, models: list[Path], terms: TermSet, batch: int
) -> None:
    """In batches of few images, and of more than are computed at once."""
    assert 3 < IMAGES_AT_ONCE < 21 == len(store)
    encoder = ImageEncoder.open([store], models, batch, "cpu", terms)
    reference = torch_encoder(encoder, models)
    for ours, theirs in zip(encoder.scorers, reference.scorers, strict=True):
        assert isinstance(ours, ConvertedScorer)
        assert ours.fingerprint == theirs.fingerprint
        assert np.array_equal(ours.trained_terms, theirs.trained_terms)
        assert np.array_equal(ours.term_frequencies, theirs.term_frequencies)
    counts = zip(*(slow_frequencies(TOKENIZER, own) for own in CAPTIONS), strict=True)
    assert encoder.frequencies.tolist() == list(map(max, counts))
    rows = range(len(store))
    pairs = zip(encoder.scored(rows), reference.scored(rows), strict=True)
    for found, right in pairs:
        np.testing.assert_allclose(found.scores, right.scores, atol=1e-4)
        np.testing.assert_array_equal(found.positions, right.positions)
        assert found.scores.any()
        for own, expected in zip(found.inputs, right.inputs, strict=True):
            assert np.array_equal(own.boxes, expected.boxes)
            assert len(own.label_terms) == len(expected.label_terms) == 0


def test_models_are_converted_once(
    store: FeatureStore, models: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VISUALSPARTA_CACHE", str(tmp_path / "cache"))
    steps: list[tuple[object, ...]] = []
    for _ in range(2):
        ImageEncoder.open([store], models, device="cpu", progress=lambda *step: steps.append(step))
        monkeypatch.setattr(scorers, "_load_torch", None)  # would fail
    assert steps == [("convert", 0, 2), ("convert", 1, 2), ("convert", 2, 2)]


def test_models_that_cannot_be_converted_run_in_torch(
    store: FeatureStore,
    models: list[Path],
    model_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    longer = save_model(tmp_path / "longer", TOKENIZER, 3)
    without_labels(longer, max_regions=3)
    for chosen in ([model_dir], [models[0], model_dir], [models[0], longer]):
        encoder = ImageEncoder.open([store], chosen, device="cpu")
        assert all(isinstance(scorer, TorchScorer) for scorer in encoder.scorers)
    with monkeypatch.context() as patch:
        patch.setattr(scorers, "on_cpu", lambda _: False)
        encoder = ImageEncoder.open([store], models, device="cpu")
        assert all(isinstance(scorer, TorchScorer) for scorer in encoder.scorers)
    assert "slower" not in caplog.text
    monkeypatch.setenv("VISUALSPARTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(scorers, "LARGEST_ERROR", -1)
    encoder = ImageEncoder.open([store], models, device="cpu")
    assert all(isinstance(scorer, TorchScorer) for scorer in encoder.scorers)
    assert "the models run in torch, which is slower: the network that OpenVINO" in caplog.text


def test_defaults_read_without_torch_are_those_of_the_configuration() -> None:
    parameters = inspect.signature(VisualSpartaConfig.__init__).parameters
    for name, value in vars(ReadConfig()).items():
        assert parameters[name].default == value


def test_indexing_with_a_converted_model_imports_no_torch(
    models: list[Path], photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "index"
    stores = kept_stores(photos, models[:1], out)
    ImageEncoder.open(stores, models[:1], term_set="trained")
    code = (
        "import sys; from sparta.command_line import cli;"
        "cli(sys.argv[1:], standalone_mode=False);"
        "print({'torch', 'transformers', 'huggingface_hub'} & {*sys.modules})"
    )
    options = ["--model", str(models[0]), "--out", str(out), "--frequencies", "model"]
    command = [sys.executable, "-c", code, "index", str(photos), *options]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "3 images" in run.stdout and run.stdout.endswith("set()\n")
    assert Manifest.open(out).frequencies == "model"


def test_models_that_do_not_go_together_are_refused(
    store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    second = save_model(tmp_path / "model", small_tokenizer(["tiger"]))
    with pytest.raises(InputError, match=r"another vocabulary .* \(term 6 is 'tiger' instead of"):
        build_index([store], [model_dir, second], tmp_path / "index", device="cpu")
    with pytest.raises(InputError, match="no --model"):
        build_index([store], [], tmp_path / "index", device="cpu")


def test_what_is_no_model_is_refused_at_once(
    photos: Path, store: FeatureStore, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("{}")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    cases: list[tuple[str | Path, str]] = [
        (tmp_path / "absent", "does not exist"),
        ("./absent", "does not exist"),
        (tmp_path / "file", "is not a folder"),
        (store.folder, "has no config.json"),
        (tmp_path / "bert", "config.json is of a bert"),
    ]
    for name, said in cases:
        for sources in ([photos], [store.folder]):
            with pytest.raises(InputError, match=f"--model {name} .*{said}"):
                images = open_images(sources, [name], tmp_path / "index")
                build_index(images, [name], tmp_path / "index", device="cpu")


@pytest.mark.parametrize(
    ("field", "value"), [("frequency_power", 1.5), ("max_regions", "x"), ("offset", "foo")]
)
def test_wrong_values_of_a_configuration_are_named(
    model_dir: Path, store: FeatureStore, tmp_path: Path, field: str, value: object
) -> None:
    model = Path(shutil.copytree(model_dir, tmp_path / "model"))
    config = json.loads((model / "config.json").read_text()) | {field: value}
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=f"--model {model} .*: {field}: Input should be "):
        build_index([store], [model], tmp_path / "index", device="cpu")


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"[" * 100_000, b"\xff" * 300])
def test_damaged_weights_are_one_line(
    model_dir: Path, dense_model: Path, tmp_path: Path, content: bytes
) -> None:
    for number, folder in enumerate((model_dir, dense_model)):
        copy = Path(shutil.copytree(folder, tmp_path / str(number)))
        (copy / "model.safetensors").write_bytes(content)
        with pytest.raises(InputError) as error:
            load_dense_model(copy) if number else load_models([copy], torch.device("cpu"))
        assert str(copy) in str(error.value) and "\n" not in str(error.value)


def test_a_pickle_in_place_of_weights_is_not_loaded(model_dir: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(model_dir, tmp_path / "model"))
    (copy / "model.safetensors").unlink()
    marker = tmp_path / "executed"
    (copy / "pytorch_model.bin").write_bytes(
        b"cpathlib\nPath\n(V" + str(marker).encode() + b"\ntR."
    )
    with pytest.raises(InputError) as error:
        load_models([copy], torch.device("cpu"))
    assert "\n" not in str(error.value) and not marker.exists()
