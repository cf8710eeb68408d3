"""`sparta serve --check`."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree, rmtree

import pytest
from typer.testing import CliRunner

from indexer.engines.open import open_index
from indexer.store.changes import Delete
from indexer.update.writer import open_writer
from sparta.command_line import cli
from tests.server.drawings import index_drawings


def check(*arguments: str, **environment: str) -> tuple[str, Exception | None]:
    """What is printed, without the spaces between columns, and the error."""
    command = ["serve", "--check", *arguments]
    run = CliRunner().invoke(cli, command, env=environment)
    error = run.exception if isinstance(run.exception, Exception) else None
    return " ".join(run.output.split()), error


def test_settings_their_origins_and_the_index_are_printed(tmp_path: Path) -> None:
    index = index_drawings(tmp_path / "index", tmp_path)
    config = tmp_path / "serve.yaml"
    config.write_text(f"index: {index}\nexamples: [red, green blue]\n")
    arguments = ["--config", str(config), "--port", "80", "--allowed-host", "a.example"]
    environment = {"SPARTA_WORKERS": "2", "SPARTA_PROT": "3", "SPARTA_API_KEY": "x"}
    printed, error = check(*arguments, "--allowed-host", "b.example", **environment)
    assert error is None
    for line in (
        f"index {index} {config}: index",
        "port 80 --port",
        "workers 2 SPARTA_WORKERS",
        f"examples red, green blue {config}: examples",
        "allowed_hosts a.example, b.example --allowed-host",
        "photos none default",
        "Ignored: SPARTA_PROT is set and names no setting.",
        "images 5",
        "engine columns",
        "dense models none",
        f"photos {tmp_path}",
        "Would serve at http://127.0.0.1:80 with 2 processes.",
    ):
        assert line in printed
    written = copytree(index, tmp_path / "written")
    with open_writer(written) as writer:
        writer.write([Delete(open_index(written).search("red").hits[0].image_id)])
    assert "images 4 " in check(str(written))[0]
    rmtree(index / "columns")
    assert "engine lucene" in check(str(index))[0]
    assert "columns, which will be built first" in check(str(index), "--engine", "columns")[0]
    assert not (index / "columns").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "INDEX is missing"),
        (["nowhere"], "nowhere is not an index"),
        (["nowhere", "--engine", "x"], "--engine: input should be 'auto', 'lucene' or 'columns'"),
        (["nowhere", "--port", "70000"], "--port: input should be less than or equal to 65535"),
    ],
)
def test_what_cannot_run_is_an_error(arguments: list[str], message: str) -> None:
    _, error = check(*arguments)
    assert message in str(error)
