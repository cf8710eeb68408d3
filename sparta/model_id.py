"""Model names: folders, names on the Hugging Face hub, and models that ship with the package.

A name of no model raises InputError.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from errno import EACCES, ENOSPC, EROFS
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from threading import Thread
from typing import NamedTuple, TypeVar

from safetensors import SafetensorError

from sparta.errors import InputError, first_line
from sparta.json_values import Json

_SHIPPED = Path(__file__).parent / "visualsparta" / "shipped"
# Models that ship with the package: for photos, for drawings of scenes, and a transformer over a
# detector's regions of such drawings, whose features in Oscar's form are beside it.
PHOTOS, SAMPLE, REGIONS = (_SHIPPED / name for name in ("photos", "sample", "regions"))
CONFIG = "config.json"
TOWER = (
    "tower"  # folder in a model's, with the network that makes its features, in OpenVINO's format
)
# Files of weights, the preferred one first; a file of parts has `.index.json` behind its name.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_SMALL = (".json", ".txt", ".model")  # all else that models are loaded from
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_SECONDS = 5  # of silence of the hub
_DEADLINE = 9  # seconds until the hub must have answered, its name looked up included

Found = TypeVar("Found")
log = logging.getLogger(__name__)

# What loading weights raises, beside OSError and ValueError, where their file is damaged, contains
# more than tensors, or has other shapes than the configuration.
DAMAGED_WEIGHTS = (SafetensorError, UnpicklingError, RuntimeError, LookupError, EOFError)


def model_folder(name: str | Path, weights: bool = True) -> Path:
    """The folder to load a model from; files on the hub are downloaded once.

    Args:
        name: folder, "photos", "sample" or "regions" of the package (a folder of that name in the
            working directory is "./photos"), or OWNER/NAME of the hub, with @REVISION for a branch,
            tag or commit.
        weights: whether they are needed, too.

    Raises:
        InputError: if there is no such model, or it has no weights that are needed.
    """
    folder, where = _local_folder(name), ""
    if folder is None:
        hub = _on_hub(str(name))
        where = " in the hub's cache, where alone they were looked for" if hub.cached else ""
        small = [one for one in hub.files if "/" not in one and one.endswith(_SMALL)]
        small += [one for one in hub.files if one.startswith(f"{TOWER}/")]
        [folder] = {hub.download(file).parent for file in (CONFIG, *small)}
    if weights and not weight_files(name):
        files = " nor ".join(WEIGHTS)
        raise InputError(f"{name} has neither {files}{where}: name a model with weights")
    return folder


def weight_files(name: str | Path) -> list[Path]:
    """The files of a model's weights: several if they are in parts, none if it has no weights."""
    for file in WEIGHTS:
        if path := find_file(name, file):
            return [path]
        if index := find_file(name, f"{file}.index.json"):
            parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            found = (find_file(name, part) for part in sorted(set(parts)))
            return [path for path in found if path]
    return []


def find_file(name: str | Path, file: str) -> Path | None:
    """One file of a model as `model_folder` takes it, None if it has none of that name."""
    if (folder := _local_folder(name)) is not None:
        return folder / file if (folder / file).is_file() else None
    hub = _on_hub(str(name))
    return hub.download(file) if file in hub.files else None


def pinned_name(name: str | Path) -> str:
    """The name to record: OWNER/NAME@COMMIT of a model on the hub, any other unchanged."""
    return str(name) if _local_folder(name) else _on_hub(str(name)).name


def lasting_name(name: str | Path) -> str:
    """As `pinned_name`; a folder's whole path, so that the name holds in every working folder."""
    if (folder := _local_folder(name)) is None:
        return pinned_name(name)
    return folder.name if folder in (PHOTOS, SAMPLE) else str(folder.resolve())


def read_model_config(
    name: str | Path, types: tuple[str, ...], title: str, option: str = ""
) -> Json:
    """The content of a model's `config.json`, without loading its weights.

    Args:
        name: as `model_folder` takes it.
        types: accepted values of `model_type`; any if empty.
        title: what is wanted, for messages ("dense model").
        option: of the command line that gave the name, for messages.

    The backbone of a model that has its own is the path of it.

    Raises:
        InputError: if there is no such model, or it is of another type.
    """
    prefix = f"{option} " if option else ""
    try:
        path = find_file(name, CONFIG)
    except InputError as error:
        raise InputError(f"{prefix}{error}") from error
    try:
        values = json.loads(path.read_text(encoding="utf-8")) if path else None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{prefix}{name} is not a {title}: its config.json is not JSON ({first_line(error)})"
        ) from error
    found = values.get("model_type") if isinstance(values, dict) else None
    if not isinstance(values, dict) or (types and found not in types):
        reason = f"its config.json is of a {found}" if found else "it has no config.json of one"
        raise InputError(f"{prefix}{name} is not a {title}: {reason}")
    tower = path.parent / TOWER if path else None
    if tower and tower.is_dir() and (source := values.get("feature_source")):
        source["backbone"] = str(tower.resolve())
    return values


def _local_folder(name: str | Path) -> Path | None:
    """The folder of a name, None for a name on the hub."""
    text = str(name)
    at_home = Path.home() / text[2:] if text.startswith("~/") else Path(text)
    folder = {"photos": PHOTOS, "sample": SAMPLE, "regions": REGIONS}.get(text, at_home)
    if folder.is_dir():
        return folder
    repository = Path(text.partition("@")[0])
    is_path = text.startswith((".", "/", "~")) or len(repository.parts) > 2
    if is_path or folder.exists() or (len(repository.parts) == 2 and repository.parent.exists()):
        state = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{name} {state}: give a model's folder, or OWNER/NAME of the hub")
    return None


# ---- the hub -------------------------------------------------------------------------------------


class _Repository(NamedTuple):
    """A model on the hub at one commit; or its copy in the cache, where the hub was not reached."""

    name: str
    files: list[str]
    cached: bool

    def download(self, file: str) -> Path:
        """The path of one of its files in the cache."""
        try:
            return _download(self.name, file)
        except Exception as error:
            raise _explained(self.name, error) from error


@cache
def _on_hub(name: str) -> _Repository:
    from huggingface_hub import HfApi

    repository, _, revision = name.partition("@")
    files: list[str] = []
    problem: Exception | None = None
    if not any(map(_is_set, _OFFLINE)):
        # Asked first, because it is not tried again and again where the hub is not reached.
        try:
            info = _within(
                lambda: HfApi().model_info(repository, revision=revision or None, timeout=_SECONDS)
            )
            files = [one.rfilename for one in info.siblings or []]
            config = _download(name, CONFIG)
        except Exception as error:  # of any kind, by the HTTP library of the client's version
            problem = error
    if cached := problem is not None or not files:
        try:
            config = _download(name, CONFIG, cached=True)
        except Exception as error:
            raise _explained(name, problem or error) from error
        files = sorted(path.name for path in config.parent.iterdir())
        if problem:
            log.warning("The copy in the cache is used: %s", _explained(name, problem))
    return _Repository(f"{repository}@{config.parent.name}", files, cached)


def _download(name: str, file: str, cached: bool = False) -> Path:
    from huggingface_hub import hf_hub_download

    repository, _, revision = name.partition("@")
    found = hf_hub_download(
        repository,
        file,
        revision=revision or None,
        etag_timeout=_SECONDS,
        local_files_only=cached or any(map(_is_set, _OFFLINE)),
    )
    return Path(found)


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").upper() in ("1", "ON", "YES", "TRUE")


def _within(call: Callable[[], Found]) -> Found:
    """The result of a call to the hub; looking up its name has no time-out of its own."""
    found: list[Found | Exception] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(_DEADLINE)
    if not found:
        raise TimeoutError(f"no answer within {_DEADLINE} seconds")
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def _explained(name: str, error: Exception) -> InputError:
    """What an error of the hub's client means, in one line."""
    from huggingface_hub import constants, errors

    repository, _, revision = name.partition("@")
    hub = f"the hub ({constants.ENDPOINT})"
    if variable := next(filter(_is_set, _OFFLINE), None):
        return InputError(
            f"{name} is no folder, and is not in the hub's cache ({constants.HF_HUB_CACHE}), where "
            f"alone it is looked for while {variable} is set: unset it, or give a folder"
        )
    # What a request met is the cause of "not in the cache".
    cause = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) else error
    status = getattr(getattr(cause, "response", None), "status_code", None)
    if isinstance(cause, errors.RevisionNotFoundError):
        return InputError(f"{name}: {repository} has no revision {revision!r} on {hub}")
    if isinstance(cause, errors.EntryNotFoundError):
        return InputError(f"{name} has no {CONFIG} on {hub}: it is no model of transformers")
    if isinstance(cause, errors.GatedRepoError) or status == 403:
        return InputError(
            f"{name} is gated: accept its terms on {constants.ENDPOINT}/{repository}, then log in "
            "with `hf auth login` or set HF_TOKEN"
        )
    if isinstance(cause, errors.RepositoryNotFoundError) or status in (401, 404):
        return InputError(
            f"{name} is no folder, and {hub} has no such model: check the name; log in with "
            "`hf auth login` if it is private"
        )
    if isinstance(cause, errors.HFValidationError):
        return InputError(f"{name} is no folder, and no name of the hub: give OWNER/NAME")
    if isinstance(cause, OSError) and cause.errno in (ENOSPC, EACCES, EROFS):
        return InputError(f"{name}: {constants.HF_HUB_CACHE}: {cause.strerror}")
    reason = str(cause or error).strip().partition("\n")[0] or type(cause).__name__
    return InputError(
        f"{name} is no folder, and {hub} cannot be reached: {reason}; check the network, or give "
        "a folder"
    )
