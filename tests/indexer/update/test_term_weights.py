"""Ready term weights become impacts."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from indexer.quantisation import Quantiser
from indexer.search.open import open_index
from indexer.update.term_weights import WeightReader
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer


def test_term_weights(sparse_index: Path, tokenizer: WordPieceTokenizer) -> None:
    read = WeightReader(sparse_index, tokenizer.vocabulary)
    found = read("a.jpg", {"dog": 0.5, "beach": 2.0})
    with closing(open_index(sparse_index)) as searcher:
        manifest = searcher.manifest
    quantiser = Quantiser(manifest.scale, manifest.bits)
    ids = tokenizer.vocabulary.index
    terms = sorted([(ids("dog"), 0.5), (ids("beach"), 2.0)])
    assert found.terms.tolist() == [term for term, _ in terms]
    scores = np.array([score for _, score in terms], np.float32)
    np.testing.assert_array_equal(found.impacts, quantiser.impacts(scores))
    assert found.positions.tolist() == [-1, -1]
    assert read("a", {}).terms.tolist() == []
    assert read("a", {"dog": 1e300}).impacts.tolist() == [2**manifest.bits - 1]
    with pytest.raises(InputError, match="term 'qqq' is not in the vocabulary"):
        read("a", {"qqq": 1.0})
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"the weight of term 'dog' is .*, not a positive"):
            read("a", {"dog": wrong})


def test_no_network_is_needed() -> None:
    """A slim installation has none of these packages."""
    code = (
        "import sys; sys.modules |= dict.fromkeys(['safetensors', 'openvino', 'torch']); "
        "import server.writing.app, server.commands.serve, server.app"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
