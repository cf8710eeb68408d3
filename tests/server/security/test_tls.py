"""Certificates are checked before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.security.tls import check_certificate
from sparta.errors import InputError
from tests.server.certificates import make_certificate


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
