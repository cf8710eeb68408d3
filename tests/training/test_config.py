import re
from pathlib import Path

import pytest

from sparta.errors import InputError
from training.config import PRESETS, load_config
from training.visualsparta.config import VisualSpartaTrainConfig


def write(folder: Path, text: str) -> str:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_preset_is_valid_and_found_by_name(path: Path) -> None:
    assert load_config(path.stem) == load_config(str(path))


def test_presets_exist() -> None:
    assert {"sample", "flickr8k-mobilenet"} <= {path.stem for path in PRESETS.glob("*.yaml")}


def test_defaults_are_the_papers() -> None:
    config = VisualSpartaTrainConfig()
    assert (config.batch_size, config.epochs, config.learning_rate) == (160, 20, 5e-5)
    assert (config.include_positive, config.temperature) == (True, 1.0)
    assert not (config.flops or config.label_smoothing or config.average)


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


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, "")) == VisualSpartaTrainConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "epoch: Extra inputs are not permitted"),
        ("data:\n  caption: a", "data.caption: Extra inputs are not permitted"),
        ("model:\n  layer: 1", "model.layer: Extra inputs are not permitted"),
        ("epochs: many", "epochs: Input should be a valid integer"),
        ("epochs: 0", "epochs: Input should be greater than or equal to 1"),
        ("batch_size: 1", "batch_size: Input should be greater than or equal to 2"),
        ("schedule: wavy", "schedule: Input should be"),
        ("precision: 8-bit", "precision: Input should be"),
        ("data:\n  word_dropout: 1", "data.word_dropout: Input should be less than 1"),
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


def test_text_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes("epochs: 3 # für".encode("latin-1"))
    with pytest.raises(InputError, match="not YAML"):
        load_config(str(path))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epochs", "--set epochs: expected key=value"),
        ("=3", "--set =3: expected key=value"),
        ("epochs.more=3", "--set epochs.more=3: epochs is a value and has no keys"),
        ("seed=[1", "--set seed=[1: the value is not YAML"),
        ("seed=" + "[" * 20_000, "the value is not YAML"),
        ("epoch=3", "epoch: Extra inputs are not permitted"),
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
