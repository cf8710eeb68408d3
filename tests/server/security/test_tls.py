"""Certificates are checked before anything is served, and loaded again when renewed."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from server.security import listening
from server.security.listening import check_certificate, renew_certificate
from sparta.errors import InputError
from tests.server.certificates import AUTHORITY, make_certificate


def test_a_certificate_and_its_key(tmp_path: Path) -> None:
    check_certificate(*make_certificate(tmp_path))


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
