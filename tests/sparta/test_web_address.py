"""Addresses of servers that a user gives."""

import pytest

from sparta.errors import InputError
from sparta.web_address import server_address

EXAMPLE = "http://localhost:1"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://a.example", "http://a.example"),
        ("https://a.example:8/photos//", "https://a.example:8/photos"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
    ],
)
def test_slashes_at_the_end_are_removed(text: str, address: str) -> None:
    assert server_address(text, EXAMPLE) == address


@pytest.mark.parametrize(
    "text", ["", "a.example", "ftp://a.example", "http://", "http://[", "http://a?b"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"is not the address of a server; give one like http://l"):
        server_address(text, EXAMPLE)
