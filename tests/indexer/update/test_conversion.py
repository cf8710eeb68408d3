"""An index folder is made live once; what cannot follow changes is refused."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from indexer.dense.manifest import ORIGINS, DenseManifest, dense_folder
from indexer.dense.row_origins import read_origins
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest
from indexer.state import IndexState
from indexer.update.conversion import make_live
from indexer.verify import verify_index
from sparta.errors import InputError
from tests.indexer.dense_parts import random_vectors, write_part


def test_a_conversion_may_be_killed_before_every_step(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each change of a file, and after the last."""

    class Killed(BaseException):
        pass

    for step in range(20):
        copy = shutil.copytree(index, tmp_path / str(step))
        left = step

        def count(path: Path, *rest: object, call: object = None, **named: object) -> object:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return call(path, *rest, **named)  # type: ignore[operator]

        with monkeypatch.context() as patched:
            for name in ("mkdir", "write_text", "replace", "rmdir"):
                original = getattr(Path, name)
                patched.setattr(
                    Path, name, lambda *a, original=original, **k: count(*a, call=original, **k)
                )
            try:
                make_live(copy)
            except Killed:
                killed = True
            else:
                killed = False
        Manifest.open(copy)
        assert make_live(copy) == make_live(copy) == Manifest.open(copy)
        assert Manifest.open(copy).live
        if not killed:
            break
    assert step == 5


def test_a_live_index_has_another_version_and_the_same_size(
    sparse_index: Path, tmp_path: Path
) -> None:
    live = shutil.copytree(sparse_index, tmp_path / "live")
    before = IndexState.read(live)
    make_live(live)
    assert IndexState.read(live).version != before.version
    assert abs(IndexState.read(live).bytes - before.bytes) < 10_000


def test_dense_parts_learn_what_their_rows_are_of(copy: Path) -> None:
    """Whatever the conversion was killed at before; a part of another state is refused."""
    ids = [f"={image_id}" for image_id in ids_of(copy)]
    write_part(copy, "one", random_vectors(len(ids), 1))
    write_part(copy, "two", random_vectors(len(ids), 3))
    (dense_folder(copy, "two") / ORIGINS).write_text("half of it")
    (dense_folder(copy, "two") / "new").mkdir()
    make_live(copy)
    for name in ("one", "two"):
        assert DenseManifest.open(copy, name, Manifest.open(copy)).images == len(ids)
        assert read_origins(dense_folder(copy, name)).to_pylist() == ids
        assert not (dense_folder(copy, name) / "new").exists()
    make_live(copy)
    assert verify_index(copy) == []
    write_part(copy, "old", random_vectors(len(ids), 1))
    with pytest.raises(InputError, match=r"old is of .*copy as it was built, before it"):
        DenseManifest.read(copy, "old", Manifest.open(copy))


def ids_of(folder: Path) -> list[str]:
    with closing(LuceneIndex(folder / "lucene")) as images:
        return [images.stored(document).image_id for document in range(len(images))]
