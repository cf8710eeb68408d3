"""The settings of a server: from flags, the environment and a file, each checked in one place."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BeforeValidator, DirectoryPath, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from sparta.errors import InputError, first_line

PREFIX = "SPARTA_"
CONFIG_VARIABLE = "SPARTA_CONFIG"
DEFAULT = "default"
SHOWN = 60  # characters of a wrong value


def _as_list(value: object) -> object:
    """A list from text: JSON if it begins with a bracket, else names separated by commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [part.strip() for part in value.split(",") if part.strip()]


Texts = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_as_list)]


class ServerSettings(BaseSettings):
    """Everything that `sparta serve` can be given; one made in code reads no environment.

    The description of a field is the help of its flag.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    # What is served
    index: Path = Field(description="Index folder")
    photos: DirectoryPath | None = Field(
        default=None, description="Photos folder; by default the one that was indexed"
    )
    engine: Literal["auto", "lucene", "columns"] = Field(
        default="auto",
        description="Engine of the inverted index: lucene; columns, which are built if missing; or "
        "auto: columns if the index has them",
    )
    examples: Texts = Field(default=(), description="Example query shown on the page; repeatable")

    # Where and how it is served
    host: str = Field(default="127.0.0.1", description="Address to listen on")
    port: int = Field(
        default=8000, ge=0, le=65535, description="Port to listen on, 0 for any free one"
    )
    workers: int = Field(
        default=1, ge=1, description="Number of processes, each with its own memory"
    )

    # Access
    allowed_hosts: Texts = Field(
        default=(),
        description="Name under which the server is reached, as through a proxy, besides --host; "
        "repeatable. Requests for other names are refused",
    )

    # Operation
    access_log: str | None = Field(
        default=None,
        description="File for a line of JSON a request, without queries; - for standard output",
    )
    slow_query_ms: float | None = Field(
        default=None,
        ge=0,
        description="Log searches that take at least so many milliseconds, with their queries",
    )
    slow_query_log: str = Field(
        default="-", description="File of these lines of JSON; - for standard output"
    )
    tracing: bool = Field(
        default=False,
        description="Send traces to OpenTelemetry, as its own variables (OTEL_…) say; needs the "
        "extra tracing",
    )
    drain_seconds: float = Field(
        default=0,
        ge=0,
        description="Go on this long after SIGTERM, while /readyz tells load balancers to leave",
    )

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[Any, ...]:
        """Values come from the caller alone; `load_settings` reads the other sources."""
        return (sources["init_settings"],)


@dataclass(frozen=True)
class LoadedSettings:
    """Settings, and where each came from.

    Attributes:
        settings: checked.
        origins: field → what the user wrote it in: a flag, a variable, a file, or "default".
        ignored: variables that begin like ours and name no setting.
    """

    settings: ServerSettings
    origins: dict[str, str]
    ignored: list[str]

    def shown(self, field: str) -> str:
        """A setting as text; a secret only as stars."""
        value = getattr(self.settings, field)
        if isinstance(value, tuple):
            return ", ".join(map(str, value)) or "none"
        return "none" if value is None else str(value)


def load_settings(
    flags: Mapping[str, Any], flag_names: Mapping[str, str], config: Path | None = None
) -> LoadedSettings:
    """Settings from flags, else the environment, else a file, else defaults.

    Args:
        flags: field → value, of the flags that were given.
        flag_names: field → its flag, for messages.
        config: a YAML file of fields; None for the one that SPARTA_CONFIG names, if any.

    Raises:
        InputError: naming the flag, variable or file and key of a wrong value.
    """
    if config is None and (named := os.environ.get(CONFIG_VARIABLE)):
        config = Path(named)
    fields = ServerSettings.model_fields
    sources = [(_read(config), {field: f"{config}: {field}" for field in fields})] if config else []
    variables = {field: f"{PREFIX}{field.upper()}" for field in fields}
    sources.append((EnvSettingsSource(ServerSettings)(), variables))
    sources.append((dict(flags), dict(flag_names)))
    values: dict[str, Any] = {}
    origins: dict[str, str] = dict.fromkeys(fields, DEFAULT)
    for found, names in sources:
        values |= found
        origins |= {field: names.get(field, f"{config}: {field}") for field in found}
    try:
        settings = ServerSettings(**values)
    except ValidationError as error:
        raise InputError(_problem(error, origins, flag_names)) from error
    known = {*variables.values(), CONFIG_VARIABLE}
    ignored = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    return LoadedSettings(settings, origins, ignored)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; name a YAML file with --config")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not YAML: {first_line(error)}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected keys and values, found {type(values).__name__}")
    return {str(key): value for key, value in values.items()}


def _problem(
    error: ValidationError, origins: Mapping[str, str], flag_names: Mapping[str, str]
) -> str:
    """One line for the first wrong value."""
    # What is wrong comes before what is missing.
    first = min(error.errors(), key=lambda found: found["type"] == "missing")
    message = first["msg"].removeprefix("Value error, ")
    message = f"{message[0].lower()}{message[1:]}"
    if not first["loc"]:  # several settings that do not fit together
        return message
    field = str(first["loc"][0])
    if first["type"] == "missing":
        flag, variable = flag_names.get(field, field), f"{PREFIX}{field.upper()}"
        return f"{flag} is missing: give it, set {variable}, or add {field} to the --config file"
    if first["type"] == "extra_forbidden":
        known = ", ".join(sorted(ServerSettings.model_fields))
        return f"{origins[field]}: there is no such setting; the settings are {known}"
    text = f"{origins[field]}: {message}"
    if _is_secret(field):
        return text
    found = str(first["input"])
    return f"{text} (found {found[:SHOWN]!r}{'…' if len(found) > SHOWN else ''})"


def _is_secret(field: str) -> bool:
    kind = ServerSettings.model_fields[field].annotation
    return SecretStr in (kind, *get_args(kind))
