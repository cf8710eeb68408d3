"""The addresses that a client takes."""

import pytest

import sparta
from sparta.errors import InputError


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:8000", "ftp://a.example", "http://", "index", "http://a.example?q=1", "http://["],
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(InputError, match="is not the address of a server; give one like http://"):
        sparta.Client(address)


def test_there_is_at_least_one() -> None:
    with pytest.raises(InputError, match="at least one server"):
        sparta.AsyncClient([])
