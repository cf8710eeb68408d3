"""Model names: folders, names on the Hugging Face hub, and models that ship with the package."""

from __future__ import annotations

import json
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from safetensors import SafetensorError

from sparta.errors import InputError, first_line

_SHIPPED = Path(__file__).parent / "visualsparta" / "shipped"
# Models that ship with the package: for photos, and for drawings of scenes.
PHOTOS, SAMPLE = _SHIPPED / "photos", _SHIPPED / "sample"


def resolve(name: str | Path) -> str | Path:
    """The folder of a model of the package, for "photos" and "sample"; other names unchanged.

    A folder called "photos" in the working directory is "./photos".
    """
    return {"photos": PHOTOS, "sample": SAMPLE}.get(str(name), name)


def check_name(name: str | Path, title: str, option: str = "") -> str:
    """Resolve the name of a model that may exist: a folder, or OWNER/NAME on the hub.

    Any other name could not be on the hub, which takes half a minute to answer.

    Args:
        name: folder, hub name, "photos" or "sample".
        title: what is wanted, for the message ("dense model").
        option: of the command line that gave the name, for the message.

    Raises:
        InputError: if it is neither a folder nor a possible hub name.
    """
    folder = Path(resolve(name))
    possible = len(folder.parts) == 2 and not folder.is_absolute() and not folder.parent.exists()
    if not folder.is_dir() and not possible:
        state = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{_prefix(option)}{name} {state}: give the folder of a {title}")
    return str(folder)


def read_model_config(
    name: str | Path, types: tuple[str, ...], title: str, option: str = ""
) -> dict[str, Any]:
    """The content of a model's `config.json`, without loading its weights.

    Args:
        name: folder, hub name, "photos" or "sample".
        types: accepted values of `model_type`.
        title: what is wanted, for messages ("dense model").
        option: of the command line that gave the name, for messages.

    Raises:
        InputError: if there is no such model, or it is of another type.
    """
    where = check_name(name, title, option)
    prefix = _prefix(option)
    try:
        path = find_file(where, "config.json")
        values = json.loads(path.read_text(encoding="utf-8")) if path else {}
    except OSError as error:
        raise InputError(
            f"{prefix}{name} is not the folder of a {title}, nor on the hub: {first_line(error)}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{prefix}{name} is not a {title}: its config.json is not JSON ({error})"
        ) from error
    found = values.get("model_type") if isinstance(values, dict) else None
    if found not in types:
        reason = f"its config.json is of a {found}" if found else "it has no config.json of one"
        raise InputError(f"{prefix}{name} is not a {title}: {reason}")
    return dict(values)


def find_file(name: str | Path, file: str) -> Path | None:
    """One file of a folder or hub name, None if it has none of that name.

    Raises:
        OSError: if there is no such model.
    """
    if Path(name).is_dir():
        path = Path(name, file)
        return path if path.is_file() else None
    from transformers.utils.hub import cached_file

    found = cached_file(str(name), file, _raise_exceptions_for_missing_entries=False)
    return None if found is None else Path(found)


# What loading weights raises, beside OSError and ValueError, where their file is damaged, contains
# more than tensors, or has other shapes than the configuration.
DAMAGED_WEIGHTS = (SafetensorError, UnpicklingError, RuntimeError, LookupError, EOFError)


def _prefix(option: str) -> str:
    return f"{option} " if option else ""
