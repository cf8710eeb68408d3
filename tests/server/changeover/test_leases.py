"""What has been replaced is closed when its last user has gone, and not before."""

from __future__ import annotations

from dataclasses import dataclass

from server.changeover.leases import Current, keep_lease, lease_of


@dataclass
class Book:
    version: str
    closed: bool = False
    newer: Book | Exception | None = None
    place: int = 0

    def refreshed(self) -> Book | None:
        if isinstance(self.newer, Exception):
            raise self.newer
        return self.newer

    def close(self) -> None:
        self.closed = True


def test_the_last_user_lets_it_be_closed() -> None:
    old, new = Book("1"), Book("2")
    current = Current(old)
    first, second = current.take(), current.take()
    assert first is second and first.resource is old
    current.change(new)
    third = current.take()
    assert third.resource is current.resource is new
    for lease in (first, second):
        current.close_unused()
        assert not old.closed
        lease.give_back()
    current.close_unused()
    assert old.closed and not new.closed
    current.close()
    assert new.closed


def test_at_the_end_all_are_closed() -> None:
    books = [Book("1"), Book("2")]
    current = Current(books[0])
    current.take()
    current.change(books[1])
    current.close()
    assert all(book.closed for book in books)


def test_a_request_keeps_its_lease() -> None:
    scope: dict[str, object] = {}
    assert lease_of(scope) is None
    lease = Current(Book("1")).take()
    keep_lease(scope, lease)
    assert lease_of(scope) is lease
