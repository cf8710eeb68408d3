"""Settings of runs, every preset by name, and what is refused before the long work."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import training.inputs
from sparta.captions.record import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.vse.batch import collate_regions, collate_texts
from tests import tiny
from tests.sparta.extract.tiny_networks import NETWORKS, noisy, save
from tests.sparta.vse.models import CAPTIONS, save_bert
from tests.training.corpus import Corpus, dense_config
from training.config import PRESETS, load_config
from training.fit import train
from training.terms.config import TermVectorsConfig
from training.visualsparta import module
from training.visualsparta.config import VisualSpartaTrainConfig
from training.vse.config import VseTrainConfig
from training.vse.module import build_model


def write(folder: Path, text: str) -> str:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_yaml_and_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, "batch_size: 8\nlearning_rate: 1e-4\ndata:\n  captions: a.jsonl\n")
    config = load_config(
        path,
        [
            "epochs=3",
            "query_learning_rate=1e-3",
            "data.features=[one, two/three]",
            "data.captions=b=c.jsonl",
            "model.options.use_labels=false",
            "model.encoder.layer_norm_eps=1e-5",
            "data.validation_split=null",
        ],
    )
    assert isinstance(config, VisualSpartaTrainConfig)
    assert (config.batch_size, config.learning_rate, config.epochs) == (8, 1e-4, 3)
    assert config.query_learning_rate == 1e-3
    assert config.data.features == [Path("one"), Path("two/three")]
    assert config.data.captions == Path("b=c.jsonl")
    assert config.model.options == {"use_labels": False}
    assert config.model.encoder == {"layer_norm_eps": 1e-5}
    assert config.data.validation_split is None
    assert load_config(write(tmp_path, "")) == VisualSpartaTrainConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "epoch: there is no such setting"),
        ("data:\n  caption: a", "data.caption: there is no such setting"),
        ("epochs: many", "epochs: Input should be a valid integer"),
        ("epochs: 0", "epochs: Input should be greater than or equal to 1"),
        ("model: []", "model: Input should be a valid dictionary"),
        ("- 1\n- 2", "expected keys and values, found list"),
        ("a: [", "not YAML"),
        ("[" * 20_000, "not YAML"),
        ("epochs: 2001-99-99", "not YAML"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match="^" + re.escape(f"{path}: {message}")):
        load_config(path, ["seed=1"])


def test_a_stem_is_not_averaged() -> None:
    stem = "model.options.stem=[4, 4, 4]"
    with pytest.raises(InputError, match=r"sample\.yaml: .*model\.options\.stem needs average: 0"):
        load_config("sample", ["average=0.99", stem])
    assert load_config("sample", ["average=0", stem]).average == 0


def test_an_epoch_of_pairs_has_one_caption_a_photo() -> None:
    override = "data.captions_per_photo=2"
    with pytest.raises(InputError, match=r"data\.epoch: pairs needs data\.captions_per_photo: 1"):
        load_config("coco/visualsparta", [override])
    load_config("coco/visualsparta", [override, "data.epoch=photos"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epochs", "--set epochs: expected key=value"),
        ("=3", "--set =3: expected key=value"),
        ("epochs.more=3", "--set epochs.more=3: epochs is a value and has no keys"),
        ("seed=[1", "--set seed=[1: the value is not YAML"),
        ("seed=" + "[" * 20_000, "the value is not YAML"),
        ("data.split=[a]", "data.split: Input should be a valid string"),
        ("learning_rate=nan", "--set learning_rate: Input should be a finite number, got nan"),
        ("devices=1.5", "--set devices: expected auto, or a number of 1 and more, got 1.5"),
        ("accelerator=tpu", "'auto', 'cpu', 'cuda', 'gpu' or 'mps', got 'tpu'"),
    ],
)
def test_wrong_overrides_are_named(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        load_config(write(tmp_path, "epochs: 2"), [override])


def test_unknown_presets_are_answered_with_the_known() -> None:
    for name in ("sampel", "absent.yaml"):
        with pytest.raises(InputError, match=rf"^{name}: neither .* presets are \[.*'sample'"):
            load_config(name)


NAMES = sorted(
    str(path.relative_to(PRESETS)).removesuffix(".yaml")
    for path in PRESETS.rglob("*.yaml")
    if path.parent.name != "parts"
)
DENSE = [name for name in NAMES if isinstance(load_config(name), VseTrainConfig)]
SPARSE = [name for name in NAMES if isinstance(load_config(name), VisualSpartaTrainConfig)]
PHOTOS = [CaptionedPhoto("a.jpg", "train", tuple(CAPTIONS))]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"), max_position_embeddings=80)


@pytest.mark.parametrize("name", DENSE)
def test_a_dense_preset_builds_a_model(name: str, bert: Path) -> None:
    config = load_config(name)
    assert isinstance(config, VseTrainConfig)
    options = config.model.options
    options |= {"dimension": 16, "word_dim": 4, "vision": None}
    if config.model.init is not None:
        config.model.init = str(bert)
    model = build_model(config.model, tiny.source(), PHOTOS).eval()
    assert model.tokenizer is not None
    ids = [model.tokenizer.encode(text) for text in CAPTIONS[:3]]
    similarities = model(collate_texts(ids, model.tokenizer.pad_id), collate_regions(tiny.images()))
    assert similarities.shape == (3, 4, model.config.views) and torch.isfinite(similarities).all()
    # Several views need a multi-view loss, and vice versa.
    assert (model.config.views > 1) == config.objective.kind.startswith("multi-view")


@pytest.mark.parametrize("name", SPARSE)
def test_a_preset_of_visualsparta_builds_a_model(name: str, bert: Path) -> None:
    config = load_config(name)
    assert isinstance(config, VisualSpartaTrainConfig)
    if config.model.init is not None:
        config.model.init = str(bert)
    pixels = FeatureSource("pixels", "pixels", "", 768, 112)  # which a stem reads
    source = pixels if "stem" in config.model.options else tiny.source()
    model = module.build_model(config.model, source, CAPTIONS)
    inputs = {"use_attributes", "use_labels", "use_visual", "use_locations"}
    if "visualsparta" in name:  # the paper's, which reads all of a region
        assert all(getattr(model.config, one) for one in inputs)


# ---- settings that a machine or the data refuse --------------------------------------------------


NO_GPU = not torch.cuda.is_available() and not torch.backends.mps.is_available()


@pytest.mark.skipif(not NO_GPU, reason="this machine has a GPU")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"accelerator": "mps"}, "this machine has no mps for torch: set one of auto, cpu$"),
        ({"accelerator": "cuda"}, "this machine has no cuda"),
        ({"accelerator": "gpu"}, "this machine has no gpu"),
        ({"devices": 4096}, "devices: 4096 are more than the .* processor cores of this machine"),
        ({"precision": "16-mixed"}, "precision: 16-mixed needs a GPU"),
    ],
)
def test_what_the_machine_lacks_is_said_before_anything_is_read(
    corpus: Corpus, tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    missing = {"captions": tmp_path / "absent.jsonl", "features": [tmp_path / "absent"]}
    with pytest.raises(InputError, match=said):
        train(corpus.config(data=missing, **settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ---- before features are extracted ---------------------------------------------------------------


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Ten photos and their captions, five of another split."""
    names = [f"{number}.png" for number in range(10)]
    folder = noisy(tmp_path / "photos", *names)
    lines = [{"image": name, "captions": ["a dog", "a cat"]} for name in names]
    for line in lines[5:]:
        line["split"] = "spare"
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "captions.jsonl").write_text(text)
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "other.jsonl").write_text('{"image": "x.jpg", "captions": ["x"]}\n')
    return folder


Configure = Callable[..., Any]


def sparse_run(corpus: Corpus, data: dict[str, Any], **changes: Any) -> Any:
    return corpus.config(data=data, **{"batch_size": 2, **changes})


def dense_run(corpus: Corpus, data: dict[str, Any], **changes: Any) -> Any:
    return dense_config(corpus, data=data, **{"batch_size": 2, **changes})


def term_vectors(corpus: Corpus, data: dict[str, Any], **changes: Any) -> Any:
    sizes = {"batch_size": 2, "teachers": {"batch_size": 2}}
    values = {"family": "term-vectors", "data": data, "model": {"init": "sample"}}
    return TermVectorsConfig.model_validate(values | sizes | changes)


FAMILIES = [sparse_run, dense_run, term_vectors]


@pytest.fixture
def refused(
    corpus: Corpus, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Fails unless a run is refused, with a message, before features are extracted."""
    monkeypatch.setattr(training.inputs, "extract_augmented", lambda *_, **__: 1 / 0)

    def check(family: Configure, said: str, data: dict[str, Any], **changes: Any) -> None:
        given = {"features": [], "photos": photos, "backbone": "pixels", "validation_photos": 0}
        given |= {"captions": tmp_path / "captions.jsonl"} | data
        with pytest.raises(InputError, match=said):
            train(family(corpus, given, **changes), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    return check


@pytest.mark.parametrize("family", FAMILIES)
def test_captions_and_splits_are_checked_first(
    family: Configure, refused: Callable[..., None], tmp_path: Path
) -> None:
    names = r"no photo has split '{}'; the file has \['spare', 'train'\]"
    refused(family, names.format("dev"), {"split": "dev"})
    refused(family, names.format("test"), {"validation_split": "test"})
    refused(family, r"data\.captions: nowhere does not exist", {"captions": "nowhere"})
    refused(family, r"empty\.jsonl", {"captions": tmp_path / "empty.jsonl"})
    said = r"other\.jsonl: no photo of split 'train' is in .*photos: .* 'x\.jpg', .* '0\.png'"
    refused(family, said, {"captions": tmp_path / "other.jsonl"})
    refused(family, "holding out 5 of 5 photos leaves none", {"validation_photos": 5})
    refused(family, "data.backbone: give the backbone", {"backbone": None})
    refused(family, r"data\.captions: give a captions\.jsonl", {"captions": None})


def test_batches_are_compared_with_the_photos_first(refused: Callable[..., None]) -> None:
    refused(sparse_run, "batch_size: 6 is more than the 5 training photos", {}, batch_size=6)
    refused(dense_run, "batch_size: 11 is more than the 10 training pairs", {}, batch_size=11)
    refused(term_vectors, "^batch_size: 6 is more than the 5 training photos", {}, batch_size=6)
    said = r"teachers\.batch_size: 6 is more than the 5 training photos"
    refused(term_vectors, said, {}, teachers={"batch_size": 6})
    tuned = {"tune": {"batch_size": 6}}
    refused(
        term_vectors, r"tune\.batch_size: 6 is more", {"backbone": "efficientnet-lite2"}, **tuned
    )
    refused(term_vectors, "tune: give data.photos, and efficientnet-lite2", {}, **tuned)


def test_models_and_their_options_are_checked_first(
    refused: Callable[..., None], tmp_path: Path
) -> None:
    vit = save(NETWORKS["vit"](), tmp_path / "vit")
    for family in FAMILIES:
        absent = "model.init: .*absent does not exist"
        refused(family, absent, {}, model={"init": str(tmp_path / "absent")})
        refused(family, "is of a vit, which is no BERT-like", {}, model={"init": str(vit)})
    option = {"options": {"colour": 1}, "encoder": {}}
    refused(sparse_run, r"unknown model options \['colour'\]", {}, model=option)
    refused(dense_run, r"unknown model options \['colour'\]", {}, model={"options": {"colour": 1}})
    refused(
        sparse_run, r"BertConfig has no fields \['colour'\]", {}, model={"encoder": {"colour": 1}}
    )
    refused(
        sparse_run, "give the folder of an Oscar checkpoint", {}, model={"init": "oscar:absent"}
    )
    refused(term_vectors, "model.init: name a BERT-like sentence encoder", {}, model={})
    crop = {"augmentation": {"photos": "crop"}}
    refused(dense_run, "augmentation.photos is for a model with a vision network", {}, **crop)
    said = "model.options.vision: a model with a vision network reads the photos themselves"
    for wrong in ({"backbone": "pixels"}, {"grid": 7}, {"augmentations": 2}, {"features": ["a"]}):
        data = {"backbone": None} | wrong
        refused(dense_run, said, data, model={"options": {"vision": str(vit)}})
    refused(sparse_run, "data.backbone: .*absent does not exist", {"backbone": "./absent"})


def test_sentences_are_checked_first(refused: Callable[..., None], tmp_path: Path) -> None:
    model = {"init": str(save_bert(tmp_path / "bert"))}
    blank, gone = tmp_path / "blank.txt", "gone.txt"
    refused(term_vectors, "blank.txt is empty", {}, model=model, sentences=blank)
    refused(term_vectors, r"gone\.txt: cannot be read", {}, model=model, sentences=gone)
    both = {"model": model, "dense": True, "tune": {"batch_size": 2}}
    refused(term_vectors, "a dense model or a network: set one", {}, **both)
