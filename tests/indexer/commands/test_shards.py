"""Every command of `sparta` on a sharded index, and on one of its shards alone."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from indexer.build import build_index
from indexer.encoding.features import open_images
from indexer.engines.open import open_index
from indexer.maintenance.copies import take_snapshot
from indexer.manifest import index_folders
from indexer.verify import verify_index
from sparta.command_line import COMMANDS
from sparta.features.store import FeatureStore
from tests.indexer.command_line import sparta_here
from tests.indexer.maintenance.test_copies import files
from tests.indexer.tiny import draw

WORKS, REFUSED, WHOLE = "works", "refused", "takes a whole index"

# Command → lines, each with what becomes of it on a sharded index, and on a shard.
LINES: dict[str, list[tuple[str, str, str]]] = {
    "index": [("{photos} --model {model} --device cpu --out {index}", WORKS, REFUSED)],
    "search": [("{index} dog --filter 'path:*'", WORKS, WORKS)],
    "serve": [("{index} --check", WORKS, WORKS)],
    "similar": [("{index} {id}", WORKS, WORKS)],
    "explain": [
        ("{index} {id} dog", WORKS, WORKS),
        ("{index} {id} dog --figure {new}.png", WORKS, WORKS),
    ],
    "publish": [("{index} --out {new} --no-photos", WHOLE, WORKS)],
    "add": [
        ("{index} {more} --model {model} --device cpu", WORKS, REFUSED),
        ("{index} --features {store} --model {model} --device cpu", WORKS, REFUSED),
        ("{index} {store} --dense {dense}", WHOLE, REFUSED),
    ],
    "update": [("{index} {metadata}", WORKS, REFUSED)],
    "delete": [
        ("{index} {id}", WORKS, REFUSED),
        ("{index} --filter 'path:{id}'", WORKS, REFUSED),
    ],
    "sync": [
        ("{index} {photos} --model {model} --device cpu", WORKS, REFUSED),
        ("{index} {photos} --model {model} --dry-run", WORKS, REFUSED),
    ],
    "info": [("{index}", WORKS, WORKS), ("{index} --json", WORKS, WORKS)],
    "verify": [("{index}", WORKS, WORKS)],
    "snapshot": [("{index} {new}", WORKS, WORKS)],
    "restore": [
        ("{index} {new}", WORKS, WORKS),
        ("{index} {new} --link", WORKS, WORKS),
        ("{snapshot} {index} --yes", WORKS, REFUSED),
    ],
    "merge": [
        ("{index}", WORKS, REFUSED),
        ("{index} --shards 3", WORKS, REFUSED),
        ("{index} --shards 1", WORKS, REFUSED),
        ("{index} --shards 3 --out {new}", WORKS, WORKS),
        ("{index} --shards 1 --out {new}", WORKS, WORKS),
    ],
    "export": [
        ("lucene {index} {new}", WORKS, WORKS),
        ("anserini {index} {new}", WORKS, WORKS),
        ("opensearch {index} {new}", WORKS, WORKS),
        ("npz {index} {new}", WORKS, WORKS),
        ("milvus {index} milvus://127.0.0.1:23399", WHOLE, "no answer"),
    ],
    "eval index": [
        ("{index} --captions {captions} --split test --allow-missing", WORKS, WORKS),
    ],
    "eval figure": [
        (
            "grounding {index} --captions {captions} --split test --photos {photos} --images 1"
            " --out {new}.png",
            WORKS,
            WORKS,
        )
    ],
    "bench speed": [
        (
            "{index} --images 40 --top-n 5 --engine columns --dense clustered --seconds 0.01"
            " --out {new}",
            WORKS,
            WORKS,
        )
    ],
}
# Those that take an index and run elsewhere, and those that take none.
ELSEWHERE = {"mcp": "server/test_mcp.py"}
WITHOUT = {
    *("keys create", "keys list", "keys revoke", "adapt", "train", "extract", "import", "convert"),
    *("captions", "eval model", "eval pruning", "eval table"),
}


def test_every_command_has_a_line() -> None:
    """A new command goes into one of the tables."""
    assert {*LINES, *ELSEWHERE, *WITHOUT} == {*COMMANDS}
    assert not (LINES.keys() & ELSEWHERE.keys() or (LINES.keys() | ELSEWHERE.keys()) & WITHOUT)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    """Photos, and an index of them in two shards."""
    folder = tmp_path_factory.mktemp("sharded")
    for number in range(8):
        draw(folder / "photos" / f"{number}.png", number)
    draw(folder / "more" / "new.png", 20)
    images = open_images([folder / "photos"], [model_dir], folder / "index", device="cpu")
    build_index(images, [model_dir], folder / "index", device="cpu", shards=2)
    take_snapshot(folder / "index" / "shard-001", folder / "snapshot")
    return folder


def arguments(command: str, line: str, folder: Path, index: Path, **given: Path) -> list[str]:
    """Of a command on an index, beside which is `folder / "index"`."""
    [own, *_] = open_index(folder / "index" / "shard-000").ids()
    metadata = folder / "metadata.jsonl"
    metadata.write_text(json.dumps({"image": own, "album": "x"}))
    captions = folder / "captions.jsonl"
    captions.write_text(json.dumps({"image": own, "captions": ["a dog"], "split": "test"}))
    paths = {name: folder / name for name in ("photos", "more", "snapshot", "new")}
    given |= paths | {"metadata": metadata, "captions": captions, "index": index}
    return [*command.split(), *shlex.split(line.format(**given, id=own))]


@pytest.mark.parametrize(
    ("command", "line", "sharded", "shard"),
    [(command, *one) for command, lines in LINES.items() for one in lines],
)
def test_commands(
    command: str,
    line: str,
    sharded: str,
    shard: str,
    made: Path,
    model_dir: Path,
    dense_model: Path,
    store: FeatureStore,
    tmp_path: Path,
) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "own", symlinks=True))
    index, one = folder / "index", folder / "index" / "shard-000"
    given = {"model": model_dir, "dense": dense_model, "store": store.folder}
    before = files(index)
    done = sparta_here(*arguments(command, line, folder, one, **given))
    if shard == WORKS:
        assert done.returncode == 0, done
        shutil.rmtree(folder / "new", ignore_errors=True)
        (folder / "new").unlink(missing_ok=True)
    else:
        assert done.returncode == 1 and "Traceback" not in done.stderr, done
        if shard == REFUSED:
            [said] = [text for text in done.stderr.splitlines() if text.startswith("error: ")]
            assert said == (
                f"error: {one} is a shard, and takes no writes alone: give the index, {index}"
            )
    assert files(index) == before
    call = arguments(command, line, folder, index, **given)
    done = sparta_here(*call)
    if sharded == WHOLE:
        assert done.returncode == 1, done
        advice = re.search(r"`(sparta merge .* --shards 1 --out) NEW`$", done.stderr.strip())
        assert advice, done
        assert files(index) == before
        whole = folder / "whole"
        assert sparta_here(*shlex.split(advice[1])[1:], str(whole)).returncode == 0
        done = sparta_here(*(argument.replace(str(index), str(whole)) for argument in call))
        assert "shard" not in done.stderr, done
        if command == "publish":
            assert done.returncode == 0, done
        return
    assert done.returncode == 0, done
    assert verify_index(index) == []
    expected = {"--shards 3": 3, "--shards 1": 1}
    target = folder / "new" if "--out {new}" in line else index
    for words, count in expected.items() if command == "merge" else ():
        if words in line:
            assert len(index_folders(target)) == count
