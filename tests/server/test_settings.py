"""Settings: flags before the environment before a file before defaults, each error one line."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from indexer.engines.open import ENGINES
from server.settings import ServerSettings, load_settings
from sparta.errors import InputError

FLAGS = {field: f"--{field}" for field in ServerSettings.model_fields}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "serve.yaml"
    path.write_text("index: from-file\nport: 1\nworkers: 3\nallowed_hosts: [a.b, c.d]\n")
    return path


def test_flags_come_before_the_environment_before_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARTA_PORT", "2")
    monkeypatch.setenv("SPARTA_WORKERS", "2")
    monkeypatch.setenv("SPARTA_HOST", "")  # as compose files set what they do not use
    loaded = load_settings({"port": 4}, FLAGS, file)
    found = loaded.settings
    assert (found.port, found.workers, found.index) == (4, 2, Path("from-file"))
    assert found.allowed_hosts == ("a.b", "c.d")
    assert loaded.origins["port"] == "--port"
    assert loaded.origins["workers"] == "SPARTA_WORKERS"
    assert loaded.origins["index"] == f"{file}: index"
    assert loaded.origins["host"] == "default"
    monkeypatch.setenv("SPARTA_CONFIG", str(file))
    assert load_settings({}, FLAGS).settings.workers == 2 and found.index == Path("from-file")
    assert ServerSettings(index=Path("i")).port == 8000  # what is made in code reads nothing


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", ("a",)), ("a, b,", ("a", "b")), ('["a, b", "c"]', ("a, b", "c")), (" ", ())],
)
def test_lists_in_the_environment(
    text: str, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARTA_EXAMPLES", text)
    loaded = load_settings({"index": "i"}, FLAGS)
    assert loaded.settings.examples == expected
    assert loaded.shown("examples") == (", ".join(expected) or "none")


def test_what_names_no_setting_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARTA_PROT", "80")
    monkeypatch.setenv("SPARTA_MILVUS_TOKEN", "root:secret")  # the client's of Milvus
    assert load_settings({"index": "i"}, FLAGS).ignored == ["SPARTA_PROT"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PORT", "abc", r"^SPARTA_PORT: input should be a valid integer.* \(found 'abc'\)$"),
        ("PORT", "9" * 99, r"^SPARTA_PORT: .*\(found '9{60}'…\)$"),
        ("ENGINE", "fast", "^SPARTA_ENGINE: input should be 'columns' or 'lucene'"),
        ("EXAMPLES", "[red", "^SPARTA_EXAMPLES: expecting value"),
        ("PHOTOS", "/no/such", "^SPARTA_PHOTOS: path does not point to a directory"),
    ],
)
def test_a_wrong_variable_is_named(
    name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SPARTA_{name}", value)
    with pytest.raises(InputError, match=message):
        load_settings({"index": "i"}, FLAGS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port: many", r"serve\.yaml: port: input should be a valid integer"),
        ("prot: 80", r"serve\.yaml: prot: there is no such setting; the settings are access_log, "),
        ("- port", r"serve\.yaml: expected keys and values, found list"),
        ("port: [", r"serve\.yaml: not YAML"),
        ("", r"^--index is missing: give it, set SPARTA_INDEX, or add index to the --config file$"),
    ],
)
def test_a_wrong_file_is_named(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        load_settings({}, FLAGS, file)


def test_wrong_flags_and_a_missing_file_are_named(file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: there is no such file"):
        load_settings({}, FLAGS, tmp_path / "none.yaml")
    with pytest.raises(InputError, match=r"^--port: .* \(found '70000'\)$"):
        load_settings({"index": "i", "port": 70000}, FLAGS)
    with pytest.raises(InputError, match=r"^--tls-certificate and --tls-key go together: "):
        load_settings({"index": "i", "tls_key": file}, FLAGS)


def test_the_engines_are_those_of_the_index() -> None:
    assert get_args(ServerSettings.model_fields["engine"].annotation) == ENGINES
