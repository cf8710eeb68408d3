from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparta.errors import InputError
from sparta.model_id import SAMPLE, check_name, find_file, read_model_config, resolve


def test_sample_is_the_shipped_model(tmp_path: Path) -> None:
    assert resolve("sample") == SAMPLE
    assert resolve("./sample") == "./sample"
    assert check_name("sample", "model") == str(SAMPLE)
    assert read_model_config("sample", ("visual_sparta",), "model")["model_type"] == "visual_sparta"
    assert find_file(SAMPLE, "tokenizer.json") == SAMPLE / "tokenizer.json"
    assert find_file(SAMPLE, "absent.json") is None


def test_a_hub_name_has_an_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "notes").write_text("")
    assert check_name("owner/name", "model") == "owner/name"
    cases = {
        "absent": "--model absent does not exist: give the folder of a dense model",
        "models/absent": "does not exist",
        "a/b/c": "does not exist",
        "/absent": "does not exist",
        "notes": "notes is not a folder",
    }
    for name, message in cases.items():
        with pytest.raises(InputError, match=message):
            check_name(name, "dense model", "--model")


def test_another_models_configuration_is_refused(tmp_path: Path) -> None:
    cases = {"{}": "no config.json of one", '{"model_type": "bert"}': "is of a bert", "{": "JSON"}
    for content, message in cases.items():
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(InputError, match=message) as error:
            read_model_config(tmp_path, ("vse",), "dense model", "--dense")
        assert str(error.value).startswith(f"--dense {tmp_path} is not ")
        assert "\n" not in str(error.value)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vse", "views": 3}))
    assert read_model_config(tmp_path, ("vse",), "dense model")["views"] == 3


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, "[1]", "7"])
def test_a_configuration_of_strange_json_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(
        InputError, match=r"is not a dense model: (its|it has no) config\.json"
    ) as error:
        read_model_config(tmp_path, ("vse",), "dense model", "--model")
    assert "\n" not in str(error.value)
