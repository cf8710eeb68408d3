"""Proxies, root path and other sites; who may reach a server, and its certificate."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from server.backends import Backend
from server.security import listening
from server.security.listening import check_certificate, check_exposure, renew_certificate
from sparta.errors import InputError
from tests.server.apps import AUTHORITY, app_of, client_of, make_certificate, make_key, settings
from tests.server.fake import FakeSearcher

SEARCH = "/v1/search?q=red"
SITE = {"Origin": "https://app.example"}
BACKEND = Backend("sparta", FakeSearcher())


def test_named_sites_may_ask_with_a_key(file: Path) -> None:
    app = app_of(BACKEND, cors_origins=["https://app.example"], keys=file)
    client, key = client_of(app), make_key(file)
    asked = {"Access-Control-Request-Method": "GET"}
    asked |= {"Access-Control-Request-Headers": "authorization,x-api-key"}
    allowed = client.options(SEARCH, headers=SITE | asked)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    for headers, status in ((SITE, 401), (SITE | {"X-API-Key": key}, 200)):
        answer = client.get(SEARCH, headers=headers)
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-credentials" not in answer.headers
    other = client.get(SEARCH, headers={"Origin": "https://evil.example", "X-API-Key": key})
    assert "access-control-allow-origin" not in other.headers
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        asked = {"Access-Control-Request-Method": method}
        asked |= {"Access-Control-Request-Headers": "authorization,content-type,if-match"}
        allowed = client.options("/v1/images/one.png", headers=SITE | asked)
        assert allowed.status_code == 200
        assert method in allowed.headers["access-control-allow-methods"]
    refused = client.post("/v1/sign-in", json={"key": key}, headers=SITE)
    assert refused.status_code == 403 and "set-cookie" not in refused.headers
    plain = client_of(app_of(BACKEND, keys=file)).get(SEARCH, headers=SITE)
    assert not [name for name in plain.headers if name.startswith("access-control")]
    assert plain.headers["cross-origin-resource-policy"] == "same-origin"


def limited_as(trusted: list[str], peer: str, forwarded: str, file: Path) -> str:
    """Under which name the limits count a request."""
    client = client_of(app_of(BACKEND, keys=file, trusted_proxies=trusted, rate=0.1), address=peer)
    headers = {"X-Forwarded-For": forwarded}
    statuses = [client.get(SEARCH, headers=headers).status_code for _ in range(2)]
    assert statuses == [401, 429]
    detail: str = client.get(SEARCH, headers=headers).json()["detail"]
    return detail.partition(" has ")[0]


def test_forwarded_addresses_are_believed_of_named_proxies_alone(file: Path) -> None:
    for trusted, peer, forwarded, name in [
        ([], "127.0.0.1", "203.0.113.9", "address 127.0.0.1"),
        (["10.0.0.0/8"], "127.0.0.1", "203.0.113.9", "address 127.0.0.1"),
        (["10.0.0.0/8"], "10.1.2.3", "203.0.113.9", "address 203.0.113.9"),
        (["10.1.2.3"], "10.1.2.3", "127.0.0.1, 203.0.113.9", "address 203.0.113.9"),
        (["10.1.2.3"], "10.1.2.3", "127.0.0.1", "address 127.0.0.1"),
        # IPv4 that is mapped into IPv6 is IPv4.
        (["10.1.2.3"], "10.1.2.3", "::ffff:203.0.113.9", "address 203.0.113.9"),
        (["10.1.2.3"], "10.1.2.3", "[::FFFF:203.0.113.9]:80", "address 203.0.113.9"),
        (["10.0.0.0/8"], "10.1.2.3", "1.2.3.4, 0:0:0:0:0:ffff:10.9.9.9", "address 1.2.3.4"),
        (["::ffff:10.1.2.3"], "10.1.2.3", "1.2.3.4", "address 1.2.3.4"),
    ]:
        assert limited_as(trusted, peer, forwarded, file) == name


def test_below_a_path(file: Path, photos: Path) -> None:
    app = app_of(Backend("sparta", FakeSearcher(), photos), root_path="/photos/", keys=file)
    client, key = client_of(app), {"X-API-Key": make_key(file)}
    for prefix in ("", "/photos"):
        [hit, *_] = client.get(f"{prefix}{SEARCH}", headers=key).json()["hits"]
        assert hit["url"] == "/photos/v1/images/garden/one.png/file"
        assert client.get(f"{prefix}{hit['url'].removeprefix('/photos')}", headers=key).is_success
        assert all(client.get(f"{prefix}/{path}").is_success for path in ("", "page/app.js"))
        assert client.get(f"{prefix}/livez", headers={"Host": "any"}).is_success
        assert client.get(f"{prefix}{SEARCH}").status_code == 401
        for path in ("docs", "docs/reference.js", "openapi.json"):
            documentation = client.get(f"{prefix}/{path}", headers=key)
            assert documentation.is_success
            assert "https:" not in documentation.headers["content-security-policy"]
    assert [client.get(path, headers=key).status_code for path in ("/photosx", "/x/")] == [404] * 2
    moved = client.get("/photos", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (307, "/photos/")
    signed_in = client.post("/photos/v1/sign-in", json={"key": key["X-API-Key"]})
    assert "Path=/photos/;" in signed_in.headers["set-cookie"]


def test_what_cannot_be_served_with(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    _, wrong = make_certificate(other)
    locked = make_certificate(other, password="secret")[1]
    for chosen, problem in {
        (tmp_path / "none.pem", key): r"--tls-certificate .*none\.pem cannot be read: No such file",
        (certificate, tmp_path): r"--tls-key .* cannot be read: Is a directory",
        (certificate, wrong): "cannot be used: .*KEY_VALUES_MISMATCH",
        (certificate, locked): "without a passphrase.*the key has a passphrase",
        (key, key): "both in PEM form",
    }.items():
        with pytest.raises(InputError, match=problem):
            check_certificate(*chosen)


async def serial_of(server: asyncio.Server) -> str:
    """Of the certificate that a server shows."""
    trust = ssl.create_default_context()
    AUTHORITY.configure_trust(trust)
    address = server.sockets[0].getsockname()
    _, writer = await asyncio.open_connection(*address, ssl=trust, server_hostname="localhost")
    shown = writer.get_extra_info("peercert")
    writer.close()
    return str(shown["serialNumber"])


def test_a_renewed_certificate_is_shown_to_new_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listening, "CHECKED", 0.01)
    files = make_certificate(tmp_path)

    async def watch() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        server = await asyncio.start_server(
            lambda _, writer: writer.close(), "127.0.0.1", ssl=context
        )
        renewing = asyncio.create_task(renew_certificate(context, *files))
        first = await serial_of(server)
        files[1].unlink()
        await asyncio.sleep(0.1)
        assert await serial_of(server) == first
        make_certificate(tmp_path)
        await asyncio.sleep(0.1)
        assert await serial_of(server) != first
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing
        server.close()

    asyncio.run(watch())
    [message] = {
        record.getMessage() for record in caplog.records if record.name == listening.log.name
    }
    assert "key.pem cannot be read" in message and "the former certificate stays" in message


EXPOSED: list[dict[str, Any]] = [
    {"host": "0.0.0.0"},
    {"host": "::"},
    {"host": "0:0::0"},
    {"host": "::ffff:0.0.0.0"},
    {"host": "192.168.1.5"},
    {"host": "photos.example"},
    {"trusted_proxies": ["127.0.0.1"]},
    {"root_path": "/photos"},
]


@pytest.mark.parametrize("values", EXPOSED, ids=str)
def test_reachable_servers_need_a_key_for_searching(values: dict[str, Any], file: Path) -> None:
    for host in ("127.0.0.1", "127.9.9.9", "::1", "0:0::1", "::ffff:127.0.0.1", "localhost"):
        check_exposure(settings(host=host))  # this machine alone needs none
    with pytest.raises(InputError, match="no key for them: create one with: sparta keys create"):
        check_exposure(settings(**values))
    make_key(file, "metrics")
    make_key(file, "search", datetime.now(UTC))
    with pytest.raises(InputError, match=f"sparta keys create NAME --keys {file}"):
        check_exposure(settings(**values, keys=file))
    make_key(file)
    check_exposure(settings(**values, keys=file))


def test_a_file_that_is_named_must_be_there(file: Path) -> None:
    with pytest.raises(InputError, match=f"{file}: there is no such file of keys; create"):
        check_exposure(settings(keys=file))
    file.write_text("x")
    with pytest.raises(InputError, match="is not a file of keys"):
        check_exposure(settings(keys=file))
