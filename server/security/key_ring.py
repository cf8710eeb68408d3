"""The keys of a running server: read again whenever their file changes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from server.security.keys import Key, id_of, read_keys
from sparta.errors import InputError

log = logging.getLogger(__name__)

_State = tuple[int, int, int]  # a file's inode, change time and size


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
        key = self._keys.get(id_of(text))
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
