"""Files of settings in YAML."""

from pathlib import Path

import pytest

from sparta.errors import InputError
from sparta.yaml_file import read_yaml


def test_keys_and_values(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    for text, values in {"": {}, "a: 1\nb: [é]": {"a": 1, "b": ["é"]}, "1: x": {"1": "x"}}.items():
        path.write_text(text, encoding="utf-8")
        assert read_yaml(path) == values


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"- 1", r"settings\.yaml: expected keys and values, found list"),
        (b"a: [", r"settings\.yaml: not YAML: "),
        (b"[" * 20_000, "not YAML"),
        (b"a: \xff", "not YAML"),
        (b"a: 2001-99-99", "not YAML"),
    ],
)
def test_what_has_no_keys_and_values(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        read_yaml(path)
