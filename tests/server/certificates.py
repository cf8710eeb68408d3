"""Certificates for tests of TLS."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

AUTHORITY = trustme.CA()


def make_certificate(folder: Path, password: str = "") -> tuple[Path, Path]:
    """Files of a certificate for localhost, signed by `AUTHORITY`, and of its key."""
    issued = AUTHORITY.issue_cert("localhost")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    secret = issued.private_key_pem.bytes()
    if password:
        secret = load_pem_private_key(secret, None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
        )
    key.write_bytes(secret)
    return certificate, key
