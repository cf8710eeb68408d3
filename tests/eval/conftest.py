"""Two tiny models, two views of 21 images, and captions in a small vocabulary."""

from pathlib import Path

import numpy as np
import pytest

from sparta.captions.read import CaptionedPhoto
from sparta.features.store import FeatureStore
from sparta.tokenizer import TermTokenizer
from tests.eval.data import Data, write_captions
from tests.indexer.tiny import save_model, write_store
from tests.indexer.vocabulary import WORDS, small_tokenizer
from tests.server.drawings import index_drawings
from tests.server.fake import draw


@pytest.fixture(scope="session")
def tokenizer() -> TermTokenizer:
    return small_tokenizer()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, tokenizer: TermTokenizer) -> list[Path]:
    root = tmp_path_factory.mktemp("models")
    return [save_model(root / str(seed), tokenizer, seed, untrained=["cat"]) for seed in (0, 1)]


@pytest.fixture(scope="session")
def views(tmp_path_factory: pytest.TempPathFactory) -> list[FeatureStore]:
    root = tmp_path_factory.mktemp("features")
    return [write_store(root / "plain"), write_store(root / "flip", seed=1, augmentation="flip")]


@pytest.fixture(scope="session")
def captioned(views: list[FeatureStore]) -> list[CaptionedPhoto]:
    """Two captions of four words for each image; some words repeat."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS[:7], 4)) for _ in range(2 * len(views[0]))]
    pairs = zip(views[0].ids, texts[::2], texts[1::2], strict=True)
    return [CaptionedPhoto(image_id, "val", (a, b)) for image_id, a, b in pairs]


@pytest.fixture(scope="session")
def captions_file(
    tmp_path_factory: pytest.TempPathFactory, captioned: list[CaptionedPhoto]
) -> Path:
    other = CaptionedPhoto("elsewhere.jpg", "other", ("dog",))
    return write_captions(
        tmp_path_factory.mktemp("captions") / "captions.jsonl", [*captioned, other]
    )


@pytest.fixture(scope="session")
def data(
    views: list[FeatureStore],
    models: list[Path],
    captioned: list[CaptionedPhoto],
    captions_file: Path,
    tokenizer: TermTokenizer,
) -> Data:
    return Data(views, models, captioned, captions_file, tokenizer)


@pytest.fixture(scope="session")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small index whose images the measured ones are made of."""
    photos = draw(tmp_path_factory.mktemp("photos"))
    return index_drawings(tmp_path_factory.mktemp("drawings") / "index", photos)
