"""TLS by certificate files."""

from __future__ import annotations

import ssl
from pathlib import Path

from sparta.errors import InputError


def check_certificate(certificate: Path, key: Path) -> None:
    """Check that two files can be served with, before anything else is opened.

    Raises:
        InputError: if one is missing or unreadable, they do not fit together, or the key has a
            passphrase.
    """
    for option, path in (("--tls-certificate", certificate), ("--tls-key", key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise InputError(f"{option} {path} cannot be read: {error.strerror}") from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
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
