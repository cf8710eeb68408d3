"""An index of every former format is upgraded by one command, and refused with that command."""

import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from indexer.manifest import Manifest, ShardsManifest, index_folders
from sparta.command_line import cli
from sparta.errors import InputError
from tests.indexer.stored_format import FORMATS, sample_photos
from tests.indexer.test_rebuild import build_photos, fields_of

STORED = sorted(FORMATS.glob("*.tar.xz"))


def unpacked(path: Path, folder: Path, shape: str) -> Path:
    with tarfile.open(path) as tar:
        tar.extractall(folder, filter="data")
    return folder / shape


@pytest.mark.parametrize("shape", ["whole", "shards"])
@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.name)
@pytest.mark.parametrize("change", ["next", "number"])
def test_an_upgrade_keeps_what_was_given(
    stored: Path, shape: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = unpacked(stored, tmp_path, shape)
    before = fields_of(index)
    if change == "next":
        for kind in (Manifest, ShardsManifest):
            monkeypatch.setattr(kind, "FORMAT", 8)
    else:
        for folder in {index, *index_folders(index)}:
            values = json.loads((folder / "manifest.json").read_text())
            values["format_version"] -= 1
            (folder / "manifest.json").write_text(json.dumps(values))
    for command in (
        ["info", str(index)],
        ["search", str(index), "dog"],
        ["verify", str(index)],
        ["sync", str(index), str(tmp_path)],
        ["snapshot", str(index), str(tmp_path / "snapshot")],
        ["delete", str(index), "x"],
        ["serve", str(index), "--check"],
    ):
        found = CliRunner().invoke(cli, command)
        said = f"{found.exception} {found.output}"
        assert f"--model sample {'--shards 2 ' if shape == 'shards' else ''}--out {index}" in said
        assert found.exit_code == 1 and isinstance(found.exception, InputError | SystemExit)
    photos = tmp_path / "photos"
    photos.mkdir()
    for path in sample_photos()[:6]:
        (photos / path.name).write_bytes(path.read_bytes())
    build_photos(photos, index, shards=2 if shape == "shards" else None)
    assert fields_of(index) == before
    assert len(before) == 7


def test_nothing_is_encoded_before_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = unpacked(STORED[-1], tmp_path, "whole")
    (index / "given.log").unlink()
    monkeypatch.setattr("indexer.encoding.features.extract_augmented", lambda *_: 1 / 0)
    photos = tmp_path / "photos"
    photos.mkdir()
    found = CliRunner().invoke(
        cli, ["index", str(photos), "--model", "sample", "--out", str(index)]
    )
    assert isinstance(found.exception, InputError)
    assert "cannot be kept" in str(found.exception) and "given.log is missing" in str(
        found.exception
    )
