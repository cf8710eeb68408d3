"""Settings of runs, and every preset by name: it builds the model it is named after."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import torch

from sparta.captions.record import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.vse.batch import collate_regions, collate_texts
from tests import tiny
from tests.sparta.vse.models import CAPTIONS, save_bert
from training.config import PRESETS, load_config
from training.visualsparta import prepare
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


@pytest.mark.parametrize(
    "override", ["data.captions_per_photo=2", "teacher.models=[clip]"], ids=["captions", "teacher"]
)
def test_an_epoch_of_pairs_has_one_caption_a_photo(override: str) -> None:
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


Config = TypeVar("Config", VseTrainConfig, VisualSpartaTrainConfig)


def preset(name: str, kind: type[Config]) -> Config:
    config = load_config(name)
    assert isinstance(config, kind)
    return config


dense = partial(preset, kind=VseTrainConfig)
sparse = partial(preset, kind=VisualSpartaTrainConfig)


@pytest.mark.parametrize("name", DENSE)
def test_a_dense_preset_builds_a_model(name: str, bert: Path) -> None:
    config = dense(name)
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
    config = sparse(name)
    if config.model.init is not None:
        config.model.init = str(bert)
    pixels = FeatureSource("pixels", "pixels", "", 768, 112)  # which a stem reads
    source = pixels if "stem" in config.model.options else tiny.source()
    model = prepare.build_model(config.model, source, CAPTIONS)
    published = name.rpartition("/")[2]
    left_out = {
        "without-attributes": {"use_attributes"},
        "without-labels": {"use_labels"},
        "without-visual-features": {"use_visual"},
        "without-locations": {"use_locations"},
    }
    inputs = {"use_attributes", "use_labels", "use_visual", "use_locations"}
    if published in {"visualsparta", "visualsparta-warmup", "visualsparta-region", *left_out}:
        assert {i for i in inputs if not getattr(model.config, i)} == left_out.get(published, set())


def optimisation(config: VisualSpartaTrainConfig) -> tuple[object, ...]:
    """Warm-up, schedule, clipping, positive in the denominator, and what an epoch is."""
    clipped = config.warmup, config.schedule, config.gradient_clip
    return *clipped, config.include_positive, config.data.epoch


@pytest.mark.parametrize("name", [name for name in SPARSE if "visualsparta-table-4" in name])
def test_ablations_of_visualsparta_are_trained_as_it_is(name: str) -> None:
    whole = load_config("coco/visualsparta").model_dump()
    own = sparse(name).model_dump()
    assert own["model"].pop("options").items() > whole["model"].pop("options").items()
    assert own == whole


@pytest.mark.parametrize("name", ["coco/visualsparta-warmup", "flickr30k/visualsparta-warmup"])
def test_a_variant_is_trained_as_transformers_usually_are(name: str) -> None:
    config = sparse(name)
    assert optimisation(config) == (0.1, "linear", 1.0, True, "photos")
    for own in ("flickr8k-mobilenet", "flickr8k-lite2", "sample"):  # models of the package
        assert optimisation(sparse(own)) == optimisation(config)
        assert sparse(own).data.captions_per_photo == 5
    published = sparse(name.removesuffix("-warmup"))
    assert optimisation(published) == (0.0, "constant", 0.0, False, "pairs")
    changed = ("warmup", "schedule", "gradient_clip", "include_positive")
    same = {key: getattr(published, key) for key in changed} | {"data": published.data}
    assert config.model_copy(update=same) == published


@pytest.mark.parametrize("name", ["coco/visualsparta", "flickr30k/visualsparta"])
def test_visualsparta_is_trained_as_published(name: str) -> None:
    """Section 4.3 and equation 13; layers and width are those of the checkpoint it starts from."""
    config = sparse(name)
    assert optimisation(config) == (0.0, "constant", 0.0, False, "pairs")
    assert (config.average, config.label_smoothing, config.teacher) == (0.0, 0.0, None)
    assert (config.data.word_dropout, config.data.region_dropout) == (0.0, 0.0)
    assert (config.batch_size, config.epochs, config.learning_rate) == (160, 20, 5e-5)
    assert config.model.options == {"max_regions": 50, "max_label_tokens": 70}
    assert (config.model.init, config.model.layers) == ("bert-base-uncased", None)
    assert (config.model.query_embedding, config.query_learning_rate) == ("trained", None)
    assert (config.data.captions_per_photo, config.temperature, config.flops) == (1, 1.0, 0.0)
    assert config.data.validation_split == "val"


@pytest.mark.parametrize("name", [name for name in DENSE if name.split("/")[0] != "flickr8k"])
def test_published_rows_are_trained_as_published(name: str) -> None:
    """GPO section 5.1 and ADPOOL section 4.2 and appendix B; MV-VSE trains GPO's models."""
    config = dense(name)
    assert (config.epochs, config.batch_size, config.learning_rate) == (25, 128, 5e-4)
    assert config.milestones == [15] and config.gradient_clip == 2.0
    assert (config.text_rate, config.augmentation.words) == (0.1, 0.2)
    options = config.model.options
    assert options.get("dimension", 1024) == 1024
    # Networks of photos are fine-tuned; regions and frames of videos are given.
    assert config.has_vision_network == ("grid" in name or "patch" in name)
    if config.has_vision_network:
        assert config.vision_rate == (0.1 if "2ad" in name else 0.01)
        assert (config.augmentation.regions, config.augmentation.photos) == ("grid-flat", "crop")
        assert options["vision_vectors"] == "output"
        # Published code: cells are frozen for an epoch, patches never; VSE∞ alone scales the loss.
        assert config.vision_frozen_epochs == ("grid" in name)
        assert config.vision_warm_up == ("2ad" not in name)
    else:
        regions = "regions" if options["visual"] == "region" else "grid-flat"
        assert (config.augmentation.regions, config.augmentation.photos) == (regions, "none")


@pytest.mark.parametrize(
    ("name", "visual", "text", "objective"),
    [
        ("coco/vse++-region-bigru", "mean", "mean", "triplet"),
        ("flickr30k/vse-inf-region-bert", "gpo", "gpo", "triplet"),
        ("vatex/vse-inf", "gpo", "gpo", "triplet"),
        ("coco/vse-2ad-patch-bert", "adpool", "adpool", "adopt"),
        ("flickr30k/mv-vse-region-bigru", "gpo", "gpo", "multi-view-triplet joint"),
        ("ablations/gpo-table-1/region-best", "max", "mean", "triplet"),
        ("ablations/gpo-table-1/grid-gcn-seq2seq", "gcn-seq2seq", "mean", "triplet"),
        ("ablations/vse-2ad-table-3/without-adopt", "adpool", "adpool", "triplet"),
        ("ablations/vse-2ad-table-3/without-adpool", "mean", "mean", "adopt"),
        ("ablations/vse-2ad-table-4/manual", "k-max", "mean", "adopt"),
        ("ablations/vse-2ad-table-4/lip", "lip", "lip", "adopt"),
        ("ablations/mv-vse-table-3/max", "gpo", "gpo", "multi-view-triplet max"),
        ("ablations/mv-vse-table-3/average", "gpo", "gpo", "multi-view-triplet average"),
        ("ablations/mv-vse-table-3/upper", "gpo", "gpo", "multi-view-triplet upper"),
    ],
)
def test_rows_differ_in_their_pooling_and_objective(
    name: str, visual: str, text: str, objective: str
) -> None:
    config = dense(name)
    options = config.model.options
    assert (options["visual_pooling"], options["text_pooling"]) == (visual, text)
    kind, *views = objective.split()
    assert config.objective.kind == kind and config.objective.views in (views or ["joint"])
