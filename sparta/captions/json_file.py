"""Reading JSON: whatever is wrong with it is an `InputError`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sparta.errors import InputError

Model = TypeVar("Model", bound=BaseModel)


def load_json(path: Path) -> Any:
    """Parse a whole file.

    Raises:
        InputError: if it cannot be read or is not JSON; the text names the line.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deep
        raise InputError(f"{path}: not JSON, or cut: {error}") from error


def validate(model: type[Model], content: object, where: str) -> Model:
    """Check parsed JSON against a model.

    Raises:
        InputError: naming the first field that does not fit.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the line"
        raise InputError(f"{where}: {field}: {first['msg']}") from error
