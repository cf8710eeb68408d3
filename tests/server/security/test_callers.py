"""Who sent a request."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from server.security.callers import Caller, Callers
from server.security.keys import KeyRing, Scope, new_key, write_keys

LOCAL = {"host": "localhost:8000"}
HERE = Caller("this machine", frozenset({"search", "metrics"}), limited=False)


def request(headers: dict[str, str], client: str | None = "127.0.0.1") -> dict[str, Any]:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    sent = {"type": "http", "method": "GET", "scheme": "http", "headers": pairs}
    return sent | {"client": client and (client, 5000)}


def add(file: Path, scope: Scope, expires: datetime | None = None) -> tuple[str, str]:
    key, text = new_key("a", scope, expires)
    write_keys(file, [*KeyRing(file), key])
    return key.id, text


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000"])
@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1"])
def test_this_machine_needs_no_key_where_there_is_none(file: Path, host: str, client: str) -> None:
    callers = Callers(KeyRing(file), direct=True)
    assert callers.identify(request({"host": host}, client)) == HERE


@pytest.mark.parametrize(
    "header",
    [
        *("forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"),
        *("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-whatever"),
    ],
)
def test_a_proxy_on_this_machine_is_not_this_machine(file: Path, header: str) -> None:
    callers = Callers(KeyRing(file), direct=True)
    for value in ("", "127.0.0.1"):
        found = callers.identify(request(LOCAL | {header: value}))
        assert found == Caller("address 127.0.0.1", frozenset())


def test_a_proxy_that_passes_on_the_host_is_not_this_machine(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    for headers in ({"host": "photos.example"}, {"host": "192.168.1.5"}, {"host": ""}, {}):
        assert not callers.identify(request(headers)).allows


def test_behind_a_named_proxy_nothing_is_this_machine(file: Path) -> None:
    assert not Callers(KeyRing(file), direct=False).identify(request(LOCAL)).allows


@pytest.mark.parametrize("client", ["192.168.1.5", "2001:db8::1", "::ffff:127.0.0.1", "x", None])
def test_other_machines_need_a_key(file: Path, client: str | None) -> None:
    found = Callers(KeyRing(file), direct=True).identify(request(LOCAL, client))
    assert not found.allows and found.limited


def test_as_soon_as_there_are_keys_this_machine_needs_one(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    assert callers.identify(request(LOCAL)) == HERE
    write_keys(file, [])
    assert not callers.identify(request(LOCAL)).allows


def test_keys_in_headers(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    for scope, allows in {
        "search": {"search"},
        "write": {"search", "write"},
        "admin": {"search", "write", "admin", "metrics"},
        "metrics": {"metrics"},
    }.items():
        key_id, text = add(file, scope)  # type: ignore[arg-type]
        for header in (
            {"authorization": f"Bearer {text}"},
            {"authorization": f"bearer  {text} "},
            {"x-api-key": text},
            {"authorization": "Basic abc", "x-api-key": text},
        ):
            found = callers.identify(request(header, "192.168.1.5"))
            assert (found.name, found.allows, found.limited) == (f"key {key_id}", allows, True)
            assert found.key is not None and found.key.id == key_id


def test_keys_that_are_not_valid(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    key_id, text = add(file, "admin", datetime.now(UTC))
    for sent, why in {
        text: f"the key {key_id} has expired",
        f"sparta_{key_id}_wrong": "the key is unknown, or was revoked",
        "é": "the key is unknown, or was revoked",
    }.items():
        for header in ({"authorization": f"Bearer {sent}"}, {"x-api-key": sent}):
            found = callers.identify(request(LOCAL | header))
            assert (found.allows, found.refused, found.name) == (set(), why, "address 127.0.0.1")


def test_a_wrong_key_is_refused_where_none_is_needed(file: Path) -> None:
    found = Callers(KeyRing(file), direct=True).identify(request(LOCAL | {"x-api-key": "wrong"}))
    assert found.refused and not found.allows


def test_a_cookie_allows_searching_alone(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    for scope, allows in {"admin": {"search"}, "search": {"search"}, "metrics": set()}.items():
        key_id, text = add(file, scope)  # type: ignore[arg-type]
        cookie = {"cookie": f"other=1; sparta_key={text}"}
        found = callers.identify(request(LOCAL | cookie))
        assert (found.name, found.allows) == (f"key {key_id}", allows)


def test_a_cookie_that_is_not_valid_counts_as_none(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    for cookie in ("sparta_key=wrong", "other=1", "", ";;="):
        assert callers.identify(request(LOCAL | {"cookie": cookie})) == HERE
    _, text = add(file, "search", datetime.now(UTC))
    found = callers.identify(request(LOCAL | {"cookie": f"sparta_key={text}"}))
    assert not found.allows and not found.refused


def test_ipv6_addresses_count_as_their_network(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    names = [callers.identify(request({}, f"2001:db8:0:7:{n}::1%eth0")).name for n in (1, 2)]
    assert names == ["address 2001:db8:0:7::/64"] * 2
    assert callers.identify(request({}, "no:address")).name == "address no:address"
