"""TLS by certificate files, which are loaded again when they are renewed."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import TypeAlias

from sparta.errors import InputError

CHECKED = 60.0  # seconds between two looks at the files

log = logging.getLogger(__name__)

_State: TypeAlias = tuple[int, int, int]  # a file's inode, change time and size


def check_certificate(certificate: Path, key: Path) -> None:
    """Check that two files can be served with, before anything else is opened.

    Raises:
        InputError: if one is missing or unreadable, they do not fit together, or the key has a
            passphrase.
    """
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)


async def renew_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Load a certificate again whenever its files change, until this is cancelled.

    Connections that are open keep the former one, and so do new ones while the files cannot be
    used.
    """
    loaded = _state(certificate, key)
    while True:
        await asyncio.sleep(CHECKED)
        if (found := _state(certificate, key)) == loaded:
            continue
        loaded = found
        try:
            check_certificate(certificate, key)
            _load(context, certificate, key)
        except InputError as error:
            log.error("%s; the former certificate stays in use", error)


def _state(*files: Path) -> list[_State | None]:
    found: list[_State | None] = []
    for file in files:
        try:
            stat = file.stat()
            found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
        except OSError:
            found.append(None)
    return found


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    for option, path in (("--tls-certificate", certificate), ("--tls-key", key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise InputError(f"{option} {path} cannot be read: {error.strerror}") from error
    try:
        # Without a password, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(
            f"--tls-certificate {certificate} and --tls-key {key} cannot be used: give a chain of "
            "certificates and its private key without a passphrase, both in PEM form "
            f"({getattr(error, 'reason', None) or error})"
        ) from error


def _no_password() -> str:
    raise ValueError("the key has a passphrase")
