"""An index folder is made live once; what cannot follow changes is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from indexer.dense.build import add_dense
from indexer.manifest import Manifest
from indexer.state import IndexState
from indexer.update.conversion import make_live
from sparta.errors import InputError
from sparta.features.store import FeatureStore


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


def test_dense_parts_do_not_follow_changes(
    store: FeatureStore, sparse_index: Path, dense_model: Path, tmp_path: Path
) -> None:
    live = shutil.copytree(sparse_index, tmp_path / "live")
    before = IndexState.read(live)
    make_live(live)
    assert IndexState.read(live).version != before.version
    assert abs(IndexState.read(live).bytes - before.bytes) < 10_000
    with pytest.raises(InputError, match=r"live has been written to since it was built, and dense"):
        add_dense(live, store, "vse", dense_model, device="cpu")
    index = shutil.copytree(sparse_index, tmp_path / "index")
    add_dense(index, store, "vse", dense_model, device="cpu")
    with pytest.raises(InputError, match=r"index has dense parts \(vse\), which do not follow"):
        make_live(index)
