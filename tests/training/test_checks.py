"""Settings that cannot be carried out are refused before anything is loaded or extracted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ViTConfig, ViTModel

import training.inputs
from sparta.errors import InputError
from tests import tiny
from tests.training.corpus import Corpus, dense_config
from training.config import load_config
from training.fit import check_machine, pinned, train
from training.terms.config import TermVectorsConfig

NO_GPU = not torch.cuda.is_available() and not torch.backends.mps.is_available()


OF_ALL = [
    ("seed=-1", "greater than or equal to 0, got -1"),
    ("seed=4294967296", "less than 4294967296"),
    ("learning_rate=nan", "finite number, got nan"),
    ("learning_rate=-1", "greater than 0, got -1"),
    ("epochs=0", "greater than or equal to 1, got 0"),
    ("batch_size=1", "greater than or equal to 2, got 1"),
    ("strategy=ddp", "there is no such setting"),
    ("data.validation_photos=-1", "greater than or equal to 0, got -1"),
]
OF_LIGHTNING = [
    ("devices=0", "expected auto, or a number of 1 and more, got 0"),
    ("devices=x", "got 'x'"),
    ("devices=1.5", "got 1.5"),
    ("accelerator=tpu", "'auto', 'cpu', 'cuda', 'gpu' or 'mps', got 'tpu'"),
    ("precision=8", "got 8"),
    ("workers=-1", "greater than or equal to 0"),
]
LIGHTNING = "flickr8k-lite2", "flickr8k/vse-inf-grid-bigru"


@pytest.mark.parametrize(
    ("preset", "setting", "said"),
    [
        *((preset, *row) for preset in (*LIGHTNING, "photos") for row in OF_ALL),
        *((preset, *row) for preset in LIGHTNING for row in OF_LIGHTNING),
    ],
)
def test_values_out_of_range_name_the_option(preset: str, setting: str, said: str) -> None:
    with pytest.raises(InputError, match=rf"^--set {setting.partition('=')[0]}: .*{said}"):
        load_config(preset, [setting])


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


def test_gpus_are_counted(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    check_machine(corpus.config(accelerator="gpu", devices=2, precision="16-mixed"))
    with pytest.raises(InputError, match="devices: 3 are more than the 2 GPUs"):
        check_machine(corpus.config(accelerator="auto", devices=3))
    with pytest.raises(InputError, match="16-mixed needs a GPU"):
        check_machine(corpus.config(accelerator="cpu", precision="16-mixed"))


# ---- before features are extracted ---------------------------------------------------------------


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Ten photos and their captions, five of another split."""
    folder = tmp_path / "photos"
    folder.mkdir()
    lines = []
    for number in range(10):
        name = f"{number}.png"
        Image.fromarray(np.full((8, 8, 3), 20 * number, np.uint8)).save(folder / name)
        split = "train" if number < 5 else "spare"
        lines.append({"image": name, "split": split, "captions": ["a dog", "a cat"]})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "captions.jsonl").write_text(text)
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "other.jsonl").write_text('{"image": "x.jpg", "captions": ["x"]}\n')
    return folder


Configure = Callable[..., Any]


def sparse(corpus: Corpus, data: dict[str, Any], **changes: Any) -> Any:
    return corpus.config(data=data, **{"batch_size": 2, **changes})


def dense(corpus: Corpus, data: dict[str, Any], **changes: Any) -> Any:
    return dense_config(corpus, data=data, **{"batch_size": 2, **changes})


def term_vectors(corpus: Corpus, data: dict[str, Any], **changes: Any) -> Any:
    sizes = {"batch_size": 2, "teachers": {"batch_size": 2}}
    values = {"family": "term-vectors", "data": data, "model": {"init": "sample"}}
    return TermVectorsConfig.model_validate(values | sizes | changes)


FAMILIES = [sparse, dense, term_vectors]


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
    refused(sparse, "batch_size: 6 is more than the 5 training photos", {}, batch_size=6)
    refused(dense, "batch_size: 11 is more than the 10 training pairs", {}, batch_size=11)
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
    vit = tmp_path / "vit"
    ViTModel(ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1)).save_pretrained(
        vit
    )
    for family in FAMILIES:
        absent = "model.init: .*absent does not exist"
        refused(family, absent, {}, model={"init": str(tmp_path / "absent")})
        refused(family, "is of a vit, which is no BERT-like", {}, model={"init": str(vit)})
    option = {"options": {"colour": 1}, "encoder": {}}
    refused(sparse, r"unknown model options \['colour'\]", {}, model=option)
    refused(dense, r"unknown model options \['colour'\]", {}, model={"options": {"colour": 1}})
    refused(sparse, r"BertConfig has no fields \['colour'\]", {}, model={"encoder": {"colour": 1}})
    refused(sparse, "give the folder of an Oscar checkpoint", {}, model={"init": "oscar:absent"})
    refused(term_vectors, "model.init: name a BERT-like sentence encoder", {}, model={})
    crop = {"augmentation": {"photos": "crop"}}
    refused(dense, "augmentation.photos is for a model with a vision network", {}, **crop)
    said = "model.options.vision: a model with a vision network reads the photos themselves"
    refused(dense, said, {}, model={"options": {"vision": str(vit)}})
    refused(sparse, "data.backbone: .*absent does not exist", {"backbone": "./absent"})


def test_teachers_and_sentences_are_checked_first(
    refused: Callable[..., None], tmp_path: Path
) -> None:
    sparse_model = tmp_path / "sparse"
    tiny.model().save_pretrained(sparse_model)

    def lesson(model: str, **settings: Any) -> dict[str, Any]:
        return {"teacher": {"models": [model]} | settings}

    refused(sparse, r"--teacher: \./absent does not exist", {}, **lesson("./absent"))
    refused(sparse, "is a VisualSparta model: give a dual encoder", {}, **lesson(str(sparse_model)))
    blank = {"sentences": tmp_path / "blank.txt"}
    refused(
        sparse, "blank.txt is empty: give one sentence", {}, **lesson(str(sparse_model), **blank)
    )
    gone = lesson(str(sparse_model), sentences="gone.txt")
    refused(sparse, r"teacher\.sentences: gone\.txt cannot be read", {}, **gone)
    wordless = lesson(str(sparse_model), captions=False)
    refused(sparse, "without captions, give a text file of sentences", {}, **wordless)
    (tmp_path / "lines.txt").write_text("a dog on the beach\n")
    none = {"sentences": tmp_path / "lines.txt", "near_sentences": 0, "random_sentences": 0}
    wordless = lesson(str(sparse_model), captions=False, **none)
    refused(sparse, r"teacher\.near_sentences: without captions, draw at least", {}, **wordless)
    bert = tmp_path / "bert"
    tiny.encoder().save_pretrained(bert)
    tiny.tokenizer().save(bert)
    model = {"init": str(bert)}
    refused(term_vectors, "blank.txt is empty", {}, model=model, **blank)


def test_models_keep_their_names_in_the_settings(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    model = {"init": str(tmp_path / "bert"), "encoder": {}}
    config = corpus.config(model=model)
    assert pinned(config) == config and pinned(config) is not config
    oscar = corpus.config(model={"init": "oscar:x", "encoder": {}})
    assert pinned(oscar) == oscar
