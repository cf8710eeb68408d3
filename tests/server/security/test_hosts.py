"""Requests for other hosts are refused."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from server.backends import Backend
from tests.server.apps import app_of, client_of, make_key
from tests.server.fake import FakeSearcher


@pytest.mark.parametrize(
    ("listening", "header", "answered"),
    [
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("127.0.0.1", "localhost:8000", True),
        ("127.0.0.1", "LOCALHOST.", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("::1", "[::1]", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "evil.example:8000", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "192.168.1.5", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "photos.example:80", True),
        ("192.168.1.5", "192.168.1.5:8000", True),
        ("192.168.1.5", "localhost", False),
        ("0.0.0.0", "192.168.1.5", True),
        ("0.0.0.0", "[fe80::1]:80", True),
        ("0.0.0.0", socket.gethostname(), True),
        ("::", "localhost", True),
        ("0.0.0.0", "evil.example", False),
    ],
)
def test_hosts(listening: str, header: str, answered: bool, tmp_path: Path) -> None:
    backend, keys = Backend("sparta", FakeSearcher()), tmp_path / "keys.json"
    sent = {"Host": header, "X-API-Key": make_key(keys)}
    app = app_of(backend, host=listening, allowed_hosts=["Photos.example"], keys=keys)
    with client_of(app) as client:
        response = client.get("/v1/search?q=red", headers=sent)
        assert response.status_code == (200 if answered else 421)
        assert client.get("/livez", headers={"Host": header}).status_code == 200
        if not answered:
            assert response.headers["content-type"] == "application/problem+json"
            assert "content-security-policy" in response.headers
            assert response.json()["type"].endswith("wrong-host")
            assert "--allowed-host" in response.json()["detail"]
            assert client.get("/", headers={"Host": header}).status_code == 421


def test_two_hosts_are_none() -> None:
    app = app_of(Backend("sparta", FakeSearcher()), allowed_hosts=())
    with client_of(app) as client:
        headers = [("Host", "localhost"), ("Host", "evil.example")]
        assert client.get("/v1/search?q=red", headers=headers).status_code == 421
