"""Models that cannot be used, or do not go together, are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from indexer.build import build_index
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
