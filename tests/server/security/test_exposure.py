"""A server that others can reach does not start without a key."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from server.security.keys import default_file
from server.security.listening import check_exposure
from sparta.errors import InputError
from tests.server.apps import make_key, settings
from tests.server.certificates import make_certificate

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
