"""`sparta push`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from indexer.milvus.push import Pushed
from sparta.command_line import cli
from sparta.errors import InputError


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(cli, ["push", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_an_index_is_pushed_and_followed(
    index: Path,
    uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pushed = run(index, uri, "--collection", "command")
    assert pushed.startswith("command_")
    assert "300 images, 300 written, 0 deleted; the server has no aliases: use this" in pushed
    monkeypatch.setattr("indexer.milvus.push.build_version", lambda folder: "0" * 12)
    again = run(index, uri, "--collection", "command")
    former = pushed.partition(":")[0]
    assert f"Former versions, which --drop-former drops: {former}" in again
    assert "Former" not in run(index, uri, "--collection", "command", "--drop-former")

    def once(*arguments: Any) -> None:
        done, notice = arguments[3:5]
        done(Pushed("photos_0", 3, 2, 1, True, []))
        notice("[as it is]")

    monkeypatch.setattr("indexer.milvus.push.follow", once)
    followed = run(index, uri, "--collection", "command", "--follow")
    assert followed == "photos_0: 3 images, 2 written, 1 deleted\n[as it is]\n"
    with pytest.raises(InputError, match="give --follow or --drop-former, not both"):
        run(index, uri, "--follow", "--drop-former")
