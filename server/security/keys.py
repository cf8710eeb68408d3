"""API keys: what they allow, the file that has their hashes, and the ring of a running server.

A key is `sparta_ID_SECRET`. The secret has 256 random bits, so that one round of SHA-256 is enough
to store it: there is nothing to guess that a slow hash would protect.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkstemp
from typing import Literal, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from sparta.errors import InputError

Scope = Literal["search", "write", "admin", "metrics"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

# What a key of each scope may do. Metrics are apart, so that a monitoring system need not be able
# to see the photos, nor a visitor the traffic.
ALLOWS: dict[Scope, frozenset[Scope]] = {
    "search": frozenset({"search"}),
    "write": frozenset({"search", "write"}),
    "admin": frozenset({"search", "write", "admin", "metrics"}),
    "metrics": frozenset({"metrics"}),
}
FILE_VARIABLE = "SPARTA_KEYS"
_PREFIX = "sparta"
_State = tuple[int, int, int]  # a file's inode, change time and size

log = logging.getLogger(__name__)


class Key(BaseModel):
    """What is stored of a key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Public part, by which it is listed, logged and revoked
    id: str = Field(pattern="^[0-9a-f]{8}$")
    name: str  # who or what uses it
    scope: Scope  # what it allows; see `ALLOWS`
    sha256: str = Field(pattern="^[0-9a-f]{64}$")  # of the whole key, hexadecimal
    created: AwareDatetime  # when
    expires: AwareDatetime | None = None  # when it ends; None if it does not

    def is_expired(self) -> bool:
        """Whether it has ended."""
        return self.expires is not None and datetime.now(UTC) >= self.expires

    def matches(self, text: str) -> bool:
        """Whether a text is this key, in a time that does not depend on where they differ."""
        return hmac.compare_digest(_digest(text), self.sha256)


class _KeyFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format_version: Literal[1] = 1
    keys: list[Key] = []


def default_file() -> Path:
    """`$SPARTA_KEYS`, else `visualsparta/keys.json` in `$XDG_CONFIG_HOME` or `~/.config`."""
    if chosen := os.environ.get(FILE_VARIABLE):
        return Path(chosen)
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "visualsparta" / "keys.json"


def new_key(name: str, scope: Scope, expires: datetime | None = None) -> tuple[Key, str]:
    """A new key, to be stored, and its text, to be shown once."""
    key_id = secrets.token_hex(4)
    text = f"{_PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
    created = datetime.now(UTC).replace(microsecond=0)
    key = Key(
        id=key_id, name=name, scope=scope, sha256=_digest(text), created=created, expires=expires
    )
    return key, text


def read_keys(path: Path) -> list[Key]:
    """The keys of a file.

    Raises:
        FileNotFoundError: if there is no such file.
        InputError: if it cannot be read or is not a file of keys.
    """
    try:
        return _KeyFile.model_validate_json(path.read_bytes()).keys
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path}: the keys cannot be read: {error.strerror}") from error
    except ValidationError as error:
        # The input is left out: it may be another file, of passwords perhaps.
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{path} is not a file of keys: {f'{place}: ' if place else ''}{first['msg']}"
        ) from error


def write_keys(path: Path, keys: Iterable[Key]) -> None:
    """Replace a file of keys in one step; a new one can be read by its owner alone.

    Raises:
        OSError: if it cannot be written.
    """
    text = _KeyFile(keys=list(keys)).model_dump_json(indent=2, exclude_none=True) + "\n"
    handle, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        if path.exists():
            shutil.copymode(path, new)
            with suppress(PermissionError):  # only root gives a file to others
                shutil.chown(new, path.stat().st_uid, path.stat().st_gid)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class BadKeyError(Exception):
    """Raised for a key that is not valid; the text says why."""


class KeyRing:
    """Finds keys by their text, as their file is at the time.

    Every worker process has a ring of its own on the same file, so that a key that is revoked or
    created counts in all of them from the next request on.

    Args:
        path: file of the keys; it may appear later.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        self._state: _State | None = None
        self._keys: dict[str, Key] = {}
        self._known: dict[str, Key] = {}  # by their texts, of which no hash is computed again

    @property
    def in_use(self) -> bool:
        """Whether there is a file of keys, even if it has none: then nobody goes without a key."""
        self._refresh()
        return self._state is not None

    def valid(self, text: str) -> Key:
        """The key with this text.

        Raises:
            BadKeyError: if there is none, or it has expired.
        """
        self._refresh()
        key = self._known.get(text) or self._find(text)
        if key.is_expired():
            raise BadKeyError(f"the key {key.id} has expired")
        return key

    def _find(self, text: str) -> Key:
        parts = text.split("_", 2)
        key = self._keys.get(parts[1]) if len(parts) == 3 else None
        if key is None or not key.matches(text):
            raise BadKeyError("the key is unknown, or was revoked")
        self._known[text] = key
        return key

    def __iter__(self) -> Iterator[Key]:
        self._refresh()
        return iter(self._keys.values())

    def _refresh(self) -> None:
        try:
            stat = os.stat(self._name)  # noqa: PTH116 - on every request: half the time of a path's
        except FileNotFoundError:
            self._state, self._keys, self._known = None, {}, {}
            return
        state = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if state == self._state:
            return
        try:
            keys = read_keys(self.path)
        except (InputError, FileNotFoundError) as error:
            log.error("%s; no key is accepted until it can be read", error)
            keys = []
        self._state, self._keys, self._known = state, {key.id: key for key in keys}, {}
