"""Models that cannot be used, or do not go together, are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from indexer.build import build_index
from indexer.dense.text_encoder import load_dense_model
from indexer.encoding.models import load_models
from indexer.encoding.stores import open_stores
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.tiny import save_model
from tests.indexer.vocabulary import SPECIAL


def test_models_that_do_not_go_together_are_refused(
    store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    terms = {term: i for i, term in enumerate([*SPECIAL, "tiger"])}
    inner = Tokenizer(models.WordPiece(terms, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    second = save_model(tmp_path / "model", WordPieceTokenizer(inner))
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
        ("absent", "does not exist"),
        (tmp_path / "file", "is not a folder"),
        (store.folder, "has no config.json"),
        (tmp_path / "bert", "config.json is of a bert"),
    ]
    for name, said in cases:
        for sources in ([photos], [store.folder]):
            with pytest.raises(InputError, match=f"--model {name} .*{said}"):
                stores = open_stores(sources, [name], "visual_sparta", tmp_path / "index")
                build_index(stores, [name], tmp_path / "index", device="cpu")


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
