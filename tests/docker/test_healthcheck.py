"""The HEALTHCHECK of the serving image, against real servers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from server.backends import Backend
from tests.server.certificates import make_certificate
from tests.server.fake import FakeSearcher
from tests.server.live import serving

SCRIPT = Path(__file__).parents[2] / "docker" / "healthcheck.py"


def check(**environment: str) -> int:
    """The exit status of the script."""
    command = [sys.executable, str(SCRIPT)]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_server_is_ready(tmp_path: Path, encrypted: bool) -> None:
    files = make_certificate(tmp_path) if encrypted else None
    with serving(Backend("sparta", FakeSearcher()), certificate=files) as address:
        port = str(urlsplit(address).port)
        tls = {"SPARTA_TLS_CERTIFICATE": "chain.pem"} if encrypted else {}
        assert check(SPARTA_PORT=port, **tls) == 0
        other = {} if encrypted else {"SPARTA_TLS_CERTIFICATE": "chain.pem"}
        assert check(SPARTA_PORT=port, **other) == 1
    assert check(SPARTA_PORT=port, **tls) == 1
