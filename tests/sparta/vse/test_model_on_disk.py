import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from sparta.errors import InputError
from sparta.vse.model import VseModel
from sparta.vse.pooling.registry import POOLINGS
from tests import tiny
from tests.sparta.vse.models import SENTENCES, bert, bigru, regions


def assert_same(loaded: VseModel, model: VseModel) -> None:
    expected = model.state_dict()
    assert loaded.state_dict().keys() == expected.keys()
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, expected[name]), name
    # Weights lie elsewhere in memory, which may change the order of a sum.
    assert_close(loaded.encode_images(regions()), model.encode_images(regions()))
    assert_close(loaded.embed_texts(SENTENCES), model.embed_texts(SENTENCES))


@pytest.mark.parametrize("name", POOLINGS)
def test_saved_and_loaded_model_is_the_same(name: str, tmp_path: Path) -> None:
    model = bigru(name="mine", visual_pooling=name, text_pooling=name, views=2)
    model.save_pretrained(tmp_path)
    loaded = VseModel.from_pretrained(tmp_path)
    assert not loaded.training
    assert loaded.config.name == "mine"
    assert loaded.config.feature_source == model.config.feature_source
    assert_same(loaded, model)


def test_options_of_poolings_and_views_are_kept(tmp_path: Path) -> None:
    options: dict[str, Any] = {"visual_pooling_options": {"k": 2}, "view_projections": "separate"}
    model = bigru(visual_pooling="k-max", views=3, square_root=True, max_regions=9, **options)
    model.save_pretrained(tmp_path)
    loaded = VseModel.from_pretrained(str(tmp_path))
    assert loaded.config.visual_pooling_options == {"k": 2}
    assert (loaded.config.views, loaded.config.max_regions) == (3, 9)
    assert_same(loaded, model)


def test_a_model_over_word_pieces_needs_nothing_else(tmp_path: Path) -> None:
    model = bert(tmp_path / "bert", text_pooling="gpo")
    model.save_pretrained(tmp_path / "model")
    for file in (tmp_path / "bert").iterdir():
        file.unlink()
    loaded = VseModel.from_pretrained(tmp_path / "model")
    assert_same(loaded, model)
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.max_length == 40
    assert str(tmp_path) not in (tmp_path / "model" / "config.json").read_text()


def test_half_precision_file_loads_in_float32(tmp_path: Path) -> None:
    bigru().half().save_pretrained(tmp_path)
    assert load_file(tmp_path / "model.safetensors")["word_encoder.embedding.weight"].dtype == (
        torch.float16
    )
    loaded = VseModel.from_pretrained(tmp_path)
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    assert loaded.embed_texts(SENTENCES).dtype == torch.float32


def test_a_model_without_a_tokenizer_loads_without(tmp_path: Path) -> None:
    model = bigru()
    model.tokenizer = None
    model.save_pretrained(tmp_path)
    assert VseModel.from_pretrained(tmp_path).tokenizer is None


def test_what_is_no_vse_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere does not exist"):
        VseModel.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"it has no config\.json of one"):
        VseModel.from_pretrained(tmp_path)
    tiny.model().save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"is not a VSE model: its config.json is of a visual_sp"):
        VseModel.from_pretrained(tmp_path)


def test_another_models_tokenizer_is_refused(tmp_path: Path) -> None:
    model = bigru()
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save(tmp_path)
    known = model.config.vocabulary_size
    with pytest.raises(InputError, match=f"{tmp_path}: .* 25 entries, the model embeds {known}:"):
        VseModel.from_pretrained(tmp_path)


def edit(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"visual": "pixel"}, "visual: 'pixel' is not one of region, grid, patch"),
        ({"text": "lstm"}, "text: 'lstm' is not one of bigru, gru, bert"),
        ({"view_projections": "own"}, "view_projections: 'own' is not one of shared, separate"),
        ({"vision_vectors": "cells"}, "vision_vectors: 'cells' is not one of output, stored"),
        ({"views": 0}, "views: 0 is less than one"),
        ({"text": "bert"}, "text: 'bert' with text_encoder: None"),
        ({"text_encoder": {"model_type": "bert"}}, "text: 'bigru' with text_encoder"),
        ({"visual_pooling": "best"}, "there is no pooling 'best'"),
        ({"dimension": 10}, "not a whole VSE model"),
        ({"text_pooling": "gpo"}, "missing weights in its file: text_pooling.gru"),
    ],
)
def test_a_damaged_folder_is_named(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    bigru().save_pretrained(tmp_path)
    edit(tmp_path, **fields)
    with pytest.raises(InputError, match=message) as caught:
        VseModel.from_pretrained(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_weights_left_over_are_refused(tmp_path: Path) -> None:
    bigru().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file(load_file(path) | {"another.weight": torch.zeros(2)}, path, {"format": "pt"})
    with pytest.raises(InputError, match=r"unexpected weights in its file: another\.weight"):
        VseModel.from_pretrained(tmp_path)
