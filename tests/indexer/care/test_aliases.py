"""Names that stand for an index, and for another one later."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from indexer.care.aliases import set_alias
from indexer.commands.alias import alias as alias_command
from indexer.search.open import open_index, open_searcher
from indexer.split import split_index
from indexer.update.writer import open_writer
from sparta.errors import InputError
from sparta.lock import lock_path


def test_a_name_is_made_and_switched(index: Path, tmp_path: Path) -> None:
    first = shutil.copytree(index, tmp_path / "7")
    second = shutil.copytree(index, tmp_path / "8")
    name = tmp_path / "names" / "prod"
    assert set_alias(name, first) is None
    assert name.resolve() == first
    assert not name.readlink().is_absolute()
    assert len(open_index(name)) == len(open_index(first))
    assert set_alias(name, second) == first
    assert name.resolve() == second
    set_alias(tmp_path / "other", name)
    assert (tmp_path / "other").resolve() == second
    assert [path.name for path in name.parent.iterdir()] == ["prod"]


def test_what_is_no_index_or_no_alias_stays(index: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not an index"):
        set_alias(tmp_path / "prod", tmp_path)
    (tmp_path / "letters").mkdir()
    with pytest.raises(InputError, match="letters exists and is no alias"):
        set_alias(tmp_path / "letters", index)
    assert (tmp_path / "letters").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_writing_through_a_name_locks_the_index(index: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(index, tmp_path / "7")
    set_alias(tmp_path / "prod", copy)
    assert lock_path(tmp_path / "prod") == lock_path(copy)
    with (
        open_writer(tmp_path / "prod"),
        pytest.raises(InputError, match="is being written by process"),
        open_writer(copy),
    ):
        pass


def test_the_command(index: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(alias_command)
    for before in ("", f" (before: {index.resolve()})"):
        done = CliRunner().invoke(app, [str(tmp_path / "prod"), str(index)])
        assert done.stdout == f"{tmp_path / 'prod'} stands for {index.resolve()}{before}\n"


def test_a_divided_index_has_names_too(index: Path, tmp_path: Path) -> None:
    split_index(index, tmp_path / "divided", 2)
    set_alias(tmp_path / "prod", tmp_path / "divided")
    assert len(open_searcher(tmp_path / "prod")) == 300
    shutil.rmtree(tmp_path / "divided" / "shard-001")
    with pytest.raises(InputError, match="shard-001 is not an index"):
        set_alias(tmp_path / "other", tmp_path / "divided")
