"""Published sites on hosts of both kinds, measured at a small scale."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner

from eval.bench.publishing.http2 import hosting_http2
from eval.commands.bench.publish import NAMES
from eval.commands.bench.publish import publish as command
from sparta.errors import InputError


def test_a_host_speaks_http2_and_answers_ranges(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>Photos</p>", encoding="utf-8")
    (tmp_path / "numbers.bin").write_bytes(bytes(range(256)))
    with (
        hosting_http2(tmp_path) as address,
        httpx.Client(http2=True, verify=False, base_url=address) as client,
    ):
        page = client.get("/")
        assert (page.http_version, page.text) == ("HTTP/2", "<p>Photos</p>")
        part = client.get("/numbers.bin", headers={"Range": "bytes=10-12"})
        assert (part.status_code, part.content) == (206, bytes([10, 11, 12]))
        assert client.get("/none").status_code == 404


@pytest.mark.skipif(
    not any(map(shutil.which, NAMES)), reason=f"no browser is in PATH: none of {', '.join(NAMES)}"
)
def test_every_host_is_measured(drawings: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(command)
    queries, out = tmp_path / "queries.txt", tmp_path / "out.json"
    texts = [f"red {word}" for word in ("blue", "green", "dark", "things", "red", "a", "in", "on")]
    queries.write_text("\n".join(texts), encoding="utf-8")
    arguments = [str(drawings), "--queries", str(queries), "--images", "40", "--visits", "2"]
    arguments += ["--site", str(tmp_path / "site"), "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--host", "http2,whole-files"])
    assert result.exit_code == 0, (result.output, result.exception)
    fast, plain = json.loads(out.read_text())
    assert (fast["host"], plain["host"]) == ("http2", "whole-files")
    for record in (fast, plain):
        assert record["images"] == 40 and record["first"]["bytes"]["median"] > 0
        assert record["first"]["ms"]["median"] > 50 and record["next"]["ms"]["median"] > 0
    refused = CliRunner().invoke(app, [*arguments, "--host", "http3"])
    assert isinstance(refused.exception, InputError)
    assert "'http3' is not one of: http2, http1, whole-files" in str(refused.exception)


def test_an_unknown_kind_is_refused(drawings: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--kind must be one of copies, mixed, drawn"):
        command(drawings, tmp_path, tmp_path, tmp_path, kind="odd")
