"""`sparta serve --ray`: what it refuses, and a cluster of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.cluster.deploy import serve_on
from sparta.errors import InputError
from tests.served_cluster import free_port
from tests.server.apps import settings


def test_what_cannot_be_served_on_a_cluster() -> None:
    with pytest.raises(InputError, match=r"^--workers is not for --ray: give --replicas$"):
        serve_on("local", settings(workers=2), 1)
    with pytest.raises(InputError, match=r"^--host 0.0.0.0 lets other machines in"):
        serve_on("local", settings(host="0.0.0.0"), 1)


def test_no_cluster_answers() -> None:
    pytest.importorskip("ray", reason="extra [ray] is not installed")
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(InputError, match=rf"^--ray {address}: no cluster answers there"):
        serve_on(address, settings(index=Path("nothing")), 1)
