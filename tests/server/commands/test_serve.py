"""The server on a real index, as its command starts it, and `sparta serve --check`."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import httpx
import pytest
from typer.testing import CliRunner

from indexer.engines.open import ENGINES, open_index
from indexer.store.changes import Delete
from indexer.update.writer import open_writer
from server.commands.serve import read_words
from sparta.command_line import cli
from sparta.errors import InputError
from tests.server.apps import AUTHORITY, make_certificate, make_key
from tests.server.drawings import index_drawings
from tests.server.fake import DRAWINGS, FakeSearcher


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sparta", "serve", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def address(drawings: Path) -> Iterator[str]:
    process = start(str(drawings), "--port", "0", "--example", "red", "--example", "green blue")
    assert process.stderr is not None
    lines = [process.stderr.readline() for _ in range(2)]
    found = re.search(r"http://127\.0\.0\.1:\d+", lines[0])
    assert found, lines
    assert f"{found[0]}/docs" in lines[1]
    yield found[0]
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=120)
    assert "Traceback" not in rest
    assert process.returncode == 0


def test_the_answer_is_that_of_the_drawings(address: str) -> None:
    for query in ["red", "Red blue red", "green blue qwx", "purple"]:
        params = {"q": query, "explain": "true"}
        answer = httpx.get(f"{address}/v1/search", params=params, timeout=60).json()
        expected = FakeSearcher().search(query)
        assert [(h["image_id"], h["score"]) for h in answer["hits"]] == [
            (hit.image_id, hit.score) for hit in expected.hits
        ]
        for hit in answer["hits"]:
            terms = FakeSearcher().explain(query, hit["image_id"]).terms
            for found, term in zip(hit["explanation"], terms, strict=True):
                assert (found["term"], found["count"], found["impact"], found["score"]) == (
                    term.term,
                    term.count,
                    term.impact,
                    term.score,
                )
                assert found["box"] == (term.box and pytest.approx(term.box, abs=1e-4))
    assert answer["unknown"] == ["purple"]


def test_photos_and_examples_come_from_index_and_options(address: str, photos: Path) -> None:
    backend = httpx.get(f"{address}/v1/backends", timeout=60).json()["backends"][0]
    assert backend == {
        "name": "sparta",
        "default": True,
        "images": len(DRAWINGS),
        "missing_images": 0,
        "photos": True,
        "explains": True,
        "examples": ["red", "green blue"],
    }
    response = httpx.get(f"{address}/v1/images/garden/one.png/file", timeout=60)
    assert response.content == (photos / "garden/one.png").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["INDEX", "--port", "PORT"], "port PORT on 127.0.0.1 is in use"),
        ([str(Path(__file__).parent), "--port", "0"], "is not an index"),
        (["INDEX", "--port", "0", "--host", "0.0.0.0"], "create one with: sparta keys create NAME"),
    ],
)
def test_what_cannot_be_served_is_an_error(
    drawings: Path, address: str, arguments: list[str], message: str
) -> None:
    port = address.rpartition(":")[2]
    given = {"INDEX": str(drawings), "PORT": port}
    process = start(*(given.get(one, one) for one in arguments))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert message.replace("PORT", port) in " ".join(errors.split())
    assert "Traceback" not in errors


@pytest.mark.needs("the name localhost")
def test_a_server_for_others_with_tls_and_no_key_in_its_log(drawings: Path, tmp_path: Path) -> None:
    certificate, secret = make_certificate(tmp_path)
    file = tmp_path / "keys.json"
    key = make_key(file)
    options = ["--host", "0.0.0.0", "--port", "0", "--keys", str(file)]
    options += ["--tls-certificate", str(certificate), "--tls-key", str(secret)]
    access, slow = tmp_path / "access.log", tmp_path / "slow.log"
    for setting in (f"access_log={access}", "slow_query_ms=0", f"slow_query_log={slow}"):
        options += ["--set", setting]
    process = start(str(drawings), *options)
    assert process.stderr is not None
    found = re.search(r"https://127\.0\.0\.1:(\d+)", process.stderr.readline())
    assert found
    trust = ssl.create_default_context()
    AUTHORITY.configure_trust(trust)
    with httpx.Client(base_url=f"https://localhost:{found[1]}", verify=trust, timeout=60) as client:
        search = "/v1/search?q=red"
        assert client.get(search).status_code == 401
        for headers in ({"X-API-Key": key}, {"Authorization": f"Bearer {key}"}):
            assert client.get(search, headers=headers).json()["hits"]
        signed_in = client.post("/v1/sign-in", json={"key": key})
        assert "Secure" in signed_in.headers["set-cookie"]
        assert client.get(search).json()["hits"]
        assert client.get(f"{search}&k={key}", headers={"X-API-Key": "wrong"}).status_code == 401
        assert client.get(f"{search}&k={key}&key={key}").status_code == 422
        assert client.get(f"{search}&key={key}").status_code == 422
    process.send_signal(signal.SIGINT)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert (access.read_text().count("\n"), slow.read_text().count("\n")) == (8, 3)
    for text in (log, access.read_text(), slow.read_text()):
        assert key[-20:] not in text


# ---- settings: flags before the environment before a file before defaults -----------------------


def check(*arguments: str, **environment: str) -> tuple[str, Exception | None]:
    """What is printed, without the spaces between columns, and the error."""
    command = ["serve", "--check", *arguments]
    run = CliRunner().invoke(cli, command, env=environment)
    error = run.exception if isinstance(run.exception, Exception) else None
    return " ".join(run.output.split()), error


def test_settings_their_origins_and_the_index_are_printed(tmp_path: Path) -> None:
    index = index_drawings(tmp_path / "index", tmp_path)
    config = tmp_path / "serve.yaml"
    config.write_text(f"index: {index}\nexamples: [red, green blue]\nport: 1\nworkers: 3\n")
    arguments = ["--port", "80", "--set", "allowed_hosts=a.example,b.example"]
    environment = {"SPARTA_WORKERS": "2", "SPARTA_PORT": "2", "SPARTA_PROT": "3"}
    environment |= {"SPARTA_HOST": ""}  # as compose files set what they do not use
    environment |= {"SPARTA_API_KEY": "x", "SPARTA_MILVUS_TOKEN": "root:secret"}  # of clients
    printed, error = check("--config", str(config), *arguments, **environment)
    assert error is None
    for line in (
        f"index {index} {config}: index",
        "host 127.0.0.1 default",
        "port 80 --port",
        "workers 2 SPARTA_WORKERS",
        f"examples red, green blue {config}: examples",
        "allowed_hosts a.example, b.example --set allowed_hosts",
        "photos none default",
        "Ignored: SPARTA_PROT is set and names no setting.",
        "images 5",
        "engine columns",
        "dense models none",
        f"photos {tmp_path}",
        "Would serve at http://127.0.0.1:80 with 2 processes.",
    ):
        assert line in printed
    assert printed.count("Ignored: ") == 1
    for text, shown in (("a", "a"), ("a, b,", "a, b"), ('["a, b", "c"]', "a, b, c"), (" ", "none")):
        printed, _ = check(SPARTA_CONFIG=str(config), SPARTA_EXAMPLES=text)
        assert f"examples {shown} SPARTA_EXAMPLES" in printed
    written = copytree(index, tmp_path / "written")
    with open_writer(written) as writer:
        writer.write([Delete(open_index(written).search("red").hits[0].image_id)])
    assert "images 4 " in check(str(written))[0]


CHOICE = " or ".join(map(repr, ENGINES))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "INDEX is missing: give it, set SPARTA_INDEX, or add index to the --config file"),
        (["nowhere"], "nowhere is not an index"),
        (
            ["nowhere", "--engine", "x"],
            f"--engine: input should be {CHOICE}",
        ),
        (["nowhere", "--set", "rate=x"], "--set rate: input should be a valid number"),
        (["nowhere", "--set", "rat=1"], "--set rat: there is no such setting"),
        (["nowhere", "--set", "rate"], "--set rate: expected NAME=VALUE"),
        (["nowhere", "--port", "70000"], "--port: input should be less than or equal to 65535"),
        (["nowhere", "--tls-key", __file__], "--tls-certificate and --tls-key go together: "),
        (["nowhere", "--config", "none.yaml"], "none.yaml: there is no such file"),
        (["PORT=abc"], "SPARTA_PORT: input should be a valid integer"),
        ([f"PORT={'9' * 99}"], f"(found '{'9' * 60}'…)"),
        (["EXAMPLES=[red"], "SPARTA_EXAMPLES: expecting value"),
        (["PHOTOS=/no/such"], "SPARTA_PHOTOS: path does not point to a directory"),
        (["port: many"], "serve.yaml: port: input should be a valid integer"),
        (["prot: 80"], "serve.yaml: prot: there is no such setting; the settings are access_log, "),
        (["- port"], "serve.yaml: expected keys and values, found list"),
        (["port: ["], "serve.yaml: not YAML"),
    ],
)
def test_what_cannot_run_is_an_error(arguments: list[str], message: str, tmp_path: Path) -> None:
    """Of the command line, a variable, or a file."""
    environment, file = {}, tmp_path / "serve.yaml"
    if arguments and "=" in arguments[0]:
        name, _, value = arguments[0].partition("=")
        arguments, environment = ["nowhere"], {f"SPARTA_{name}": value}
    elif arguments and " " in arguments[0]:
        file.write_text(arguments[0])
        arguments = ["--config", str(file)]  # without an index, which matters less
    _, error = check(*arguments, **environment)
    assert message in str(error)


def test_the_words_of_a_server_are_read_as_the_server_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the health check of a container does with those of its first process."""
    monkeypatch.setenv("SPARTA_HOST", "::")
    (tmp_path / "serve.yaml").write_text("port: 5\nrate: 3\nhost: 127.0.0.3\n")
    words = ["--config", str(tmp_path / "serve.yaml"), "--set", "rate=7", "--workers", "2"]
    found = read_words(words).settings
    assert (found.host, found.port, found.rate, found.workers) == ("::", 5, 7, 2)
    with pytest.raises(InputError, match="--port"):
        read_words(["index", "--port", "99999"])
