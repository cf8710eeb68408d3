"""How often terms are asked for: of models, of files of queries, and refused files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from indexer.encoding.asked import NONE_ASKED, asked_terms, check_asked
from indexer.encoding.term_scores import ImageEncoder
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.tiny import save_model, slow_frequencies

CAPTIONS = ["dog dogs on the beach", "a red dog", "Sky."], ["cat", "the dog"]


@pytest.fixture
def encoder(store: FeatureStore, tokenizer: WordPieceTokenizer, tmp_path: Path) -> ImageEncoder:
    """Of two models, trained on different captions, and one without frequencies."""
    texts = [*CAPTIONS, ()]
    folders = [
        save_model(tmp_path / str(i), tokenizer, i, captions=own) for i, own in enumerate(texts)
    ]
    return ImageEncoder.open([store], folders, device="cpu")


def test_of_several_models_the_largest_frequencies_count(
    encoder: ImageEncoder, tokenizer: WordPieceTokenizer
) -> None:
    asked = asked_terms(encoder, "model", 1.0)
    assert (asked.source, asked.power) == ("model", 1.0)
    counts = zip(*(slow_frequencies(tokenizer, own) for own in CAPTIONS), strict=True)
    assert asked.weights is not None
    assert asked.weights.tolist() == [max(pair) + 1 for pair in counts]


def test_models_without_frequencies_and_none(
    store: FeatureStore, model_dir: Path, encoder: ImageEncoder
) -> None:
    plain = ImageEncoder.open([store], [model_dir], device="cpu")
    assert asked_terms(plain, "model", 0.35) == NONE_ASKED
    assert asked_terms(encoder, "none", 0.35) == NONE_ASKED


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_of_queries_is_counted_line_by_line(
    encoder: ImageEncoder, tokenizer: WordPieceTokenizer, tmp_path: Path, end: str
) -> None:
    queries = ["dog dog beach", "", "dogs RUNNING", "qqq", "dog dog beach", "犬 é"]
    path = tmp_path / "queries.txt"
    path.write_bytes(end.join(queries).encode())
    asked = asked_terms(encoder, str(path), 0.5)
    assert asked.source == hashlib.sha256(path.read_bytes()).hexdigest()
    assert asked.power == 0.5
    right = [(count + 1) ** 0.5 for count in slow_frequencies(tokenizer, queries)]
    assert max(right) == 2  # dog, in three lines
    assert asked.weights is not None
    assert asked.weights.tolist() == pytest.approx(right)


def test_a_byte_order_mark_is_no_part_of_the_first_query(
    encoder: ImageEncoder, tmp_path: Path
) -> None:
    found = []
    for content in (b"dog\n", b"\xef\xbb\xbfdog\n"):
        (tmp_path / "queries.txt").write_bytes(content)
        found.append(asked_terms(encoder, str(tmp_path / "queries.txt"), 0.5).weights)
    marked, plain = found
    assert marked is not None
    assert plain is not None
    np.testing.assert_array_equal(marked, plain)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"cannot be read \(No such file or directory\): give model, none or a text file"),
        (b"", "is empty: give a file of queries, one a line"),
        (b" \n\r\n", "is empty"),
        (b"dog\n\xff\xfe", "is not UTF-8 text .invalid start byte at byte 4"),
    ],
)
def test_files_without_queries(
    encoder: ImageEncoder, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "queries.txt"
    if content is not None:
        path.write_bytes(content)
    for check in (check_asked, lambda asked: asked_terms(encoder, asked, 0.35)):
        with pytest.raises(InputError, match=f"--asked .*queries.txt {message}") as raised:
            check(str(path))
        assert "\n" not in str(raised.value)


def test_a_folder_is_no_file_of_queries(tmp_path: Path) -> None:
    for asked in ("", str(tmp_path)):
        with pytest.raises(InputError, match="cannot be read"):
            check_asked(asked)
    check_asked("model")
    check_asked("none")


def test_a_file_of_unknown_words(encoder: ImageEncoder, tmp_path: Path) -> None:
    path = tmp_path / "queries.txt"
    path.write_text("qqq\nxyz")
    check_asked(str(path))
    with pytest.raises(InputError, match=r"queries.txt has no word of the model's vocabulary"):
        asked_terms(encoder, str(path), 0.35)
