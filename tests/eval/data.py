"""The tiny data sets of these tests, tiny dense models, and commands over them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner, Result

from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import StoreWriter
from sparta.tokenizer import TermTokenizer
from tests.indexer.tiny import SOURCE
from tests.indexer.tiny_dense import save_dense_model
from tests.indexer.vocabulary import WORDS


class Data(NamedTuple):
    """The fixtures of these names."""

    views: list[FeatureStore]
    models: list[Path]
    captioned: list[CaptionedPhoto]
    captions_file: Path
    tokenizer: TermTokenizer


def save_dense(folder: Path, seed: int = 0, views: int = 1) -> Path:
    """A dense model with all words in its vocabulary, so that few captions are alike to it."""
    return save_dense_model(folder, views=views, seed=seed, captions=[" ".join(WORDS)])


def store_of(folder: Path, images: Iterable[ImageFeatures]) -> FeatureStore:
    """A feature store of some images."""
    writer = StoreWriter(folder, SOURCE)
    writer.write_shard(list(images))
    return writer.finish()


def write_captions(path: Path, photos: Iterable[CaptionedPhoto]) -> Path:
    lines = [
        {"image": one.image_id, "split": one.split, "captions": one.captions} for one in photos
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def sparta(*arguments: object, width: int = 200) -> Result:
    """Run a command."""
    return CliRunner().invoke(cli, list(map(str, arguments)), env={"COLUMNS": str(width)})


def shown(*arguments: object, width: int = 200) -> str:
    """What a command prints, which must succeed."""
    found = sparta(*arguments, width=width)
    assert found.exit_code == 0, (found.output, found.exception)
    return found.stdout


def record(*arguments: object) -> Any:
    """What a command prints with --json."""
    return json.loads(shown(*arguments, "--json"))


def refused(message: str, *arguments: object) -> str:
    """The message of a command that must be refused with a part of it."""
    error = sparta(*arguments).exception
    assert isinstance(error, InputError) and message in str(error), (message, arguments, error)
    return str(error)
