"""Reading files of settings in YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from sparta.errors import InputError, first_line


def read_yaml(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file; none of an empty one.

    Raises:
        InputError: if it is not YAML, or has something else than keys and values.
        OSError: if it cannot be read.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not YAML: {first_line(error)}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected keys and values, found {type(values).__name__}")
    return {str(key): value for key, value in values.items()}
