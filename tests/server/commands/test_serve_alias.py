"""`sparta serve NAME=INDEX`."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.commands.serve import _index_of
from sparta.errors import InputError
from tests.server.drawings import index_drawings
from tests.server.fake import draw


def test_a_name_is_set_and_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    index_drawings(tmp_path / "index-7", draw(tmp_path / "photos"))
    assert _index_of(Path("prod=index-7"), check=True) == Path("index-7")
    assert not Path("prod").exists()
    assert _index_of(Path("prod=index-7"), check=False) == Path("prod")
    assert Path("prod").resolve() == tmp_path / "index-7"
    assert _index_of(Path("index-7"), check=False) == Path("index-7")
    Path("index-7").rename("a=b")
    assert _index_of(Path("a=b"), check=False) == Path("a=b")
    with pytest.raises(InputError, match="absent"):
        _index_of(Path("prod=absent"), check=False)
