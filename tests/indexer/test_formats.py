"""A stored index: upgraded by one command, and damaged file by file."""

import itertools
import json
import random
import shutil
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from indexer.manifest import Manifest, ShardsManifest, index_folders
from indexer.update.sync import Encoding, PhotoSync
from sparta.command_line import cli
from sparta.errors import InputError
from tests.indexer.stored_format import FORMATS, sample_photos
from tests.indexer.test_rebuild import build_photos, fields_of
from tests.needs import EVERY

STORED = sorted(FORMATS.glob("*.tar.xz"))


def unpacked(path: Path, folder: Path, shape: str) -> Path:
    with tarfile.open(path) as tar:
        # The first releases of Python 3.11 have no filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        tar.extractall(folder)
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


DAMAGE = ("flip", "cut", "empty", "missing", "folder")
HARMLESS = ("skipped.jsonl",)  # as docs/architecture.md says; a missing file of sync/ is forgotten


def spoil(path: Path, kind: str, rng: random.Random) -> bool:
    """Damage a file; False where there is nothing to damage."""
    content = bytearray(path.read_bytes())
    if kind in ("missing", "folder"):
        path.unlink()
        if kind == "folder":
            path.mkdir()
    elif content:
        at = rng.randrange(len(content))
        content[at] ^= 1 << rng.randrange(8)
        path.write_bytes({"flip": bytes(content), "cut": bytes(content[:at]), "empty": b""}[kind])
    return bool(content) or kind in ("missing", "folder")


@pytest.mark.parametrize("shape", ["whole", "shards"])
def test_damage_of_any_file_is_noticed_and_ends_no_command_otherwise(
    shape: str, tmp_path: Path
) -> None:
    right, photos, rng = (
        unpacked(STORED[-1], tmp_path, shape),
        tmp_path / "photos",
        random.Random(0),
    )
    photos.mkdir()
    for path in sample_photos()[:6]:
        shutil.copy(path, photos)
    index, first = tmp_path / "index", index_folders(right)[0]
    if shape == "whole":  # notes what it saw in a file of its own
        PhotoSync(right, photos, Encoding(["sample"], device="cpu")).run(yes=True)
    (first / "skipped.jsonl").write_text('{"image_id": "x.jpg", "reason": "damaged"}\n')
    names = sorted(path.relative_to(right) for path in right.rglob("*") if path.is_file())
    assert {"given.log", "commit.json", "skipped.jsonl"} <= {path.name for path in names}
    commands = (
        ["verify", str(index)],
        ["info", str(index)],
        ["search", str(index), "dog"],
        ["sync", str(index), str(photos), "--dry-run"],
        ["snapshot", str(index), str(tmp_path / "snapshot")],
        ["delete", str(index), "nothing"],
    )
    rebuild = ["index", str(photos), "--model", "sample", "--out", str(index)]
    for number, (name, kind) in enumerate(itertools.product(names, DAMAGE)):
        if not EVERY and (number // len(DAMAGE) - number) % len(DAMAGE):
            continue  # each file in one way
        shutil.rmtree(index, ignore_errors=True)
        shutil.copytree(right, index)
        if not spoil(index / name, kind, rng):
            continue
        again = kind in ("flip", "folder") and name.parent.name in ("", "sync", "log")
        for command in (*commands, rebuild) if again else commands:
            found = CliRunner().invoke(cli, command)
            error = found.exception
            assert error is None or isinstance(error, InputError | OSError | SystemExit), (
                f"{name} {kind} {command[0]}: {error!r}"
            )
            assert "\n" not in str(error), f"{name} {kind} {command[0]}"
            if command[0] == "verify" and name.name not in HARMLESS:
                assert found.exit_code or (kind == "missing" and name.parent.name == "sync"), (
                    f"{name} {kind}"
                )
            shutil.rmtree(tmp_path / "snapshot", ignore_errors=True)
