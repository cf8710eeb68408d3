"""Settings of a training run: presets and YAML files, every key checked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import yaml
from pydantic import ValidationError

from sparta.errors import InputError, first_line
from sparta.files import read_yaml
from sparta.json_values import Json
from training.terms.config import TermVectorsConfig
from training.visualsparta.config import VisualSpartaTrainConfig
from training.vse.config import VseTrainConfig

PRESETS = Path(__file__).parent / "presets"

LightningConfig: TypeAlias = VisualSpartaTrainConfig | VseTrainConfig
TrainConfig: TypeAlias = LightningConfig | TermVectorsConfig
FAMILIES: dict[str, type[TrainConfig]] = {
    "visual-sparta": VisualSpartaTrainConfig,
    "term-vectors": TermVectorsConfig,
    "vse": VseTrainConfig,
}


def load_config(name: str, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a preset or a YAML file and apply `key=value` overrides such as `data.split=train`.

    A file can build on presets, `extends: [NAME, …]`: a later one overrides the earlier ones, and
    the file's own keys override all of them.

    Raises:
        InputError: if there is no such preset or file, or a key or value is wrong.
    """
    values = _read(name)
    for override in overrides:
        _apply(values, override)
    family = values.get("family", "visual-sparta")
    if family not in FAMILIES:
        raise InputError(f"{name}: family: {family!r} is unknown; expected {' or '.join(FAMILIES)}")
    try:
        return FAMILIES[family].model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key, given = ".".join(map(str, first["loc"])), first["input"]
        problem = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            problem = "there is no such setting"
        elif isinstance(given, str | int | float):
            problem += f", got {given!r}"
        asked = key and any(key.startswith(one.partition("=")[0]) for one in overrides)
        # The settings as a whole have no key.
        parts = [f"--set {key}" if asked else str(_path(name)), "" if asked else key, problem]
        raise InputError(": ".join(part for part in parts if part)) from error


def _path(name: str) -> Path:
    path = Path(name)
    return path if path.suffix in {".yaml", ".yml"} else PRESETS / f"{name}.yaml"


def _read(name: str) -> Json:
    path = _path(name)
    if not path.is_file():
        known = sorted(str(p.relative_to(PRESETS).with_suffix("")) for p in PRESETS.rglob("*.yaml"))
        raise InputError(f"{name}: neither a YAML file nor a preset; the presets are {known}")
    values = read_yaml(path)
    merged: Json = {}
    for base in values.pop("extends", []):
        merged = _merged(merged, _read(base))
    return _merged(merged, values)


def _merged(base: Json, over: Json) -> Json:
    both = {
        key: _merged(base[key], over[key])
        for key in base.keys() & over.keys()
        if isinstance(base[key], dict) and isinstance(over[key], dict)
    }
    return base | over | both


def _apply(values: Json, override: str) -> None:
    """Set one dotted key; the value is parsed as YAML: 3 is a number, [a, b] a list."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InputError(f"--set {override}: expected key=value")
    *parents, last = key.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
        if not isinstance(values, dict):
            raise InputError(f"--set {override}: {parent} is a value and has no keys")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = first_line(error)
        raise InputError(f"--set {override[:80]}: the value is not YAML: {reason}") from error
    # YAML 1.1 parses 1e-4 as a string.
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)
    values[last] = value
