"""The settings of a server: from flags, the environment and a file, each checked in one place."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    DirectoryPath,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from indexer.milvus.connection import TOKEN_VARIABLE
from sparta.errors import InputError
from sparta.json_values import JsonValue

PREFIX = "SPARTA_"
CONFIG_VARIABLE = "SPARTA_CONFIG"
API_KEY_VARIABLE = "SPARTA_API_KEY"  # of clients
DEFAULT = "default"
SHOWN = 60  # characters of a wrong value
KEEP_ALIVE = 130  # seconds; usual proxies keep idle connections for 60 to 120


def _as_list(value: JsonValue) -> JsonValue:
    """A list from text: JSON if it begins with a bracket, else names separated by commas."""
    if isinstance(value, str):
        names = [part.strip() for part in value.split(",") if part.strip()]
        value = json.loads(value) if value.lstrip().startswith("[") else names
    return value


def _check_origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    for origin in origins:
        if not re.fullmatch(r"https?://[^/?#*\s]+", origin):
            raise ValueError(f"expected a site such as https://app.example: {origin}")
    return origins


def plain_address(text: str) -> str:
    """An address as limits and logs have it: IPv4 that is mapped into IPv6 is IPv4."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # a name, or whatever a proxy forwards
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)


def url(host: str, port: int, scheme: str = "http") -> str:
    """The address to open in a browser; for a host of all addresses, that of this machine."""
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"{scheme}://[{shown}]:{port}" if ":" in shown else f"{scheme}://{shown}:{port}"


def _check_addresses(addresses: tuple[str, ...]) -> tuple[str, ...]:
    for address in addresses:
        ipaddress.ip_network(address)  # its errors name the address
    return tuple(map(plain_address, addresses))


def _check_root_path(path: str) -> str:
    path = path.rstrip("/")
    if path and not re.fullmatch(r"(/[\w.~-]+)+", path):
        raise ValueError("expected a path such as /photos")
    return path


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
    engine: Literal["columns", "lucene"] = Field(
        default="columns", description="Engine of the inverted index: columns or lucene"
    )
    models: Texts = Field(
        default=(),
        description="Model of the index, to encode images that are sent, if it has moved; "
        "repeatable",
    )
    milvus: str | None = Field(
        default=None,
        description="Address of a Milvus that the index was pushed to, such as "
        "milvus://127.0.0.1:19530: the backend milvus searches there",
    )
    collection: str = Field(
        default="sparta", description="Name that the index was pushed to Milvus with"
    )
    examples: Texts = Field(default=(), description="Example query shown on the page; repeatable")

    # Where and how it is served
    host: Annotated[str, AfterValidator(plain_address)] = Field(
        default="127.0.0.1", description="Address to listen on; :: for all, of IPv6 and IPv4"
    )
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
    keys: Path | None = Field(
        default=None,
        description="File of the API keys, see sparta keys; by default visualsparta/keys.json in "
        "~/.config. Without it, this machine alone may search",
    )
    rate: float = Field(
        default=100,
        ge=0,
        allow_inf_nan=False,
        description="Requests a second of one key or address, ten seconds' worth of them at once; "
        "0 for any number",
    )
    concurrency: int = Field(
        default=32,
        ge=1,
        description="Requests of one key or address that a process answers at once",
    )
    cors_origins: Annotated[Texts, AfterValidator(_check_origins)] = Field(
        default=(),
        description="Site whose pages may use the REST interface with a key, such as "
        "https://app.example; repeatable",
    )
    tls_certificate: Path | None = Field(
        default=None, description="Chain of certificates in PEM form, to serve HTTPS"
    )
    tls_key: Path | None = Field(default=None, description="Private key of --tls-certificate")
    trusted_proxies: Annotated[Texts, AfterValidator(_check_addresses)] = Field(
        default=(),
        description="Address or network of a proxy whose X-Forwarded-For and X-Forwarded-Proto "
        "are believed; repeatable",
    )
    root_path: Annotated[str, AfterValidator(_check_root_path)] = Field(
        default="", description="Path below which a proxy shows the server, such as /photos"
    )

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("--tls-certificate and --tls-key go together: give both, or neither")
        return self

    def trusts(self, address: str) -> bool:
        """Whether an address is of a trusted proxy."""
        networks = map(ipaddress.ip_network, self.trusted_proxies)
        return any(ipaddress.ip_address(address) in one for one in networks)

    @property
    def certificate(self) -> tuple[Path, Path] | None:
        """The files of the certificate and its key; None to serve HTTP."""
        if self.tls_certificate is None or self.tls_key is None:
            return None
        return self.tls_certificate, self.tls_key

    @property
    def scheme(self) -> str:
        """Of the server's addresses."""
        return "https" if self.certificate else "http"

    @property
    def is_proxied(self) -> bool:
        """Whether requests are said to come through a proxy."""
        return bool(self.trusted_proxies or self.root_path)

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

    keep_alive_seconds: int = Field(
        default=KEEP_ALIVE,
        ge=1,
        description="Close a connection that has been idle so long; a proxy must close it before",
    )

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[Any, ...]:
        """Values come from the caller alone; `load_settings` reads the other sources."""
        return (sources["init_settings"],)


@dataclass(frozen=True)
class LoadedSettings:
    """Settings, and where each came from."""

    settings: ServerSettings  # checked
    # Field → what the user wrote it in: a flag, a variable, a file, or "default"
    origins: dict[str, str]
    ignored: list[str]  # variables that begin like ours and name no setting

    def shown(self, field: str) -> str:
        """A setting as text."""
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
    sources = []
    if config is not None:
        if not config.is_file():
            raise InputError(f"{config}: there is no such file; name a YAML file with --config")
        from sparta.files import read_yaml  # which a server without such a file does not need

        sources.append((read_yaml(config), {field: f"{config}: {field}" for field in fields}))
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
    known = {*variables.values(), CONFIG_VARIABLE, API_KEY_VARIABLE, TOKEN_VARIABLE}
    ignored = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    return LoadedSettings(settings, origins, ignored)


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
    found = str(first["input"])
    shown = f"{found[:SHOWN]!r}{'…' if len(found) > SHOWN else ''}"
    return f"{origins[field]}: {message} (found {shown})"
