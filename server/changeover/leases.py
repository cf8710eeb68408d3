"""What requests use together, and how long each still uses what has been replaced."""

from __future__ import annotations

from collections.abc import MutableMapping
from threading import Lock
from typing import Any, Generic, Protocol, Self, TypeVar

_KEY = "visualsparta.lease"  # in the ASGI scope


class Resource(Protocol):
    """Something with a version, to be closed when nobody uses it.

    The version of an index that was written to since it was built has the number of its commit
    after a dot. Its place is that of its folder; see `indexer.state.place_of`.
    """

    @property
    def version(self) -> str: ...  # noqa: D102

    @property
    def place(self) -> int: ...  # noqa: D102

    def refreshed(self) -> Self | None:
        """The same at the newest commit, None if this is at it; both are to be closed.

        Raises:
            ReplacedError: if that commit does not continue this one.
        """
        ...

    def close(self) -> None: ...  # noqa: D102


Kind = TypeVar("Kind", bound=Resource)


class Lease(Generic[Kind]):
    """A resource and the number of its users; safe from any thread.

    Attributes:
        resource: not closed while it has users.
    """

    def __init__(self, resource: Kind) -> None:
        self.resource = resource
        self._users = 0
        self._lock = Lock()

    def take(self) -> None:
        """Count a user."""
        with self._lock:
            self._users += 1

    def give_back(self) -> None:
        """Count a user less."""
        with self._lock:
            self._users -= 1

    @property
    def used(self) -> bool:
        """Whether it has users."""
        return self._users > 0


class Current(Generic[Kind]):
    """The resource that new requests use, and replaced ones that older requests still use."""

    def __init__(self, resource: Kind) -> None:
        self._lease = Lease(resource)
        self._replaced: list[Lease[Kind]] = []
        self._lock = Lock()

    @property
    def resource(self) -> Kind:
        """The newest one."""
        return self._lease.resource

    def take(self) -> Lease[Kind]:
        """A lease of the newest one, with one user more, who gives it back."""
        with self._lock:
            self._lease.take()
            return self._lease

    def change(self, resource: Kind) -> None:
        """Let new requests use another one; the former is closed by `close_unused`."""
        with self._lock:
            self._replaced.append(self._lease)
            self._lease = Lease(resource)

    def close_unused(self) -> None:
        """Close what has been replaced and is no longer used."""
        unused = [lease for lease in self._replaced if not lease.used]
        self._replaced = [lease for lease in self._replaced if lease not in unused]
        for lease in unused:
            lease.resource.close()

    def close(self) -> None:
        """Close all, at the end, when no request is answered any more."""
        for lease in (*self._replaced, self._lease):
            lease.resource.close()


def keep_lease(scope: MutableMapping[str, Any], lease: Lease[Any]) -> None:
    """Remember what a request uses."""
    scope[_KEY] = lease


def lease_of(scope: MutableMapping[str, Any]) -> Lease[Any] | None:
    """What a request uses, None if nothing was kept."""
    lease: Lease[Any] | None = scope.get(_KEY)
    return lease
