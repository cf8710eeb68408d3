import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparta.errors import InputError
from sparta.model_id import (
    SAMPLE,
    find_file,
    model_folder,
    pinned_name,
    read_model_config,
    weight_files,
)
from tests.fake_hub import HubModel, fake_hub

FIRST, LAST = "a" * 40, "b" * 40
LOADED = """
import sys
from sparta.errors import InputError
from sparta.model_id import model_folder, pinned_name
for name in sys.argv[1:]:
    try:
        print(pinned_name(name), (model_folder(name) / "model.safetensors").read_text())
    except InputError as error:
        print(error)
"""


def test_sample_is_the_shipped_model() -> None:
    assert model_folder("sample") == SAMPLE and pinned_name("sample") == "sample"
    assert read_model_config("sample", ("visual_sparta",), "model")["model_type"] == "visual_sparta"
    assert find_file("sample", "tokenizer.json") == SAMPLE / "tokenizer.json"
    assert find_file(SAMPLE, "absent.json") is None


def test_a_path_is_no_name_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    (tmp_path / "notes").write_text("")
    (tmp_path / "photos").mkdir()
    for name in ("./absent", "models/absent", "a/b/c", "/absent", "~nobody/x", "../absent"):
        with pytest.raises(InputError, match=f"--model {name} does not exist: give a model's fold"):
            read_model_config(name, (), "model", "--model")
    with pytest.raises(InputError, match="notes is not a folder"):
        find_file("notes", "config.json")
    assert model_folder("~/models", weights=False) == tmp_path / "models"
    assert model_folder("./photos", weights=False) == Path("photos")
    with pytest.raises(InputError, match=r"models has neither model\.safetensors nor pytorch_mo"):
        model_folder("models")


def test_weights_may_be_in_parts(tmp_path: Path) -> None:
    parts = [tmp_path / f"model-{n}.safetensors" for n in (1, 2)]
    for part in parts:
        part.touch()
    index = {"weight_map": {"a": parts[1].name, "b": parts[0].name, "c": parts[0].name}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert weight_files(tmp_path) == parts
    assert model_folder(tmp_path) == tmp_path


# ---- the hub -------------------------------------------------------------------------------------


def repository(folder: Path, content: str, weights: bool = True) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "tokenizer.json").write_text("{}")
    if weights:
        (folder / "model.safetensors").write_text(content)
        (folder / "pytorch_model.bin").write_text("not wanted")
    return folder


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("hub")
    former, newer = (repository(folder / name, name) for name in ("former", "newer"))
    bare = repository(folder / "bare", "", weights=False)
    text = folder / "text"
    text.mkdir()
    (text / "README.md").write_text("")
    models = {
        "owner/net": HubModel({FIRST: former, LAST: newer}),
        "owner/gated": HubModel({FIRST: former}, 403, "GatedRepo"),
        "owner/refused": HubModel({FIRST: former}, 403),
        "owner/private": HubModel({FIRST: former}, 401, "RepoNotFound"),
        "owner/broken": HubModel({FIRST: former}, 503),
        "owner/bare": HubModel({FIRST: bare}),
        "owner/text": HubModel({FIRST: text}),
    }
    with fake_hub(models) as address:
        yield address


def loaded(home: Path, address: str, *names: str, **environment: str) -> list[str]:
    """What loading models in a process of its own says, a line each."""
    settings = {"HF_HOME": str(home), "HF_ENDPOINT": address} | environment
    command, settings = [sys.executable, "-c", LOADED, *names], os.environ | settings
    run = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def test_a_revision_is_pinned_and_the_commit_is_the_name(hub: str, tmp_path: Path) -> None:
    newest, pinned = f"owner/net@{LAST} newer", f"owner/net@{FIRST} former"
    names = ["owner/net", f"owner/net@{FIRST}", "owner/net@main"]
    assert loaded(tmp_path, hub, *names) == [newest, pinned, newest]
    assert not list(tmp_path.rglob("pytorch_model.bin"))
    # What was downloaded is there without the hub.
    assert loaded(tmp_path, hub, *names, HF_HUB_OFFLINE="1") == [newest, pinned, newest]
    assert loaded(tmp_path, "http://127.0.0.1:9", *names) == [newest, pinned, newest]


def test_what_the_hub_lacks_or_refuses_is_one_line(hub: str, tmp_path: Path) -> None:
    lines = {
        "owner/net@v9": "owner/net has no revision 'v9' on the hub",
        "owner/gated": f"owner/gated is gated: accept its terms on {hub}/owner/gated, then log in",
        "owner/refused": "owner/refused is gated",
        "owner/private": "log in with `hf auth login` if it is private",
        "owner/broken": "cannot be reached: Server error '503",
        "owner/bare": "owner/bare has neither model.safetensors nor pytorch_model.bin: name",
        "owner/text": "owner/text has no config.json on the hub",
        "owner/absent": f"owner/absent is no folder, and the hub ({hub}) has no such model: check",
        "absent": "absent is no folder, and the hub",
        "owner/a b": "owner/a b is no folder, and no name of the hub: give OWNER/NAME",
    }
    found = loaded(tmp_path, hub, *lines)
    assert len(found) == len(lines)
    for line, said in zip(found, lines.values(), strict=True):
        assert said in line


def test_a_hub_that_is_not_reached_is_one_line_within_seconds(hub: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        cases = {
            "http://127.0.0.1:9": "Connection refused",
            "http://hub.invalid": "cannot be reached: ",
            f"http://127.0.0.1:{port}": "cannot be reached: ",
        }
        for address, said in cases.items():
            start = time.monotonic()
            [line] = loaded(tmp_path, address, "owner/net")
            assert time.monotonic() - start < 15  # a start and a time-out
            assert line.startswith(f"owner/net is no folder, and the hub ({address}) cannot be re")
            assert said in line
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        [line] = loaded(tmp_path, hub, "owner/net", **{variable: "1"})
        assert f"looked for while {variable} is set: unset it" in line


def test_a_part_of_a_model_in_the_cache_is_said(hub: str, tmp_path: Path) -> None:
    loaded(tmp_path, hub, "owner/bare")
    [line] = loaded(tmp_path, hub, "owner/bare", HF_HUB_OFFLINE="1")
    assert "has neither model.safetensors nor pytorch_model.bin in the hub's cache, where" in line


def test_another_models_configuration_is_refused(tmp_path: Path) -> None:
    cases = {"{}": "no config.json of one", '{"model_type": "bert"}': "is of a bert", "{": "JSON"}
    cases |= {"[" * 100_000: "config.json is not JSON", "[1]": "no config.json of one"}
    for content, message in cases.items():
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(InputError, match=message) as error:
            read_model_config(tmp_path, ("vse",), "dense model", "--dense")
        assert str(error.value).startswith(f"--dense {tmp_path} is not ")
        assert "\n" not in str(error.value)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vse", "views": 3}))
    assert read_model_config(tmp_path, ("vse",), "dense model")["views"] == 3
