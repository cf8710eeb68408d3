"""A server that others can reach does not start without a key; its socket and its certificate."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from server.security import listening
from server.security.keys import default_file
from server.security.listening import check_certificate, check_exposure, renew_certificate
from sparta.errors import InputError
from tests.server.apps import make_key, settings
from tests.server.certificates import AUTHORITY, make_certificate


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


async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


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
    {"host": "192.168.1.5"},
    {"host": "photos.example"},
    {"trusted_proxies": ["127.0.0.1"]},
    {"root_path": "/photos"},
]


@pytest.mark.parametrize("values", EXPOSED, ids=str)
def test_reachable_servers_need_a_key_for_searching(values: dict[str, Any], file: Path) -> None:
    with pytest.raises(InputError, match="no key for them: create one with: sparta keys create"):
        check_exposure(settings(**values))
    make_key(file, "metrics")
    make_key(file, "search", datetime.now(UTC))
    with pytest.raises(InputError, match=f"sparta keys create NAME --keys {file}"):
        check_exposure(settings(**values, keys=file))
    make_key(file)
    check_exposure(settings(**values, keys=file))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_alone_needs_none(host: str) -> None:
    assert not default_file().exists()
    check_exposure(settings(host=host))


def test_a_file_that_is_named_must_be_there(file: Path) -> None:
    with pytest.raises(InputError, match=f"{file}: there is no such file of keys; create"):
        check_exposure(settings(keys=file))
    file.write_text("x")
    with pytest.raises(InputError, match="is not a file of keys"):
        check_exposure(settings(keys=file))


def test_certificates_are_checked(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    check_exposure(settings(tls_certificate=certificate, tls_key=key))
    with pytest.raises(InputError, match="cannot be used"):
        check_exposure(settings(tls_certificate=key, tls_key=key))
